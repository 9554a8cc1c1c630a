"""What SpikingJelly's own converter (2.0.0, with nirtorch 2.6) refuses or gets wrong, both ways, is right here.

If these fail, a graph that SpikingJelly could run is refused, or a neuron begins elsewhere than it does. What that
converter takes, it mostly takes rightly; it takes one number for all neurons, and few of them.
"""

from __future__ import annotations

from typing import Any

import nir
import numpy as np
import pytest
import torch
from spikingjelly.activation_based import layer as sj_layer
from spikingjelly.activation_based import neuron as sj_neuron

import nirmap
from converter_faults.table import (
    DT,
    WIDTH,
    Mistaken,
    Read,
    Unwritable,
    Written,
    check_read,
    check_refused,
    check_written,
    convolution,
    layer,
    output_of,
    pool,
    single,
    spread,
    stepwise,
    with_parameters,
)
from nirmap.oracle.interpreter import simulate

# SpikingJelly publishes no types.
neurons: Any = sj_neuron
layers: Any = sj_layer
TAU = 6e-3
LIF: dict[str, Any] = {"tau": TAU, "r": 1, "v_leak": 0, "v_threshold": 0.6, "v_reset": 0}
IF: dict[str, Any] = {"r": 1 / DT, "v_threshold": 2.5, "v_reset": 0}
CUBA: dict[str, Any] = {
    "tau_syn": 4 * DT,
    "tau_mem": TAU,
    "r": TAU / DT,
    "v_leak": 0,
    "v_threshold": 4,
    "v_reset": -1,
    "w_in": 4,
}


def lif(**values: Any) -> nir.NIRGraph:
    return layer("LIF", **{**LIF, **values})


def cuba(**values: Any) -> nir.NIRGraph:
    return layer("CubaLIF", **{**CUBA, **values})


def integrate(**values: Any) -> nir.NIRGraph:
    return layer("IF", **{**IF, **values})


def own(make: Any, *arguments: Any, **settings: Any) -> Mistaken:
    """What the neuron gives that the converter makes. It begins at its v_reset."""
    return lambda xs: stepwise(make(*arguments, **settings).double(), xs)


READ: dict[str, Read] = {
    "IF: begins at v_reset": Read(integrate(v_reset=-1), own(neurons.IFNode, v_threshold=2.5, v_reset=-1.0)),
    "LIF: begins at v_reset": Read(
        lif(v_leak=-0.5, v_reset=-0.5, v_threshold=0.25),
        own(neurons.LIFNode, TAU / DT, v_threshold=0.25, v_reset=-0.5),
    ),
    "CubaLIF: begins at v_reset": Read(
        cuba(), own(neurons.CUBALIFNode, 0.75, 1 - DT / TAU, v_threshold=4.0, v_reset=-1.0)
    ),
    "LIF: r raises": Read(lif(r=2)),
    "LIF: another leak than reset raises": Read(lif(v_reset=-0.2)),
    "LIF: numbers per neuron raise": Read(layer("LIF")),
    "IF: r raises": Read(integrate(r=200, v_threshold=0.6)),
    "IF: numbers per neuron raise": Read(layer("IF")),
    "CubaLIF: r raises": Read(cuba(r=2, v_threshold=1.2)),
    "CubaLIF: w_in raises": Read(cuba(w_in=2, v_threshold=2)),
    "CubaLIF: v_leak raises": Read(cuba(v_leak=0.5)),
    "CubaLIF: numbers per neuron raise": Read(layer("CubaLIF")),
    "Conv2d: groups raise": Read(single(convolution(groups=2), (2, 6, 6), (4, 4, 4))),
    "I is not known": Read(layer("I")),
    "LI is not known": Read(layer("LI")),
    "CubaLI is not known": Read(layer("CubaLI")),
    "Scale is not known": Read(layer("Scale")),
    "Threshold is not known": Read(layer("Threshold")),
    "Delay is not known": Read(layer("Delay", delay=2 * DT)),
    "SumPool2d: padding is dropped": Read(pool("SumPool2d", 1), pool("SumPool2d", 0)),
}


@pytest.mark.parametrize("name", READ)
def test_a_graph_is_read_as_it_says(name: str) -> None:
    check_read("spikingjelly", READ[name])


def per_neuron() -> Any:
    decay = torch.tensor(spread(0.7))
    return neurons.CUBALIFNode(decay, decay, 3.0, 0.0)


WRITTEN: dict[str, Written] = {
    "IFNode: its node begins at 0": Written(
        lambda: neurons.IFNode(2.5, -1.0).double(),
        nir.IF,
        lambda graph: with_parameters(graph, v_threshold=2.5, v_reset=-1),
    ),
    "LIFNode: its node begins at 0": Written(
        lambda: neurons.LIFNode(6.0, True, 0.25, -0.5).double(),
        nir.LIF,
        lambda graph: with_parameters(graph, v_threshold=0.25, v_reset=-0.5, v_leak=-0.5),
    ),
    "CUBALIFNode: decays per neuron raise": Written(per_neuron, nir.CubaLIF),
    "SimpleLIFNode raises": Written(
        lambda: neurons.SimpleLIFNode(6.0, True, torch.tensor(spread(0.6)), -0.2), nir.LIF
    ),
    "Conv2d: groups raise": Written(
        lambda: layers.Conv2d(2, 4, 3, groups=2).double(), nir.Conv2d, shape=(2, 6, 6)
    ),
    "AvgPool2d: a sum raises": Written(
        lambda: torch.nn.AvgPool2d(2, padding=1, divisor_override=1), nir.SumPool2d, shape=(1, 4, 4)
    ),
    "Delay raises": Written(lambda: layers.Delay(2), nir.Delay),
}


@pytest.mark.filterwarnings(
    "ignore::nirmap.ReadBackWarning"
)  # nir 1.0.8 takes one group's channels for all of them
@pytest.mark.parametrize("name", WRITTEN)
def test_a_module_is_written_as_it_computes(name: str) -> None:
    check_written("spikingjelly", WRITTEN[name])


UNWRITABLE: dict[str, Unwritable] = {
    "CUBALIFNode: its node begins at 0": Unwritable(
        lambda: neurons.CUBALIFNode(0.5, 0.75, 0.5, -0.25), "begins at its v_reset, and a NIR neuron at 0"
    ),
    "SynapseFilter: a decay that hangs on the input": Unwritable(
        lambda: layers.SynapseFilter(tau=6.0), "SynapseFilter"
    ),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_no_node_says_is_refused(name: str) -> None:
    check_refused("spikingjelly", UNWRITABLE[name])


@pytest.mark.parametrize("leaks", [False, True], ids=["IFNode", "LIFNode"])
def test_a_potential_that_meets_the_threshold_does_not_fire(leaks: bool) -> None:
    """The neurons compare with >=, and the converter hands the threshold on as it is."""
    graph = lif(tau=2 * DT, v_threshold=0.75) if leaks else integrate(v_threshold=3)
    own_neuron = neurons.LIFNode(2.0, v_threshold=0.75) if leaks else neurons.IFNode(v_threshold=3.0)
    xs = torch.ones(9, 1, WIDTH, dtype=torch.float64)
    expected = output_of(simulate(graph, xs.numpy(), DT))
    net = nirmap.from_nir(graph, "spikingjelly", dt=DT, dtype=torch.float64)
    np.testing.assert_array_equal(nirmap.run(net, xs)[0].numpy(), expected)
    assert stepwise(own_neuron.double(), xs).sum() > expected.sum() > 0
