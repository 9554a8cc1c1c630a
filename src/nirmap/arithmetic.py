"""Reads calls of functions and methods between modules: sums, products with constants, views."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import torch
from torch.fx import Node

from nirmap.assembling import GraphUnderConstruction
from nirmap.errors import TraceError
from nirmap.functions import arguments_of, function_of, is_in_place, is_zeros, module_class
from nirmap.in_place import check_in_place, origin_of, refusal
from nirmap.leaves import Leaves
from nirmap.signals import (
    Constant,
    Returned,
    Signal,
    Source,
    StateEntry,
    StateParts,
    StateValue,
    Stepped,
    Unread,
    Value,
)
from nirmap.step_tracer import INSIDE, LINE
from nirmap.subclasses import class_of
from nirmap_registry.rows import Function

Handler = Callable[[Node, Function, dict[str, Any], str], Value]


class Arithmetic:
    """The values of an fx graph's calls, and how those of functions follow from their operands.

    Args:
        traced: the fx graph.
        root: the module whose submodules it calls.
        leaves: what the modules stand for.
        names: the names of nodes, where they are other than those of the modules.
    """

    def __init__(
        self, traced: torch.fx.Graph, root: torch.nn.Module, leaves: Leaves, names: dict[str, str]
    ) -> None:
        self.traced = traced
        self.root = root
        self.leaves = leaves
        self.names = names
        self.values: dict[Node, Value] = {}
        self.graph = GraphUnderConstruction()
        # Which node's state each state entry was given as, as which argument, and which entries were used as signals.
        self.given_to: dict[int, str] = {}
        self.given_as: dict[int, str] = {}
        self.fed_back: dict[int, str] = {}

    def where(self, node: Node) -> str:
        """The module path or function, and the user's source line."""
        kinds = {"call_module": "module", "call_function": "function", "call_method": "method"}
        place = f"{kinds.get(node.op, 'value')} {getattr(node.target, '__name__', str(node.target))!r}"
        if node.op == "call_module":
            kind = class_of(self.root.get_submodule(str(node.target)))
            place += f" ({kind.__module__}.{kind.__qualname__})"
        elif node.meta.get(INSIDE):
            place += f" in module {node.meta[INSIDE]!r}"
        return f"{place} at {node.meta[LINE]}" if node.meta.get(LINE) else place

    def signal(self, entry: Any, where: str) -> Signal:
        """The signal of an operand.

        Raises:
            TraceError: it is none.
        """
        value = self.values.get(entry) if isinstance(entry, Node) else None
        if isinstance(value, Signal):
            return value
        if isinstance(value, StateEntry) and not value.is_part:
            self.fed_back.setdefault(value.number, where)
            return Signal({Source("", True, value.number): 1.0})
        if isinstance(value, Returned):
            raise TraceError(
                where,
                f"all that {value.node!r} returned",
                "its output alone",
                f"unpack it: output, state = {value.node}(...); torch.nn.Sequential cannot, so call its modules one by "
                "one in a forward of your own",
            )
        if isinstance(value, Unread):
            raise TraceError(
                where,
                f"what {value.node!r} returns beside its output, which is its membrane potential",
                "the output",
                "use the membrane potential, or a module that spikes and is reset",
            )
        if isinstance(value, Stepped):
            raise TraceError(
                where,
                f"a sequence of time steps, time being axis {value.axis}",
                "a signal of a single step",
                "NIR has no node over time; do it with what the network gives, outside of the model",
            )
        is_kept = isinstance(value, Constant) and value.is_state
        if is_kept or isinstance(value, StateValue | StateEntry | StateParts):
            raise _state_of_a_module(where)
        if isinstance(value, Constant) and not value.value.any():
            do = "give the state of the step before as an argument that defaults to None, and return the new one"
            raise TraceError(where, "zeros in place of a signal", "the output of a module", do)
        shown = f"the constant {value.name!r}" if isinstance(value, Constant) else repr(entry)
        do = "NIR adds signals only; use a layer with a bias"
        raise TraceError(where, shown, "the output of a module", do)

    def function(self, node: Node, where: str) -> Value:
        """What a call of a function or method gives."""
        if is_zeros(node):
            return Constant(node.name, torch.zeros(()))
        held = {entry: self.values.get(entry) for entry in node.all_input_nodes}
        constants = {entry: value.value for entry, value in held.items() if isinstance(value, Constant)}
        for value in held.values():
            if isinstance(value, Constant) and value.is_state:
                raise _state_of_a_module(where)
        if held and len(constants) == len(held):
            return Constant(node.name, evaluated(node, constants, where))
        function = function_of(node, where)
        if is_in_place(node):
            self._check_in_place(node, where)
        arguments = arguments_of(node, function, where)
        handlers: dict[str, Handler] = {
            "sum": self._sum,
            "item": self._item,
            "scale": self._scale,
            "bypass": self._bypass,
            **self.further_handlers(),
        }
        return handlers[function.means](node, function, arguments, where)

    def further_handlers(self) -> dict[str, Handler]:
        """What is done for the meanings that are not arithmetic."""
        raise NotImplementedError

    def shifted(self, node: Node, operand: Any, constant: torch.Tensor, factor: float, where: str) -> Value:
        """``factor`` times an operand, and a constant."""
        raise NotImplementedError

    def _check_in_place(self, node: Node, where: str) -> None:
        check_in_place(node, self._module_shares, where)
        origin = origin_of(node, self._module_shares)
        made_by = self.values.get(cast("Node", origin.args[0])) if origin.target is operator.getitem else None
        if isinstance(made_by, Returned) and self.graph.returns_its_state(made_by.node):
            raise refusal(where, f"the state of {made_by.node!r} as well as its output")

    def _module_shares(self, node: Node) -> bool:
        if node.op == "call_module":
            kind = class_of(self.root.get_submodule(str(node.target)))
        else:
            kind = module_class(function_of(node, self.where(node)))
        return self.leaves.bypass_of(kind) is not None or kind is torch.nn.Flatten

    def _sum(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        first, second, alpha = arguments["input"], arguments["other"], arguments.get("alpha", 1)
        if not isinstance(alpha, int | float):
            raise TraceError(where, f"alpha = {alpha!r}", "a number")
        weight = float(alpha) * (1 if function.factor is None else function.factor)
        if self._is_zero(second):
            return self._beside_zeros(self.signal(first, where), second, where)
        if self._is_zero(first):  # sum([...]) starts at 0
            return self._beside_zeros(self.signal(second, where).times(weight), first, where)
        added, subtracted = self._tensor(second), self._tensor(first)
        if added is not None:
            return self.shifted(node, first, added * weight, 1.0, where)
        if subtracted is not None:
            return self.shifted(node, second, subtracted, weight, where)
        return self.signal(first, where).plus(self.signal(second, where), weight)

    def _beside_zeros(self, signal: Signal, zeros: Any, where: str) -> Signal:
        """A signal to which zeros are added, of whose shape note is taken."""
        value = self._number(zeros)
        if isinstance(value, Constant):
            shape = tuple(value.value.shape)
            self.graph.met += [(source.node, shape, where) for source in signal.terms if not source.delayed]
        return signal

    def _scale(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        left = arguments["input"]
        if function.factor is not None:
            return self.signal(left, where).times(function.factor)
        if "divisor" in arguments:
            return self._times(left, reciprocal(self._number(arguments["divisor"]), where), where)
        right = arguments["other"]
        if self._number(right) is None:
            left, right = right, left
        return self._times(left, self._number(right), where)

    def _times(self, operand: Any, factor: float | Constant | None, where: str) -> Value:
        if factor is None:
            raise TraceError(where, "a product of two signals", "a constant or a parameter as one factor")
        signal = self.signal(operand, where)
        if isinstance(factor, Constant):
            return self.graph.add_scale(factor.name, factor.value, signal, where)
        return signal.times(factor)

    def _number(self, entry: Any) -> float | Constant | None:
        """An operand that is a constant, or None for one that is not."""
        if isinstance(entry, int | float):
            return float(entry)
        value = self.values.get(entry) if isinstance(entry, Node) else None
        return value if isinstance(value, Constant) else None

    def _tensor(self, entry: Any) -> torch.Tensor | None:
        """An operand that is a constant, in float64; None for one that is not."""
        number = self._number(entry)
        if number is None:
            return None
        value = number.value if isinstance(number, Constant) else torch.tensor(number)
        return value.to("cpu", torch.float64)

    def _is_zero(self, entry: Any) -> bool:
        number = self._number(entry)
        return number == 0 if not isinstance(number, Constant) else not bool(number.value.any())

    def _bypass(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        value = self.values.get(arguments["input"])
        if isinstance(value, StateValue | StateEntry | Unread):
            return value
        return self.signal(arguments["input"], where)

    def _item(self, node: Node, function: Function, arguments: dict[str, Any], where: str) -> Value:
        value, index = self.values.get(arguments["input"]), arguments["index"]
        start: Any = getattr(index, "start", None)  # of a slice
        if isinstance(value, Returned) and isinstance(start, int) and start > value.output_index:
            return StateValue(value.node)
        if isinstance(value, Returned) and isinstance(index, int) and index >= 0:
            if index == value.output_index:
                output = Signal.of(value.node)
                return output if value.time_axis is None else Stepped(output, value.time_axis, value.whole)
            return self._state(arguments["input"], index, value.node) if index else Unread(value.node)
        if isinstance(value, StateParts) and isinstance(index, int):
            name = value.names[index // 2]
            return Signal.of(name, delayed=True) if index % 2 else StateValue(name)
        if isinstance(value, StateEntry):
            return StateEntry(value.number, True)
        if isinstance(value, StateValue):
            return value
        do = "use torch.flatten(x, 1) for a view, and several modules instead of parts of one signal"
        raise TraceError(
            where, f"{index!r} of a signal", "a whole signal, since NIR has no node that selects", do
        )

    def _state(self, call: Node, index: int, node: str) -> StateValue:
        """What a module returned of its state at an index."""
        is_module = call.op == "call_module"
        module = self.root.get_submodule(str(call.target)) if is_module else None
        return StateValue(node, None if module is None else self.leaves.variable(module, index))

    def add(self, node: Node, module: torch.nn.Module, name: str, signal: Signal, where: str) -> Value:
        """The node for a module, and what the module returned."""
        raise NotImplementedError


def _state_of_a_module(where: str) -> TraceError:
    """The error for state that is used as a signal."""
    expected, do = "the output of a module", "NIR has edges for outputs only"
    return TraceError(where, "the state of a module", expected, do)


def reciprocal(divisor: float | Constant | None, where: str) -> float | Constant:
    """1 / divisor.

    Raises:
        TraceError: it is no constant, or zero.
    """
    if divisor is None:
        raise TraceError(where, "a division by a signal", "a constant or a parameter as the divisor")
    if isinstance(divisor, Constant):
        return Constant(divisor.name, divisor.value.to(torch.float64).reciprocal())
    if divisor == 0:
        raise TraceError(where, "a division by zero", "another divisor")
    return 1 / divisor


def evaluated(node: Node, constants: dict[Node, torch.Tensor], where: str) -> torch.Tensor:
    """The result of a call whose operands are all constants.

    Raises:
        TraceError: it changes them, is random, fails, or gives no tensor.
    """
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda entry: constants[entry])
    target: Any = node.target
    randomness = torch.get_rng_state()
    try:
        if is_in_place(node):
            raise RuntimeError("it changes a parameter")
        if node.op == "call_method":
            target, args = getattr(args[0], str(node.target)), args[1:]
        with torch.no_grad():
            first, second = target(*args, **kwargs), target(*args, **kwargs)
        if not isinstance(first, torch.Tensor) or not torch.equal(first, second):
            raise RuntimeError("it gives no tensor, or another one each time")
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise TraceError(
            where,
            f"it cannot be computed from the parameters ({error})",
            "a function of the parameters that gives a tensor",
            "compute it before the forward",
        ) from error
    finally:
        torch.set_rng_state(randomness)
    return first
