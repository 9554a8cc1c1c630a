"""A forward that loops over time steps is one step of a network, not as many copies of it as there are steps.

In the recording of such a forward, each stateful module is called once for each step, with the state that its call
before returned. If the steps are alike, all but the first are taken out: each later call stands for the first one, the
input of one step (``x``, ``x[t]`` or ``x[:, t]``) for the input, and the list or stack of all steps' values for the
value of one step. What a step takes of the step before, where the first one takes zeros, becomes an entry of the state.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch.fx import Node

from nirmap.constants import check_held
from nirmap.errors import TraceError
from nirmap.loop_steps import step_of, unstacked
from nirmap.step_tracer import HELD, LINE
from nirmap.structures import is_dictionary, is_sequence, values_of

Asked = Callable[[Node], bool]
_UNCHANGED = (operator.getitem, getattr, "detach", "detach_", "clone", "contiguous")
WITH_TIME = "nirmap_with_time"
_ZERO, _LATE = "zero", "late"


@dataclass(frozen=True)
class Calls:
    """What the tracer knows of recorded calls.

    Attributes:
        is_stateful: whether a module returns its output and its state.
        goes_on: whether a module keeps its state in itself from one call to the next.
        check_state: raises an error for a state that is given as another one of the same module.
        is_zero: whether a value is zero, or an entry of the state.
        entries: the number of the state entry for which a placeholder stands, by the placeholder's name.
    """

    is_stateful: Asked
    goes_on: Asked
    check_state: Callable[[Node], None]
    is_zero: Asked
    entries: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True)
class Folded:
    """What became of a loop.

    Attributes:
        axes: the axis of time of each input of which a step takes a part, by the name of its placeholder.
        entries: the names of new placeholders, one for each further entry of the state, in their order.
    """

    axes: Mapping[str, int] = field(default_factory=dict[str, int])
    entries: tuple[str, ...] = ()


def fold(graph: torch.fx.Graph, calls: Calls) -> Folded | None:
    """Takes all steps of a loop but the first out of a recorded graph.

    Args:
        graph: the recording.
        calls: what is known of its calls.

    Returns:
        What became of it; None where there is no loop.

    Raises:
        TraceError: the steps of the loop differ.
    """
    targets = [node.target for node in graph.nodes if node.op == "call_module"]
    if len(targets) == len(set(targets)):
        return None
    steps = _looped_calls(graph, calls)
    if not any(steps.values()):
        return None
    unstacked(graph)
    folding = _Folding(graph, steps, calls)
    for node in graph.nodes:
        folding.visit(node)
    return folding.finish()


def _looped_calls(graph: torch.fx.Graph, calls: Calls) -> dict[Node, int]:
    """For each call of a stateful module its number, if each call has the state of the one before.

    Raises:
        TraceError: it has it in another order, or the forward changes it.
    """
    steps: dict[Node, int] = {}
    last: dict[Any, Node] = {}
    for node in graph.nodes:
        if node.op != "call_module" or not (calls.is_stateful(node) or calls.goes_on(node)):
            continue
        before, given = last.get(node.target), {_returned_by(entry) for entry in _state_of(node)}
        if before is None or given == {before} or (not given and calls.goes_on(node)):
            if before is not None and HELD in before.meta:
                where = f"module {node.target!r} at {node.meta[LINE]}"
                do = "set it back before the loop over time steps"
                check_held(before.meta[HELD][1], node.meta[HELD][0], where, "of its calls", do)
            calls.check_state(node)
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

    def __init__(self, graph: torch.fx.Graph, steps: dict[Node, int], calls: Calls) -> None:
        self.graph = graph
        self.calls = steps
        self.is_zero, self.entries = calls.is_zero, calls.entries
        self.length = 1 + max(steps.values())
        # The stacks of values of several steps, and what is made of these.
        self.stacks: set[Node] = set()
        self.whole: set[Node] = set()
        self.step: dict[Node, int | None] = {}
        self._find_steps()
        self.first: dict[Node, Node] = {}
        self.known: dict[Hashable, Node] = {}
        # Calls of the first step by what they do, where zeros may stand for what later steps take of the one before.
        self.with_zeros: dict[Hashable, Node] = {}
        # What stands in the place of an operand, which is counted in the order in which a call has them.
        self.late: dict[tuple[Node, int], Node] = {}
        self.axes: dict[str, int] = {}

    # Steps

    def _find_steps(self) -> None:
        """The step of each call: that of what it takes, or, if it only prepares the next one, that of what takes it."""
        step = self.step
        for node in self.graph.nodes:
            known = {step[entry] for entry in self._operands(node)} - {None}
            own = self.calls.get(node, _step_of_input(node))
            if own is not None and any(cast("int", entry) > own for entry in known):
                raise self._unlike(node, f"step {own} takes a value of a later one")
            if node.target is torch.stack and len(known) > 1:
                self.stacks.add(node)
            if self._is_of_all_steps(node):
                of_one = known if own is None else {own}
                if of_one and node not in self.stacks:
                    raise self._unlike(node, f"step {of_one.pop()} meets the values of all steps")
                self.whole.add(node)
                step[node] = None
                continue
            step[node] = own if own is not None else max(cast("set[int]", known), default=None)
        for node in reversed(self.graph.nodes):
            if (
                node in self.calls
                or node in self.whole
                or node.op in ("placeholder", "get_attr")
                or _step_of_input(node) is not None
            ):
                continue
            users = {self._step_for(user, node) for user in node.users}
            found = min((user for user in users if user is not None), default=None)
            is_shared = step[node] is None and len(users) > 1
            if (
                found is None
                or None in users
                or is_shared
                or (found <= (step[node] or 0) and step[node] is not None)
            ):
                continue
            step[node] = found

    def _is_of_all_steps(self, node: Node) -> bool:
        """Whether a call makes a stack of several steps, or takes one."""
        is_made_of_one = node.op != "output" and not self.whole.isdisjoint(self._operands(node))
        return node in self.stacks or is_made_of_one

    def _operands(self, node: Node) -> list[Node]:
        """What a call takes, its state apart."""
        return values_of(node.args[:1], Node) if node in self.calls else list(node.all_input_nodes)

    def _step_for(self, user: Node, node: Node) -> int | None:
        """The step in which a call is used; None where it is used as state, or is one of those of all steps."""
        is_of_all = user.op == "output" or user in self.stacks
        return self.step[user] if node in self._operands(user) and not is_of_all else None

    # Calls

    def visit(self, node: Node) -> None:
        """Takes note of a call.

        Raises:
            TraceError: it has no equal in the first step, or takes values of other steps.
        """
        if node.op == "output":
            return
        if node in self.stacks:
            self.first[node] = self._all_steps(node, node.args[0])
        elif _step_of_input(node) is not None:
            self._take_input(node)
        elif node.op == "placeholder":
            self.first[node] = node
        else:
            self._take_call(node)

    def _take_input(self, node: Node) -> None:
        source, axis, _ = cast("tuple[Node, int, int]", step_of(node))
        if self.axes.setdefault(source.name, axis) != axis:
            raise self._unlike(node, f"the steps of {source.name!r} are taken along the axes 0 and 1")
        self.first[node] = self.first[source]

    def _take_call(self, node: Node) -> None:
        given = node.args[:1] if node in self.calls else (node.args, node.kwargs)
        late: list[tuple[int, Node]] = []
        key = self._key(node, given, late)
        if not late:
            self.first[node] = self.known.setdefault(key, node)
            if self.step[node] == 0:
                self.with_zeros.setdefault(self._key(node, given, zeros=True), node)
        elif key in self.known:
            self.first[node] = self.known[key]
        else:
            first = self.with_zeros.get(self._key(node, given, zeros=True))
            if first is None:
                found = f"step {self.step[node]} takes what the step before put out, and step 0 has no zeros there"
                raise self._unlike(node, found)
            self.first[node] = self.known[key] = first
            self.late.update({(first, index): value for index, value in late})
        if self.calls.get(node) and self.first[node] is node:
            raise self._unlike(
                node, f"step {self.calls[node]} gives {node.target!r} something else than step 0"
            )

    def _key(
        self, node: Node, given: Any, late: list[tuple[int, Node]] | None = None, *, zeros: bool = False
    ) -> Hashable:
        """What two calls have in common that do the same.

        Args:
            node: the call.
            given: its operands.
            late: where those are noted that are of the step before, by their number.
            zeros: whether zeros, and what is of the step before, are the same.
        """
        count = 0

        def operand(entry: Node) -> Any:
            nonlocal count
            count += 1
            step, own = self.step[entry], self.step[node]
            is_late = step is not None and own is not None and step < own
            if is_late and step != cast("int", own) - 1:
                raise self._unlike(node, f"step {own} takes a value of step {step}")
            if is_late and late is not None:
                late.append((count - 1, self.first[entry]))
            if zeros and (is_late or self.is_zero(entry)):
                return _ZERO
            return (_LATE, self.first[entry].name) if is_late else self.first[entry]

        return node.op, node.target, repr(torch.fx.map_arg(given, operand))

    # Results

    def finish(self) -> Folded:
        """Leaves one step in the graph."""
        (output,) = (node for node in self.graph.nodes if node.op == "output")
        results, entries = (self._result(output, part) for part in cast("tuple[Any, ...]", output.args[0]))
        results = (results,) if isinstance(results, Node) else results
        placeholders = self._placeholders(entries)
        for node in self.graph.nodes:
            if node is not output and node not in placeholders.values():
                # What asks the whole sequence for its sizes is told from what asks a step of it.
                node.meta[WITH_TIME] = bool(node.args) and getattr(node.args[0], "name", None) in self.axes
                node.args, node.kwargs = self._folded(node, placeholders)
        output.args = ((results, (*entries, *placeholders)),)
        for node in reversed(list(self.graph.nodes)):
            if node is not output and node not in placeholders.values() and self.first[node] is not node:
                self.graph.erase_node(node)
        return Folded(self.axes, tuple(node.name for node in placeholders.values()))

    def _placeholders(self, entries: tuple[Any, ...]) -> dict[Node, Node]:
        """A new entry of the state for each value that a step takes of the one before, where the first has zeros.

        Raises:
            TraceError: the first has an entry of the state, which becomes something else than that value.
        """
        made: dict[Node, Node] = {}
        with self.graph.inserting_before(next(iter(self.graph.nodes))):
            for (call, index), value in self.late.items():
                operand = values_of((call.args, dict(call.kwargs)), Node)[index]
                number = self.entries.get(operand.name) if operand.op == "placeholder" else None
                if number is not None and entries[number] is not value:
                    raise self._unlike(
                        call, "the state that it begins with does not become what a step hands on"
                    )
                if number is None and value not in made:
                    made[value] = self.graph.placeholder("entry")
        return made

    def _folded(self, node: Node, placeholders: Mapping[Node, Node]) -> tuple[Any, Any]:
        """The operands of a call, each as the first that it stands for."""
        count = 0

        def operand(entry: Node) -> Node:
            nonlocal count
            count += 1
            late = self.late.get((node, count - 1))
            is_kept = late is None or entry.name in self.entries
            return self.first[entry] if is_kept else placeholders[cast("Node", late)]

        return torch.fx.map_arg((node.args, node.kwargs), operand)

    def _all_steps(self, node: Node, values: Any) -> Node:
        """The value of one step, from the list of those of all steps.

        Raises:
            TraceError: it is no such list.
        """
        entries: list[Any] = list(values) if is_sequence(values) else []
        firsts = {self.first[entry] for entry in entries if isinstance(entry, Node)}
        steps = [self.step[entry] for entry in entries if isinstance(entry, Node)]
        if len(firsts) != 1 or len(entries) != self.length or steps != list(range(self.length)):
            raise self._unlike(
                node, f"a stack of {len(entries)} values, which are not those of all {self.length} steps"
            )
        return firsts.pop()

    def _unlike(self, node: Node, found: str) -> TraceError:
        """The error for steps that differ, which names the call of a stateful module in the step of a node."""
        step = self.calls.get(node, self.step.get(node))
        call = (
            node
            if node in self.calls
            else next((call for call in self.calls if self.calls[call] == step), node)
        )
        place = f"module {call.target!r}" if call in self.calls else "the loop over time steps"
        return TraceError(
            f"{place} at {call.meta[LINE]}" if call.meta.get(LINE) else place,
            f"a stateful module that is called {self.length} times, as by a loop over time steps, where {found}",
            "one call, or steps that are alike, each with the state of the one before, of which forward returns the "
            "values of all, or of the last",
            "make two modules with equal parameters, or pass a module whose forward is one step of the loop, and sum "
            "up or pick out steps outside of it",
        )

    def _result(self, output: Node, part: Any) -> Any:
        """A result, or the entries of the state: values of the last step, or lists of those of all steps."""
        if isinstance(part, Node):
            if self.step[part] not in (None, self.length - 1):
                raise self._unlike(
                    part, f"forward returns a value of step {self.step[part]} of {self.length}"
                )
            return self.first[part]
        if is_dictionary(part):
            return {key: self._result(output, entry) for key, entry in part.items()}
        if is_sequence(part):
            steps = [self.step.get(entry) for entry in part if isinstance(entry, Node)]
            if len(part) == self.length and steps == list(range(self.length)):
                return self._all_steps(output, part)
            return tuple(self._result(output, entry) for entry in part)
        return part


def _step_of_input(node: Node) -> int | None:
    """The time step of an input that a call takes."""
    taken = step_of(node)
    return taken[2] if taken is not None and taken[0].op == "placeholder" else None
