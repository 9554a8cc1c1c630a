"""The tracer that runs a forward once with recorded values in the place of inputs and state."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, cast

import numpy as np
import torch
from torch.fx import Node, Proxy
from torch.fx.proxy import Scope, ScopeContextManager

from nirmap.arguments import Arguments, parameters_of
from nirmap.constants import Constants
from nirmap.entries import Shape
from nirmap.errors import TraceError
from nirmap.functions import is_zeros
from nirmap.leaves import Leaves
from nirmap.source_lines import line_of_call, line_of_error
from nirmap.state_arguments import misplaced, own_state
from nirmap.structures import Leaf, aligned, is_named_tuple, is_sequence, parts_of, replaced, values_of
from nirmap.subclasses import class_of
from nirmap.time_axes import all_steps, one_step
from nirmap.values import UnknownSizeError, Value, known_of_sizes

LINE, INSIDE, HELD = "nirmap_line", "nirmap_inside", "nirmap_held"
# A parameter of forward, or a module's path and one of its attributes.
Slot = str | tuple[str, str]


@dataclass
class Result:
    """One value that a forward returns: its name where it has one, and the state entry that it becomes, if any."""

    name: str | None
    value: Any
    entry: int | None = None


@dataclass
class _State:
    """The state of one recording: what was planned, which placeholders stand for it, and what it becomes."""

    plan: Mapping[Slot, Any]
    numbers: dict[Slot, list[int]] = field(default_factory=dict[Slot, list[int]])
    after: dict[Slot, Any] = field(default_factory=dict[Slot, Any])


class StepTracer(torch.fx.Tracer):
    """Enters every module but the leaves, and remembers for each call the module and the line that it stands in."""

    def __init__(
        self,
        leaves: Leaves,
        plan: Mapping[Slot, Any],
        arguments: Arguments,
        samples: Sequence[Shape],
        constants: Constants,
    ) -> None:
        super().__init__()
        self.leaves = leaves
        self.arguments = arguments
        self.samples = samples
        self.shapes: dict[Node, Shape] = {}
        self.state = _State(plan)
        self.constants = constants
        self.entries: dict[str, int] = {}
        self.results: list[Result] = []
        self.inputs: dict[str, Proxy] = {}
        self.failed: str | None = None

    # What torch.fx asks for

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is recorded as one call."""
        return self.leaves.is_leaf(m)

    def proxy(self, node: Node) -> Proxy:
        """What the forward handles in the place of a tensor."""
        return Value(node, self)

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The time steps of an input, in a loop over them, or its sizes."""
        sizes, whole = known_of_sizes(obj.node, self.shapes), cast("Any", obj)
        if isinstance(sizes, tuple):
            return iter([whole[axis] for axis in range(len(cast("Shape", sizes)))])
        entries = obj.entries() if isinstance(obj, Value) else None
        if entries is None and obj.node.op == "placeholder":
            raise UnknownSizeError(str(obj.node))
        if entries is not None:
            return entries
        tracer: Any = super()
        unpacked: Iterator[Any] = tracer.iter(obj)
        return unpacked

    def to_bool(self, obj: Proxy) -> bool:
        """What a condition on the sizes of an input comes to."""
        known = known_of_sizes(obj.node, self.shapes)
        if known is None:
            tracer: Any = super()
            decided: bool = tracer.to_bool(obj)
            return decided
        return bool(known)

    def call_module(
        self, m: torch.nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Enters a module, or records its call, and remembers which one it was."""
        path = self.path_of_module(m)
        try:
            container = self.leaves.container(m)
            axis = None if container is None else self.leaves.sequence_axis(m)
            if container is not None and container.each_step is not None and axis is not None:
                with ScopeContextManager(self.scope, Scope(path, type(m))):
                    return self._each_step(m, container.each_step, axis, (*args, *kwargs.values()))
            held = self.constants.held(path, m)
            returned = super().call_module(m, forward, args, kwargs)
            if held and isinstance(returned, Proxy):
                returned.node.meta[HELD] = held, self.constants.held_anew(path, m)
            return returned
        except Exception:
            self.failed = path if self.failed is None else self.failed
            raise

    def _each_step(self, m: torch.nn.Module, held: str, axis: int, args: tuple[Any, ...]) -> Any:
        """Enters a module that goes through the steps of a sequence, for one of them."""
        given = args[0] if len(args) == 1 and is_sequence(args[0]) else args
        sequence, state = given[0], given[1:]
        step = self.create_proxy("call_function", one_step, (sequence, axis), {})
        shape = self.shapes.get(sequence.node) if isinstance(sequence, Proxy) else None
        if shape is not None and len(shape) > axis:
            self.shapes[step.node] = (*shape[:axis], *shape[axis + 1 :])
        if held == "children":
            sequential: Any = torch.nn.Sequential
            returned = sequential.forward(m, step)
        else:
            returned = getattr(m, held)(step, *state)
        parts = returned if is_sequence(returned) else (returned,)
        outputs = self.create_proxy("call_function", all_steps, (parts[0], axis), {})
        return (outputs, *parts[1:]) if is_sequence(returned) else outputs

    def create_node(self, *args: Any, **kwargs: Any) -> Node:
        """Records a call, with the line and the module that it stands in."""
        node = super().create_node(*args, **kwargs)
        node.meta[LINE] = line_of_call(inspect.currentframe(), _STEP)
        node.meta[INSIDE] = self.scope.module_path
        return node

    def create_arg(self, a: Any) -> Any:
        """An argument as torch.fx keeps it: tensors as constants, structures as tuples."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, np.generic):
            return cast("Any", a).item()
        if isinstance(a, torch.Tensor) and not isinstance(a, torch.nn.Parameter):
            return self.create_node("get_attr", self.constants.name_of(a), (), {})
        if not is_named_tuple(a) and isinstance(a, dict | tuple | list):
            return super().create_arg(a)
        parts = parts_of(a)
        if parts is not None:
            return tuple(self.create_arg(part) for part in parts.values())
        return super().create_arg(a)

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """The step, with a placeholder for each input and each entry of the state."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        is_left_out = False
        for name, parameter in parameters_of(self.root).items():
            if parameter.kind is parameter.VAR_POSITIONAL and self.leaves.container(self.root) is not None:
                positional.append(self._input("input"))  # a container of a framework takes one
                continue
            if parameter.kind is parameter.VAR_POSITIONAL:
                where = f"module {type(self.root).__name__}"
                raise TraceError(where, f"forward(*{name})", "inputs with names", "name each input")
            has_value = parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD
            if name in self.arguments.fixed:
                value = self.arguments.fixed[name]
            elif name not in self.state.plan and (has_value or name in self.arguments.optional):
                if not has_value:
                    named[name] = None
                is_left_out = True
                continue
            elif name in self.state.plan:
                value = self._placeholders(name, self.state.plan[name])
            else:
                value = self._input(name)
            if is_left_out or parameter.kind is parameter.KEYWORD_ONLY:
                named[name] = value
            else:
                positional.append(value)
        for slot, template in self.state.plan.items():
            if isinstance(slot, tuple):
                module = vars(self.root.get_submodule(slot[0]))
                held = module["_buffers"] if slot[1] in module["_buffers"] else module
                held[slot[1]] = self._placeholders(slot, template)
        return (lambda: self._step(positional, named)), []

    def _input(self, name: str) -> Proxy:
        value = self.inputs[name] = self.create_proxy("placeholder", name, (), {})
        if len(self.inputs) <= len(self.samples):
            self.shapes[value.node] = self.samples[len(self.inputs) - 1]
        return value

    def returns_state(self, node: Node) -> bool:
        """Whether a call is that of a module which returns its output and its state."""
        module = self.root.get_submodule(str(node.target))
        if self.leaves.given(module) is not None:
            return class_of(module) in self.leaves.stateful or any(
                user.target is operator.getitem for user in node.users
            )
        return self.leaves.returned_values(module) is not None

    def goes_on(self, node: Node) -> bool:
        """Whether a call is that of a module which keeps its state in itself from one call to the next."""
        return self.leaves.goes_on(self.root.get_submodule(str(node.target)))

    def check_state(self, node: Node) -> None:
        """Refuses the call of a module whose state is given as another one than what it was returned as.

        Raises:
            TraceError: it is.
        """
        module = self.root.get_submodule(str(node.target))
        for name, index in own_state(node, module).items():
            variable = self.leaves.variable(module, index)
            if variable not in (None, name):
                raise misplaced(f"module {node.target!r} at {node.meta[LINE]}", name, str(variable))

    def is_zero(self, node: Node) -> bool:
        """Whether a value is zero, or an entry of the state, which is zero before the first step."""
        constant = self.constants.values.get(str(node.target)) if node.op == "get_attr" else None
        is_zero = constant is not None and not bool(constant.any())
        return is_zero or is_zeros(node) or node.name in self.entries

    # State

    def _placeholders(self, slot: Slot, template: Any) -> Any:
        """The planned structure with a placeholder for each leaf."""
        numbers = self.state.numbers.setdefault(slot, [])

        def placeholder(_: Leaf) -> Proxy:
            number = len(self.entries)
            value = self.create_proxy("placeholder", f"entry_{number}", (), {})
            self.entries[value.node.name] = number
            numbers.append(number)
            return value

        return replaced(template, Leaf, placeholder)

    def _step(self, positional: list[Any], named: dict[str, Any]) -> tuple[Any, ...]:
        """Calls the model, and returns its results and what the entries of the state become."""
        returned = self._taken_apart(self.root(*positional, **named))
        container = self.leaves.container(self.root)
        if container is not None and container.returns_records:
            returned = returned[0]
        self._split(returned)
        for module, path in self._paths().items():
            if not self.leaves.is_leaf(module):
                for attribute, value in {**vars(module), **vars(module)["_buffers"]}.items():
                    if attribute not in ("_modules", "_parameters", "_buffers") and values_of(value, Proxy):
                        # A copy: containers are put back to what they were when the recording is over.
                        self.state.after[path, attribute] = replaced(value, Proxy, lambda entry: entry)
        entries: list[Any] = [None] * len(self.entries)
        for slot, numbers in self.state.numbers.items():
            found = aligned(self.state.plan[slot], self.state.after.get(slot))
            for number, value in zip(numbers, found or (), strict=False):
                entries[number] = value if isinstance(value, Proxy | torch.Tensor) else None
        return tuple(result.value for result in self.results), tuple(entries)

    def _paths(self) -> dict[torch.nn.Module, str]:
        return {module: self.path_of_module(module) for module in torch.nn.Module.modules(self.root)}

    def _taken_apart(self, returned: Any) -> Any:
        """What a stateful module returned, if a model with state hands that on as it is."""
        if not isinstance(returned, Proxy) or returned.node.op != "call_module" or not self._state_names():
            return returned
        count = self.leaves.returned_values(self.root.get_submodule(str(returned.node.target)))
        entries: Any = returned
        return returned if count is None else tuple(entries[index] for index in range(count))

    def _state_names(self) -> list[str]:
        """The parameters of forward that are state: None at first, or used as only state can be."""
        first = next(iter(self.inputs), None)
        used = [
            name for name, value in self.inputs.items() if name != first and _is_used_as_state(value.node)
        ]
        names = parameters_of(self.root)
        return [
            name
            for name in names
            if name in self.arguments.optional or name in used or name in self.state.plan
        ]

    def _split(self, returned: Any) -> None:
        """Tells outputs from state. State goes by its name, or else it is what a model returns last."""
        states = self._state_names()
        parts = parts_of(returned)
        if parts is None:
            self.results = [Result(None, returned)]
            return
        names = [key if isinstance(key, str) else None for key in parts]
        values = list(parts.values())
        slots: list[str | None] = [name if name in states else None for name in names]
        if not any(slots) and not isinstance(returned, dict) and len(values) >= max(len(states), 2):
            slots = [None] * (len(values) - len(states)) + list(states)
        for name, value, slot in zip(names, values, slots, strict=True):
            if slot is not None:
                self.state.after[slot] = value
            numbers = self.state.numbers.get(slot, []) if slot is not None else []
            if slot is None or isinstance(value, Proxy):
                entry = numbers[0] if len(numbers) == 1 else None
                self.results.append(Result(name, value, entry))

    def wanted(self) -> dict[Slot, Any]:
        """The structure that the state turned out to have, for those parts that change from step to step."""
        found = {
            slot: replaced(value, Proxy, lambda _: Leaf())
            for slot, value in self.state.after.items()
            if values_of(value, Proxy)
        }
        first = next(iter(self.inputs), None)
        for name, value in self.inputs.items():
            if name != first and _is_used_as_state(value.node):
                found.setdefault(name, Leaf())
        return found

    def failure(self, root: torch.nn.Module, error: Exception) -> TraceError:
        """The error for one that was raised while the model was recorded."""
        path = self.failed or ""
        module = root.get_submodule(path)
        where = (
            f"module {path!r} ({type(module).__qualname__})"
            if path
            else f"module {type(module).__qualname__}"
        )
        line = line_of_error(error, _STEP)
        # torch.fx has no other error for a module, or a parameter of one, that it does not find.
        if isinstance(error, NameError) and ("submodule" in str(error) or "not a member" in str(error)):
            return TraceError(
                f"{where} at {line}" if line else where,
                "it calls a module that is none of its submodules, such as one in a plain list",
                "submodules, which have names and parameters",
                "put the modules into a torch.nn.ModuleList or ModuleDict",
            )
        if isinstance(error, UnknownSizeError):
            return TraceError(
                f"{where} at {line}" if line else where,
                f"its forward asks for a size of {error}, which is not known",
                "a sample of what forward takes, the axis of time included",
                "pass sample=",
            )
        message = str(error).partition("\n")[0]
        return TraceError(
            f"{where} at {line}" if line else where,
            f"its forward cannot be recorded ({type(error).__name__}: {message})",
            "a forward without branches or loops that depend on data",
            "write the branch as arithmetic, or move it into a module and pass a function for it in module_map",
        )


@contextmanager
def zeros_of_recorded_sizes(tracer: StepTracer) -> Generator[None]:
    """Inside, ``torch.zeros`` takes sizes that are recorded values, as models give it for their initial state."""
    original = torch.zeros

    @functools.wraps(original)
    def zeros(*sizes: Any, **options: Any) -> Any:
        if values_of((sizes, options), Proxy):
            return tracer.create_proxy("call_function", original, sizes, options)
        return original(*sizes, **options)

    torch.zeros = zeros
    try:
        yield
    finally:
        torch.zeros = original


def _is_used_as_state(node: Node) -> bool:
    """Whether a value is taken apart, or given to a module beside its input."""
    for user in node.users:
        if user.op == "call_function" and user.target in (operator.getitem, getattr) and user.args[0] is node:
            return True
        if user.op == "call_module" and (not user.args or user.args[0] is not node) and len(user.args) > 1:
            return True
    return False


# The frame below which all others belong to whoever asked for the graph.
_STEP: CodeType = vars(StepTracer)["_step"].__code__
