"""Whether the next call of a forward does the same: what it remembers elsewhere than in its state is seen there.

A counter, random numbers, or a value that is kept where a recording does not look for state make one call differ from
the next. A graph has one step only, which would be the first one.
"""

from __future__ import annotations

import dis
from collections import deque
from types import FunctionType
from typing import Any, cast

import torch
from torch.fx import Node

from nirmap.constants import Constants
from nirmap.errors import TraceError
from nirmap.leaves import Leaves
from nirmap.step_tracer import LINE, StepTracer
from nirmap.structures import parts_of, values_of


def remembers(root: torch.nn.Module, leaves: Leaves) -> bool:
    """Whether a model may keep something where nobody looks for it: a method of its own assigns to more than its names.

    What is kept in attributes of modules, and random numbers, are seen by what a call changes.
    """
    own = [
        module
        for module in torch.nn.Module.modules(root)
        if not type(module).__module__.startswith(("torch.", *leaves.packages)) and not leaves.is_leaf(module)
    ]
    held = (value for module in own for name, value in vars(module).items() if name not in _OF_EVERY_MODULE)
    return any(_assigns(kind) for kind in {type(module) for module in own}) or not all(map(_is_plain, held))


_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))
_PLAIN = (
    int,
    float,
    complex,
    str,
    bytes,
    type,
    type(None),
    torch.Tensor,
    torch.nn.Module,
    torch.dtype,
    torch.device,
)


_CONTAINERS = (dict, list, tuple, deque)


def _is_plain(value: object, around: tuple[int, ...] = ()) -> bool:
    """Whether nothing is behind a value that a call could change unseen."""
    if isinstance(value, FunctionType):
        return value.__closure__ is None
    parts = parts_of(value)
    if parts is None or not isinstance(value, _CONTAINERS):
        return isinstance(value, _PLAIN)
    here = id(cast("object", value))
    return here in around or all(_is_plain(part, (*around, here)) for part in parts.values())


def _assigns(kind: type[Any]) -> bool:
    """Whether a method of a class, its construction apart, assigns to a global name, or to an attribute."""
    functions = [
        value.__code__
        for name, value in vars(kind).items()
        if isinstance(value, FunctionType) and name != "__init__"
    ]
    return any(
        instruction.opname in ("STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")
        for code in functions
        for instruction in dis.get_instructions(code)
    )


def check_next_call(first: StepTracer, following: StepTracer) -> None:
    """Holds the recording of a call against that of the one before.

    Args:
        first: the recording of a call.
        following: that of the next, without anything being set back in between.

    Raises:
        TraceError: they differ.
    """
    before, after = list(first.graph.nodes), list(following.graph.nodes)
    numbers = {node: number for nodes in (before, after) for number, node in enumerate(nodes)}
    for one, other in zip(before, after, strict=False):
        if _content(one, first, numbers) != _content(other, following, numbers):
            raise differs(one)
        if one.op == "get_attr" and not _are_equal(one, other, first.constants, following.constants):
            raise differs(next(iter(one.users), one))
    if len(before) != len(after):
        raise differs(before[-1])


def _content(node: Node, tracer: StepTracer, numbers: dict[Node, int]) -> tuple[Any, ...]:
    """What a call has in common with the same call in another recording."""
    if any(entry.graph is not tracer.graph for entry in values_of((node.args, dict(node.kwargs)), Node)):
        return (tracer,)  # a value of another call
    operands = torch.fx.map_arg((node.args, node.kwargs), lambda entry: numbers[entry])
    return node.op, node.target, repr(operands)


def _are_equal(one: Node, other: Node, first: Constants, following: Constants) -> bool:
    held = [tracer.values.get(str(node.target)) for node, tracer in ((one, first), (other, following))]
    if held[0] is None or held[1] is None:
        return held[0] is held[1]
    return held[0].dtype == held[1].dtype and torch.equal(
        held[0].nan_to_num(nan=0.0) if held[0].is_floating_point() else held[0],
        held[1].nan_to_num(nan=0.0) if held[1].is_floating_point() else held[1],
    )


def differs(node: Node | None) -> TraceError:
    """The error for a call that does something else than the one before."""
    line = None if node is None else node.meta.get(LINE)
    return TraceError(
        f"forward at {line}" if line else "forward",
        "its next call does something else",
        "the same in every step, from what its arguments and attributes hold as state",
        "leave out counters and random numbers, and keep state in arguments, or in attributes of the module itself",
    )
