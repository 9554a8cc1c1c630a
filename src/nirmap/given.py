"""Modules that the caller's own functions build for nodes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import cast

import nir
import torch

from nirmap.building import Built
from nirmap.errors import ConstraintError
from nirmap.report import NodeReport
from nirmap_registry.rows import Placement

NodeMap = Mapping[type[nir.NIRNode], Callable[[nir.NIRNode], torch.nn.Module]]
STATE_ARGUMENT = "state"
# Torch's own recurrent layers: their state is the argument hx, and an RNNBase takes a sequence.
_RECURRENT = (torch.nn.RNNBase, torch.nn.RNNCellBase)


def build_given(node: nir.NIRNode, node_map: NodeMap, to: Placement, where: str) -> Built | None:
    """The module that the caller's function builds for a node.

    Args:
        node: the node.
        node_map: the caller's functions, by the exact type of the node.
        to: the dtype and the device that the module is moved to.
        where: the place of the node, for errors.

    Returns:
        The module; None where there is no function for this type, or where it returns None for a sub-graph.

    Raises:
        ConstraintError: the function returned something that is not a module, or a recurrent layer of torch.
    """
    function = node_map.get(type(node))
    if function is None:
        return None
    # A caller may return anything, whatever the annotation says.
    module = cast("object", function(node))
    if module is None and isinstance(node, nir.NIRGraph):
        return None
    if not isinstance(module, torch.nn.Module):
        raise ConstraintError(
            where,
            f"the function in node_map returned {module!r} for a nir.{type(node).__name__}",
            "a torch.nn.Module",
            "return a module, or leave the type out, so that the table has it",
        )
    stateful = STATE_ARGUMENT in inspect.signature(module.forward).parameters
    if isinstance(module, _RECURRENT) and not stateful:
        raise ConstraintError(
            where,
            f"the function in node_map returned a {type(module).__name__}, whose state has another name, so that "
            "it would begin every step anew",
            f"a module with forward(input, {STATE_ARGUMENT}=None) for one time step, which returns both anew",
            f"return a module whose forward hands {STATE_ARGUMENT} on as hx to torch.nn.GRUCell, LSTMCell or RNNCell",
        )
    path = f"{type(module).__module__}.{type(module).__qualname__}"
    report = NodeReport(type(node).__name__, path, "given")
    return Built(
        module.to(device=to.device, dtype=to.dtype),
        stateful,
        report,
        state_argument=STATE_ARGUMENT if stateful else None,
    )
