"""Faults of the frameworks themselves, which no mapping is to blame for, never reach a user of nirmap.

If these fail, a network answers with what another sequence or another sample left behind, loses its feedback between
two steps, or is reset a step too late. Each fault is first shown in the framework's own module; where that fails, the
framework has been corrected.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nir
import norse.torch
import numpy as np
import pytest
import rockpool.nn.modules.torch
import snntorch
import torch
from spikingjelly.activation_based import neuron as spikingjelly_neurons

import nirmap
from converter_faults.table import (
    DT,
    WIDTH,
    Tensor,
    Unwritable,
    assert_clear,
    assert_same,
    check_refused,
    layer,
    neuron,
    output_of,
    sequence,
    stepwise,
)
from nirmap.oracle.interpreter import simulate
from oracle.building import input_node, output_node
from runtime.sinabs_layers import SINGLE, by_sinabs, sa, sl

# The frameworks publish no types.
n: Any = norse.torch
snn: Any = snntorch
sj: Any = spikingjelly_neurons
rp: Any = rockpool.nn.modules.torch

XS = sequence(WIDTH, steps=40)
SINGLES = XS.float()
ZEROS = torch.zeros_like(XS[0])
ONES = torch.ones(WIDTH, dtype=torch.float64)
# It keeps 0.8 of its potential, and adds its input as it is.
LEAKY: dict[str, Any] = {"tau": 5e-3, "r": 5, "v_leak": 0, "v_threshold": 1.5, "v_reset": 0}
Shown = tuple[Tensor, Tensor]


def by_oracle(graph: nir.NIRGraph, xs: Tensor = XS) -> Tensor:
    return torch.tensor(output_of(simulate(graph, xs.double().numpy(), DT)))


def carried(module: Any, *state: Any, after: int = 1) -> Tensor:
    """A module step by step, with what it returns handed on: all of it, or what comes after its output."""
    outputs: list[Tensor] = []
    for x in XS:
        returned: Any = module(x, *state)
        outputs.append(returned[0])
        state = returned[after:]
    return torch.stack(outputs)


def recurrent(node: nir.NIRNode) -> nir.NIRGraph:
    """A layer that is connected to itself, by weights and a bias."""
    weights = np.random.default_rng(1).uniform(-1, 0.5, (WIDTH, WIDTH))
    nodes: dict[str, Any] = {
        "input": input_node(WIDTH),
        "node": node,
        "weights": nir.Affine(weights, np.full(WIDTH, 0.1)),
        "output": output_node(WIDTH),
    }
    edges = [("input", "node"), ("node", "weights"), ("weights", "node"), ("node", "output")]
    return nir.NIRGraph(nodes, edges, type_check=False)


# snnTorch

ZERO: dict[str, Any] = {"reset_mechanism": "zero"}
SYNAPTIC: dict[str, Any] = {"alpha": 0.75, "beta": 0.8, "threshold": 4.0, **ZERO}
ALONE: dict[str, Any] = {"V": torch.zeros(WIDTH), "all_to_all": False}


def synaptic_is_reset_late() -> Shown:
    """One step after the spike, by which that step's input is lost."""
    late, in_time = snn.Synaptic(**SYNAPTIC), snn.Synaptic(**SYNAPTIC, reset_delay=False)
    return carried(late), carried(in_time)


def rsynaptic_is_reset_late() -> Shown:
    """Also with reset_delay=False, which resets a variable that is not the state."""
    late = snn.RSynaptic(**SYNAPTIC, **ALONE, reset_delay=False)
    return carried(late, ZEROS, ZEROS, ZEROS, after=0), carried(snn.Synaptic(**SYNAPTIC, reset_delay=False))


def rleaky_is_reset_late() -> Shown:
    late, in_time = (
        snn.RLeaky(0.8, threshold=1.5, **ZERO, **ALONE, reset_delay=late) for late in (True, False)
    )
    return carried(late, ZEROS, ZEROS, after=0), carried(in_time, ZEROS, ZEROS, after=0)


