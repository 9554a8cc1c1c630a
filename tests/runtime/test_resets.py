"""If these fail, a network that was trained with a reset by subtraction becomes another one, and nobody says so.

The oracle steps the same equations in NumPy; the frameworks' own modules are run as their users run them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nir
import norse.torch
import numpy as np
import pytest
import sinabs.activation as sa
import sinabs.layers as sl
import snntorch
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from norse.torch.functional.reset import reset_subtract
from spikingjelly.activation_based import neuron as sj

import nirmap
from nirmap.oracle.interpreter import Trace, margin, simulate
from nirmap.registry import frameworks
from nirmap.resets import RESET_KEY
from oracle.building import chain

DT, WIDTH, STEPS = 1e-3, 4, 120
NAMES = ("input", "node", "output")
KINDS = ("IF", "LIF", "CubaLIF")
FRAMEWORKS = sorted(frameworks())
# No module of norse integrates without a leak and subtracts.
REFUSED = {("norse", "IF")}
Array = np.ndarray[Any, Any]


def neuron(kind: str, random: np.random.Generator) -> Any:
    """A node with other parameters for each neuron."""

    def between(low: float, high: float) -> Array:
        return random.uniform(low, high, WIDTH)

    values: dict[str, Any] = {"v_threshold": between(0.5, 1), "v_reset": between(-0.3, 0.3)}
    if kind == "IF":
        return nir.IF(r=between(50, 300), **values)
    values |= {"r": between(1, 3), "v_leak": between(-0.2, 0.2)}
    if kind == "LIF":
        return nir.LIF(tau=between(4e-3, 2e-2), **values)
    times: dict[str, Any] = {"tau_syn": between(3e-3, 1e-2), "tau_mem": between(4e-3, 2e-2)}
    return nir.CubaLIF(w_in=between(1, 2), **times, **values)


def layer(node: nir.NIRNode, reset: str | None = None) -> nir.NIRGraph:
    """A graph with one node, whose metadata state the reset."""
    node = copy.copy(node)
    node.metadata = {} if reset is None else {RESET_KEY: reset}
    return chain([node], (WIDTH,), names=NAMES)


def strong_inputs(random: np.random.Generator, high: float = 8.0) -> Array:
    """So strong that a neuron may be above its threshold after its reset."""
    return np.asarray(random.uniform(-2, high, (STEPS, 2, WIDTH)))


def output_of(trace: Trace) -> Array:
    return trace.outputs["output"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_reset_by_subtraction_gives_the_oracles_spikes_and_potentials(framework: str, kind: str) -> None:
    if (framework, kind) in REFUSED:
        refused = layer(neuron(kind, np.random.default_rng(0)), "subtract")
        with pytest.raises(nirmap.UnsupportedNodeError, match="has none that subtracts"):
            nirmap.from_nir(refused, framework, dt=DT)
        net = nirmap.from_nir(refused, framework, dt=DT, fallback="torch")
        assert net.meta["nirmap"].nodes["node"].reset == "subtract"
        return

    @settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.integers(0, 2**32 - 1))
    def check(seed: int) -> None:
        random = np.random.default_rng(seed)
        graph, xs = layer(neuron(kind, random), "subtract"), strong_inputs(random)
        trace = simulate(graph, xs, DT)
        assume(margin(trace) > 1e-9)
        net = nirmap.from_nir(graph, framework, dt=DT, dtype=torch.float64)
        state: Any = None
        for step, x in enumerate(torch.tensor(xs)):
            with torch.no_grad():
                output, state = net(x, state=state)
            np.testing.assert_array_equal(output.numpy(), output_of(trace)[step])
            for name, value in state["node"].items():
                expected = trace.states[("node",)][name][step]
                np.testing.assert_allclose(value.numpy(), expected, rtol=1e-9, atol=1e-9)
        by_value = simulate(layer(graph.nodes["node"]), xs, DT)
        assume((output_of(by_value) != output_of(trace)).any())

    check()


@pytest.mark.parametrize(
    ("framework", "kind"), [(f, k) for f in FRAMEWORKS for k in KINDS if (f, k) not in REFUSED]
)
def test_it_is_recorded_on_the_way_back_and_survives_a_file(
    framework: str, kind: str, tmp_path: Path
) -> None:
    graph = layer(neuron(kind, np.random.default_rng(1)))
    net = nirmap.from_nir(graph, framework, dt=DT, dtype=torch.float64, reset="subtract")
    assert net.meta["nirmap"].nodes["node"].reset == "subtract"
    nirmap.to_nir(net, path=tmp_path / "net.nir")
    back = nir.read(tmp_path / "net.nir")
    node: Any = back.nodes["node"]
    assert node.metadata[RESET_KEY] == "subtract"
    for name in ("r", "v_threshold", "v_reset"):
        np.testing.assert_allclose(getattr(node, name), getattr(graph.nodes["node"], name), rtol=1e-9)
    xs = strong_inputs(np.random.default_rng(2))
    trace = simulate(back, xs, DT)
    assert margin(trace) > 1e-9
    again = nirmap.from_nir(tmp_path / "net.nir", framework, dtype=torch.float64)
    with torch.no_grad():
        np.testing.assert_array_equal(nirmap.run(again, torch.tensor(xs))[0].numpy(), output_of(trace))


@pytest.mark.parametrize("framework", ["snntorch", "rockpool", "spikingjelly", "sinabs"])
def test_streams_above_their_threshold_do_not_touch_each_other(framework: str) -> None:
    """What is left above the threshold after a reset has to travel with the state, and not in the module."""
    random = np.random.default_rng(3)
    net = nirmap.from_nir(layer(neuron("LIF", random), "subtract"), framework, dt=DT, dtype=torch.float64)
    streams = [torch.tensor(strong_inputs(random, high)) for high in (3.0, 20.0)]
    alone = [nirmap.run(net, stream)[0] for stream in streams]
    states: list[Any] = [None, None]
    together: list[list[torch.Tensor]] = [[], []]
    for step in range(STEPS):
        for number, stream in enumerate(streams):
            output, states[number] = net(stream[step], state=states[number])
            together[number].append(output)
    for expected, outputs in zip(alone, together, strict=True):
        torch.testing.assert_close(torch.stack(outputs), expected, rtol=0, atol=0)


# Who says it


def subtracts(graph: nir.NIRGraph, **options: Any) -> list[str]:
    report = nirmap.from_nir(graph, dt=DT, **options).meta["nirmap"]
    return [*(entry.reset for entry in report.nodes.values() if entry.node == "LIF")]


def pair(first: str | None = None, second: str | None = None, whole: str | None = None) -> nir.NIRGraph:
    random = np.random.default_rng(4)
    nodes = [neuron("LIF", random), neuron("LIF", random)]
    for node, reset in zip(nodes, (first, second), strict=True):
        node.metadata = {} if reset is None else {RESET_KEY: reset}
    graph = chain(nodes, (WIDTH,))
    graph.metadata = {} if whole is None else {RESET_KEY: whole}
    return graph


@pytest.mark.parametrize(
    ("graph", "options", "expected"),
    [
        (pair(), {}, ["value", "value"]),
        (pair(), {"reset": "value"}, ["value", "value"]),
        (pair(), {"reset": "subtract"}, ["subtract", "subtract"]),
        (pair(first="subtract"), {}, ["subtract", "value"]),
        (pair(first="subtract"), {"reset": "subtract"}, ["subtract", "subtract"]),
        (pair(whole="subtract"), {}, ["subtract", "subtract"]),
        (pair(second="value", whole="subtract"), {}, ["subtract", "value"]),
    ],
)
def test_the_node_has_the_first_word_then_the_graph_then_the_caller(
    graph: nir.NIRGraph, options: dict[str, Any], expected: list[str]
) -> None:
    assert subtracts(graph, **options) == expected


def test_a_graph_says_it_for_the_graphs_in_it() -> None:
    outer = chain([pair()], (WIDTH,), names=("in", "inner", "out"))
    outer.metadata = {RESET_KEY: "subtract"}
    net = nirmap.from_nir(outer, dt=DT, dtype=torch.float64)
    inner = net.meta["nirmap"].graphs["inner"].nodes
    assert {entry.reset for entry in inner.values()} == {"subtract"}
    xs = strong_inputs(np.random.default_rng(5))
    trace = simulate(outer, xs, DT)
    assert margin(trace) > 1e-9
    with torch.no_grad():
        np.testing.assert_array_equal(nirmap.run(net, torch.tensor(xs))[0].numpy(), trace.outputs["out"])


@pytest.mark.parametrize("graph", [pair(first="subtract"), pair(whole="subtract")])
def test_a_caller_who_contradicts_the_graph_is_told_both(graph: nir.NIRGraph) -> None:
    with pytest.raises(nirmap.ConstraintError, match=r"'value'.*'subtract'.*leave reset out"):
        nirmap.from_nir(graph, dt=DT, reset="value")


@pytest.mark.parametrize("reset", ["soft", 1, None, np.array(["subtract"])])
def test_what_is_no_reset_is_refused_with_its_place(reset: Any) -> None:
    graph = pair()
    graph.nodes["1"].metadata = {RESET_KEY: reset}
    with pytest.raises(nirmap.ConstraintError, match=r"node '1': metadata\['reset'\].*'value' or 'subtract'"):
        nirmap.from_nir(graph, dt=DT)
    with pytest.raises(nirmap.ConstraintError, match="'value' or 'subtract'"):
        nirmap.from_nir(pair(), dt=DT, reset="soft")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


# The frameworks' own modules


def scaled(scale: float) -> torch.nn.Module:
    """A layer that hands on its input, times a number."""
    made = torch.nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        made.weight.copy_(scale * torch.eye(WIDTH))
        made.bias.fill_(0.05 * scale)
    return made


class Stateful(torch.nn.Module):
    """A neuron that takes and returns its state, behind a layer."""

    def __init__(self, module: torch.nn.Module, scale: float) -> None:
        super().__init__()
        self.fc, self.neuron = scaled(scale), module

    def forward(self, x: torch.Tensor, state: Any = None) -> Any:
        return self.neuron(self.fc(x), state)


class Hidden(torch.nn.Module):
    """A neuron that keeps its state to itself."""

    def __init__(self, module: torch.nn.Module, scale: float) -> None:
        super().__init__()
        self.fc, self.neuron = scaled(scale), module

    def forward(self, x: torch.Tensor) -> Any:
        return self.neuron(self.fc(x))


class Synaptic(torch.nn.Module):
    """A neuron of snnTorch with two state variables."""

    def __init__(self, module: torch.nn.Module, scale: float) -> None:
        super().__init__()
        self.fc, self.neuron = scaled(scale), module

    def forward(self, x: torch.Tensor, syn: Any = None, mem: Any = None) -> Any:
        return self.neuron(self.fc(x), syn, mem)


def own_spikes(model: torch.nn.Module, xs: torch.Tensor) -> torch.Tensor:
    """What a model gives step by step."""
    state: tuple[Any, ...] = ()
    spikes: list[torch.Tensor] = []
    with torch.no_grad():
        for x in xs:
            returned: Any = model(x, *state)
            if hasattr(returned, "shape"):
                spikes.append(returned)
            else:
                spikes.append(returned[0])
                state = tuple(returned[1:])
    return torch.stack(spikes)


def norse_cell() -> Any:
    p = norse.torch.LIFBoxParameters(
        tau_mem_inv=torch.tensor(100.0), v_th=torch.tensor(0.6), reset_method=reset_subtract
    )
    return norse.torch.LIFBoxCell(p, dt=DT)


SINGLE: dict[str, Any] = {"spike_fn": sa.SingleSpike, "reset_fn": sa.MembraneSubtract(), "num_timesteps": 1}
MODELS: dict[str, tuple[str, str, Callable[[], torch.nn.Module]]] = {
    "snntorch Leaky": ("snntorch", "LIF", lambda: Stateful(snntorch.Leaky(0.8), 1)),
    "snntorch Leaky without leak": ("snntorch", "IF", lambda: Stateful(snntorch.Leaky(1.0), 1)),
    "snntorch Synaptic": ("snntorch", "CubaLIF", lambda: Synaptic(snntorch.Synaptic(0.7, 0.8), 1)),
    "norse LIFBoxCell": ("norse", "LIF", lambda: Stateful(norse_cell(), 4)),
    "sinabs LIF": ("sinabs", "LIF", lambda: Hidden(sl.LIFSqueeze(tau_mem=10.0, **SINGLE), 4)),
    "sinabs LIF with a synapse": (
        "sinabs",
        "CubaLIF",
        lambda: Hidden(sl.LIFSqueeze(tau_mem=10.0, tau_syn=4.0, **SINGLE), 1),
    ),
    "sinabs IAF": ("sinabs", "IF", lambda: Hidden(sl.IAFSqueeze(min_v_mem=None, **SINGLE), 0.3)),
    "sinabs another amount": (
        "sinabs",
        "IF",
        lambda: Hidden(
            sl.IAFSqueeze(min_v_mem=None, **{**SINGLE, "reset_fn": sa.MembraneSubtract(0.7)}), 0.3
        ),
    ),
    "spikingjelly LIFNode": ("spikingjelly", "LIF", lambda: Hidden(sj.LIFNode(4.0, v_reset=None), 4)),
    "spikingjelly IFNode": ("spikingjelly", "IF", lambda: Hidden(sj.IFNode(v_reset=None), 0.5)),
    "spikingjelly ParametricLIFNode": (
        "spikingjelly",
        "LIF",
        lambda: Hidden(sj.ParametricLIFNode(4.0, v_reset=None).double(), 4),
    ),
    "spikingjelly CUBALIFNode": (
        "spikingjelly",
        "CubaLIF",
        lambda: Hidden(sj.CUBALIFNode(0.5, 0.75, v_reset=None), 1),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_module_that_subtracts_is_written_if_the_caller_says_so(name: str) -> None:
    framework, kind, make = MODELS[name]
    model = make()
    xs = torch.tensor(strong_inputs(np.random.default_rng(6), 3.0))
    with pytest.raises(nirmap.ConstraintError, match=r"reset by subtraction.*reset='subtract' writes it as"):
        nirmap.to_nir(model, framework, dt=DT, sample=xs[0])
    graph = nirmap.to_nir(model, framework, dt=DT, sample=xs[0], reset="subtract")
    (node,) = (node for node in graph.nodes.values() if type(node).__name__ == kind)
    assert node.metadata == {RESET_KEY: "subtract"}
    trace = simulate(graph, xs.numpy(), DT)
    (expected,) = trace.outputs.values()
    assert margin(trace) > 1e-9
    np.testing.assert_array_equal(own_spikes(model, xs).numpy(), expected)
    assert expected.any()
    net = nirmap.from_nir(graph, framework, dtype=torch.float64)
    with torch.no_grad():
        np.testing.assert_array_equal(nirmap.run(net, xs)[0].numpy(), expected)


def test_a_model_that_is_reset_to_a_value_is_written_as_ever() -> None:
    neuron = snntorch.Leaky(0.8, reset_mechanism="zero", reset_delay=False)
    xs = torch.zeros(2, WIDTH, dtype=torch.float64)
    graph = nirmap.to_nir(Stateful(neuron, 1), "snntorch", dt=DT, sample=xs, reset="subtract")
    assert all(node.metadata == {} for node in graph.nodes.values())


def test_a_neuron_that_takes_back_its_second_spike_is_refused() -> None:
    """Without delay, snnTorch spikes once less where a neuron is above its threshold after its reset."""
    model = Stateful(snntorch.Leaky(0.8, reset_delay=False), 1)
    xs = torch.zeros(2, WIDTH, dtype=torch.float64)
    with pytest.raises(nirmap.ConstraintError, match="reset_delay"):
        nirmap.to_nir(model, "snntorch", dt=DT, sample=xs, reset="subtract")


# Comparing


def test_frameworks_are_compared_with_the_reset_that_is_asked_for() -> None:
    graph = layer(neuron("LIF", np.random.default_rng(7)))
    xs = strong_inputs(np.random.default_rng(8))
    comparison = nirmap.compare(graph, xs, FRAMEWORKS, dt=DT, dtype=torch.float64, reset="subtract")
    assert comparison.equal
    by_value = nirmap.from_nir(graph, dt=DT, dtype=torch.float64)
    other = nirmap.compare(graph, xs, {"by value": by_value}, dt=DT, dtype=torch.float64, reset="subtract")
    assert not other.equal
