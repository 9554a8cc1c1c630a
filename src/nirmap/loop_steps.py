"""How a recorded call takes one time step out of a sequence."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from nirmap.structures import is_sequence

_ALL = slice(None)


def step_of(node: Node) -> tuple[Node, int, int] | None:
    """The sequence of which a call takes a step, the axis of time, and the number of the step; None for another call.

    It is ``x[t]`` or ``x[:, t]``, behind which axes may be left whole, ``x.select(axis, t)`` or
    ``torch.unbind(x, axis)[t]``.
    """
    source: Any = node.args[0] if node.args else None
    if not isinstance(source, Node):
        return None
    axis: Any
    index: Any
    if node.target in ("select", torch.select):
        axis, index = _argument(node, 1, "dim"), _argument(node, 2, "index")
    elif node.target is not operator.getitem:
        return None
    elif source.target is torch.unbind:
        axis, index, source = _argument(source, 1, "dim", 0), node.args[1], source.args[0]
    else:
        axis, index = _axis_and_index(node.args[1])
    is_step = isinstance(source, Node) and axis in (0, 1) and isinstance(index, int)
    return (source, axis, index) if is_step else None


def _argument(node: Node, place: int, name: str, default: Any = None) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _axis_and_index(value: Any) -> tuple[int, int] | tuple[None, None]:
    """The only axis along which an item is picked, and which item; None for another one."""
    entries = list(value) if is_sequence(value) and value else [value]
    axis = 1 if len(entries) > 1 and entries[0] == _ALL else 0
    index, behind = entries[axis], entries[axis + 1 :]
    is_whole = all(isinstance(entry, type(...)) or entry == _ALL for entry in behind)
    return (axis, index) if is_whole and type(index) is int else (None, None)


def unstacked(graph: torch.fx.Graph) -> None:
    """Puts the entry of a list in the place of what takes it out of the stack of that list."""
    for node in graph.nodes:
        taken = step_of(node)
        if taken is None or taken[0].target is not torch.stack:
            continue
        stack, axis, index = taken
        entries = stack.args[0]
        is_along = _argument(stack, 1, "dim", 0) == axis
        if is_sequence(entries) and is_along and -len(entries) <= index < len(entries):
            node.replace_all_uses_with(entries[index])
