"""SpikingJelly: NIR nodes as its neurons, and its neurons as NIR nodes.

If these fail, somebody gets other spikes than the graph says, or than the trained SpikingJelly model gave, and nothing
says so.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import nir
import numpy as np
import pytest
import spikingjelly.activation_based.layer
import spikingjelly.activation_based.neuron
import spikingjelly.activation_based.surrogate
import torch

import nirmap
from nirmap.oracle.interpreter import Trace, margin, simulate
from oracle.building import chain
from runtime.suitable import numbers

DT = 1e-3
WIDTH = 5
# SpikingJelly publishes no types.
sj: Any = spikingjelly.activation_based.neuron
layer: Any = spikingjelly.activation_based.layer
surrogate: Any = spikingjelly.activation_based.surrogate
Tensor = torch.Tensor
Random = np.random.Generator


def drawn(random: Random, low: float, high: float) -> Any:
    """One number per neuron."""
    return random.uniform(low, high, WIDTH)


def sequence(steps: int, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers around 0.7, some of them negative: (time, batch, neuron)."""
    return torch.tensor(np.random.default_rng(seed).uniform(-0.6, 2.0, (steps, 3, WIDTH)), dtype=dtype)


def lif(random: Random, *, any_reset: bool = False) -> dict[str, Any]:
    """Two of the neurons lose all within a step, or more than that."""
    rest = drawn(random, -0.3, 0.3)
    tau = DT * drawn(random, 4, 20)
    tau[:2] = [0.7 * DT, DT]
    return {
        "tau": tau,
        "r": drawn(random, 1, 3),
        "v_leak": rest,
        "v_threshold": rest + drawn(random, 0.3, 0.8),
        "v_reset": drawn(random, -0.5, 0.2) if any_reset else rest,
    }


def cuba(random: Random) -> dict[str, Any]:
    values = lif(random, any_reset=True)
    tau_mem = values.pop("tau")
    tau_syn = DT * drawn(random, 3, 8)
    tau_syn[0] = DT
    return {**values, "tau_mem": tau_mem, "tau_syn": tau_syn, "w_in": drawn(random, 1.5, 2.5)}


def without_spikes(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in ("v_threshold", "v_reset")}


def integrate_and_fire(random: Random) -> nir.NIRNode:
    reset = drawn(random, -0.3, 0.2)
    return nir.IF(r=drawn(random, 50, 200), v_threshold=drawn(random, 0.3, 0.8), v_reset=reset)


# From NIR

NODES: dict[str, tuple[Callable[[Random], nir.NIRNode], str]] = {
    "I": (lambda random: nir.I(r=drawn(random, -20, 20)), "SimpleIFNode"),
    "IF": (integrate_and_fire, "SimpleIFNode"),
    "LI": (lambda random: nir.LI(**without_spikes(lif(random))), "SimpleLIFNode"),
    "LIF": (lambda random: nir.LIF(**lif(random)), "SimpleLIFNode"),
    "LIF, any reset": (lambda random: nir.LIF(**lif(random, any_reset=True)), "CUBALIFNode"),
    "CubaLI": (lambda random: nir.CubaLI(**without_spikes(cuba(random))), "CUBALIFNode"),
    "CubaLIF": (lambda random: nir.CubaLIF(**cuba(random)), "CUBALIFNode"),
    "Threshold": (lambda random: nir.Threshold(threshold=drawn(random, -0.4, 1.5)), "SimpleIFNode"),
}
DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-4)], ids=str
)


def clear_of_thresholds(
    make: Callable[[Random], nir.NIRNode], dtype: torch.dtype
) -> tuple[nir.NIRGraph, Tensor, Trace]:
    """A node, an input, and its trace, in which no potential comes so near to a threshold that rounding decides."""
    for seed in range(20):
        graph = chain([make(np.random.default_rng(seed))], (WIDTH,), names=("input", "neuron", "output"))
        xs = sequence(60, seed=seed, dtype=dtype)
        trace = simulate(graph, xs.double().numpy(), DT)
        if margin(trace) > 2e-5:
            return graph, xs, trace
    raise AssertionError("each trace has a potential that meets its threshold")


