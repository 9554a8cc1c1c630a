"""What norse's own converter (1.1.0) gets wrong, in both directions, is right here.

If these fail, a graph fires at other times in norse than it says, or a trained norse model is written as another one.
"""

from __future__ import annotations

from typing import Any

import nir
import norse.torch
import numpy as np
import pytest
import torch

from converter_faults.table import (
    DT,
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
    with_parameters,
    with_the_batch_flattened,
)
from oracle.building import chain

n: Any = norse.torch


def leak_through_the_synapse() -> nir.NIRGraph:
    """A CubaLIF whose current decays to v_leak: as if v_leak / w_in were added to its input."""
    node = neuron("CubaLIF", v_leak=0.3, v_reset=0)
    added = nir.Affine(np.eye(WIDTH), 0.3 / node.w_in)
    return chain([added, node], (WIDTH,))


READ: dict[str, Read] = {
    "IF: v_reset is dropped": Read(
        layer("IF", r=1 / DT, v_threshold=2.5), layer("IF", r=1 / DT, v_threshold=2.5, v_reset=0)
    ),
    "LIF: v_reset is dropped": Read(layer("LIF", r=1), layer("LIF", r=1, v_reset=0)),
    "CubaLIF: v_reset is dropped": Read(layer("CubaLIF", v_leak=0), layer("CubaLIF", v_leak=0, v_reset=0)),
    "LIF: r is ignored": Read(layer("LIF", v_reset=0), layer("LIF", r=1, v_reset=0)),
    "IF: r dt is ignored": Read(layer("IF", v_reset=0), layer("IF", r=1 / DT, v_reset=0)),
    "IF: r dt is ignored, at another dt": Read(
        layer("IF", r=2000, v_reset=0), layer("IF", r=1e4, v_reset=0), dt=1e-4
    ),
    "CubaLIF: the current decays to v_leak": Read(
        layer("CubaLIF", v_leak=0.3, v_reset=0), leak_through_the_synapse()
    ),
    "LI: nothing is built": Read(layer("LI")),
    "Flatten: the batch is flattened": Read(flatten(), with_the_batch_flattened),
    "SumPool2d: padding is dropped": Read(pool("SumPool2d", 1), pool("SumPool2d", 0)),
    "Conv2d: groups raise": Read(single(convolution(groups=2), (2, 6, 6), (4, 4, 4))),
}


@pytest.mark.parametrize("name", READ)
def test_a_graph_is_read_as_it_says(name: str) -> None:
    check_read("norse", READ[name])


def double(level: float) -> Tensor:
    return torch.tensor(spread(level))


def box_cell(**changed: Any) -> Any:
    values = {"v_leak": double(0.05), "v_th": double(0.3), "v_reset": double(-0.4), **changed}
    return n.LIFBoxCell(n.LIFBoxParameters(tau_mem_inv=double(100.0), **values), dt=DT)


def current_cell() -> Any:
    values = {
        "tau_syn_inv": double(200.0),
        "tau_mem_inv": double(100.0),
        "v_leak": double(0.05),
        "v_th": double(0.4),
        "v_reset": double(-0.1),
    }
    return n.LIFCell(n.LIFParameters(**values), dt=DT)


def integrating_cell() -> Any:
    return n.IAFCell(n.IAFParameters(v_th=double(2.5), v_reset=double(-0.4)), dt=DT)


def times_dt(graph: nir.NIRGraph) -> nir.NIRGraph:
    """All time constants multiplied by dt."""
    (node,) = (node for node in graph.nodes.values() if isinstance(node, nir.LIF))
    return with_parameters(graph, tau=node.tau * DT)


WRITTEN: dict[str, Written] = {
    "tau is multiplied by dt": Written(box_cell, nir.LIF, times_dt),
    "LIFBoxCell: v_reset is dropped": Written(
        box_cell, nir.LIF, lambda graph: with_parameters(graph, v_reset=0)
    ),
    "LIFCell: v_reset is dropped": Written(
        current_cell, nir.CubaLIF, lambda graph: with_parameters(graph, v_reset=0)
    ),
    "LIFCell: w_in = 1 for tau_syn / dt": Written(
        current_cell, nir.CubaLIF, lambda graph: with_parameters(graph, w_in=1)
    ),
    "IAFCell: v_reset is dropped": Written(
        integrating_cell, nir.IF, lambda graph: with_parameters(graph, v_reset=0)
    ),
    "IAFCell: r = 1 for 1 / dt": Written(integrating_cell, nir.IF, lambda graph: with_parameters(graph, r=1)),
    "Conv2d: no bias raises": Written(
        lambda: torch.nn.Conv2d(2, 4, 3, bias=False, dtype=torch.float64), nir.Conv2d, shape=(2, 6, 6)
    ),
}


def by_norse(module: Any, xs: Tensor) -> Tensor:
    """The module, step by step. It begins at its v_leak or v_reset, and a NIR neuron at 0: that is given here."""
    if isinstance(module, torch.nn.Conv2d):
        return stepwise(module, xs)
    zeros = torch.zeros_like(xs[0])
    state: Any = {
        n.LIFBoxCell: lambda: n.LIFBoxFeedForwardState(v=zeros),
        n.IAFCell: lambda: n.IAFFeedForwardState(v=zeros),
        n.LIFCell: lambda: n.LIFFeedForwardState(v=zeros, i=zeros),
    }[type(module)]()
    outputs: list[Tensor] = []
    for x in xs:
        output, state = module(x, state)
        outputs.append(output)
    return torch.stack(outputs)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_module_is_written_as_it_computes(name: str) -> None:
    check_written("norse", WRITTEN[name], by_norse)


def test_a_reset_by_subtraction_is_not_written_as_one_to_a_value() -> None:
    module = Unwritable(lambda: box_cell(reset_method=n.reset_subtract), SUBTRACTS)
    check_refused("norse", module)
