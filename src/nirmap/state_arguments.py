"""The arguments that take a module's state, where it has several: each has to take its own variable."""

from __future__ import annotations

import inspect
import operator
from typing import Any

import torch
from torch.fx import Node

from nirmap.errors import TraceError


def state_arguments(call: Node, module: torch.nn.Module) -> dict[str, Any]:
    """What a module's call is given beside its first positional argument, by the names of its arguments.

    Args:
        call: the recorded call.
        module: the module that it calls.
    """
    names = list(inspect.signature(type(module).forward).parameters)[1:]
    # Behind the arguments with names, ``forward`` may take any number of others.
    names += [f"argument {number}" for number in range(len(names), len(call.args))]
    return {**dict(zip(names[1:], call.args[1:], strict=False)), **call.kwargs}


def own_state(call: Node, module: torch.nn.Module) -> dict[str, int]:
    """Which of the values that the same module returned before each argument of a call is, by its index.

    Args:
        call: the recorded call.
        module: the module that it calls.
    """
    found: dict[str, int] = {}
    for name, entry in state_arguments(call, module).items():
        picked = entry
        while isinstance(picked, Node) and picked.target in ("detach", "detach_", "clone", "contiguous"):
            picked = picked.args[0]
        if isinstance(picked, Node) and picked.target is operator.getitem:
            before, index = picked.args
            if isinstance(before, Node) and before.target == call.target and isinstance(index, int):
                found[name] = index
    return found


def misplaced(where: str, argument: str, variable: str) -> TraceError:
    """The error for a variable of the state that is given as another one."""
    return TraceError(
        where,
        f"its argument {argument!r} is given its state {variable!r} of the step before",
        f"{argument!r} of the step before",
        "give the state back in the order of the arguments",
    )