def check_against(trace: Trace, outputs: Tensor, tolerance: float) -> None:
    """Equal spikes of neurons that all fire, or equal values."""
    expected = trace.outputs["output"]
    if trace.thresholds:
        assert (expected.sum(axis=(0, 1)) > 0).all(), "a silent neuron proves nothing"
        np.testing.assert_array_equal(outputs.numpy(), expected)
    assert float(np.abs(outputs.double().numpy() - expected).max()) < tolerance


@DTYPES
@pytest.mark.parametrize("name", NODES)
def test_a_node_gives_the_oracles_spikes(name: str, dtype: torch.dtype, tolerance: float) -> None:
    """Neurons with v_reset other than 0 are among them: each begins at 0, where SpikingJelly's begin at v_reset."""
    make, kind = NODES[name]
    graph, xs, trace = clear_of_thresholds(make, dtype)
    net = nirmap.from_nir(graph, "spikingjelly", dt=DT, dtype=dtype)
    assert type(net.get_submodule("neuron.module")) is getattr(sj, kind)
    back = nirmap.to_nir(net)
    assert type(back.nodes["neuron"]) is type(graph.nodes["neuron"])
    for network in (net, nirmap.from_nir(back, "spikingjelly", dt=DT, dtype=dtype)):
        check_against(trace, nirmap.run(network, xs)[0], tolerance)


@pytest.mark.parametrize("reset", [-0.5, 0.25])
@pytest.mark.parametrize("kind", ["IF", "LIF", "CubaLIF"])
def test_a_neuron_begins_at_0_and_not_at_its_v_reset(kind: str, reset: float) -> None:
    """The first step says it: a neuron that began at v_reset would have it in its potential."""
    one = np.ones(1)
    own: dict[str, dict[str, Any]] = {
        "IF": {"r": one / DT},
        "LIF": {"tau": 4 * DT * one, "r": one, "v_leak": 0 * one},
        "CubaLIF": {
            "tau_mem": 4 * DT * one,
            "tau_syn": 4 * DT * one,
            "r": one,
            "v_leak": 0 * one,
            "w_in": one,
        },
    }
    node = getattr(nir, kind)(**own[kind], v_threshold=2 * one, v_reset=reset * one)
    graph = chain([node], names=("input", "neuron", "output"))
    net = nirmap.from_nir(graph, "spikingjelly", dt=DT, dtype=torch.float64)
    _, state = net(torch.ones(1, 1, dtype=torch.float64))
    expected = {"IF": 1.0, "LIF": 0.25, "CubaLIF": 0.0625}[kind]
    assert state["neuron"]["v"].item() == pytest.approx(expected, abs=1e-15)


