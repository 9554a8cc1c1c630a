"""Reads calls that compute nothing: views, casts, sizes, stacks of signals, and the sums of such."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from nirmap.arithmetic import Arithmetic, Handler
from nirmap.errors import TraceError
from nirmap.functions import function_of
from nirmap.signals import Constant, Placed, Signal, Size, Stacked, StateEntry, StateValue, Stepped, Value
from nirmap.step_tracer import INSIDE
from nirmap.structures import is_sequence
from nirmap_registry.rows import Function

_ALL = slice(None)


class Views(Arithmetic):
    """What functions mean that only look at their operand in another way."""

    def further_handlers(self) -> dict[str, Handler]:
        """What is done for each meaning."""
        return {
            "cast": self._cast,
            "size": self._size,
            "reshape": self._reshape,
            "axis": self._axis,
            "stack": self._stack,
            "total": self._total,
            "mean": self._total,
        }

    def function(self, node: Node, where: str) -> Value:
        """What a call of a function or method gives; numbers that are computed from sizes are sizes."""
        held = [self.values.get(entry) for entry in node.all_input_nodes]
        if held and all(isinstance(value, Size) and not value.is_whole for value in held):
            function_of(node, where)
            return Size()
        if node.target is getattr and isinstance(held[0], Constant) and node.args[1] in ("dtype", "device"):
            return Placed(held[0].value.dtype if node.args[1] == "dtype" else None)
        return super().function(node, where)

    def _item(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        value, index = self.values.get(arguments["input"]), arguments["index"]
        if isinstance(value, Size) and value.is_whole and isinstance(index, int):
            size = Size(index, of=value.of)
            return size if value.time_axis is None else in_sequence(size, value.time_axis)
        if isinstance(value, Stacked) and value.axis == 0 and isinstance(index, int) and _is_in(value, index):
            return value.signals[index]
        if isinstance(value, Stepped) and not value.whole and _only_step(index) == value.axis:
            return value.signal
        if isinstance(value, Signal | Stepped) and node.target is getattr:
            if index == "shape":
                return self._size_of(node, None)
            if index in ("dtype", "device"):
                return Placed()
        return super()._item(node, function, arguments, where)

    def _size(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        axis = arguments["dim"]
        if axis is not None and not isinstance(axis, int):
            raise TraceError(where, f"the axis {axis!r}", "an integer")
        return self._size_of(node, axis)

    def _size_of(self, node: Node, axis: int | None) -> Size:
        """The size of the operand; only of a signal is it known which axis is which."""
        operand = node.args[0] if node.args else None
        value = self.values.get(operand) if isinstance(operand, Node) else None
        return Size(axis, axis is None, value) if isinstance(value, Signal) else Size()

    def _cast(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        """The operand itself, where it keeps its dtype."""
        own = self._dtypes()
        asked = [getattr(torch, function.dtype)] if function.dtype else []
        for entry in (*node.args[1:], *node.kwargs.values()):
            value = self.values.get(entry) if isinstance(entry, Node) else None
            if isinstance(entry, torch.dtype):
                asked.append(entry)
            elif isinstance(value, Placed) and value.dtype is not None:
                asked.append(value.dtype)
            elif isinstance(value, Constant):
                asked.append(value.value.dtype)
            elif isinstance(entry, str) and node.target == "type":
                raise TraceError(where, f"the type {entry!r}", "a dtype", "use x.to(dtype)")
        changed = [dtype for dtype in asked if own != {dtype}]
        if changed:
            shown = ", ".join(sorted(map(str, own)))
            raise TraceError(
                where,
                f"a cast to {changed[0]}",
                f"the dtype of the model ({shown}), since a graph has no dtypes to change",
                "leave it out, or move the whole model to one dtype first",
            )
        return self._bypass(node, function, {"input": node.args[0]}, where)

    def _dtypes(self) -> set[torch.dtype]:
        """The floating dtypes of the model's numbers; torch's default where it has none."""
        held = [*torch.nn.Module.parameters(self.root), *self.root.buffers()]
        found = {tensor.dtype for tensor in held if tensor.is_floating_point()}
        return found or {torch.get_default_dtype()}

    def _reshape(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        """A Flatten node. What keeps the batch and the axes before the last one can only flatten."""
        operand, *given = [*node.args, *node.kwargs.values()]
        sizes: list[Any] = list(given[0]) if len(given) == 1 and is_sequence(given[0]) else given
        axes = [self.values.get(entry) if isinstance(entry, Node) else entry for entry in sizes]
        signal = self.signal(operand, where)
        if axes == [Size(is_whole=True, of=signal)]:
            return signal
        keeps = all(
            axis == Size(index, of=signal) or (isinstance(axis, int) and axis > 0)
            for index, axis in enumerate(axes[1:-1], 1)
        )
        expected = tuple(axis if isinstance(axis, int) and axis > 0 else None for axis in axes[1:])
        # Behind the batch, what is left goes into the last axis. Where the batch is what is left, that has to be held
        # against the shape.
        is_flat = len(axes) > 1 and keeps and (_is_batch(axes[0]) or (axes[0] == -1 and bool(expected[-1])))
        if not is_flat or not isinstance(axes[-1], Size | int):
            raise TraceError(
                where,
                f"a view of the shape ({', '.join(_shown(axis) for axis in axes)})",
                "one that keeps the batch and joins the axes behind it, as x.view(x.shape[0], -1)",
                "use torch.flatten(x, 1); NIR has no node for other views",
            )
        module = torch.nn.Flatten(len(axes) - 1, -1)
        added = self.add(node, module, name_of(node), signal, where)
        if isinstance(added, Signal):
            self.graph.expected.update({source.node: expected for source in added.terms})
        return added

    def _axis(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        """An axis of time steps around a module that takes a sequence."""
        value, axis = self.values.get(arguments["input"]), arguments["dim"]
        if isinstance(value, StateValue | StateEntry):
            return value
        if function.factor == 1 and isinstance(value, Signal) and axis in (0, 1):
            return Stepped(value, axis)
        if function.factor == -1 and isinstance(value, Stepped) and not value.whole and axis == value.axis:
            return value.signal
        shown = "added" if function.factor == 1 else "taken away"
        raise TraceError(
            where,
            f"an axis {axis!r} that is {shown}",
            "unsqueeze(0) or unsqueeze(1) before a module that takes time steps, and squeeze of the same axis after it",
            "NIR has no node that changes the axes, but for Flatten",
        )

    def _stack(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        entries, axis = arguments["input"], arguments["dim"]
        if not is_sequence(entries) or not isinstance(axis, int):
            raise TraceError(where, f"a stack of {entries!r}", "a list of signals")
        held = [self.values.get(entry) if isinstance(entry, Node) else None for entry in entries]
        if held and all(isinstance(value, StateValue | StateEntry) for value in held):
            return StateValue()
        return Stacked(tuple(self.signal(entry, where) for entry in entries), axis)

    def _total(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        value, axis = self.values.get(arguments["input"]), arguments["dim"]
        if is_sequence(axis) and len(axis) == 1:
            axis = axis[0]
        if not isinstance(value, Stacked) or axis != value.axis or arguments["keepdim"]:
            shown = f"of signals stacked along {value.axis}" if isinstance(value, Stacked) else "of a signal"
            raise TraceError(
                where,
                f"the {function.name.rpartition('.')[2]} {shown} over the axis {axis!r}",
                "a sum of signals: a + b, or torch.stack([a, b]).sum(0), which leaves no axis",
                "NIR has no node that sums over an axis; use a Linear with weights of one",
            )
        if arguments["dtype"] is not None:
            raise TraceError(where, f"dtype = {arguments['dtype']}", "none", "leave it out")
        weight = 1 / len(value.signals) if function.means == "mean" else 1.0
        total = Signal({})
        for signal in value.signals:
            total = total.plus(signal, weight)
        return total


def in_sequence(size: Size, time_axis: int) -> Size:
    """A size along the axis of a sequence, as one of a step; all of its sizes with the axis of time among them."""
    if size.axis is None:
        return replace(size, time_axis=time_axis)
    if size.axis < 0 or size.axis == time_axis:
        return Size()
    return replace(size, axis=size.axis - (size.axis > time_axis))


def _only_step(index: Any) -> int | None:
    """The axis of which an index takes the first, or last, entry: 0 for ``[0]``, 1 for ``[:, 0]``."""
    if is_sequence(index) and len(index) == 2 and index[0] == _ALL:
        return 1 if index[1] in (0, -1) else None
    return 0 if isinstance(index, int) and index in (0, -1) else None


def _is_in(stack: Stacked, index: int) -> bool:
    return -len(stack.signals) <= index < len(stack.signals)


def name_of(node: Node) -> str:
    """The name of the node for a call of a function: that of the function, in the module that calls it."""
    inside = str(node.meta.get(INSIDE) or "")
    return f"{inside}.{getattr(node.target, '__name__', node.target)}" if inside else node.name


def _is_batch(axis: Any) -> bool:
    """Whether a size is that of the batch, which is the same for all signals."""
    return isinstance(axis, Size) and axis.axis == 0


def _shown(axis: Any) -> str:
    if not isinstance(axis, Size):
        return repr(axis)
    return "a computed size" if axis.axis is None else f"x.shape[{axis.axis}]"
