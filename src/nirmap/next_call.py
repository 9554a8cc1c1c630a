"""Whether the next call of a forward does the same: what it remembers elsewhere than in its state is seen there.

A counter, random numbers, or a value that is kept where a recording does not look for state make one call differ from
the next. A graph has one step only, which would be the first one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from nirmap.constants import Constants, check_held
from nirmap.errors import TraceError
from nirmap.leaves import Leaves
from nirmap.step_tracer import HELD, LINE, StepTracer
from nirmap.structures import values_of
from nirmap.time_axes import axis_of_inputs


def may_differ(root: torch.nn.Module, leaves: Leaves) -> bool:
    """Whether anything but torch's own code is run for a model, and so may remember what nobody looks for."""
    return any(
        not type(module).__module__.startswith("torch.") or _is_changed(module)
        for module in torch.nn.Module.modules(root)
        if not leaves.is_leaf(module)
    )


def _is_changed(module: torch.nn.Module) -> bool:
    """Whether a module has a forward of its own, or hooks."""
    held = vars(module)
    return "forward" in held or bool(held["_forward_hooks"]) or bool(held["_forward_pre_hooks"])


def check_next_call(first: StepTracer, following: StepTracer) -> None:
    """Holds the recording of a call against that of the one before.

    Args:
        first: the recording of a call.
        following: that of the next, without anything being set back in between.

    Raises:
        TraceError: they differ, or a state does not go on from one to the other.
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
    _check_carried(first, following)


def _check_carried(first: StepTracer, following: StepTracer) -> None:
    """Refuses a forward of a single step that sets back what a module keeps in itself as its state.

    One that takes a sequence may do so before its first step.
    """
    calls = [node for node in first.graph.nodes if HELD in node.meta]
    if _takes_sequences(first, calls):
        return
    later = {node.target: node for node in following.graph.nodes if HELD in node.meta}
    do = (
        "set it back outside of forward, before a sequence; if forward takes a sequence, pass a sample of two steps or "
        "more"
    )
    for node in calls:
        now = later[node.target]
        where = f"module {node.target!r} at {now.meta[LINE]}"
        check_held(node.meta[HELD][1], now.meta[HELD][0], where, "calls of forward", do)


def _takes_sequences(tracer: StepTracer, calls: list[Node]) -> bool:
    """Whether a forward loops over steps, or is given sequences of them."""
    inputs = {node.name for node in tracer.graph.find_nodes(op="placeholder")} - tracer.entries.keys()
    return (
        len({node.target for node in calls}) < len(calls)
        or axis_of_inputs(tracer.graph, tracer.root, tracer.leaves, inputs) is not None
    )


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