ONE = np.ones(1)
BELOW: dict[str, Any] = {"r": ONE, "v_leak": 0 * ONE, "v_threshold": 3 * ONE}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(
    "node",
    [
        nir.LIF(tau=DT * ONE, v_reset=0 * ONE, **BELOW),
        nir.LIF(tau=DT * ONE, v_reset=-1 * ONE, **BELOW),
        nir.CubaLIF(tau_mem=DT * ONE, tau_syn=DT * ONE, v_reset=0 * ONE, w_in=ONE, **BELOW),
        nir.Threshold(threshold=3 * ONE),
    ],
    ids=["SimpleLIFNode", "CUBALIFNode", "with current", "Threshold"],
)
def test_a_potential_that_meets_the_threshold_does_not_fire(node: nir.NIRNode, dtype: torch.dtype) -> None:
    """With integer weights that happens all the time: SpikingJelly compares with >=, and NIR with >."""
    xs = torch.tensor([2, 3, 4, 3, 5, 3, 3, 4], dtype=dtype).reshape(8, 1, 1)
    net = nirmap.from_nir(chain([node]), "spikingjelly", dt=DT, dtype=dtype)
    assert numbers(nirmap.run(net, xs)[0].flatten()) == [0, 0, 1, 0, 1, 0, 0, 1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_sum_that_meets_the_threshold_does_not_fire(dtype: torch.dtype) -> None:
    node = nir.IF(r=ONE / DT, v_threshold=3 * ONE, v_reset=0 * ONE)
    net = nirmap.from_nir(chain([node]), "spikingjelly", dt=DT, dtype=dtype)
    assert numbers(nirmap.run(net, torch.ones(8, 1, 1, dtype=dtype))[0].flatten()) == [0, 0, 0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize("name", NODES)
def test_two_streams_through_one_network_do_not_meet(name: str) -> None:
    """The state is the caller's: a module that kept it would mix the streams."""
    graph = chain([NODES[name][0](np.random.default_rng(1))], (WIDTH,))
    net = nirmap.from_nir(graph, "spikingjelly", dt=DT, dtype=torch.float64)
    streams = [sequence(20, seed=seed) for seed in (1, 2)]
    alone = [nirmap.run(net, stream)[0] for stream in streams]
    assert not torch.equal(*alone)
    states: list[Any] = [None, None]
    together: list[list[Tensor]] = [[], []]
    for step in range(20):
        for number, stream in enumerate(streams):
            output, states[number] = net(stream[step], states[number])
            together[number].append(output)
    for expected, outputs in zip(alone, together, strict=True):
        torch.testing.assert_close(torch.stack(outputs), expected, rtol=0, atol=0)


def test_a_current_that_could_not_be_told_is_kept_elsewhere() -> None:
    """CUBALIFNode keeps a multiple of r times the current."""
    values: dict[str, Any] = {
        **cuba(np.random.default_rng(0)),
        "r": np.zeros(WIDTH),
        "v_leak": np.ones(WIDTH),
    }
    node = nir.CubaLIF(**values)
    graph, xs = chain([node], (WIDTH,)), sequence(50)
    net = nirmap.from_nir(graph, "spikingjelly", dt=DT, dtype=torch.float64)
    (expected,) = simulate(graph, xs.numpy(), DT).outputs.values()
    assert expected.any()
    np.testing.assert_array_equal(nirmap.run(net, xs)[0].numpy(), expected)


# To NIR


def assigned(neuron: Any, **values: Any) -> Any:
    """A neuron whose attributes were set after its construction."""
    for name, value in values.items():
        setattr(neuron, name, value)
    return neuron


RESET = {"v_threshold": 0.9, "v_reset": -0.25}
PER_NEURON = torch.linspace(0.4, 1.3, WIDTH, dtype=torch.float64)
NEURONS: dict[str, Callable[[], Any]] = {
    "SimpleIFNode": lambda: sj.SimpleIFNode(**RESET),
    "SimpleLIFNode": lambda: sj.SimpleLIFNode(3.0, True, **RESET),
    "SimpleLIFNode, input as it is": lambda: sj.SimpleLIFNode(3.0, False, **RESET),
    "IFNode": lambda: sj.IFNode(**RESET),
    "IFNode, reset to 0": sj.IFNode,
    "IFNode, reset upwards": lambda: sj.IFNode(v_threshold=0.9, v_reset=0.3),
    "IFNode, one threshold per neuron": lambda: assigned(sj.IFNode(), v_threshold=PER_NEURON),
    "LIFNode": lambda: sj.LIFNode(3.0, **RESET),
    "LIFNode, input as it is": lambda: sj.LIFNode(3.0, False, **RESET),
    "LIFNode, reset to 0": lambda: sj.LIFNode(3.0),
    "LIFNode, with records": lambda: sj.LIFNode(3.0, store_v_seq=True, **RESET),
    "LIFNode, one threshold per neuron": lambda: assigned(sj.LIFNode(3.0), v_threshold=PER_NEURON),
    "ParametricLIFNode": lambda: sj.ParametricLIFNode(3.0, **RESET),
    "ParametricLIFNode, input as it is": lambda: sj.ParametricLIFNode(3.0, False, **RESET),
    "CUBALIFNode": lambda: sj.CUBALIFNode(0.5, 0.75, v_threshold=1.6),
    "CUBALIFNode, without current": lambda: sj.CUBALIFNode(0.0, 0.75, v_threshold=0.9),
}


@pytest.mark.parametrize("name", NEURONS)
def test_a_users_neuron_is_written_as_it_behaves(name: str) -> None:
    """All but the Simple ones begin at their v_reset, and a NIR neuron at 0: from the first step on it is the same."""
    xs = sequence(60)
    neuron = NEURONS[name]().double()
    with torch.no_grad():
        expected = torch.stack([neuron(x) for x in xs])
    assert (expected.sum(dim=(0, 1)) > 0).all()
    graph = nirmap.to_nir(NEURONS[name]().double(), "spikingjelly", dt=DT, sample=xs[0])
    (by_oracle,) = simulate(graph, xs.numpy(), DT).outputs.values()
    np.testing.assert_array_equal(by_oracle, expected.numpy())
    for framework in ("spikingjelly", "torch"):
        net = nirmap.from_nir(graph, framework, dt=DT, dtype=torch.float64)
        torch.testing.assert_close(nirmap.run(net, xs)[0], expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["IFNode", "LIFNode", "ParametricLIFNode"])
def test_a_users_neuron_begins_at_its_v_reset(kind: str) -> None:
    """What the test before rests on; a silent first step would prove nothing."""
    neuron = getattr(sj, kind)(v_threshold=0.9, v_reset=-0.25)
    neuron(torch.zeros(1, 1))
    assert neuron.v.item() == -0.25


def test_a_users_neuron_fires_at_its_threshold_as_before() -> None:
    xs = torch.ones(8, 1, 1)
    for reset, expected in ((0.0, [0, 0, 1, 0, 0, 1, 0, 0]), (-1.0, [0, 0, 0, 1, 0, 0, 0, 1])):
        neuron = sj.IFNode(v_threshold=3.0, v_reset=reset)
        assert numbers(torch.stack([neuron(x) for x in xs]).flatten()) == expected
        neuron.reset()
        graph = nirmap.to_nir(neuron, "spikingjelly", dt=DT, sample=xs[0])
        for framework in ("spikingjelly", "torch"):
            assert numbers(nirmap.run(nirmap.from_nir(graph, framework), xs)[0].flatten()) == expected


def test_trained_parameters_are_read_and_not_those_of_the_constructor() -> None:
    neuron = sj.ParametricLIFNode(3.0)
    with torch.no_grad():
        neuron.w.fill_(0.0)
    graph = nirmap.to_nir(neuron, "spikingjelly", dt=DT, sample=torch.ones(1, WIDTH))
    (node,) = (node for node in graph.nodes.values() if isinstance(node, nir.LIF))
    np.testing.assert_allclose(node.tau, 2 * DT)


def test_a_model_that_has_just_run_is_written_as_before() -> None:
    """Its state is not the model's: one that resets to 0 need not be reset before."""
    sample, neuron = sequence(1)[0], sj.LIFNode(3.0).double()
    written: list[Any] = []
    for _ in range(2):
        graph = nirmap.to_nir(neuron, "spikingjelly", dt=DT, sample=sample)
        written += [node for node in graph.nodes.values() if isinstance(node, nir.LIF)]
        neuron(sample)
    assert neuron.v.any()
    first, second = written
    for name in ("tau", "r", "v_leak", "v_threshold", "v_reset"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("kind", ["IFNode", "LIFNode", "ParametricLIFNode"])
@pytest.mark.parametrize(
    ("arguments", "later"),
    [({}, {"v_reset": -0.25}), (RESET, {"v": torch.zeros(1, WIDTH)})],
    ids=["v_reset set afterwards", "not reset"],
)
def test_where_a_neuron_begins_has_to_be_known(
    kind: str, arguments: dict[str, Any], later: dict[str, Any]
) -> None:
    neuron = assigned(getattr(sj, kind)(**arguments), **later)
    with pytest.raises(nirmap.ConstraintError, match=r"begins at its v_reset.*reset_net"):
        nirmap.to_nir(neuron, "spikingjelly", dt=DT, sample=torch.ones(1, WIDTH))


@pytest.mark.parametrize("current", [0.0, 0.5], ids=["without current", "with current"])
def test_a_cuba_neuron_that_begins_elsewhere_than_it_leaks_to_is_refused(current: float) -> None:
    """It leaks to 0, and begins at its v_reset."""
    neuron = sj.CUBALIFNode(current, 0.75, 0.5, -0.25)
    with pytest.raises(nirmap.NirmapError, match=r"begins at its v_reset, and a NIR neuron at 0"):
        nirmap.to_nir(neuron, "spikingjelly", dt=DT, sample=torch.ones(1, WIDTH))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "soft reset": ({"v_reset": None}, "is reset to a value"),
    "no spikes": ({"surrogate_function": surrogate.Sigmoid(spiking=False)}, "in place of spikes"),
    "several spikes": ({"surrogate_function": surrogate.MultiLevelSpikeCount(4)}, "at most once in a step"),
    "chance": ({"surrogate_function": surrogate.PoissonPass()}, "not by chance"),
}


@pytest.mark.parametrize("kind", ["SimpleIFNode", "IFNode", "LIFNode", "ParametricLIFNode", "CUBALIFNode"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_nir_does_not_have_is_refused(kind: str, name: str) -> None:
    changed, reason = REFUSED[name]
    neuron = getattr(sj, kind)(**changed)
    with pytest.raises(nirmap.ConstraintError, match=reason):
        nirmap.to_nir(neuron, "spikingjelly", dt=DT, sample=torch.ones(1, WIDTH))


@pytest.mark.parametrize(
    ("arguments", "reason"), [((1.0, 0.5), "a NIR current leaks"), ((0.5, 1.0), "behind a synapse leaks")]
)
def test_a_cuba_neuron_that_does_not_leak_is_refused(arguments: tuple[float, float], reason: str) -> None:
    with pytest.raises(nirmap.ConstraintError, match=reason):
        nirmap.to_nir(sj.CUBALIFNode(*arguments), "spikingjelly", dt=DT, sample=torch.ones(1, WIDTH))


@pytest.mark.parametrize(
    ("name", "reason"), [("EIFNode", "v_reset"), ("QIFNode", "v_reset"), ("RAFNode", "forward Euler")]
)
def test_a_neuron_that_begins_or_steps_otherwise_is_refused_by_name(name: str, reason: str) -> None:
    with pytest.raises(nirmap.NirmapError, match=f"{name}.*{reason}"):
        nirmap.to_nir(getattr(sj, name)(), "spikingjelly", dt=DT, sample=torch.ones(1, WIDTH))


def test_a_filter_whose_decay_hangs_on_its_input_is_no_leaky_integrator() -> None:
    with pytest.raises(nirmap.TraceError, match="SynapseFilter"):
        nirmap.to_nir(layer.SynapseFilter(), "spikingjelly", dt=DT, sample=torch.ones(1, WIDTH))


def test_a_multi_step_neuron_is_the_same_node() -> None:
    """It gives for a sequence in one call what the written node gives step by step."""
    xs = sequence(50)
    neuron = sj.LIFNode(3.0, step_mode="m", **RESET).double()
    graph = nirmap.to_nir(neuron, "spikingjelly", dt=DT, sample=xs[0])
    expected = neuron(xs)
    assert expected.any()
    net = nirmap.from_nir(graph, "spikingjelly", dt=DT, dtype=torch.float64)
    torch.testing.assert_close(nirmap.run(net, xs)[0], expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("kind", "arguments", "written"), [("NonSpikingLIFNode", (3.0,), nir.LI), ("NonSpikingIFNode", (), nir.I)]
)
def test_a_neuron_without_spikes_is_an_integrator(kind: str, arguments: Any, written: type[Any]) -> None:
    xs = sequence(50)
    neuron = getattr(sj, kind)(*arguments).double()
    expected = torch.stack(list(neuron(xs)))
    graph = nirmap.to_nir(neuron, "spikingjelly", dt=DT, sample=xs[0])
    assert any(isinstance(node, written) for node in graph.nodes.values())
    (by_oracle,) = simulate(graph, xs.numpy(), DT).outputs.values()
    np.testing.assert_allclose(by_oracle, expected.detach().numpy(), rtol=0, atol=1e-12)
    decoding = getattr(sj, kind)(*arguments, decode="last-mem")
    with pytest.raises(nirmap.ConstraintError, match="that of each step"):
        nirmap.to_nir(decoding, "spikingjelly", dt=DT, sample=xs[0])


@pytest.mark.parametrize("steps", [1, 3])
def test_a_delay_is_read_in_seconds(steps: int) -> None:
    xs = sequence(10)
    delay = layer.Delay(steps)
    expected = torch.stack([delay(x) for x in xs])
    graph = nirmap.to_nir(layer.Delay(steps), "spikingjelly", dt=DT, sample=xs[0])
    (node,) = (node for node in graph.nodes.values() if isinstance(node, nir.Delay))
    np.testing.assert_allclose(node.delay, steps * DT)
    (by_oracle,) = simulate(graph, xs.numpy(), DT).outputs.values()
    np.testing.assert_array_equal(by_oracle, expected.numpy())


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_delay_is_built_and_two_streams_through_it_do_not_touch_each_other(steps: int) -> None:
    """Its queue is a list that it writes in place; that of one stream must not reach the other."""
    graph = chain([nir.Delay(delay=steps * DT * np.ones(WIDTH))], (WIDTH,))
    net = nirmap.from_nir(graph, "spikingjelly", dt=DT, dtype=torch.float64)
    assert any(isinstance(module, layer.Delay) for module in net.modules())
    streams = [sequence(10), 2 * sequence(10)]
    states: list[Any] = [None, None]
    outputs: list[list[torch.Tensor]] = [[], []]
    for pair in zip(*streams, strict=True):
        for index, x in enumerate(pair):
            before = copy.deepcopy(states[index])
            given = states[index]
            y, states[index] = net(x, given)
            outputs[index].append(y)
            torch.testing.assert_close(given, before, rtol=0, atol=0)
    for xs, ys in zip(streams, outputs, strict=True):
        (expected,) = simulate(graph, xs.numpy(), DT).outputs.values()
        np.testing.assert_array_equal(torch.stack(ys).numpy(), expected)
    again = nirmap.to_nir(net)
    np.testing.assert_allclose(
        next(n for n in again.nodes.values() if isinstance(n, nir.Delay)).delay, steps * DT
    )


@pytest.mark.parametrize(
    ("delay", "reason"),
    [
        (DT * np.arange(WIDTH), "one number of steps for all neurons"),
        (1.5 * DT * np.ones(WIDTH), "whole time steps"),
    ],
)
def test_a_delay_that_the_queue_cannot_hold_is_refused(delay: Any, reason: str) -> None:
    graph = chain([nir.Delay(delay=delay)], (WIDTH,))
    with pytest.raises(nirmap.ConstraintError, match=reason):
        nirmap.from_nir(graph, "spikingjelly", dt=DT)
