"""The rebuilt network as an object: if these fail, state gets lost, or a network cannot be copied or stored."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nirmap
from nirmap.errors import GraphError
from nirmap.network import NameOutputs, PackState, StateEntry, UnpackState
from nirmap.oracle.interpreter import simulate
from nirmap_registry.catalogue import PRIMITIVES
from oracle.building import chain, input_node, output_node
from runtime.suitable import (
    DT,
    FRAMEWORKS,
    NEURONS,
    backward,
    elementwise_rows,
    inputs,
    leaves,
    same_state,
    suitable_node,
    weight,
)


def feedback_network(framework: str, dtype: torch.dtype = torch.float64) -> nirmap.Network:
    """Every stateful node of a framework in a row, the first with a loop, the last in a sub-graph too."""
    return nirmap.from_nir(feedback_graph(framework), framework, dt=DT, dtype=dtype)


def feedback_graph(framework: str) -> nir.NIRGraph:
    rows = [row for row in elementwise_rows(framework) if PRIMITIVES[row.node].stateful]
    neurons = {f"neuron {row.node}": suitable_node(row) for row in rows}
    first = next(iter(neurons))
    nodes: dict[str, Any] = {"x": input_node(NEURONS), "in": nir.Affine(weight(), np.full(NEURONS, 0.1))}
    nodes |= neurons
    nodes["loop"] = nir.Linear(weight(seed=1, level=0.1))
    inner = [nir.Linear(weight(seed=2)), suitable_node(rows[-1], 3)]
    nodes |= {"sub": chain(inner, (NEURONS,)), "y": output_node(NEURONS)}
    row = ["x", "in", *neurons, "sub", "y"]
    edges = [*pairwise(row), (first, "loop"), ("loop", first)]
    return nir.NIRGraph(nodes, edges, type_check=False)


def same(net: nirmap.Network, other: Any) -> bool:
    xs = inputs(15, 3, NEURONS)
    (outputs, state), (others, other_state) = nirmap.run(net, xs), nirmap.run(other, xs)
    return torch.equal(outputs, others) and same_state(state, other_state)


def _saved(net: nirmap.Network) -> Any:
    stored = io.BytesIO()
    torch.save(net, stored)
    stored.seek(0)
    return torch.load(stored, weights_only=False)


COPIES: dict[str, Callable[[nirmap.Network], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda net: pickle.loads(pickle.dumps(net)),
    "torch.save": _saved,
}
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


@each_framework
def test_the_network_is_that_of_the_oracle(framework: str) -> None:
    """What the tests below compare with one another has to be right in the first place."""
    xs = inputs(15, 3, NEURONS)
    trace = simulate(feedback_graph(framework), xs, DT)
    outputs, state = nirmap.run(feedback_network(framework), xs)
    np.testing.assert_allclose(outputs.detach().numpy(), trace.outputs["y"], rtol=1e-9, atol=1e-9)
    assert state["sub"].keys() == {"1"}


@each_framework
@pytest.mark.parametrize("copied", COPIES)
def test_copies_made_in_the_middle_of_training_are_whole(framework: str, copied: str) -> None:
    net = feedback_network(framework)
    outputs, _ = nirmap.run(net, inputs(5, 3, NEURONS).requires_grad_())
    backward(outputs)
    other = COPIES[copied](net)
    assert isinstance(other, nirmap.Network)
    assert other.meta["nirmap"] == net.meta["nirmap"]
    assert same(net, other)
    again = COPIES[copied](other)
    assert again.meta["nirmap"] == net.meta["nirmap"]
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert not same(net, other)
    assert same(net, again)


@each_framework
def test_the_mode_of_training_is_kept(framework: str) -> None:
    net = feedback_network(framework).eval()
    for make in COPIES.values():
        assert not any(module.training for module in make(net).modules())


@each_framework
def test_a_state_dict_carries_a_network_over(framework: str) -> None:
    net, other = feedback_network(framework), feedback_network(framework)
    with torch.no_grad():
        for value in (*net.parameters(), *net.buffers()):
            if value.is_floating_point():
                value.mul_(1.01)
    if any(row.node == "Delay" for row in elementwise_rows(framework)):
        net.get_submodule("neuron_Delay").load_state_dict(other.get_submodule("neuron_Delay").state_dict())
    assert not same(net, other)
    other.load_state_dict(net.state_dict())
    assert same(net, other)


@each_framework
def test_another_precision_after_a_step_is_the_same_network(framework: str) -> None:
    net = feedback_network(framework, torch.float32)
    nirmap.run(net, inputs(5, 3, NEURONS, dtype=torch.float32).requires_grad_())
    for moved in (copy.deepcopy(net).double(), copy.deepcopy(net).to(torch.float64)):
        output, state = nirmap.run(moved, inputs(15, 3, NEURONS))
        assert output.dtype == torch.float64
        expected, _ = nirmap.run(feedback_network(framework), inputs(15, 3, NEURONS))
        torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)
        assert moved.meta["nirmap"] == net.meta["nirmap"]
        assert (
            len(state)
            == len([row for row in elementwise_rows(framework) if PRIMITIVES[row.node].stateful]) + 1
        )


# torch looks at the gradient of what it is given, warns of that, and hides the warning unless warnings are errors.
looks_at_gradients = pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf Tensor"
)


@each_framework
@looks_at_gradients
def test_compiled_it_gives_the_same(framework: str) -> None:
    torch.compiler.reset()
    net = feedback_network(framework)
    compiled = torch.compile(net, backend="eager", fullgraph=True)
    state = expected_state = None
    for x in inputs(4, 3, NEURONS):
        output, state = compiled(x, state)
        expected, expected_state = net(x, expected_state)
        assert torch.equal(output, expected)
        assert same_state(state, expected_state)


@each_framework
@looks_at_gradients
def test_exported_it_gives_the_same(framework: str) -> None:
    net = feedback_network(framework)
    x = inputs(3, NEURONS)
    expected, state = net(x)
    output, exported_state = torch.export.export(net, (x,)).module()(x)
    assert torch.equal(output, expected)
    assert same_state(exported_state, state)
    expected, _ = net(x, state)
    output, _ = torch.export.export(net, (x, state)).module()(x, state)
    assert torch.equal(output, expected)


@each_framework
def test_the_state_is_a_pytree_of_tensors(framework: str) -> None:
    net = feedback_network(framework)
    _, state = net(inputs(3, NEURONS))
    pytree: Any = importlib.import_module("torch.utils._pytree")
    assert all(isinstance(value, torch.Tensor) for value in pytree.tree_leaves(state))
    assert len(pytree.tree_leaves(state)) == len(leaves(state))
    assert same_state(pytree.tree_map(torch.clone, state), state)
    assert same_state(pickle.loads(pickle.dumps(state)), state)


@each_framework
def test_a_wrong_state_is_refused_by_name(framework: str) -> None:
    net, x = feedback_network(framework), inputs(3, NEURONS)
    _, state = net(x)
    name = next(name for name in state if name.startswith("neuron") and "output" in state[name])
    variable = next(key for key in state[name] if key != "output")
    wrong: list[tuple[Any, str]] = [
        ({**state, "stranger": {}}, "unknown entries 'stranger'"),
        ({key: value for key, value in state.items() if key != name}, f"missing entries '{name}'"),
        ({**state, name: {**state[name], "stranger": x}}, f"node '{name}': unknown entries 'stranger'"),
        (
            {**state, name: {"output": x}},
            f"node '{name}': unknown entries .*, missing entries .*'{variable}'",
        ),
        ({**state, name: {variable: x}}, f"node '{name}': .*missing entries .*'output'"),
        ({**state, name: x}, f"node '{name}': a Tensor"),
        ({**state, "sub": {}}, "missing entries '1'"),
        ({**state, "sub": {"1": {}}}, "node '1': .*missing entries"),
        (x, "state: a Tensor"),
    ]
    for given_state, message in wrong:
        with pytest.raises(GraphError, match=message):
            net(x, given_state)


values = st.integers(0, 9)
keys = st.sampled_from(["v", "i", "state", "output", "output_", "input", ""])
known = st.dictionaries(keys, values | st.dictionaries(keys, values, max_size=2), max_size=3)
table_entries = st.builds(
    StateEntry, name=st.text(max_size=3), stateful=st.booleans(), fed_back=st.booleans(), shape=st.just((2,))
).filter(lambda entry: entry.stateful or entry.fed_back)


@st.composite
def kept_entries(draw: st.DrawFn) -> tuple[StateEntry, Any, int]:
    """An entry of a table, what its module keeps, and its output. Of some modules it is known what they keep."""
    entry, own, is_known = draw(table_entries), draw(known), draw(st.booleans())
    if is_known:
        return replace(entry, variables=frozenset(own if entry.stateful else ())), own, draw(values)
    return entry, draw(known | values), draw(values)


@given(st.lists(kept_entries(), max_size=5, unique_by=lambda kept: kept[0].name))
def test_whatever_a_module_keeps_comes_back_to_it(kept: list[tuple[StateEntry, Any, int]]) -> None:
    """A sub-graph may have nodes named "output" or "state", and a caller's module any state at all."""
    table = [entry for entry, _, _ in kept]
    parts: list[Any] = []
    expected: list[Any] = []
    for entry, own, output in kept:
        parts += [(output, own) if entry.stateful else None, output if entry.fed_back else None]
        expected += [own if entry.stateful else None, output if entry.fed_back else None]
    state = PackState(table)(*parts)
    assert state.keys() == {entry.name for entry in table}
    before = copy.deepcopy(state)
    assert UnpackState(table, [1])(state, torch.zeros(2)) == expected
    assert state == before


