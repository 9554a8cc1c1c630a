"""What sinabs's own converter (3.1.3) gets wrong, in both directions, is right here.

If these fail, a graph fires at other times in sinabs than it says, or a trained sinabs model is written as another one.
The converter takes no time step: it passes seconds on as steps. Where a graph has a time step of 1 s, that is right,
and the entry is about what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nir
import numpy as np
import pytest
import torch

from converter_faults.table import (
    DT,
    SUBTRACTS,
    WIDTH,
    Mistaken,
    Read,
    Tensor,
    Unwritable,
    Written,
    check_read,
    check_refused,
    check_written,
    convolution,
    layer,
    pool,
    single,
    spread,
    stepwise,
    with_parameters,
)
from runtime.sinabs_layers import SINGLE, by_sinabs, sa, sl


def run(module: Any, xs: Tensor) -> Tensor:
    """A whole sequence in one call, or step by step if the module knows no time."""
    return by_sinabs(module, xs) if isinstance(module, sl.StatefulLayer) else stepwise(module, xs)


def read_by(make: Callable[[], Any]) -> Mistaken:
    """What the layer gives that the converter makes."""
    return lambda xs: by_sinabs(make(), xs)


def own_lif(tau: Any, threshold: float) -> Mistaken:
    """As the converter makes it: with the numbers of the node, and every other setting at its default."""
    return read_by(lambda: sl.LIF(torch.tensor(tau), spike_threshold=threshold, norm_input=False))


def own_iaf(threshold: float, **settings: Any) -> Mistaken:
    return read_by(lambda: sl.IAF(spike_threshold=threshold, min_v_mem=-threshold, **settings))


def lif(**values: Any) -> nir.NIRGraph:
    return layer("LIF", **{"v_leak": 0, "v_threshold": 0.6, "v_reset": 0, **values})


def integrate(threshold: float, r: float = 1 / DT) -> nir.NIRGraph:
    return layer("IF", r=r, v_threshold=threshold, v_reset=0)


def without_axes(kind: str) -> nir.NIRGraph:
    """One neuron, whose parameters are numbers."""
    node = layer(kind).nodes["node"]
    held: dict[str, Any] = {
        name: np.array(value[0]) for name, value in vars(node).items() if isinstance(value, np.ndarray)
    }
    return single(getattr(nir, kind)(**held), ())


def weights(*shape: int) -> Any:
    return np.random.default_rng(5).uniform(-0.5, 1.0, shape)


SECONDS = spread(6e-3)
READ: dict[str, Read] = {
    "LIF: seconds are taken for steps": Read(lif(tau=SECONDS, r=SECONDS / DT), own_lif(SECONDS, 0.6)),
    "LIF: r is not read, and the input not multiplied by dt / tau": Read(
        lif(tau=spread(6), r=1), own_lif(spread(6), 0.6), dt=1.0
    ),
    "LIF: several spikes in a step, and a reset by subtraction": Read(
        lif(tau=spread(6), r=spread(6)), own_lif(spread(6), 0.6), dt=1.0
    ),
    "LI: seconds are taken for steps": Read(
        layer("LI", tau=SECONDS, r=1, v_leak=0), read_by(lambda: sl.ExpLeak(torch.tensor(SECONDS)))
    ),
    "LI: r and v_leak raise": Read(layer("LI")),
    "LIF: v_leak raises": Read(layer("LIF", v_reset=spread(0.1))),
    "IF: r is not read": Read(integrate(0.6, r=200), own_iaf(0.6)),
    "IF: several spikes in a step, and a reset by subtraction": Read(integrate(0.6), own_iaf(0.6)),
    # Here the stand-in has single spikes, so that the lower bound alone makes the difference.
    "IF: the potential is cut off below minus the threshold": Read(integrate(0.1), own_iaf(0.1, **SINGLE)),
    "LI: a number as parameter raises": Read(without_axes("LI")),
    "LIF: a number as parameter raises": Read(without_axes("LIF")),
    "CubaLIF: nothing is built": Read(layer("CubaLIF")),
    "Linear: nothing is built": Read(single(nir.Linear(weights(3, WIDTH)), (WIDTH,), (3,))),
    "AvgPool2d: nothing is built": Read(pool("AvgPool2d", 1)),
    "Conv1d: raises": Read(single(nir.Conv1d(9, weights(2, 3, 4), 1, 1, 1, 1, weights(2)), (3, 9), (2, 8))),
    "Conv2d: groups raise": Read(single(convolution(groups=2), (2, 6, 6), (4, 4, 4))),
    "SumPool2d: padding is dropped": Read(pool("SumPool2d", 1), pool("SumPool2d", 0)),
}


@pytest.mark.parametrize("name", READ)
def test_a_graph_is_read_as_it_says(name: str) -> None:
    check_read("sinabs", READ[name])


def floats(level: float) -> Tensor:
    return torch.tensor(spread(level), dtype=torch.float32)


def spiking(**settings: Any) -> Any:
    """Neurons in the only setting that is a NIR node: one spike at most, and a reset to 0."""
    return sl.LIF(floats(6), **{"spike_threshold": floats(0.4), **SINGLE, **settings})


def without_synapse(graph: nir.NIRGraph) -> nir.NIRGraph:
    (node,) = (node for node in graph.nodes.values() if isinstance(node, nir.CubaLIF))
    zero = np.zeros(WIDTH)
    return single(nir.LIF(node.tau_mem, zero + 1, zero, node.v_threshold, zero), (WIDTH,))


def in_steps(graph: nir.NIRGraph) -> nir.NIRGraph:
    (node,) = (node for node in graph.nodes.values() if isinstance(node, nir.LIF))
    return with_parameters(graph, tau=node.tau / DT)


def neurons(
    make: Callable[[], Any],
    kind: type[nir.NIRNode],
    mistaken: Callable[[nir.NIRGraph], nir.NIRGraph] | None = None,
) -> Written:
    return Written(make, kind, mistaken, dtype=torch.float32)


WRITTEN: dict[str, Written] = {
    "LIF: the synapse is dropped": neurons(lambda: spiking(tau_syn=floats(4)), nir.CubaLIF, without_synapse),
    "LIF: the time constant stays in steps": neurons(spiking, nir.LIF, in_steps),
    "LIF: r is 1 for an input that is not normed too": neurons(
        lambda: spiking(norm_input=False), nir.LIF, lambda graph: with_parameters(graph, r=1)
    ),
    "IAF: r is 1 for 1 / dt": neurons(
        lambda: sl.IAF(spike_threshold=floats(2.5), **SINGLE),
        nir.IF,
        lambda graph: with_parameters(graph, r=1),
    ),
    "LIF: one threshold for several time constants raises": neurons(
        lambda: spiking(spike_threshold=0.4), nir.LIF
    ),
    "LIF: train_alphas raises": neurons(lambda: spiking(train_alphas=True), nir.LIF),
    "AvgPool2d: raises": Written(lambda: torch.nn.AvgPool2d(2, padding=1), nir.AvgPool2d, shape=(1, 4, 4)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_module_is_written_as_it_computes(name: str) -> None:
    """The parameters of its node are arrays, and not tensors as the converter's."""
    graph = check_written("sinabs", WRITTEN[name], run)
    (node,) = (node for node in graph.nodes.values() if not isinstance(node, nir.Input | nir.Output))
    assert not any(isinstance(value, Tensor) for value in vars(node).values())


UNWRITABLE: dict[str, Unwritable] = {
    "IAF: several spikes in a step become one": Unwritable(
        sl.IAF, "a NIR neuron spikes at most once in a step"
    ),
    "LIF: several spikes in a step become one": Unwritable(
        lambda: sl.LIF(6.0), "a NIR neuron spikes at most once in a step"
    ),
    "LIF: a reset by subtraction becomes one to a value": Unwritable(
        lambda: spiking(reset_fn=sa.MembraneSubtract()), SUBTRACTS
    ),
    "LIF: the lower bound is dropped": Unwritable(
        lambda: spiking(min_v_mem=-1.0), "NIR has no lower bound of the membrane potential"
    ),
    "IAF: the lower bound is dropped": Unwritable(
        lambda: sl.IAF(min_v_mem=-1.0, **SINGLE), "NIR has no lower bound of the membrane potential"
    ),
    "LIFRecurrent: raises": Unwritable(
        lambda: sl.LIFRecurrent(6.0, torch.nn.Linear(WIDTH, WIDTH), **SINGLE), "LIFRecurrent"
    ),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_no_node_says_is_refused(name: str) -> None:
    check_refused("sinabs", UNWRITABLE[name])
