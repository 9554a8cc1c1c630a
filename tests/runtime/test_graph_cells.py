"""A sub-graph that is one module of a framework becomes that module, and does what its nodes do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, cast

import nir
import numpy as np
import pytest
import snntorch as snn
import torch
from numpy.random import Generator
from torch import Tensor

import nirmap
from nirmap.graph_cells import GraphCell
from nirmap.observing import observe
from nirmap.oracle.interpreter import simulate
from nirmap_registry.catalogue import PRIMITIVES
from runtime.recurrent_modules import OfSnntorch, seed, step_by_step
from runtime.suitable import backward

DT = 1e-3
STEPS, BATCH, INPUTS, WIDTH, NEURONS = 40, 2, 4, 3, 5


def _lif(rng: Generator, n: int = NEURONS) -> nir.LIF:
    return nir.LIF(
        tau=rng.uniform(2 * DT, 9 * DT, n),
        r=rng.choice([-1, 1], n) * rng.uniform(0.5, 2, n),
        v_leak=rng.uniform(-0.1, 0.1, n),
        v_threshold=rng.uniform(0.2, 0.5, n),
        v_reset=rng.uniform(-0.2, 0.1, n),
    )


def _cuba(rng: Generator, n: int = NEURONS) -> nir.CubaLIF:
    lif = _lif(rng, n)
    return nir.CubaLIF(
        tau_syn=rng.uniform(2 * DT, 9 * DT, n),
        tau_mem=lif.tau,
        r=lif.r,
        v_leak=lif.v_leak,
        v_threshold=lif.v_threshold,
        v_reset=lif.v_reset,
        w_in=rng.uniform(0.5, 2, n),
    )


def _affine(rng: Generator) -> nir.NIRNode:
    return nir.Affine(rng.normal(size=(NEURONS, NEURONS)), rng.uniform(-0.2, 0.2, NEURONS))


def _linear(rng: Generator) -> nir.NIRNode:
    return nir.Linear(rng.normal(size=(NEURONS, NEURONS)))


def nested(
    rng: Generator, neuron: nir.NIRNode, recurrent: nir.NIRNode, feedforward: bool = False, **nodes: Any
) -> nir.NIRGraph:
    """A layer, and a recurrent sub-graph, whose names say nothing; further nodes take the place of its own."""
    width = WIDTH if feedforward else NEURONS
    inside: dict[str, nir.NIRNode] = {
        "in": nir.Input({"input": np.array([width])}),
        "a.neuron": neuron,
        "z": recurrent,
        "out": nir.Output({"output": np.array([NEURONS])}),
    }
    edges = [("a.neuron", "z"), ("z", "a.neuron"), ("a.neuron", "out")]
    if feedforward:
        inside["1st"] = nir.Linear(2 * rng.normal(size=(NEURONS, WIDTH)))
        edges += [("in", "1st"), ("1st", "a.neuron")]
    else:
        edges += [("in", "a.neuron")]
    inner = nir.NIRGraph({**inside, **nodes}, edges, type_check=False)
    layer = nir.Affine(2 * rng.normal(size=(width, INPUTS)), rng.uniform(-0.1, 0.5, width))
    around: dict[str, nir.NIRNode] = {
        "input": nir.Input({"input": np.array([INPUTS])}),
        "layer": layer,
        "cell": inner,
        "output": nir.Output({"output": np.array([NEURONS])}),
    }
    return nir.NIRGraph(around, [("input", "layer"), ("layer", "cell"), ("cell", "output")], type_check=False)


def subtracting(node: nir.NIRNode) -> nir.NIRNode:
    """The node, with metadata that say that a spike subtracts."""
    node.metadata["reset"] = "subtract"
    return node


Make = Callable[[Generator], nir.NIRGraph]
CASES: dict[str, tuple[str, str, Make]] = {
    "RLeaky": ("snntorch", "snntorch.RLeaky", lambda rng: nested(rng, _lif(rng), _affine(rng))),
    "RLeaky by subtraction": (
        "snntorch",
        "snntorch.RLeaky",
        lambda rng: nested(rng, subtracting(_lif(rng)), _affine(rng)),
    ),
    "LIFRecurrentCell": (
        "norse",
        "norse.torch.LIFRecurrentCell",
        lambda rng: nested(rng, _cuba(rng), _linear(rng), feedforward=True),
    ),
    "LIFRecurrentCell without synapse": (
        "norse",
        "norse.torch.LIFRecurrentCell",
        lambda rng: nested(rng, _lif(rng), _linear(rng), feedforward=True),
    ),
}


def built(name: str, number: int = 0, dtype: torch.dtype = torch.float64) -> tuple[nir.NIRGraph, Any]:
    """A drawn graph, and its network."""
    framework, _, make = CASES[name]
    graph = make(np.random.default_rng(number))
    return graph, nirmap.from_nir(graph, framework, dt=DT, dtype=dtype)


def inputs(*batch: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """A drawn input sequence."""
    drawn = np.random.default_rng(7).normal(size=(STEPS, *(batch or (BATCH,)), INPUTS))
    return torch.tensor(drawn, dtype=dtype)


def stepped(network: Any, xs: Tensor, state: Any = None) -> tuple[Tensor, Any]:
    """The outputs of all steps, and the last state."""
    outputs: list[Tensor] = []
    for x in xs:
        y, state = network(x, state)
        outputs.append(y)
    return torch.stack(outputs), state


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("number", [0, 1])
def test_the_module_does_what_the_nodes_do_and_has_their_state(name: str, number: int) -> None:
    """Otherwise a network would depend on whether a framework happens to have a module for a part of it."""
    graph, network = built(name, number)
    report = network.meta["nirmap"]
    assert report.nodes["cell"].module == CASES[name][1]
    outputs, state = stepped(network, inputs())
    reference, expected = stepped(nirmap.from_nir(graph, "torch", dt=DT, dtype=torch.float64), inputs())
    (by_oracle,) = simulate(graph, inputs().numpy(), DT).outputs.values()
    np.testing.assert_array_equal(outputs.detach().numpy(), by_oracle)
    np.testing.assert_array_equal(reference.detach().numpy(), by_oracle)
    assert by_oracle.any()
    assert not by_oracle.all()
    assert list(state["cell"]) == list(expected["cell"])
    for node, kept in expected["cell"].items():
        assert state["cell"][node].keys() == kept.keys()
        for variable, value in kept.items():
            torch.testing.assert_close(state["cell"][node][variable], value, rtol=1e-9, atol=1e-9)


def check_written(network: Any, graph: nir.NIRGraph) -> None:
    """The network's cell is written as that of a graph."""
    back = nirmap.to_nir(network)
    before, after = (cast("nir.NIRGraph", entry.nodes["cell"]) for entry in (graph, back))
    assert sorted(after.edges) == sorted(before.edges)
    assert after.nodes.keys() == before.nodes.keys()
    for key, node in before.nodes.items():
        assert type(after.nodes[key]) is type(node)
        assert after.nodes[key].metadata == node.metadata
        for parameter in (
            PRIMITIVES[type(node).__name__].declared if type(node).__name__ in PRIMITIVES else ()
        ):
            found: Any = getattr(after.nodes[key], parameter.name)
            np.testing.assert_allclose(found, getattr(node, parameter.name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_it_is_written_as_the_sub_graph_that_it_was(name: str) -> None:
    """Under the sub-graph's own names, with its own parameters and not those of a normal form."""
    graph, network = built(name)
    check_written(network, graph)


@pytest.mark.parametrize("name", CASES)
def test_what_was_loaded_is_what_is_written(name: str) -> None:
    """A checkpoint would else be exported with the numbers of the network into which it was loaded."""
    _, network = built(name)
    other, loaded = built(name, 1)
    network.load_state_dict(loaded.state_dict())
    check_written(network, other)
    check_written(pickle.loads(pickle.dumps(network)), other)


@pytest.mark.parametrize("name", CASES)
def test_what_was_changed_by_hand_is_what_is_written(name: str) -> None:
    """Whatever happens to the tensors of the cell, its free variables among them: the graph does what it does."""
    _, network = built(name)
    cell = network.get_submodule("cell.whole.cell")
    tensors = {**dict(cell.named_parameters()), **dict(cell.named_buffers())}
    # Another size of the spikes, and other multiples of the state, would be refused, or are no parameters.
    fixed = ("times_", "module.graded", "module.spk", "module.mem", "module.reset")
    changed = [key for key in tensors if not key.startswith(fixed) and "tau" not in key]
    assert "neuron_gain" in changed
    before, _ = stepped(network, inputs())
    with torch.no_grad():
        for index, key in enumerate(changed):
            tensors[key].mul_((0.7, 0.8, 0.9)[index % 3])
    outputs, _ = stepped(network, inputs())
    assert not torch.equal(outputs, before)
    written = nirmap.to_nir(network)
    (expected,) = simulate(written, inputs().numpy(), DT).outputs.values()
    np.testing.assert_array_equal(outputs.detach().numpy(), expected)
    assert expected.any()


def _of_the_graph(graph: nir.NIRGraph) -> dict[str, Any]:
    graph.metadata["reset"] = "subtract"
    return {}


def _of_the_sub_graph(graph: nir.NIRGraph) -> dict[str, Any]:
    graph.nodes["cell"].metadata["reset"] = "subtract"
    return {}


def _of_the_caller(graph: nir.NIRGraph) -> dict[str, Any]:
    return {"reset": "subtract"}


@pytest.mark.parametrize("say", [_of_the_graph, _of_the_sub_graph, _of_the_caller])
def test_a_reset_by_subtraction_is_that_of_the_module_wherever_it_is_said(say: Any) -> None:
    """The module would else be one that is reset to a value."""
    graph = nested(
        np.random.default_rng(0), _lif(np.random.default_rng(1)), _affine(np.random.default_rng(2))
    )
    network: Any = nirmap.from_nir(graph, "snntorch", dt=DT, dtype=torch.float64, **say(graph))
    assert network.get_submodule("cell.whole.cell.module").reset_mechanism == "subtract"
    inner: Any = nirmap.to_nir(network).nodes["cell"]
    assert inner.nodes["a.neuron"].metadata == {"reset": "subtract"}


def test_weights_keep_their_dtype_on_the_way_back() -> None:
    _, network = built("RLeaky", dtype=torch.float32)
    inner: Any = nirmap.to_nir(network).nodes["cell"]
    assert inner.nodes["z"].weight.dtype == np.float32


def test_what_was_trained_is_written_in_the_units_of_the_graph() -> None:
    """The module holds the weights times a gain."""
    graph, network = built("LIFRecurrentCell")
    weights: Any = network.get_submodule("cell.whole.cell.module").recurrent_weights
    with torch.no_grad():
        weights.mul_(0.5)
    inner: Any = nirmap.to_nir(network).nodes["cell"]
    outer: Any = graph.nodes["cell"]
    np.testing.assert_allclose(inner.nodes["z"].weight, 0.5 * outer.nodes["z"].weight)


def test_the_report_says_of_every_node_which_module_it_is_in() -> None:
    _, network = built("RLeaky")
    report = network.meta["nirmap"]
    assert report.nodes["cell"].how == "normal form"
    inner = report.graphs["cell"]
    assert {entry.module for entry in inner.nodes.values()} == {"snntorch.RLeaky"}
    assert {name: entry.node for name, entry in inner.nodes.items()} == {"a.neuron": "LIF", "z": "Affine"}
    assert inner.delayed == (("a.neuron", "z"),)


@pytest.mark.parametrize("name", CASES)
def test_streams_do_not_mix_and_batches_may_have_any_shape(name: str) -> None:
    """Two streams in turn are what each is alone; a single sample, or two axes of batch, are what each sample is."""
    _, network = built(name)
    one, other = inputs(), 0.5 * inputs()
    alone = stepped(network, one)[0], stepped(network, other)[0]
    states: list[Any] = [None, None]
    for step in range(STEPS):
        for stream, xs in enumerate((one, other)):
            y, states[stream] = network(xs[step], states[stream])
            assert torch.equal(y, alone[stream][step])
    single, _ = stepped(network, one[:, 0])
    assert torch.equal(single, alone[0][:, 0])
    nested_batch, _ = stepped(network, torch.stack([one, other], dim=1))
    assert torch.equal(nested_batch, torch.stack(alone, dim=1))


@pytest.mark.parametrize("name", CASES)
def test_a_copy_and_a_pickled_one_do_the_same_and_share_nothing(name: str) -> None:
    _, network = built(name)
    expected, _ = stepped(network, inputs())
    copies = [copy.deepcopy(network), pickle.loads(pickle.dumps(network))]
    for parameter in network.parameters():
        parameter.data.zero_()
    for other in copies:
        assert torch.equal(stepped(other, inputs())[0], expected)


@pytest.mark.parametrize("name", CASES)
def test_gradients_reach_the_weights_through_the_feedback(name: str) -> None:
    _, network = built(name)
    outputs, _ = stepped(network, inputs())
    backward(outputs[-1].sum())
    gradients = [parameter.grad for parameter in network.parameters()]
    assert all(gradient is not None for gradient in gradients)
    assert any(bool(gradient.any()) for gradient in gradients if gradient is not None)


def test_it_can_be_compiled() -> None:
    _, network = built("RLeaky")
    torch.compiler.reset()
    compiled = torch.compile(network, fullgraph=True, backend="eager")
    with torch.no_grad():
        expected, _ = stepped(network, inputs()[:3])
        assert torch.equal(stepped(compiled, inputs()[:3])[0], expected)


def test_the_callers_random_numbers_stay_what_they_were() -> None:
    """The module's constructor draws weights."""
    seed(3)
    expected = torch.rand(3)
    seed(3)
    built("RLeaky")
    assert torch.equal(torch.rand(3), expected)


def test_a_state_of_another_network_is_refused() -> None:
    _, network = built("RLeaky")
    _, state = network(inputs()[0], None)
    del state["cell"]["a.neuron"]["output"]
    with pytest.raises(nirmap.GraphError, match="missing entries 'output'"):
        network(inputs()[0], state)


def test_what_happens_inside_is_observed_as_far_as_it_is_known() -> None:
    graph, network = built("RLeaky")
    traces = observe(network, {"input": inputs().numpy()})
    expected = simulate(graph, inputs().numpy(), DT)
    path = ("cell", "a.neuron")
    np.testing.assert_array_equal(traces.values[path], expected.values[path])
    np.testing.assert_allclose(traces.states[path]["v"], expected.states[path]["v"], atol=1e-9)
    assert ("cell", "z") not in traces.values


def _flat(rng: Generator) -> nir.NIRGraph:
    inner = cast("nir.NIRGraph", nested(rng, _lif(rng), _affine(rng)).nodes["cell"])
    return inner


def _without_resistance(rng: Generator) -> nir.NIRGraph:
    lif = _lif(rng)
    lif.r[2] = 0
    lif.v_reset = lif.v_leak.copy()
    return nested(rng, lif, _affine(rng))


def _told(rng: Generator) -> nir.NIRGraph:
    lif = _lif(rng)
    lif.metadata["note"] = "special"
    return nested(rng, lif, _affine(rng))


def _callers(node: Any) -> torch.nn.Module:
    return torch.nn.Linear(*node.weight.shape[::-1]).double()


ALONE: dict[str, tuple[Make, dict[str, Any]]] = {
    "a flat graph": (_flat, {}),
    "a layer without bias": (lambda rng: nested(rng, _lif(rng), _linear(rng)), {}),
    "a layer in front": (lambda rng: nested(rng, _lif(rng), _affine(rng), feedforward=True), {}),
    "no resistance": (_without_resistance, {}),
    "metadata": (_told, {}),
    "a module of the caller's": (
        lambda rng: nested(rng, _lif(rng), _affine(rng)),
        {"node_map": {nir.Affine: _callers}},
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_where_the_module_is_not_exactly_the_graph_each_node_has_a_module(name: str) -> None:
    make, options = ALONE[name]
    graph = make(np.random.default_rng(0))
    network: Any = nirmap.from_nir(graph, "snntorch", dt=DT, dtype=torch.float64, **options)
    modules = cast("list[tuple[str, torch.nn.Module]]", list(network.named_modules()))
    assert not any(isinstance(module, GraphCell) for _, module in modules)
    if not options:
        width = graph.nodes["in" if "in" in graph.nodes else "input"].input_type["input"][0]
        xs = np.random.default_rng(7).normal(size=(STEPS, BATCH, width))
        outputs, _ = stepped(network, torch.tensor(xs))
        (expected,) = simulate(graph, xs, DT).outputs.values()
        np.testing.assert_array_equal(outputs.detach().numpy(), expected)


def test_a_users_module_is_itself_again_after_the_round_trip() -> None:
    """With its own weights, and spike by spike."""
    seed(0)
    layer: Any = snn.RLeaky(
        torch.rand(NEURONS) / 2 + 0.4, linear_features=NEURONS, reset_mechanism="zero", reset_delay=False
    ).double()
    graph = nirmap.to_nir(OfSnntorch(layer), "snntorch", dt=DT)
    network = nirmap.from_nir(graph, "snntorch", dtype=torch.float64)
    again: Any = network.get_submodule("layer.whole.cell.module")
    assert type(again) is snn.RLeaky
    torch.testing.assert_close(again.recurrent.weight, layer.recurrent.weight, rtol=1e-12, atol=0)
    torch.testing.assert_close(again.beta, layer.beta, rtol=1e-12, atol=1e-15)
    xs = torch.randn(STEPS, BATCH, NEURONS, dtype=torch.float64) + 0.4
    with torch.no_grad():
        expected = step_by_step(layer, xs, [])
        assert torch.equal(stepped(network, xs)[0], expected)
    assert expected.any()
