"""What snnTorch's own converter (1.0.0) gets wrong, in both directions, is right here.

If these fail, a graph fires at other times in snnTorch than it says, or a trained snnTorch model is written as another
one. The converter takes 0.1 ms for the time step of every graph.
"""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import snntorch
import torch

from converter_faults.table import (
    SUBTRACTS,
    WIDTH,
    Read,
    Tensor,
    Unwritable,
    Written,
    check_read,
    check_refused,
    check_written,
    convolution,
    flatten,
    layer,
    neuron,
    pool,
    single,
    spread,
    stepwise,
    with_the_batch_flattened,
)
from oracle.building import input_node, output_node

snn: Any = snntorch
STEP = 1e-4
TAU = 6e-4
LIF: dict[str, Any] = {"tau": TAU, "r": 2, "v_leak": 0, "v_threshold": 0.6, "v_reset": 0}
CUBA: dict[str, Any] = {
    "tau_syn": 4 * STEP,
    "tau_mem": TAU,
    "r": TAU / STEP,
    "w_in": 4,
    "v_leak": 0,
    "v_threshold": 3,
    "v_reset": 0,
}
ZERO: dict[str, Any] = {"reset_mechanism": "zero", "reset_delay": False}


def by_snntorch(module: Any, xs: Tensor) -> Tensor:
    """The module, step by step, with its state handed on where it has one."""
    returned: Any = module(xs[0])
    if isinstance(returned, Tensor):
        return stepwise(module, xs)
    outputs: list[Tensor] = [returned[0]]
    for x in xs[1:]:
        returned = module(x, *returned[1:])
        outputs.append(returned[0])
    return torch.stack(outputs)


def leaky_that_subtracts(xs: Tensor) -> Tensor:
    """The stand-in for every IF."""
    return by_snntorch(snn.Leaky(0.9, 2.5 * STEP, reset_mechanism="subtract", reset_delay=False), xs)


def recurrent(*edges: tuple[str, str]) -> nir.NIRGraph:
    """A layer that is connected to itself, and the edges between its parts."""
    random = np.random.default_rng(1)
    nodes: dict[str, Any] = {
        "input": input_node(WIDTH),
        "rnn.lif": neuron("CubaLIF", **{**CUBA, "v_threshold": 2.5}),
        "rnn.weights": nir.Linear(random.uniform(-1, 1, (WIDTH, WIDTH))),
        "output": output_node(WIDTH),
    }
    back = [("rnn.lif", "rnn.weights"), ("rnn.weights", "rnn.lif"), ("rnn.lif", "output")]
    return nir.NIRGraph(nodes, [*edges, *back], type_check=False)


def lif(**values: Any) -> nir.NIRGraph:
    """Neurons that the converter takes: with one threshold, and at rest at 0."""
    return layer("LIF", **{**LIF, **values})


def cuba(**values: Any) -> nir.NIRGraph:
    return layer("CubaLIF", **{**CUBA, **values})


GAINS = 2 * STEP / spread(TAU)
READ: dict[str, Read] = {
    "IF: a Leaky that leaks and subtracts": Read(
        layer("IF", r=1, v_threshold=2.5 * STEP, v_reset=0), leaky_that_subtracts, STEP
    ),
    "IF: r raises": Read(layer("IF", r=2000, v_threshold=0.5, v_reset=0), dt=STEP),
    "LIF: all input is scaled as that of one neuron": Read(
        lif(tau=spread(TAU)), lif(tau=spread(TAU), r=GAINS.min() * spread(TAU) / STEP), STEP
    ),
    "LIF: v_reset is dropped": Read(lif(v_reset=-0.4), lif(), STEP),
    "CubaLIF: v_reset is dropped": Read(cuba(v_reset=-2), cuba(), STEP),
    "LIF: v_leak raises": Read(lif(v_leak=0.1), dt=STEP),
    "LIF: a threshold per neuron raises": Read(lif(v_threshold=spread(0.6)), dt=STEP),
    "CubaLIF: a threshold per neuron raises": Read(cuba(v_threshold=spread(3)), dt=STEP),
    "CubaLIF: r raises": Read(cuba(r=2, v_threshold=0.6), dt=STEP),
    "LIF: beta below 0 becomes 0": Read(
        lif(tau=STEP / 2), lif(tau=STEP, r=4), STEP, refused="beta .* is clamped to 0"
    ),
    "another time step is ignored": Read(lif(tau=10 * TAU), lif(tau=100 * TAU), 10 * STEP),
    "a recurrent layer: the input goes through its weights": Read(
        recurrent(("input", "rnn.lif")), recurrent(("input", "rnn.weights")), STEP
    ),
    "Flatten: the batch is flattened": Read(flatten(), with_the_batch_flattened),
    "Conv2d: groups raise": Read(single(convolution(groups=2), (2, 6, 6), (4, 4, 4))),
    "LI is not known": Read(layer("LI", tau=TAU), dt=STEP),
    "I is not known": Read(layer("I"), dt=STEP),
    "CubaLI is not known": Read(layer("CubaLI"), dt=STEP),
    "Threshold is not known": Read(layer("Threshold")),
    "Scale is not known": Read(layer("Scale")),
    "SumPool2d: padding is dropped": Read(pool("SumPool2d", 1), pool("SumPool2d", 0)),
}


