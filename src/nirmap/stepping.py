"""Reads what a model does with sequences of time steps: of each step what it would make of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import Node

from nirmap.errors import TraceError
from nirmap.functions import function_of, module_class
from nirmap.layers import Layers
from nirmap.signals import Returned, Signal, StateEntry, Stepped, Value
from nirmap.step_tracer import INSIDE
from nirmap.time_axes import Takes, all_steps, one_step, takes_of_class

# What is done with the axes themselves.
_OF_AXES = ("axis", "item", "size", "reshape", "stack", "total", "mean")


class Stepping(Layers):
    """What calls make of values with an axis of time."""

    def function(self, node: Node, where: str) -> Value:
        """What a call of a function or method gives."""
        if node.target is one_step:
            return self._one_step(node)
        if node.target is all_steps:
            return self._all_steps(node, where)
        if not any(isinstance(self.values.get(entry), Stepped) for entry in node.all_input_nodes):
            return super().function(node, where)
        function = function_of(node, where)
        if function.means in _OF_AXES:
            return super().function(node, where)
        taken: Takes = "any"
        if function.means == "module":
            kind = module_class(function)
            taken = "any" if self.leaves.bypass_of(kind) is not None else takes_of_class(self.leaves, kind)
        call = super().function
        return self.for_each_step(node.all_input_nodes, taken, where, lambda: call(node, where))

    def for_each_step(
        self, operands: Sequence[Any], taken: Takes, where: str, read: Callable[[], Value]
    ) -> Value:
        """What a call makes of its operands; of sequences, the sequence of what it makes of each step.

        Args:
            operands: what the call is given, its state apart.
            taken: what it takes.
            where: the call, for errors.
            read: reads the call for a single step.

        Raises:
            TraceError: it takes no such sequence, or a sequence meets a value of a single step.
        """
        held = {entry: self.values.get(entry) for entry in operands if isinstance(entry, Node)}
        stepped = {entry: value for entry, value in held.items() if isinstance(value, Stepped)}
        if not stepped:
            if isinstance(taken, int):
                raise TraceError(
                    where,
                    "a single time step",
                    f"a sequence of time steps, time being axis {taken}, which is what it takes",
                    f"give it x.unsqueeze({taken}), and take the axis away behind it, or use modules of one kind only",
                )
            return read()
        first = next(iter(stepped.values()))
        for value in held.values():
            if isinstance(value, Signal | StateEntry | Returned):
                raise TraceError(
                    where,
                    "a sequence of time steps with a value of a single one",
                    "an axis of time in both, or in neither",
                    "write a loop over the time steps: what is fed back to the next sequence is no edge in NIR",
                )
            if isinstance(value, Stepped) and (value.axis, value.whole) != (first.axis, first.whole):
                raise TraceError(
                    where, "two values with different axes of time", "one axis of time", "use one of them"
                )
        if taken not in ("any", first.axis):
            raise self._of_another_kind(first, taken, where)
        self.values.update({entry: value.signal for entry, value in stepped.items()})
        try:
            value = read()
        finally:
            self.values.update(stepped)
        if isinstance(value, Signal):
            return Stepped(value, first.axis, first.whole)
        if isinstance(value, Returned):
            return Returned(value.node, value.output_index, first.axis, first.whole)
        return value

    def _of_another_kind(self, value: Stepped, taken: Takes, where: str) -> TraceError:
        """The error for a sequence that a call does not take."""
        if not value.whole:
            return TraceError(
                where,
                f"what it is given has the axis {value.axis} more than a time step",
                "that axis to be the one of time, for a module that takes sequences",
                f"take it away before this module with squeeze({value.axis})",
            )
        expected = "a single time step" if taken == "step" else f"one whose axis of time is {taken}"
        known = [entry.path for entry in self.leaves.registry.containers if entry.each_step is not None]
        inside = f"put it into a module that runs it for each step ({', '.join(known)}), or " if known else ""
        return TraceError(
            where,
            f"a sequence of time steps, time being axis {value.axis}",
            f"{expected}, which is what it takes",
            f"{inside}write a loop over the time steps",
        )

    def _one_step(self, node: Node) -> Value:
        """A step of a sequence, inside of a module that goes through all of them."""
        sequence, axis = node.args
        where = f"module {node.meta[INSIDE]!r}"
        value = self.values.get(sequence) if isinstance(sequence, Node) else None
        if isinstance(value, Stepped) and value.axis == axis:
            return value.signal
        if isinstance(value, Stepped):
            raise self._of_another_kind(value, axis if isinstance(axis, int) else "any", where)
        self.signal(sequence, where)
        raise TraceError(
            where,
            "a single time step",
            f"a sequence of time steps, time being axis {axis}",
            "call what is inside of this module by itself",
        )

    def _all_steps(self, node: Node, where: str) -> Value:
        """The sequence of what a module gives for each step."""
        step, axis = node.args
        value = self.values.get(step) if isinstance(step, Node) else None
        if not isinstance(axis, int):
            raise TypeError(f"the axis of time is {axis!r}")
        if isinstance(value, Returned):
            return Returned(value.node, value.output_index, axis, whole=True)
        return Stepped(self.signal(step, where), axis, whole=True)
