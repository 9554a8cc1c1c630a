"""A forward that loops over time steps is one step of a network, not as many copies of it as there are steps.

In the recording of such a forward, each stateful module is called once for each step, with the state that its call
before returned. If the steps are alike, all but the first are taken out: each later call stands for the first one, the
input of one step (``x``, ``x[t]`` or ``x[:, t]``) for the input, and the list or stack of all steps' values for the
value of one step. A loop whose steps differ is left as it is, so that the second use of its modules is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping
from typing import Any, cast

import torch
from torch.fx import Node

from nirmap.structures import is_dictionary, is_sequence, values_of

IsStateful = Callable[[Node], bool]
_UNCHANGED = (operator.getitem, getattr, "detach", "clone", "contiguous")


class UnlikeStepsError(Exception):
    """The steps of a loop differ."""


def fold(graph: torch.fx.Graph, is_stateful: IsStateful, goes_on: IsStateful) -> Mapping[str, int] | None:
    """Takes all steps of a loop but the first out of a recorded graph, where there are such and they are alike.

    Args:
        graph: the recording. Calls that are taken out stay in it, without users.
        is_stateful: whether a call is that of a module which returns its output and its state.
        goes_on: whether a call is that of a module which keeps its state in itself from one call to the next.

    Returns:
        The axis of time of each input of which a step takes a part, by the name of its placeholder; None where the
        graph is as it was.
    """
    steps = _looped_calls(graph, is_stateful, goes_on)
    if not any(steps.values()):
        return None
    folding = _Folding(steps)
    try:
        for node in graph.nodes:
            folding.visit(node)
    except UnlikeStepsError:
        return None
    for node in graph.nodes:
        if node.op == "output":
            node.args = (folding.results,)
        else:
            node.args = torch.fx.map_arg(node.args, folding.first.__getitem__)
            node.kwargs = torch.fx.map_arg(node.kwargs, folding.first.__getitem__)
    return folding.axes


def _looped_calls(graph: torch.fx.Graph, is_stateful: IsStateful, goes_on: IsStateful) -> dict[Node, int]:
    """For each call of a stateful module its number, if each call has the state of the one before."""
    steps: dict[Node, int] = {}
    last: dict[Any, Node] = {}
    for node in graph.nodes:
        if node.op != "call_module" or not (is_stateful(node) or goes_on(node)):
            continue
        before, given = last.get(node.target), {_returned_by(entry) for entry in _state_of(node)}
        if before is None or given == {before} or (not given and goes_on(node)):
            steps[node] = 0 if before is None else steps[before] + 1
            last[node.target] = node
    return steps


def _state_of(node: Node) -> list[Node]:
    return values_of((node.args[1:], dict(node.kwargs)), Node)


def _returned_by(entry: Node) -> Node | None:
    """The call that returned an entry, which may have been picked out and detached since."""
    while entry.target in _UNCHANGED and entry.args and isinstance(entry.args[0], Node):
        entry = entry.args[0]
    return entry if entry.op == "call_module" else None


class _Folding:
    """For each call the first one that it stands for, and the time step that it belongs to, None for all of them."""

    def __init__(self, calls: dict[Node, int]) -> None:
        self.calls = calls
        self.length = 1 + max(calls.values())
        self.first: dict[Node, Node] = {}
        self.step: dict[Node, int | None] = {}
        self.known: dict[Hashable, Node] = {}
        self.results: tuple[Any, ...] = ()
        self.axes: dict[str, int] = {}

    def visit(self, node: Node) -> None:
        """Takes note of a call.

        Raises:
            UnlikeStepsError: it has no equal in the first step, or takes values of several steps.
        """
        if node.op == "output":
            results, entries = (self._result(part) for part in cast("tuple[Any, ...]", node.args[0]))
            self.results = ((results,) if isinstance(results, Node) else results, entries)
            return
        if node.op == "call_function" and node.target is torch.stack:
            self.first[node] = self._all_steps(node.args[0])
            self.step[node] = None
            return
        inputs = values_of(node.args[:1], Node) if node in self.calls else list(node.all_input_nodes)
        self.step[node] = self._step_of(node, inputs)
        if self._is_one_step_of_an_input(node):
            source = cast("Node", node.args[0])
            axis = 1 if is_sequence(node.args[1]) else 0
            if self.axes.setdefault(source.name, axis) != axis:
                raise UnlikeStepsError
            self.first[node] = self.first[source]
            self.step[node] = _index(node.args[1])
            return
        key = (
            node.op,
            node.target,
            self._key(node.args[:1] if node in self.calls else (node.args, node.kwargs)),
        )
        self.first[node] = node if node.op == "placeholder" else self.known.setdefault(key, node)
        if self.calls.get(node) and self.first[node] is node:
            raise UnlikeStepsError

    def _step_of(self, node: Node, inputs: list[Node]) -> int | None:
        steps = {self.step[entry] for entry in inputs} - {None}
        if node in self.calls:
            steps.add(self.calls[node])
        if len(steps) > 1:
            raise UnlikeStepsError
        return steps.pop() if steps else None

    def _is_one_step_of_an_input(self, node: Node) -> bool:
        is_item = node.op == "call_function" and node.target is operator.getitem
        source = node.args[0] if is_item else None
        return isinstance(source, Node) and source.op == "placeholder" and _index(node.args[1]) is not None

    def _key(self, value: Any) -> Hashable:
        """What two calls have in common that give the same value."""
        return repr(torch.fx.map_arg(value, lambda entry: self.first[entry]))

    def _all_steps(self, values: Any) -> Node:
        """The value of one step, from the list of those of all steps.

        Raises:
            UnlikeStepsError: it is no such list.
        """
        entries: list[Any] = list(values) if is_sequence(values) else []
        firsts = {self.first[entry] for entry in entries if isinstance(entry, Node)}
        steps = [self.step[entry] for entry in entries if isinstance(entry, Node)]
        if len(firsts) != 1 or len(entries) != self.length or steps != list(range(self.length)):
            raise UnlikeStepsError
        return firsts.pop()

    def _result(self, part: Any) -> Any:
        """A result, or the entries of the state: values of the last step, or lists of those of all steps."""
        if isinstance(part, Node):
            if self.step[part] not in (None, self.length - 1):
                raise UnlikeStepsError
            return self.first[part]
        if is_dictionary(part):
            return {key: self._result(entry) for key, entry in part.items()}
        if is_sequence(part):
            steps = [self.step.get(entry) for entry in part if isinstance(entry, Node)]
            if len(part) == self.length and steps == list(range(self.length)):
                return self._all_steps(part)
            return tuple(self._result(entry) for entry in part)
        return part


def _index(value: Any) -> int | None:
    """The time step of an index: ``t``, or ``:, t`` behind a batch."""
    if isinstance(value, int):
        return value
    if is_sequence(value):
        return _index(value[1]) if len(value) == 2 and value[0] == slice(None) else None
    return None