def test_a_fed_back_output_lies_beside_the_state_variables() -> None:
    entry = StateEntry("lif", stateful=True, fed_back=True, shape=(2,), variables=frozenset({"v"}))
    assert entry.pack({"v": 1}, 2) == {"v": 1, "output": 2}


@pytest.mark.parametrize("inner", ["output", "state", "v"])
def test_a_sub_graph_whose_output_is_fed_back_may_name_its_nodes_as_it_likes(inner: str) -> None:
    lif = suitable_node(next(row for row in elementwise_rows("torch") if row.node == "LIF"))
    sub = chain([nir.Linear(weight()), lif], (NEURONS,), names=["in", "lin", inner, "out"])
    nodes: dict[str, nir.NIRNode] = {
        "x": input_node(NEURONS),
        "sub": sub,
        "back": nir.Linear(weight(level=0.1)),
        "y": output_node(NEURONS),
    }
    edges = [("x", "sub"), ("sub", "back"), ("back", "sub"), ("sub", "y")]
    graph = nir.NIRGraph(nodes, edges, type_check=False)
    xs = inputs(15, 3, NEURONS)
    trace = simulate(graph, xs, DT)
    outputs, _ = nirmap.run(nirmap.from_nir(graph, dt=DT, dtype=torch.float64), xs)
    assert trace.outputs["y"].sum() > 0
    np.testing.assert_array_equal(outputs.detach().numpy(), trace.outputs["y"])


def test_the_first_feedback_is_zero_in_the_shape_of_the_batch() -> None:
    unpack = UnpackState([StateEntry("lif", True, True, (2, 5))], [None, 1])
    state, output = unpack(None, torch.ones(7), torch.ones(4, 6, 3, dtype=torch.float64))
    assert state is None
    assert torch.equal(output, torch.zeros(4, 6, 2, 5, dtype=torch.float64))


def test_a_feedback_without_a_known_shape_says_what_to_do() -> None:
    unpack = UnpackState([StateEntry("lif", True, True, None)], [1])
    with pytest.raises(GraphError, match=r"node 'lif'.*input_type of the Input node"):
        unpack(None, torch.ones(7))


def test_outputs_get_their_names() -> None:
    assert NameOutputs(["b", "a"])(torch.ones(1), torch.zeros(1)) == {"b": torch.ones(1), "a": torch.zeros(1)}
