"""sinabs: its layers as NIR nodes, and NIR nodes as its layers.

If these fail, somebody gets other spikes than the graph says, or than the trained sinabs model gave, and nothing says
so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import nir
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nirmap
from nirmap.oracle.interpreter import Trace, margin, simulate
from oracle.building import chain
from oracle.parameters import generators
from runtime.sinabs_layers import (
    DT,
    SINGLE,
    WIDTH,
    Random,
    Tensor,
    by_sinabs,
    cuba,
    drawn,
    lif,
    sa,
    sequence,
    sl,
    without_spikes,
)
from runtime.suitable import numbers


def check_against(trace: Trace, outputs: Tensor, spiking: bool, tolerance: float) -> float:
    """Equal spikes of neurons that all fire, or equal values; returns the largest difference."""
    expected = trace.outputs["output"]
    if spiking:
        assert (expected.sum(axis=(0, 1)) > 0).all(), "a silent neuron proves nothing"
        np.testing.assert_array_equal(outputs.numpy(), expected)
    error = float(np.abs(outputs.double().numpy() - expected).max())
    assert error < tolerance
    return error


# From NIR

NODES: dict[str, tuple[Callable[[Random], nir.NIRNode], type[torch.nn.Module]]] = {
    "I": (lambda random: nir.I(r=drawn(random, -20, 20)), sl.IAF),
    "IF": (
        lambda random: nir.IF(
            r=drawn(random, 50, 200), v_threshold=drawn(random, 0.3, 0.8), v_reset=drawn(random, -0.3, 0.2)
        ),
        sl.IAF,
    ),
    "LI": (lambda random: nir.LI(**without_spikes(lif(random))), sl.ExpLeak),
    "LI, within a step": (lambda random: nir.LI(**without_spikes(lif(random, fast=True))), sl.ExpLeakSqueeze),
    "LIF": (lambda random: nir.LIF(**lif(random)), sl.LIF),
    "LIF, any reset": (lambda random: nir.LIF(**lif(random, any_reset=True)), sl.LIFSqueeze),
    "LIF, within a step": (lambda random: nir.LIF(**lif(random, any_reset=True, fast=True)), sl.LIFSqueeze),
    "CubaLI": (lambda random: nir.CubaLI(**without_spikes(cuba(random))), sl.LIF),
    "CubaLI, within a step": (
        lambda random: nir.CubaLI(**without_spikes(cuba(random, fast=True))),
        sl.LIFSqueeze,
    ),
    "CubaLIF": (lambda random: nir.CubaLIF(**cuba(random)), sl.LIF),
    "CubaLIF, any reset": (lambda random: nir.CubaLIF(**cuba(random, any_reset=True)), sl.LIFSqueeze),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 1e-4)], ids=str)
@pytest.mark.parametrize("name", NODES)
def test_a_node_gives_the_oracles_spikes(name: str, dtype: torch.dtype, tolerance: float) -> None:
    make, kind = NODES[name]
    graph, xs, trace = clear_of_thresholds(make, dtype)
    net = nirmap.from_nir(graph, "sinabs", dt=DT, dtype=dtype)
    assert type(net.get_submodule("neuron.module")) is kind
    back = nirmap.to_nir(net)
    for network in (net, nirmap.from_nir(back, "sinabs", dt=DT, dtype=dtype)):
        check_against(trace, nirmap.run(network, xs)[0], bool(trace.thresholds), tolerance)


def clear_of_thresholds(
    make: Callable[[Random], nir.NIRNode], dtype: torch.dtype
) -> tuple[nir.NIRGraph, Tensor, Trace]:
    """A node, an input, and its trace, in which no potential comes so near to a threshold that rounding decides."""
    for seed in range(20):
        graph = chain([make(np.random.default_rng(seed))], (WIDTH,), names=("input", "neuron", "output"))
        xs = sequence(300, 3, WIDTH, seed=seed, dtype=dtype)
        trace = simulate(graph, xs.double().numpy(), DT)
        if margin(trace) > 2e-5:
            return graph, xs, trace
    raise AssertionError("each trace has a potential that meets its threshold")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("below", [False, True], ids=["LIF", "LIFSqueeze"])
def test_a_potential_that_meets_the_threshold_does_not_fire(below: bool, dtype: torch.dtype) -> None:
    """With integer weights that happens all the time: sinabs compares with >=, and NIR with >."""
    one = np.ones(1)
    node: nir.NIRNode = nir.IF(r=one / DT, v_threshold=3 * one, v_reset=0 * one)
    xs = torch.ones(8, 1, 1, dtype=dtype)
    if below:
        node = nir.LIF(tau=DT * one, r=one, v_leak=0 * one, v_threshold=3 * one, v_reset=0 * one)
        xs = torch.tensor([2, 3, 4, 3, 5, 3, 3, 4], dtype=dtype).reshape(8, 1, 1)
    net = nirmap.from_nir(chain([node]), "sinabs", dt=DT, dtype=dtype)
    found = numbers(nirmap.run(net, xs)[0].flatten())
    assert found == ([0, 0, 1, 0, 1, 0, 0, 1] if below else [0, 0, 0, 1, 0, 0, 0, 1])


@pytest.mark.parametrize("squeeze", [False, True])
def test_a_user_s_neuron_fires_at_its_threshold_as_before(squeeze: bool) -> None:
    layer: Any = sl.IAFSqueeze(num_timesteps=8, spike_threshold=3.0, **SINGLE) if squeeze else None
    layer = layer or sl.IAF(spike_threshold=torch.tensor(3.0), **SINGLE)
    xs = torch.ones(8, 1, 1)
    assert numbers(by_sinabs(layer, xs).flatten()) == [0, 0, 1, 0, 0, 1, 0, 0]
    graph = nirmap.to_nir(layer, "sinabs", dt=DT, sample=xs[0])
    for framework in ("sinabs", "torch", "norse"):
        net = nirmap.from_nir(graph, framework)
        assert numbers(nirmap.run(net, xs)[0].flatten()) == [0, 0, 1, 0, 0, 1, 0, 0]


# To NIR


def settings_of(node: str, squeeze: bool, alphas: bool, normed: bool) -> Iterator[tuple[str, Any]]:
    """The class of a node, and the settings that a user may give it in either of its forms."""
    kind = {"I": "IAF", "IF": "IAF", "LI": "ExpLeak"}.get(node, "LIF")
    yield "class", getattr(sl, kind + ("Squeeze" if squeeze else ""))
    if squeeze:
        yield "batch_size", 3
    if kind != "IAF":
        yield from (("train_alphas", alphas), ("norm_input", normed))
    if node in ("I", "CubaLI"):
        yield from (("spike_fn", None), ("reset_fn", None), ("spike_threshold", None))


def made(node: str, random: Random, *, squeeze: bool, alphas: bool, normed: bool) -> Any:
    """A layer with drawn parameters, whose threshold suits the size of its input."""
    arguments = dict(settings_of(node, squeeze, alphas, normed))
    kind = arguments.pop("class")
    for name, low, high in (("tau_mem", 4, 20), ("tau_syn", 2, 8)):
        if (name == "tau_mem" and not issubclass(kind, sl.IAF)) or (
            name == "tau_syn" and node.startswith("Cuba")
        ):
            arguments[name] = torch.tensor(random.uniform(low, high, WIDTH), dtype=torch.float32)
    if node in ("IF", "LIF", "CubaLIF"):
        level = (0.4 if arguments.get("norm_input") else 2.5) * (3 if node == "CubaLIF" else 1)
        drawn_threshold = level * random.uniform(0.7, 1.3, WIDTH)
        arguments |= {"spike_threshold": torch.tensor(drawn_threshold, dtype=torch.float32), **SINGLE}
    return kind(**arguments)


EITHER = (False, True)
Maker = Callable[[Random], Any]
USUAL: dict[str, tuple[str, Maker]] = {
    f"{node}{', squeezed' * squeeze}{', alphas' * alphas}{', normed' * normed}": (
        node,
        functools.partial(made, node, squeeze=squeeze, alphas=alphas, normed=normed),
    )
    for node in ("I", "IF", "LI", "LIF", "CubaLI", "CubaLIF")
    for squeeze in EITHER
    for alphas in EITHER
    for normed in EITHER
    if node not in ("I", "IF") or not (alphas or normed or (node == "I" and squeeze))
}
LAYERS: dict[str, tuple[str, Maker]] = {
    **USUAL,
    "ExpLeak without leak": ("I", lambda random: sl.ExpLeak(tau_mem=float("inf"))),
    "ExpLeak without leak, alphas": ("I", lambda random: sl.ExpLeak(tau_mem=float("inf"), train_alphas=True)),
    "ExpLeakSqueeze without leak": (
        "I",
        lambda random: sl.ExpLeakSqueeze(tau_mem=float("inf"), batch_size=3),
    ),
    "LIF, one time constant": (
        "LIF",
        lambda random: sl.LIF(9.0, spike_threshold=torch.linspace(0.3, 0.5, WIDTH), **SINGLE),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_written_as_the_node_that_it_is(name: str) -> None:
    """Its own run over a sequence, the oracle on the written graph, and the graph in two frameworks are the same."""
    kind, make = LAYERS[name]
    layer: Any = make(np.random.default_rng(1))
    xs = sequence(200, 3, WIDTH, dtype=torch.float32)
    graph = nirmap.to_nir(torch.nn.Sequential(layer), "sinabs", dt=DT, sample=xs[0])
    assert type(graph.nodes["0"]).__name__ == kind
    trace = simulate(graph, xs.double().numpy(), DT)
    assert margin(trace) > 1e-6
    spiking = bool(trace.thresholds)
    check_against(trace, by_sinabs(layer, xs), spiking, 5e-4)
    for framework in ("sinabs", "torch"):
        net = nirmap.from_nir(graph, framework, dtype=torch.float64)
        check_against(trace, nirmap.run(net, xs.double())[0], spiking, 1e-9)


@settings(max_examples=25)
@given(generators(), st.sampled_from(sorted(LAYERS)))
def test_a_layer_that_was_written_is_read_and_written_again_as_the_same_node(
    random: Random, name: str
) -> None:
    graph = nirmap.to_nir(
        torch.nn.Sequential(LAYERS[name][1](random)), "sinabs", dt=DT, sample=torch.zeros(1, WIDTH)
    )
    back = nirmap.to_nir(nirmap.from_nir(graph, "sinabs", dtype=torch.float64))
    assert type(back.nodes["0"]) is type(graph.nodes["0"])
    held: dict[str, Any] = vars(graph.nodes["0"])
    for name, value in held.items():
        if name not in ("input_type", "output_type", "metadata"):
            np.testing.assert_allclose(getattr(back.nodes["0"], name), value, rtol=1e-9, atol=1e-12)


def test_a_model_of_squeezing_layers_is_written_as_it_stands() -> None:
    """The usual style: batch and time are one axis, which NIR does not see."""
    xs = sequence(30, 2, 1, 6, 6, dtype=torch.float32)
    steps, batch = xs.shape[:2]
    model = torch.nn.Sequential(
        sl.FlattenTime(),
        torch.nn.Conv2d(1, 4, 3),
        sl.IAFSqueeze(batch_size=batch, spike_threshold=1.5, **SINGLE),
        sl.SumPool2d(2),
        sl.QuantizeLayer(quantize=False),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 8),
        sl.LIFSqueeze(batch_size=batch, tau_mem=9.0, spike_threshold=0.1, **SINGLE),
        sl.UnflattenTime(batch),
    )
    random = np.random.default_rng(4)
    with torch.no_grad():
        for parameter in (*model[1].parameters(), *model[6].parameters()):
            parameter.copy_(torch.tensor(random.uniform(0, 0.3, parameter.shape)))
        expected = model(xs.transpose(0, 1)).transpose(0, 1)
    assert expected.shape == (steps, batch, 8)
    graph = nirmap.to_nir(model, "sinabs", dt=DT, sample=torch.zeros(1, 1, 6, 6))
    kinds = [type(graph.nodes[name]).__name__ for name in ("1", "2", "3", "5", "6", "7")]
    assert kinds == ["Conv2d", "IF", "SumPool2d", "Flatten", "Affine", "LIF"]
    trace = simulate(graph, xs.double().numpy(), DT)
    assert margin(trace) > 1e-5
    np.testing.assert_array_equal(expected.numpy(), trace.outputs["output"])
    assert all(count > 0 for count in trace.spike_counts().values())
    net = nirmap.from_nir(graph, "sinabs")
    np.testing.assert_array_equal(nirmap.run(net, xs)[0].detach().numpy(), trace.outputs["output"])


def not_reset(spikes: Tensor, state: Any, threshold: Tensor) -> Any:
    return state


REFUSED: dict[str, tuple[Callable[[], torch.nn.Module], str]] = {
    "several spikes": (
        sl.IAF,
        r"spike_fn = .*MultiSpike.*a NIR neuron spikes at most once in a step.*use spike_fn=SingleSpike",
    ),
    "at most n spikes": (
        lambda: sl.LIF(20.0, spike_fn=sa.MaxSpike(2), reset_fn=sa.MembraneReset()),
        r"spike_fn = MaxSpike\(max_num_spikes_per_bin=2\)",
    ),
    "subtraction": (
        lambda: sl.LIF(20.0, spike_fn=sa.SingleSpike),
        r"a LIF that is reset by subtraction.*reset='subtract' writes it as a nir\.LIF",
    ),
    "a reset of all": (
        lambda: sl.LIF(20.0, spike_fn=sa.SingleSpike, reset_fn=sa.MembraneReset(-0.1)),
        r"reset_value = -0\.1.*MembraneReset adds its value to all neurons",
    ),
    "a function of one's own": (
        lambda: sl.LIF(20.0, spike_fn=sa.SingleSpike, reset_fn=not_reset),
        "a NIR neuron is reset to a value",
    ),
    "a lower bound": (
        lambda: sl.LIF(20.0, min_v_mem=-1.0, **SINGLE),
        r"min_v_mem = -1\.0.*no lower bound of the membrane potential.*use min_v_mem=None",
    ),
    "a lower bound in a squeezing layer": (
        lambda: sl.ExpLeakSqueeze(tau_mem=20.0, min_v_mem=-1.0, num_timesteps=1),
        r"min_v_mem = -1\.0",
    ),
    "an integrator with a synapse": (
        lambda: sl.IAF(tau_syn=5.0, **SINGLE),
        r"tau_syn = 5\.0.*an integrator behind a synapse is two nodes.*put an ExpLeak in front",
    ),
    "no leak": (lambda: sl.LIF(float("inf"), **SINGLE), "a neuron without leak is another node"),
    "a bias in the feedback, which sinabs leaves out in the first step": (
        lambda: sl.LIFRecurrent(20.0, torch.nn.Linear(WIDTH, WIDTH), **SINGLE),
        r"rec_connect\.bias is None.*use torch\.nn\.Linear\(n, n, bias=False\)",
    ),
    "an adaptive threshold": (lambda: sl.ALIF(20.0, 20.0), "ALIF"),
    "rounding": (
        lambda: torch.nn.Sequential(sl.QuantizeLayer(), torch.nn.Linear(WIDTH, 2)),
        "NIR has no rounding.*use quantize=False",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nir_cannot_say_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(nirmap.NirmapError, match=message):
        nirmap.to_nir(make(), "sinabs", dt=DT, sample=torch.zeros(1, WIDTH))