def reset_is_taken_back() -> Shown:
    """Where the reset is above the threshold, the next step begins above it, and no second reset is allowed."""
    found = carried(snn.Leaky(0.8, threshold=-0.1, reset_delay=False, **ZERO), ZEROS - 1)
    shifted = layer("LIF", **{**LEAKY, "v_leak": 1, "v_threshold": 0.9, "v_reset": 1})
    return found, by_oracle(shifted)


def state_of_the_last_sequence() -> Shown:
    """Whoever passes no state gets that of the last call."""
    module = snn.Leaky(0.8, threshold=1.5, reset_delay=False, **ZERO)
    first = carried(module)
    return carried(module), first


# Norse


def box_begins_at_its_leak() -> Shown:
    values = {"v_leak": 0.5 * ONES, "v_th": 0.75 * ONES, "v_reset": 0.4 * ONES}
    cell = n.LIFBoxCell(n.LIFBoxParameters(tau_mem_inv=20 * ONES, **values), dt=DT)
    return carried(cell, None), carried(cell, n.LIFBoxFeedForwardState(ZEROS))


def integrator_begins_at_its_reset() -> Shown:
    cell = n.IAFCell(n.IAFParameters(v_th=2.5 * ONES, v_reset=-1 * ONES), dt=DT)
    return carried(cell, None), carried(cell, n.IAFFeedForwardState(ZEROS))


def weights_are_written_to() -> Shown:
    """A cell without autapses makes the diagonal of the caller's weights 0."""
    weights = torch.ones(WIDTH, WIDTH)
    n.LIFRecurrentCell(WIDTH, WIDTH, recurrent_weights=weights)
    return weights, torch.ones(WIDTH, WIDTH)


# sinabs


def in_calls(module: Any) -> Tensor:
    """A module for sequences, batch first, called for one step after the other."""
    return torch.cat([module(x[:, None]) for x in SINGLES], dim=1).transpose(0, 1)


def feedback_is_forgotten() -> Shown:
    """What a layer feeds back is 0 in the first step of each call."""
    connection = torch.nn.Linear(WIDTH, WIDTH, bias=False)
    connection.weight.data = torch.full((WIDTH, WIDTH), -0.5)
    module = sl.LIFRecurrent(5.0, connection, spike_threshold=0.3, **SINGLE)
    return in_calls(module), by_sinabs(module, SINGLES)


def rows_of_another_batch() -> Shown:
    """A batch of another size begins with rows of the batch before, drawn at random."""
    module = sl.ExpLeak(50.0)
    module(SINGLES.transpose(0, 1))
    found: Tensor = module(SINGLES[:, :2].transpose(0, 1)).transpose(0, 1)
    return found, by_sinabs(sl.ExpLeak(50.0), SINGLES[:, :2])


def reset_of_all() -> Shown:
    """MembraneReset adds its value to every neuron in every step."""
    settings = {"spike_fn": sa.SingleSpike, "reset_fn": sa.MembraneReset(-0.1)}
    module = sl.LIF(6.0, spike_threshold=0.3, **settings)
    tau = DT / (1 - np.exp(-1 / 6))
    graph = layer("LIF", tau=tau, r=1, v_leak=0, v_threshold=0.3, v_reset=-0.1)
    return by_sinabs(module, SINGLES), by_oracle(graph, SINGLES)


# SpikingJelly


def neuron_begins_at_its_reset() -> Shown:
    module = sj.IFNode(2.5, -1.0).double()
    return stepwise(module, XS), by_oracle(layer("IF", r=1 / DT, v_threshold=2.5, v_reset=-1))


def neuron_goes_on() -> Shown:
    """A neuron goes on where the last sequence ended, until it is told not to."""
    module = sj.IFNode(2.5, 0.0).double()
    first = stepwise(module, XS)
    return stepwise(module, XS), first