@pytest.mark.parametrize("name", READ)
def test_a_graph_is_read_as_it_says(name: str) -> None:
    check_read("snntorch", READ[name])


def double(level: float) -> Tensor:
    return torch.tensor(spread(level))


def spiking_leaky(graph: nir.NIRGraph) -> nir.NIRGraph:
    """The integrator as neurons with a threshold of 1 that are reset to 0."""
    (node,) = (node for node in graph.nodes.values() if isinstance(node, nir.LI))
    zero = np.zeros(WIDTH)
    return single(nir.LIF(node.tau, node.r, zero, zero + 1, zero), (WIDTH,))


class Voltage(torch.nn.Module):
    """What a model that reads out the voltage returns."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = snn.Leaky(double(0.8), torch.ones(WIDTH), reset_mechanism="none")

    def forward(self, x: Tensor, mem: Tensor | None = None) -> Any:
        _, mem = self.cell(x, mem)
        return mem, mem


WRITTEN: dict[str, Written] = {
    "Leaky: no reset becomes a neuron": Written(Voltage, nir.LI, spiking_leaky),
    "Leaky: no leak becomes an infinite time constant": Written(
        lambda: snn.Leaky(torch.ones(WIDTH), double(2.5), **ZERO), nir.IF
    ),
    "Leaky: a beta per neuron with one threshold raises": Written(
        lambda: snn.Leaky(double(0.8), 2.5, **ZERO), nir.LIF
    ),
    "AvgPool2d: padding is dropped": Written(
        lambda: torch.nn.AvgPool2d(2, padding=1),
        nir.AvgPool2d,
        lambda graph: pool("AvgPool2d", 0),
        shape=(1, 4, 4),
    ),
    "Conv1d: nothing is written": Written(
        lambda: torch.nn.Conv1d(2, 3, 3, dtype=torch.float64), nir.Conv1d, shape=(2, 6)
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_module_is_written_as_it_computes(name: str) -> None:
    check_written("snntorch", WRITTEN[name], by_snntorch)


UNWRITABLE: dict[str, Unwritable] = {
    "Leaky: the default reset, by subtraction, becomes one to a value": Unwritable(
        lambda: snn.Leaky(0.8), SUBTRACTS
    ),
    "Synaptic: the default reset, by subtraction, becomes one to a value": Unwritable(
        lambda: snn.Synaptic(0.5, 0.8), SUBTRACTS
    ),
    "Leaky: the size of its spikes is dropped": Unwritable(
        lambda: snn.Leaky(0.8, graded_spikes_factor=2.0, **ZERO), "the spike of a NIR neuron is 1"
    ),
    "DeltaLeaky: a neuron that spikes at changes becomes an LIF": Unwritable(
        lambda: snn.DeltaLeaky(beta=0.8), "DeltaLeaky overrides forward"
    ),
    "Lapicque: nothing is written": Unwritable(
        lambda: snn.Lapicque(beta=0.8, reset_mechanism="none"), "Lapicque"
    ),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_no_node_says_is_refused(name: str) -> None:
    check_refused("snntorch", UNWRITABLE[name])
