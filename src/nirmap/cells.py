"""Every stateful module of every framework as one pure function.

A cell wraps a framework's module. ``cell(input, state)`` returns the output and the new state, where the state is a
dictionary of the node's own state variables, in the node's own units; None is the initial state. What the module keeps
inside, how it is called (:mod:`nirmap.calling`), and the normal form in which it was built, stay inside the cell.
"""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from nirmap.attributes import MISSING, Unknown, attribute, buffers_of, set_attribute
from nirmap.declared_graphs import primitive_of
from nirmap.neuron import State
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import (
    AffineMap,
    Array,
    Equivalence,
    NormalForm,
    Placement,
    Primitive,
    Row,
    Values,
    array,
)


@dataclass(frozen=True)
class Recipe:
    """What a cell was built from, so that another one of its structure can be built.

    Attributes:
        build: the row's function, by which the row is found again.
        parameters: the node's own parameters when it was built; those of now are in the cell's tensors alone.
        dt: time step in s.
        to: dtype, device and surrogate gradient.
    """

    build: Callable[..., torch.nn.Module]
    parameters: Values
    dt: float
    to: Placement

    def row(self) -> Row:
        """The row.

        Raises:
            LookupError: no registry holds it.
        """
        registry: Any = getattr(importlib.import_module(self.build.__module__), "REGISTRY", None)
        for row in (*registry.rows, *registry.graphs) if registry else ():
            if row.build is self.build:
                found: Row = row
                return found
        raise LookupError(f"{self.build.__module__} holds no registry with the row of {self.build.__name__}")


