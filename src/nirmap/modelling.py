"""Reads the recording of a user's model: its arguments, its results, and the state between its steps."""

from __future__ import annotations

from typing import Any, cast

from torch.fx import Node

from nirmap.errors import TraceError
from nirmap.leaves import Leaves
from nirmap.loops import WITH_TIME
from nirmap.reading import Reader
from nirmap.recording import Recording
from nirmap.signals import Constant, Returned, Signal, Size, StateEntry, StateValue, Stepped, Value
from nirmap.state_arguments import misplaced
from nirmap.step_tracer import Result
from nirmap.structures import parts_of
from nirmap.time_axes import axis_of_inputs
from nirmap.views import in_sequence


class RecordingReader(Reader):
    """Reads a recorded step."""

    def __init__(self, recording: Recording, leaves: Leaves, outputs: list[int] | None = None) -> None:
        super().__init__(recording.graph, recording.root, leaves, {})
        self.recording = recording
        steps = [name for name in recording.inputs if name not in recording.time_axes]
        self.time_axis = axis_of_inputs(recording.graph, recording.root, leaves, steps)
        # The places of the outputs among the results; None where they are not known yet.
        self.outputs = outputs
        self.returned: list[Value | None] = []

    def placeholder(self, node: Node) -> Value:
        """An input, or an entry of the state."""
        number = self.recording.entries.get(node.name)
        if number is not None:
            return StateEntry(number)
        signal = Signal.of(self.graph.add_input(str(node.target)))
        if self.time_axis is None or node.name in self.recording.time_axes:
            return signal
        return Stepped(signal, self.time_axis, whole=True)

    def constant(self, node: Node) -> Value:
        """A parameter, a buffer, or a tensor that forward made."""
        target = str(node.target)
        kept = self.recording.constants.get(target)
        if kept is None:
            return super().constant(node)
        return Constant(node.name, kept.detach(), is_state=self._is_kept_state(target))

    def _size_of(self, node: Node, axis: int | None) -> Size:
        """The size of the operand; of a sequence over which forward loops, the sizes of a step and that of time."""
        size = super()._size_of(node, axis)
        operand = node.args[0] if node.args else None
        if not node.meta.get(WITH_TIME) or not isinstance(operand, Node):
            return size
        return in_sequence(size, self.recording.time_axes[operand.name])

    def output(self, node: Node) -> None:
        """Adds the outputs, and draws the edges, those that lead back from the step before among them."""
        results, entries = cast("tuple[tuple[Any, ...], tuple[Any, ...]]", node.args[0])
        self.returned = [self.values.get(value) for value in results if isinstance(value, Node)]
        for name, value in self.outputs_of(node):
            self.graph.add_output(name, self._output(value))
        self._check_state(entries)
        self.draw_edges(node)
        self.graph.drop_unused()

    def draw_edges(self, node: Node) -> None:
        """Draws the edges, those that lead back from the step before among them."""
        _, entries = cast("tuple[tuple[Any, ...], tuple[Any, ...]]", node.args[0])
        self.graph.connect({number: self._fed_back(number, entries[number]) for number in self.fed_back})

    def outputs_of(self, node: Node) -> list[tuple[str, Any]]:
        """The name and the value of each result that is no state.

        Raises:
            TraceError: there is none.
        """
        results, _ = cast("tuple[tuple[Any, ...], tuple[Any, ...]]", node.args[0])
        found = [
            Result(result.name, value, result.entry)
            for result, value in zip(self.recording.results, results, strict=True)
        ]
        if self.outputs is None:
            self.outputs = [index for index, result in enumerate(found) if not self._is_state(result)]
            # A model may return its output once, and have it given back as state.
            self.outputs = self.outputs or [
                index for index, result in enumerate(found) if self._is_signal(result.value)
            ]
        if not self.outputs:
            raise TraceError("forward", "it returns no output", "the output of a module", "return it")
        defaults = ["output"] if len(self.outputs) == 1 else [f"output_{n}" for n in range(len(self.outputs))]
        return [
            (found[index].name or default, found[index].value)
            for index, default in zip(self.outputs, defaults, strict=True)
        ]

    def _output(self, value: Any) -> Signal:
        """The signal of a result; all that a stateful module returned stands for its node's output.

        Raises:
            TraceError: the first of what the module returned, which callers take for its output, is something else.
        """
        held = self.values.get(value) if isinstance(value, Node) else None
        if isinstance(held, Stepped) and held.whole:
            return held.signal
        if not isinstance(held, Returned):
            return self.signal(value, "what forward returns")
        if held.output_index and not self.recording.alone:
            raise TraceError(
                "what forward returns",
                f"all that {held.node!r} returned, of which the first is not its output",
                "the output of its node, the membrane potential",
                f"unpack it in a forward of your own, and return the membrane potential of {held.node!r}",
            )
        return Signal.of(held.node)

    def _is_signal(self, value: Any) -> bool:
        held = self.values.get(value) if isinstance(value, Node) else None
        return isinstance(held, Signal | Stepped)

    def _is_state(self, result: Result) -> bool:
        """Whether a result is state, or a structure of nothing else, or no value at all."""
        if result.entry in self.fed_back:
            return True
        held = self.values.get(result.value) if isinstance(result.value, Node) else None
        if isinstance(held, Signal) and result.entry in self.given_to:
            node = self.given_to[result.entry]
            return held == Signal.of(node) and self.graph.returns_its_state(node)
        return self._holds_state(result.value)

    def _holds_state(self, value: Any) -> bool:
        parts = parts_of(value)
        if parts is not None:
            return all(self._holds_state(part) for part in parts.values())
        if not isinstance(value, Node) or isinstance(self.values.get(value), StateValue):
            return True
        return value.op == "get_attr" and self._is_kept_state(str(value.target))

    def _is_kept_state(self, target: str) -> bool:
        """Whether a tensor is what a module of the table keeps of its state, which some return behind their output."""
        path, _, name = target.rpartition(".")
        return bool(path) and name in self.leaves.kept_state(self.root.get_submodule(path))

    def _fed_back(self, number: int, value: Any) -> Signal:
        """What an entry of the state that is used as a signal will be in the next step.

        Raises:
            TraceError: it is not an output of this step.
        """
        held = self.values.get(value) if isinstance(value, Node) else None
        if isinstance(held, Signal) and not any(source.delayed for source in held.terms):
            return held
        found = "is not returned as state" if value is None else "becomes something else in the next step"
        raise TraceError(
            self.fed_back[number],
            f"an entry of the state is used as a signal, and {found}",
            "an output of this step, which forward returns where the state had the entry",
            "return the new state in the structure in which it comes, behind the output",
        )

    def _check_state(self, entries: tuple[Any, ...]) -> None:
        """Whatever state a module is given is what it returned in the step before.

        Raises:
            TraceError: it is the state of another module.
        """
        for number, node in self.given_to.items():
            value = entries[number]
            held = self.values.get(value) if isinstance(value, Node) else None
            owner = held.node if isinstance(held, StateValue) else node
            variable, argument = getattr(held, "variable", None), self.given_as[number]
            if variable not in (None, argument) and number in self.recording.structured:
                raise misplaced(f"node {node!r}", argument, variable)
            if owner not in (None, node) and number in self.recording.structured:
                raise TraceError(
                    f"node {node!r}",
                    f"its state becomes that of {owner!r} in the next step",
                    "the state that its module returned",
                    "return the state in the structure and order in which it comes",
                )
            is_other = isinstance(held, Signal) and held != Signal.of(node)
            if is_other and (number in self.recording.structured or self._is_lost(node)):
                raise TraceError(
                    f"node {node!r}",
                    "its state becomes another signal in the next step",
                    "the state that its module returned",
                    "return the new state as it is, beside the outputs",
                )

    def _is_lost(self, node: str) -> bool:
        """Whether a module whose output is fed back is given more state than what the model returns of it."""
        if not self.graph.is_graph(node):
            return False
        own = [value for value in self.returned if value in (Signal.of(node), StateValue(node))]
        return len(own) < list(self.given_to.values()).count(node)
