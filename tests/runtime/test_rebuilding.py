"""From NIR to torch: if these fail, a rebuilt network remembers, shares, drops or executes what it must not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, cast

import nir
import numpy as np
import pytest
import torch

import nirmap
from nirmap.errors import ConstraintError, GraphError, UnsupportedNodeError
from nirmap.files import write_graph
from nirmap.registry import load_registry
from nirmap.surrogate import SURROGATES
from oracle.building import chain, input_node, output_node
from runtime.suitable import (
    DT,
    FRAMEWORKS,
    NEURONS,
    backward,
    elementwise_rows,
    inputs,
    leaves,
    numbers,
    same_state,
    suitable_node,
    weight,
)

each_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


def rebuild(graph: Any, framework: str = "torch", **wishes: Any) -> nirmap.Network:
    """In float64, with the time step that the drawn neurons suit."""
    everything: dict[str, Any] = {"dt": DT, "dtype": torch.float64, **wishes}
    return nirmap.from_nir(graph, framework, **everything)


def neurons(framework: str) -> list[Any]:
    return [suitable_node(row) for row in elementwise_rows(framework)]


def network_graph(framework: str) -> nir.NIRGraph:
    """An Affine, every elementwise node that a framework has, and a Linear."""
    layers = [nir.Affine(weight(), np.full(NEURONS, 0.1)), *neurons(framework), nir.Linear(weight(3))]
    return chain(layers, (NEURONS,), (3,))


def lif() -> nir.LIF:
    node: nir.LIF = suitable_node(next(row for row in elementwise_rows("torch") if row.node == "LIF"))
    return node


# A pure function of input and state


@each_framework
def test_the_state_passed_in_stays_as_it_was(framework: str) -> None:
    net = rebuild(network_graph(framework), framework)
    _, state = nirmap.run(net, inputs(5, 3, NEURONS))
    before = {
        name: dict(zip(value, map(torch.clone, value.values()), strict=True)) for name, value in state.items()
    }
    nirmap.run(net, inputs(5, 3, NEURONS, seed=1), state)
    assert same_state(state, before)


@each_framework
def test_streams_through_one_network_do_not_mix(framework: str) -> None:
    net, other = (rebuild(network_graph(framework), framework) for _ in range(2))
    streams = inputs(10, 3, NEURONS), inputs(10, 5, NEURONS, seed=1)
    alone = nirmap.run(net, streams[0])[0], nirmap.run(other, streams[1])[0]
    states: list[Any] = [None, None]
    for step, xs in enumerate(zip(*streams, strict=True)):
        for index, x in enumerate(xs):
            output, states[index] = net(x, states[index])
            assert torch.equal(output, alone[index][step])


@each_framework
@pytest.mark.parametrize("batch", [(), (1,), (2, 3)], ids=str)
def test_batch_dimensions_lead(framework: str, batch: tuple[int, ...]) -> None:
    net = rebuild(network_graph(framework), framework)
    xs = inputs(8, *batch, NEURONS)
    outputs, _ = nirmap.run(net, xs)
    assert outputs.shape == (8, *batch, 3)
    flat, _ = nirmap.run(net, xs.reshape(8, -1, NEURONS))
    torch.testing.assert_close(outputs.reshape(8, -1, 3), flat, rtol=1e-12, atol=1e-12)


def test_flatten_never_counts_the_batch() -> None:
    flatten = nir.Flatten({"input": np.array([2, 3, 4])}, 0, -1)
    net = nirmap.from_nir(chain([flatten], (2, 3, 4), (24,)), dt=DT)
    (module,) = [module for module in net.modules() if isinstance(module, torch.nn.Flatten)]
    assert (module.start_dim, module.end_dim) == (1, -1)
    assert net(torch.ones(5, 2, 3, 4))[0].shape == (5, 24)


@each_framework
def test_gradients_reach_weights_and_inputs_through_time(framework: str) -> None:
    net = rebuild(network_graph(framework), framework)
    xs = inputs(30, 3, NEURONS).requires_grad_()
    outputs, _ = nirmap.run(net, xs)
    (through_time,) = torch.autograd.grad(outputs[-1].sum(), xs, retain_graph=True)
    assert bool((through_time[-12:].abs().sum(dim=(1, 2)) > 0).any())
    backward(outputs)
    weights = {name: value for name, value in net.named_parameters() if name.endswith("weight")}
    assert len(weights) == 2
    for name, value in weights.items():
        assert value.grad is not None, name
        assert bool((value.grad != 0).any()), name


# Ports


def test_several_inputs_are_arguments_in_name_order_and_several_outputs_a_dictionary() -> None:
    nodes: dict[str, nir.NIRNode] = {
        "b": input_node(2),
        "a": input_node(2),
        "c": input_node(2),
        "ten": nir.Scale(np.full(2, 10.0)),
        "hundred": nir.Scale(np.full(2, 100.0)),
        "sum": output_node(2),
        "only b": output_node(2),
    }
    edges = [
        ("a", "sum"),
        ("b", "ten"),
        ("ten", "sum"),
        ("c", "hundred"),
        ("hundred", "sum"),
        ("ten", "only b"),
    ]
    net = nirmap.from_nir(nir.NIRGraph(nodes, edges, type_check=False), dt=DT)
    outputs, state = net(torch.full((2,), 1.0), torch.full((2,), 2.0), torch.full((2,), 3.0))
    assert state == {}
    assert list(outputs) == ["only b", "sum"]
    assert numbers(outputs["sum"]) == [321.0, 321.0]
    assert numbers(outputs["only b"]) == [20.0, 20.0]


@each_framework
def test_sub_graphs_stay_sub_graphs(framework: str) -> None:
    inner = network_graph(framework)
    middle = chain([inner], (NEURONS,), (3,), names=["i", "in.ner", "o"])
    graph = chain([middle], (NEURONS,), (3,), names=["i", "mid dle", "o"])
    net = rebuild(graph, framework)
    assert isinstance(net.get_submodule("mid_dle.in_ner"), nirmap.Network)
    flat = rebuild(inner, framework)
    xs = inputs(8, 3, NEURONS)
    (outputs, state), (expected, expected_state) = nirmap.run(net, xs), nirmap.run(flat, xs)
    assert torch.equal(outputs, expected)
    assert same_state(state, {"mid dle": {"in.ner": expected_state}})
    assert {name.removeprefix("mid_dle.in_ner.") for name in net.state_dict()} == set(flat.state_dict())


# Copies, dtype, device


@each_framework
def test_graph_and_network_share_no_memory(framework: str) -> None:
    graph = network_graph(framework)
    net, expected = (rebuild(graph, framework) for _ in range(2))
    before = copy.deepcopy({name: node.to_dict() for name, node in graph.nodes.items()})
    with torch.no_grad():
        for value in (*net.parameters(), *net.buffers()):
            value.zero_()
    for name, node in graph.nodes.items():
        fields: dict[str, Any] = node.to_dict()
        for key, value in fields.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(cast("Any", value), before[name][key])
    for node in graph.nodes.values():
        for value in vars(node).values():
            entries: Any = value
            if isinstance(value, np.ndarray) and entries.dtype.kind == "f":
                entries[...] = np.nan
    xs = inputs(8, 3, NEURONS)
    assert bool(torch.isfinite(nirmap.run(expected, xs)[0]).all())


@each_framework
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_everything_has_the_dtype_that_was_asked_for(framework: str, dtype: torch.dtype) -> None:
    net = nirmap.from_nir(network_graph(framework), framework, dt=DT, dtype=dtype)
    assert {value.dtype for value in net.state_dict().values() if value.is_floating_point()} == {dtype}
    outputs, state = nirmap.run(net, inputs(5, 3, NEURONS, dtype=dtype))
    assert outputs.dtype == dtype
    assert {value.dtype for value in leaves(state)} == {dtype}


@each_framework
def test_a_network_can_be_made_without_memory(framework: str) -> None:
    layers = [nir.Linear(weight()), *(node for node in neurons(framework) if not isinstance(node, nir.Delay))]
    graph = chain(layers, (NEURONS,))
    net = rebuild(graph, framework, device="meta")
    assert all(value.is_meta for value in (*net.parameters(), *net.buffers()))
    outputs, _ = nirmap.run(net, torch.empty(4, 3, NEURONS, dtype=torch.float64, device="meta"))
    assert outputs.shape == (4, 3, NEURONS)
    filled = rebuild(graph, framework)
    net.to_empty(device="cpu").load_state_dict(filled.state_dict())
    xs = inputs(8, 3, NEURONS)
    assert torch.equal(nirmap.run(net, xs)[0], nirmap.run(filled, xs)[0])


# Wishes


def test_trainable_parameters_are_named_and_trained() -> None:
    net = rebuild(network_graph("torch"), trainable=("tau", "v_threshold"))
    trained = {name.rpartition(".")[2] for name, _ in net.named_parameters()}
    assert trained == {"weight", "bias", "tau", "v_threshold"}
    assert {name for name, _ in net.named_parameters()} < set(net.state_dict())
    outputs, _ = nirmap.run(net, inputs(30, 3, NEURONS))
    backward(outputs)
    gradients = [value.grad for name, value in net.named_parameters() if name.endswith(".tau")]
    assert len(gradients) == 2
    assert all(gradient is not None and bool((gradient != 0).any()) for gradient in gradients)


def test_nothing_but_weights_is_trained_unless_it_is_named() -> None:
    net = rebuild(network_graph("torch"))
    assert {name.rpartition(".")[2] for name, _ in net.named_parameters()} == {"weight", "bias"}
    assert all(value.requires_grad for value in net.parameters())


def test_an_unknown_trainable_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConstraintError, match=r"'taus'.*tau, .*v_threshold"):
        nirmap.from_nir(network_graph("torch"), dt=DT, trainable=("taus",))


@pytest.mark.parametrize("framework", [name for name in FRAMEWORKS if name != "torch"])
def test_training_what_a_framework_cannot_train_is_refused_with_advice(framework: str) -> None:
    with pytest.raises(ConstraintError, match=r"node '\d': tau cannot be trained.*framework='torch'"):
        nirmap.from_nir(network_graph(framework), framework, dt=DT, trainable=("tau",))


@pytest.mark.parametrize("surrogate", sorted(SURROGATES))
def test_the_surrogate_is_the_one_that_was_asked_for(surrogate: str) -> None:
    graph = chain([nir.Threshold(np.array([0.5, 1.0]))], (2,))
    net = rebuild(graph, surrogate=surrogate)
    x = torch.tensor([0.6, 0.7], dtype=torch.float64, requires_grad=True)
    backward(net(x)[0])
    distance = torch.tensor([0.1, -0.3], dtype=torch.float64, requires_grad=True)
    backward(SURROGATES[surrogate](distance))
    assert x.grad is not None
    assert distance.grad is not None
    torch.testing.assert_close(x.grad, distance.grad)


def test_an_unknown_surrogate_is_refused_even_where_nothing_spikes() -> None:
    for nodes in ([nir.Threshold(np.ones(2))], [nir.Scale(np.ones(2))]):
        with pytest.raises(ConstraintError, match=r"'boxcar'.*fast_sigmoid"):
            nirmap.from_nir(chain(nodes, (2,)), dt=DT, surrogate="boxcar")


@pytest.mark.parametrize("dt", [0.0, -1e-4, float("nan"), float("inf")])
def test_a_time_step_that_is_none_is_refused(dt: float) -> None:
    with pytest.raises(ConstraintError, match="dt"):
        nirmap.from_nir(network_graph("torch"), dt=dt)


@each_framework
def test_the_time_step_is_the_frameworks_if_none_is_given(framework: str) -> None:
    net = nirmap.from_nir(chain([nir.Linear(weight())], (NEURONS,)), framework)
    assert net.meta["nirmap"].dt == load_registry(framework).time_step


@each_framework
def test_a_path_is_read(framework: str, tmp_path: Path) -> None:
    graph = network_graph(framework)
    write_graph(tmp_path / "graph.nir", graph)
    xs = inputs(8, 3, NEURONS)
    expected, _ = nirmap.run(rebuild(graph, framework), xs)
    for path in (tmp_path / "graph.nir", str(tmp_path / "graph.nir")):
        assert torch.equal(nirmap.run(rebuild(path, framework), xs)[0], expected)


@each_framework
def test_the_graph_is_not_changed(framework: str) -> None:
    graph = network_graph(framework)
    before = copy.deepcopy(graph)
    nirmap.from_nir(graph, framework, dt=DT)
    assert list(graph.nodes) == list(before.nodes)
    assert graph.edges == before.edges
    for name, node in graph.nodes.items():
        for key, value in vars(node).items():
            np.testing.assert_equal(value, getattr(before.nodes[name], key))


# The caller's own modules


class Accumulator(torch.nn.Module):
    """Keeps a tensor, not a dictionary, as its state."""

    def forward(self, x: torch.Tensor, state: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        total = x if state is None else state + x
        return total, total


@pytest.mark.parametrize("looped", [False, True])
def test_a_module_of_the_callers_own_takes_precedence(looped: bool) -> None:
    nodes: dict[str, nir.NIRNode] = {"x": input_node(2), "acc": nir.I(np.ones(2)), "y": output_node(2)}
    edges = [("x", "acc"), ("acc", "y")]
    if looped:
        nodes["back"] = nir.Scale(np.full(2, 1.0))
        edges += [("acc", "back"), ("back", "acc")]
    graph = nir.NIRGraph(nodes, edges, type_check=False)
    net = nirmap.from_nir(graph, dt=DT, node_map={nir.I: lambda node: Accumulator()})
    outputs, state = nirmap.run(net, torch.ones(4, 2))
    assert numbers(outputs[:, 0]) == ([1, 3, 7, 15] if looped else [1, 2, 3, 4])
    assert state.keys() == {"acc"}
    assert net.meta["nirmap"].nodes["acc"].how == "given"


def test_a_node_that_the_framework_lacks_can_be_given() -> None:
    graph = chain([nir.Delay(np.full(2, 3.0))], (2,))
    with pytest.raises(UnsupportedNodeError, match=r"node '0': a nir\.Delay"):
        nirmap.from_nir(graph, "norse", dt=DT)

    class Triple(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 3 * x

    net = nirmap.from_nir(graph, "norse", dt=DT, node_map={nir.Delay: lambda node: Triple()})
    assert numbers(net(torch.ones(2))[0]) == [3, 3]


# Refusals say where


def test_a_refusal_in_a_sub_graph_names_the_whole_way() -> None:
    inner = chain([nir.Delay(np.array([1.5 * DT]))], (1,), names=["i", "late", "o"])
    graph = chain([inner], (1,), names=["i", "inner", "o"])
    with pytest.raises(ConstraintError, match=r"node 'inner' / node 'late'"):
        nirmap.from_nir(graph, dt=DT)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises((GraphError, TypeError)):
        nirmap.from_nir(nir.Scale(np.ones(2)), dt=DT)  # type: ignore[arg-type]


def test_a_cycle_without_state_warns_and_names_its_edge() -> None:
    nodes: dict[str, nir.NIRNode] = {
        "x": input_node(2),
        "a": nir.Scale(np.full(2, 0.5)),
        "b": nir.Scale(np.full(2, 0.5)),
        "y": output_node(2),
    }
    edges = [("x", "a"), ("a", "b"), ("b", "a"), ("b", "y")]
    with pytest.warns(nirmap.DelayWarning, match="edge 'b' -> 'a'") as warned:
        net = nirmap.from_nir(nir.NIRGraph(nodes, edges, type_check=False), dt=DT)
    assert warned[0].filename == __file__
    outputs, state = nirmap.run(net, torch.ones(3, 2))
    assert numbers(outputs[:, 0]) == [0.25, 0.25 + 0.25 * 0.25, 0.25 + 0.25 * (0.25 + 0.25 * 0.25)]
    assert state.keys() == {"b"}


def test_the_time_step_of_the_graph_is_used_and_another_is_refused_with_both() -> None:
    """A graph that is run at another dt than it was written for gives other spikes."""
    graph = nirmap.to_nir(torch.nn.Sequential(torch.nn.Linear(2, 2)), dt=2e-3)
    assert nirmap.from_nir(graph, "norse").meta["nirmap"].dt == 2e-3
    assert nirmap.from_nir(graph, dt=2e-3).meta["nirmap"].dt == 2e-3
    with pytest.raises(
        nirmap.ConstraintError, match=r"dt: 0\.001 s, while the graph was written for 0\.002 s"
    ):
        nirmap.from_nir(graph, dt=1e-3)
    del graph.metadata["dt"]
    assert nirmap.from_nir(graph, dt=1e-3).meta["nirmap"].dt == 1e-3


def test_arguments_that_fx_calls_alike_stay_apart() -> None:
    """``A`` and ``a`` are two inputs; mixed up, the network runs on the wrong data without a word."""
    nodes = {name: input_node(1) for name in ("A", "a", "State", "a_1")}
    factors = {"A": 1.0, "a": 10.0, "State": 100.0, "a_1": 1000.0}
    edges: list[tuple[str, str]] = []
    graph_nodes: dict[str, nir.NIRNode] = {**nodes, "y": output_node(1)}
    for name, factor in factors.items():
        graph_nodes[f"times {name}"] = nir.Scale(np.array([factor]))
        edges += [(name, f"times {name}"), (f"times {name}", "y")]
    net = nirmap.from_nir(nir.NIRGraph(graph_nodes, edges, type_check=False), dt=DT)
    order = net.meta["nirmap"].inputs
    values = {"A": 1.0, "a": 2.0, "State": 3.0, "a_1": 4.0}
    y, _ = net(*(torch.full((1, 1), values[name]) for name in order))
    assert float(y) == 1 + 20 + 300 + 4000
