"""Calls that change their operand.

A graph has no memory to change, so ``y += x`` is read as ``y = y + x``. The two differ where what ``y`` was is looked
at again, under another name or as the state of a module.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import cast

from torch.fx import Node

from nirmap.errors import TraceError
from nirmap.functions import asks_only, is_in_place, is_zeros, meaning

SHARING = ("bypass", "cast", "reshape", "axis")
ModuleShares = Callable[[Node], bool]
"""Whether the output of a call of a module, or of what a module does, is its input, or a view of it."""


def origin_of(node: Node, module_shares: ModuleShares) -> Node:
    """The call that made the memory which a call in place changes."""
    origin = cast("Node", node.args[0])
    while _shares(origin, module_shares):
        origin = cast("Node", origin.args[0])
    return origin


def check_in_place(node: Node, module_shares: ModuleShares, where: str) -> None:
    """Refuses a call in place whose operand, or what shares memory with it, is used later.

    Raises:
        TraceError: it is.
    """
    origin = origin_of(node, module_shares)
    positions = {entry: position for position, entry in enumerate(node.graph.nodes)}
    pending = [origin]
    if origin.target is operator.getitem:
        made_by = cast("Node", origin.args[0])
        pending += [user for user in made_by.users if user is not origin and user.args == origin.args]
    sharing = set(pending)
    while pending:
        for user in pending.pop().users:
            if (
                user is not node
                and positions[user] > positions[node]
                and not (asks_only(user) or is_zeros(user))
            ):
                raise refusal(where, f"used again later, by {user.name!r}")
            if user is not node and user not in sharing and _shares(user, module_shares):
                sharing.add(user)
                pending.append(user)


def _shares(node: Node, module_shares: ModuleShares) -> bool:
    """Whether a value shares memory with the first argument of the call that made it."""
    if not node.args or not isinstance(node.args[0], Node):
        return False
    if node.op == "call_module":
        return module_shares(node)
    function = meaning(node)
    if function is None or function.name in ("clone", "torch.clone"):
        return False
    if function.means == "module":
        return module_shares(node)
    return is_in_place(node) or function.means in SHARING


def refusal(where: str, how: str) -> TraceError:
    """The error for a value that must not change."""
    return TraceError(
        where,
        f"it changes a value that is {how}",
        "a new value, since a graph has no memory to change",
        "write y = y + x instead of y += x or y.add_(x)",
    )