def normal_form(row: Row, parameters: Values, dt: float) -> NormalForm:
    """A node in the normal form that a row needs; itself where the row needs none.

    A parameter that the normal form divides by and then does not use (r = 0 with the gain r) may become NaN there.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return row.normal_form(parameters, dt) if row.normal_form else NormalForm(parameters)


class Cell(torch.nn.Module):
    """A framework's stateful module behind the common calling convention.

    The module's own parameters are not trained, unless somebody asks for it: they are numbers of a neuron.

    The free variables of the normal form are buffers of the cell, as far as they change anything. The forward pass and
    :meth:`read` use the same ones, so that a node that is written is the one that runs.

    Args:
        module: the framework's module.
        row: the row of the registry it was built from.
        primitive: the primitive that it stands for.
        parameters: the node's own parameters, before its normal form.
        normal: the node's normal form.
        dt: time step in s.
        to: dtype and device of what the cell holds itself.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        row: Row,
        primitive: Primitive,
        parameters: Values,
        normal: NormalForm,
        dt: float,
        to: Placement,
    ) -> None:
        super().__init__()
        if row.state is None or row.build is None:
            raise TypeError(f"{row.path} is stateless and needs no cell, or is never built")
        self.weights = {entry.name for entry in primitive.parameters if entry.kind == "weight"}
        if not self.weights:
            # Frameworks may have a method of their own that is called ``parameters``.
            for parameter in vars(module)["_parameters"].values():
                if parameter is not None:
                    parameter.requires_grad_(False)
        self.module = module
        self.path = row.path
        self.node = row.node
        self.graph = row.graph
        self.stateful = bool(primitive.state)
        self.variables = [variable.name for variable in row.state.variables]
        self.kept_as = [variable.kept_as for variable in row.state.variables]
        self.initial = {variable.name: variable.initial for variable in primitive.state}
        self.entries = {
            variable.name: variable.entries
            for variable in row.state.variables
            if variable.entries is not None
        }
        self.read_from = [variable.read_from or variable.kept_as for variable in row.state.variables]
        self.returns = self.kept_as if row.state.returns is None else list(row.state.returns)
        self.left_behind = list(row.state.hides)
        if row.state.call == "attributes":
            self.left_behind += [*self.kept_as, *row.state.zeroed]
        self.output_index = self.kept_as.index(row.state.output) if row.state.output else None
        self.call = row.state
        self.shapes = {
            entry.name: np.shape(parameters[entry.name])
            for entry in primitive.parameters
            if entry.kind == "neuron"
        }
        self.equivalence = primitive.equivalence or _NOTHING_FREE
        self.held: tuple[str, ...] = ()
        for name, value in normal.free.items():
            self._hold(name, value, self.equivalence.free[name], to)
        for variable in row.state.variables:
            if variable.times is not None:
                self._hold(f"times_{variable.name}", variable.times(parameters, dt), 1.0, to)
        for name, initial in self.initial.items():
            if callable(initial):
                self.register_buffer(_identifier(f"begins_{name}"), to.tensor(initial(parameters)))
        self.unknown = Unknown(self, row.kept_in)
        self._hold_switches()
        self.recipe = Recipe(row.build, {name: np.array(value) for name, value in parameters.items()}, dt, to)
        self.built = {name: self._attributes(name, part) for name, part in self.parts()}

    @classmethod
    def build(cls, row: Row, parameters: Values, dt: float, to: Placement) -> Cell:
        """The framework's module for a node, built in the node's normal form, in a cell.

        Args:
            row: the row of the registry.
            parameters: the node's own parameters, as :func:`nirmap.building.node_values` gives them.
            dt: time step in s.
            to: dtype, device and surrogate gradient.
        """
        if row.build is None:
            raise TypeError(f"{row.path} is never built")
        normal = normal_form(row, parameters, dt)
        # Recurrent modules draw weights, which are then set: the caller's random numbers stay what they were.
        numbers: Any = torch.random
        with (
            np.errstate(divide="ignore", invalid="ignore"),
            numbers.fork_rng([], enabled=row.graph is not None),
        ):
            module = row.build(normal.parameters, dt, to)
        cell = cls(module, row, primitive_of(row), parameters, normal, dt, to)
        # What the module makes by itself (a constant factor, a default of a record) is where and what torch's defaults
        # say.
        return cell.to(dtype=to.dtype, device=to.device)

    def _hold(self, name: str, value: Array | float, neutral: float, to: Placement) -> None:
        """A buffer, where it changes anything: a free variable, or what the module keeps a multiple by."""
        if bool((np.asarray(value) != neutral).any()):
            self.register_buffer(_identifier(name), to.tensor(value))
            self.held += (name,)

    def _now(self, name: str | None) -> torch.Tensor | None:
        """What is held under a name now; None for nothing, which changes nothing."""
        if name not in self.held:
            return None
        value: torch.Tensor = getattr(self, _identifier(name))
        return value

    def current(self) -> torch.nn.Module:
        """The framework's module, with the tensors that the next step uses."""
        self.unknown.refresh(self)
        return self.module

    def read(self, row: Row, dt: float) -> Values:
        """The parameters of the node that the cell stands for, in float64.

        They are those of the next step: what was loaded, trained or changed by hand is in them, in its precision.
        """
        values = row.read(self.current(), dt)
        free = {name: array(self._now(name)) for name in self.equivalence.free if name in self.held}
        if free:
            # 1 / gain is infinite for r = 0, and r / infinity is 0 again.
            with np.errstate(divide="ignore", invalid="ignore"):
                found = self.equivalence.parameters(values, **self.equivalence.inverse(**free)).parameters
            # Weights, which take over the gain of a neuron behind them, keep the dtype that they have in the module.
            values = {
                name: value.astype(values[name].dtype) if name in self.weights else value
                for name, value in found.items()
            }
        return {
            name: np.broadcast_to(value, self.shapes[name]) if name in self.shapes else value
            for name, value in values.items()
        }

    def _hold_switches(self) -> None:
        """Makes single integers that a module keeps as buffers Python integers.

        They say which way the module takes. In a tensor, each step would have to wait for the device to read them, and
        torch.compile and torch.export could not follow. Single numbers that the module does not save become part of
        the state dict: where the memory of a network is allocated later, they would else be lost.
        """
        # Frameworks may have methods of their own that are called ``modules`` and ``named_buffers``.
        for _, part in self.parts():
            for name, value in list(buffers_of(part).items()):
                if value is None or part is self:
                    continue
                if value.dim() == 0 and value.dtype == torch.int64 and not value.is_meta:
                    delattr(part, name)
                    setattr(part, name, int(value))
                elif value.dim() == 0:
                    unsaved: set[str] = vars(part)["_non_persistent_buffers_set"]
                    unsaved.discard(name)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Cell:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call] # pyright: ignore[reportUnknownMemberType]
        self.unknown.refresh(self)
        return self

    def _load_from_state_dict(self, *arguments: Any, **keywords: Any) -> None:
        super()._load_from_state_dict(*arguments, **keywords)  # pyright: ignore[reportUnknownMemberType]
        self.unknown.refresh(self)

    def forward(self, input: torch.Tensor, state: State | None = None) -> Any:
        """One step; returns the output and the new state, both in the node's own units and the dtype of the input.

        For a node without state, the output alone. An input that is not of a floating dtype is taken as one of torch's
        default dtype.
        """
        if not input.is_floating_point():
            input = input.to(torch.get_default_dtype())
        kept = [self._inward(name, input, None if state is None else state[name]) for name in self.variables]
        offset, gain = self._now(self.equivalence.offset), self._now(self.equivalence.gain)
        moved = input if offset is None else input + offset
        output, kept = self._step(moved if gain is None else moved * gain, kept)
        if self.output_index is not None:
            output = kept[self.output_index]
        new_state = {
            name: _as(self._outward(name, value), input.dtype)
            for name, value in zip(self.variables, kept, strict=True)
        }
        result = _as(self._back(output, self.equivalence.output), input.dtype)
        return (result, new_state) if self.stateful else result

    def _step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """A step after which the module's attributes are as they were before.

        The tensors that torch does not know of are those of the moment: torch.func.functional_call exchanges the cell's
        buffers for one call.
        """
        before = {name: attribute(self.module, name) for name in self.left_behind}
        replaced = self.unknown.replace(self)
        try:
            return self.step(input, kept)
        finally:
            for name, value in before.items():
                set_attribute(self.module, name, value)
            for name, value in replaced:
                setattr(self.module, name, value)

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Calls the module in its own way, on its own variables."""
        raise NotImplementedError

    def _zeroed(self, input: torch.Tensor, kept: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        """The module's variables that are zero before each step."""
        # Of a graph, the input may have another shape than the state.
        like = input if self.graph is None else kept[0]
        return {name: torch.zeros_like(like, requires_grad=False) for name in self.call.zeroed}

    def _inward(self, name: str, input: torch.Tensor, value: torch.Tensor | None) -> torch.Tensor:
        shape = input.shape
        if name in self.entries:
            shape = torch.Size([*shape, attribute(self.module, self.entries[name])])
        if value is None:
            value = self.begins(name, input, shape)
        elif self.graph is None and value.shape != shape:
            # Some modules begin anew, and say nothing, when the state is not of the shape of the input.
            value = value.expand(shape)
        entry = self._map(name)
        shift, scale, times = self._now(entry.shift), self._now(entry.scale), self._now(f"times_{name}")
        value = value if shift is None else value - shift
        value = value if scale is None else value / scale
        value = value if times is None else value * times
        later = self.call.reset_in_next_step
        return value if later is None or not _is_potential(name) else later.undone(self.module, value)

    def begins(self, name: str, input: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """A state variable before the first step, in the node's own units, of a shape and the dtype of the input.

        Where it follows from the node's parameters, it is that of the parameters with which the cell was built, a
        buffer.
        """
        initial = self.initial[name]
        if not callable(initial):
            return input.new_full(tuple(shape), initial)
        value: torch.Tensor = getattr(self, _identifier(f"begins_{name}"))
        return value.to(input.dtype).expand(tuple(shape))

    def _outward(self, name: str, value: torch.Tensor) -> torch.Tensor:
        times = self._now(f"times_{name}")
        later = self.call.reset_in_next_step
        value = value if later is None or not _is_potential(name) else later.done(self.module, value)
        return self._back(value if times is None else value / times, self._map(name))

    def _map(self, name: str) -> AffineMap:
        """Which free variables lead from the module's state variable to the node's."""
        return self.equivalence.state.get(name, _UNCHANGED)

    def _back(self, value: torch.Tensor, entry: AffineMap) -> torch.Tensor:
        """A value of the node, from that of its normal form."""
        shift, scale = self._now(entry.shift), self._now(entry.scale)
        value = value if scale is None else value * scale
        return value if shift is None else value + shift

    def extra_repr(self) -> str:
        """What the cell does around the module."""
        held = self.unknown.buffers()
        names = [name for name in self._buffers if name not in held]
        return PRIMITIVES[self.node].path + (f", with {', '.join(names)}" if names else "")

    # Frameworks keep functions and records in their modules that cannot be pickled. So a pickled cell holds what it was
    # built from, its tensors, and the attributes that are others than those it was built with.

    def __deepcopy__(self, memo: dict[int, Any]) -> Cell:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        try:
            self.recipe.row()
        except LookupError as error:
            raise pickle.PicklingError(f"a cell around {self.path}: {error}") from error
        attributes: dict[str, dict[str, Any]] = {}
        tensors: dict[str, dict[str, Any]] = {}
        for name, part in self.parts():
            now, built = self._attributes(name, part), self.built.get(name, {})
            if now.pop(_CHILDREN) != built.get(_CHILDREN):
                raise pickle.PicklingError(f"a cell around {self.path}: a module in it was exchanged")
            attributes[name] = {
                key: value
                for key, value in now.items()
                if isinstance(value, dict | list | set) or value is not built.get(key, MISSING)
            }
            tensors[name] = {key: vars(part)[key] for key in _TENSORS}
        recipe = replace(self.recipe, to=replace(self.recipe.to, device=torch.device("cpu")))
        return _rebuild, (type(self), recipe, tensors, attributes)

    def parts(self) -> list[tuple[str, torch.nn.Module]]:
        """The cell and the modules in it, by their paths."""
        return list(cast("Iterable[tuple[str, torch.nn.Module]]", self.named_modules()))

    def _attributes(self, name: str, part: torch.nn.Module) -> dict[str, Any]:
        """The attributes of the cell or a module in it, with its children, and without tensors and what holds them."""
        left_out = {*_TENSORS, "_modules", "built", "initial", "recipe"}
        if name == "module":
            left_out |= {*self.unknown.attributes, *self.left_behind}
        attributes = {key: value for key, value in vars(part).items() if key not in left_out}
        return {**attributes, _CHILDREN: dict(part.named_children())}


def _identifier(name: str) -> str:
    """A name, which in a graph is ``node.name``, as that of a buffer."""
    return name.replace(".", "_")


def _is_potential(name: str) -> bool:
    """Whether a state variable, of a node or of a node of a graph, is the membrane potential."""
    return name.rpartition(".")[2] == "v"


def _as(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value if value.dtype is dtype else value.to(dtype)


_UNCHANGED = AffineMap()
# That of a node which has none: of all nodes that behave as it does, itself alone is known.
_NOTHING_FREE = Equivalence(NormalForm, dict, free={}, gain=None, offset=None, state={}, output=_UNCHANGED)
_CHILDREN = "(children)"
_TENSORS = ("_parameters", "_buffers", "_non_persistent_buffers_set")


def _rebuild(
    kind: type[Cell],
    recipe: Recipe,
    tensors: Mapping[str, Mapping[str, Any]],
    attributes: Mapping[str, Mapping[str, Any]],
) -> Cell:
    """A cell from its pickled parts."""
    cell = kind.build(recipe.row(), recipe.parameters, recipe.dt, recipe.to)
    for name, part in cell.parts():
        vars(part).update({**tensors[name], **attributes[name]})
    cell.unknown.refresh(cell)
    return cell