def integrator_begins_anew() -> Shown:
    """A neuron that does not spike begins at 0 in each call, and cannot go on."""
    module, whole = sj.NonSpikingLIFNode(6.0), sj.NonSpikingLIFNode(6.0)
    return torch.cat([torch.stack(list(module(x[None]))) for x in XS]), torch.stack(list(whole(XS)))


# Rockpool


def state_of_the_first_sample() -> Shown:
    """After each call, the state of the first sample is that of all samples."""
    made = [rp.ExpSynTorch(WIDTH, tau=6e-3, dt=DT).to_torch() for _ in range(2)]
    return in_calls(made[0]), made[1](SINGLES.transpose(0, 1)).transpose(0, 1)


@dataclass(frozen=True)
class Fault:
    """Something that a framework's module does and that nobody asked for.

    Attributes:
        framework: whose it is.
        shown: what the module gives, and what it would give without the fault.
        graph: one for which that module would be taken, or one like it.
        refused: where the graph is refused for that: what the error has to say. The built-in module does it then.
    """

    framework: str
    shown: Callable[[], Shown]
    graph: nir.NIRGraph
    refused: str | None = None


SPIKING = layer("LIF", v_reset=0.1, v_leak=0.1)
CURRENT = layer("CubaLIF", v_reset=0.1, v_leak=0.1)
FEEDBACK = recurrent(neuron("LIF", v_reset=0.1, v_leak=0.1))
CURRENT_FEEDBACK = recurrent(neuron("CubaLIF", v_reset=0.1, v_leak=0.1))
ABOVE = layer("LIF", **{**LEAKY, "v_threshold": 1.5, "v_reset": 2})
TAKES_BACK = "whose threshold is not above its reset takes back its reset"
FAULTS: dict[str, Fault] = {
    "snntorch: Synaptic is reset late": Fault("snntorch", synaptic_is_reset_late, CURRENT),
    "snntorch: RSynaptic is reset late": Fault("snntorch", rsynaptic_is_reset_late, CURRENT_FEEDBACK),
    "snntorch: RLeaky is reset late": Fault("snntorch", rleaky_is_reset_late, FEEDBACK),
    "snntorch: a reset is taken back": Fault("snntorch", reset_is_taken_back, ABOVE, TAKES_BACK),
    "snntorch: state left behind": Fault("snntorch", state_of_the_last_sequence, SPIKING),
    "norse: LIFBoxCell begins at v_leak": Fault("norse", box_begins_at_its_leak, layer("LIF", v_leak=0.5)),
    "norse: IAFCell begins at v_reset": Fault(
        "norse", integrator_begins_at_its_reset, layer("IF", v_reset=-1)
    ),
    "norse: weights of the caller are written to": Fault("norse", weights_are_written_to, CURRENT_FEEDBACK),
    "sinabs: feedback is forgotten between calls": Fault("sinabs", feedback_is_forgotten, FEEDBACK),
    "sinabs: rows of another batch": Fault("sinabs", rows_of_another_batch, layer("LI")),
    "sinabs: a reset of all neurons": Fault("sinabs", reset_of_all, layer("LIF")),
    "spikingjelly: IFNode begins at v_reset": Fault(
        "spikingjelly", neuron_begins_at_its_reset, layer("IF", v_reset=-1)
    ),
    "spikingjelly: state left behind": Fault("spikingjelly", neuron_goes_on, SPIKING),
    "spikingjelly: NonSpikingLIFNode begins anew": Fault("spikingjelly", integrator_begins_anew, layer("LI")),
    "rockpool: state of the first sample": Fault("rockpool", state_of_the_first_sample, layer("LI")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_framework_has_the_fault(name: str) -> None:
    """What the next test is about would be nothing if it were not for this."""
    with torch.no_grad():
        found, expected = FAULTS[name].shown()
    assert found.shape == expected.shape
    assert ((found - expected).abs() > 1e-3).double().mean() > 0.01


@pytest.mark.parametrize("name", FAULTS)
def test_a_user_does_not_meet_it(name: str) -> None:
    """Two streams of other batches, in turns through one network, each twice from the start, are the oracle's."""
    fault = FAULTS[name]
    options: Any = {"dt": DT, "dtype": torch.float64}
    if fault.refused is not None:
        with pytest.raises(nirmap.ConstraintError, match=fault.refused):
            nirmap.from_nir(fault.graph, fault.framework, **options)
        options["fallback"] = "torch"
    before: Any = copy.deepcopy(fault.graph.nodes)
    net = nirmap.from_nir(fault.graph, fault.framework, **options)
    streams = [XS, XS.flip(0)[:, 1:]]
    traces = [simulate(fault.graph, xs.numpy(), DT) for xs in streams]
    assert_clear(traces[0], 1e-9)
    for _ in range(2):
        states: list[Any] = [None] * len(streams)
        outputs: list[list[Tensor]] = [[] for _ in streams]
        with torch.no_grad():
            for step in range(len(XS)):
                for number, xs in enumerate(streams):
                    output, states[number] = net(xs[step], states[number])
                    outputs[number].append(output)
        for found, trace in zip(outputs, traces, strict=True):
            assert_same(torch.stack(found), trace, 1e-10)
    if "weights" in before:
        after: Any = fault.graph.nodes["weights"]
        np.testing.assert_array_equal(after.weight, before["weights"].weight)


LATE = "a NIR neuron is reset in the step of its spike"
REFUSED: dict[str, tuple[str, Unwritable]] = {
    "Synaptic, reset late": ("snntorch", Unwritable(lambda: snn.Synaptic(**SYNAPTIC), LATE)),
    "Leaky, reset late": ("snntorch", Unwritable(lambda: snn.Leaky(0.8, **ZERO), LATE)),
    "RLeaky, reset late": ("snntorch", Unwritable(lambda: snn.RLeaky(0.8, **ZERO, **ALONE), LATE)),
    "RSynaptic": ("snntorch", Unwritable(lambda: snn.RSynaptic(**SYNAPTIC, **ALONE), "RSynaptic")),
    "Lapicque, reset late": ("snntorch", Unwritable(lambda: snn.Lapicque(beta=0.8, **ZERO), "Lapicque")),
    "Leaky, a threshold of 0": (
        "snntorch",
        Unwritable(lambda: snn.Leaky(0.8, threshold=0.0, reset_delay=False, **ZERO), "takes back its reset"),
    ),
    "Leaky without reset, hidden state": (
        "snntorch",
        Unwritable(
            lambda: snn.Leaky(0.8, init_hidden=True, reset_mechanism="none"),
            "what it returns alone is its spikes",
        ),
    ),
    "RecurrentSequential that ends with a layer": (
        "norse",
        Unwritable(
            lambda: n.RecurrentSequential(n.LIFCell(), torch.nn.Linear(WIDTH, WIDTH)),
            "feed back the output of the neuron itself",
        ),
    ),
    "LIFRecurrent": (
        "sinabs",
        Unwritable(lambda: sl.LIFRecurrent(5.0, torch.nn.Linear(WIDTH, WIDTH), **SINGLE), "LIFRecurrent"),
    ),
    "MembraneReset, of all neurons": (
        "sinabs",
        Unwritable(
            lambda: sl.LIF(6.0, spike_fn=sa.SingleSpike, reset_fn=sa.MembraneReset(-0.1)),
            "adds its value to all neurons",
        ),
    ),
    "CUBALIFNode that begins at another value than it leaks to": (
        "spikingjelly",
        Unwritable(lambda: sj.CUBALIFNode(0.5, 0.75, 0.5, -0.25), "a neuron begins at its v_reset"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_that_does_it_is_refused(name: str) -> None:
    framework, module = REFUSED[name]
    check_refused(framework, module)
