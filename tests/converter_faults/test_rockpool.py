"""What Rockpool's own converter (3.1.0) gets wrong, in both directions, is right here, or refused with the reason.

If these fail, a graph gives other values in Rockpool than it says, or a trained model is written as another one. Its
spiking neurons subtract their threshold: no node that is reset to a value is one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nir
import numpy as np
import pytest
import rockpool.nn.modules.torch
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
    flatten,
    layer,
    pool,
    single,
    spread,
    with_parameters,
)

# Rockpool publishes no types.
rp: Any = rockpool.nn.modules.torch


def by_rockpool(module: Any, xs: Tensor) -> Tensor:
    """A whole sequence in one call, batch first, of a module that to_torch was called for."""
    outputs: Tensor = module(xs.transpose(0, 1)).transpose(0, 1)
    return outputs


def read_by(make: Callable[[], Any]) -> Mistaken:
    """What the module gives that the converter makes."""
    return lambda xs: by_rockpool(make().to_torch(), xs.float()).double()


def own_li(tau: Any, r: float) -> Mistaken:
    """Its time constant is cut to whole seconds, and its time step is none that anybody gave."""
    return read_by(
        lambda: rp.ExpSynTorch(WIDTH, tau=torch.tensor(tau).int(), dt=float(np.min(tau / (1 + r))))
    )


def own_cuba() -> Mistaken:
    """Without w_in, with v_leak added in every step, as many spikes as fit, and a reset by subtraction."""
    node: Any = layer("CubaLIF").nodes["node"]
    given = {name: torch.tensor(getattr(node, name)).float() for name in ("tau_mem", "tau_syn", "v_leak")}
    return read_by(
        lambda: rp.LIFTorch(
            WIDTH,
            tau_mem=given["tau_mem"],
            tau_syn=given["tau_syn"][:, None],
            bias=given["v_leak"],
            threshold=torch.tensor(node.v_threshold).float(),
            dt=float(np.min(node.tau_mem / (1 + node.r))),
        )
    )


NO_RESET = "cannot be reset to a value"
TAU = spread(6e-3)
STEP = 0.5
READ: dict[str, Read] = {
    "LI: the time constant is cut to whole seconds": Read(layer("LI", tau=TAU, v_leak=0), own_li(TAU, 2)),
    "LI: the time step is taken from tau and r": Read(
        layer("LI", tau=6, r=1 / (np.exp(STEP / 6) - 1), v_leak=0),
        own_li(np.full(WIDTH, 6.0), 1 / (np.exp(STEP / 6) - 1)),
        dt=STEP,
    ),
    "LIF: raises": Read(layer("LIF"), refused=NO_RESET),
    "CubaLIF: w_in and v_reset are dropped, v_leak is a bias": Read(
        layer("CubaLIF"), own_cuba(), refused=NO_RESET
    ),
    "IF is not known": Read(layer("IF"), refused=NO_RESET),
    "I is not known": Read(layer("I")),
    "CubaLI is not known": Read(layer("CubaLI")),
    "Threshold is not known": Read(layer("Threshold")),
    "Scale is not known": Read(layer("Scale")),
    "Conv2d is not known": Read(single(convolution(), (2, 6, 6), (4, 4, 4))),
    "Conv2d with groups is not known": Read(single(convolution(groups=2), (2, 6, 6), (4, 4, 4))),
    "SumPool2d is not known": Read(pool("SumPool2d", 1)),
    "AvgPool2d is not known": Read(pool("AvgPool2d", 1)),
    "Flatten is not known": Read(flatten()),
}


@pytest.mark.parametrize("name", READ)
def test_a_graph_is_read_as_it_says(name: str) -> None:
    check_read("rockpool", READ[name])


def floats(level: float) -> Tensor:
    return torch.tensor(spread(level), dtype=torch.float32)


def smaller(graph: nir.NIRGraph) -> nir.NIRGraph:
    """r = tau exp(-dt / tau) / dt, which is right for small dt / tau alone."""
    (node,) = (node for node in graph.nodes.values() if isinstance(node, nir.LI))
    tau = -DT / np.log(1 - DT / node.tau)
    return with_parameters(graph, tau=tau, r=tau * np.exp(-DT / tau) / DT)


WRITTEN: dict[str, Written] = {
    "ExpSynTorch: r is smaller than it is": Written(
        lambda: rp.ExpSynTorch(WIDTH, tau=floats(6e-3), dt=DT).to_torch(),
        nir.LI,
        smaller,
        dtype=torch.float32,
    ),
    "RateTorch: nothing is written": Written(
        lambda: rp.RateTorch(
            WIDTH, tau=floats(6e-3), bias=floats(0.3), activation_func=torch.sub, dt=DT
        ).to_torch(),
        nir.LI,
        dtype=torch.float32,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_module_is_written_as_it_computes(name: str) -> None:
    check_written("rockpool", WRITTEN[name], by_rockpool)


UNWRITABLE: dict[str, Unwritable] = {
    "LIFTorch: bias, spikes and reset are dropped": Unwritable(
        lambda: rp.LIFTorch(WIDTH, bias=0.3), "LIFTorch"
    ),
    "LIFTorch: recurrent weights are dropped": Unwritable(
        lambda: rp.LIFTorch(WIDTH, has_rec=True), "LIFTorch"
    ),
    "LIFNeuronTorch: the reset by subtraction becomes one to a value": Unwritable(
        lambda: rp.LIFNeuronTorch(WIDTH, max_spikes_per_dt=1), SUBTRACTS
    ),
    "LIFNeuronTorch: several spikes become one": Unwritable(
        lambda: rp.LIFNeuronTorch(WIDTH, tau_mem=DT / 1000), "at most once in a step"
    ),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_no_node_says_is_refused(name: str) -> None:
    check_refused("rockpool", UNWRITABLE[name])
