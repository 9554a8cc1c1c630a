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
        ConstraintError: the function returned something that is not a module.
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
    path = f"{type(module).__module__}.{type(module).__qualname__}"
    report = NodeReport(type(node).__name__, path, "given")
    return Built(
        module.to(device=to.device, dtype=to.dtype),
        stateful,
        report,
        state_argument=STATE_ARGUMENT if stateful else None,
    )
