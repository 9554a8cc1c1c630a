"""Calling conventions: every stateful module of every framework as one pure function.

A cell wraps a framework's module. ``cell(input, state)`` returns the output and the new state, where the state is a
dictionary of the node's own state variables, in the node's own units; None is the initial state. What the module keeps
inside, how it is called, and the normal form in which it was built, stay inside the cell.
"""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch

from nirmap.neuron import State
from nirmap_registry.catalogue import PRIMITIVES
from nirmap_registry.rows import AffineMap, Array, NormalForm, Placement, Primitive, Row, StateCall, Values


@dataclass(frozen=True)
class Recipe:
    """What a cell was built from, so that it can be built again.

    Attributes:
        build: the row's function, by which the row is found again.
        parameters: the node's own parameters.
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
        for row in registry.rows if registry else ():
            if row.build is self.build:
                found: Row = row
                return found
        raise LookupError(f"{self.build.__module__} holds no registry with the row of {self.build.__name__}")


def build_cell(row: Row, parameters: Values, dt: float, to: Placement) -> Cell:
    """The framework's module for a node, built in the node's normal form, in a cell.

    Args:
        row: the row of the registry.
        parameters: the node's own parameters, as :func:`nirmap.building.node_values` gives them.
        dt: time step in s.
        to: dtype, device and surrogate gradient.
    """
    if row.state is None:
        raise TypeError(f"{row.path} is stateless and needs no cell")
    # A parameter that the normal form divides by and then does not use (r = 0 with the gain r) may become NaN there.
    with np.errstate(divide="ignore", invalid="ignore"):
        normal = row.normal_form(parameters, dt) if row.normal_form else None
        module = row.build(normal.parameters if normal else parameters, dt, to)
    cell = CELLS[row.state.call](module, row, PRIMITIVES[row.node], parameters, normal, dt, to)
    # What the module makes by itself (a constant factor, a default of a record) is where and what torch's defaults say.
    return cell.to(dtype=to.dtype, device=to.device)


class Cell(torch.nn.Module):
    """A framework's stateful module behind the common calling convention.

    Args:
        module: the framework's module.
        row: the row of the registry it was built from.
        primitive: the primitive that it stands for.
        parameters: the node's own parameters, before its normal form.
        normal: the node's normal form, or None where the module was built from the node as it is.
        dt: time step in s.
        to: dtype and device of what the cell holds itself.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        row: Row,
        primitive: Primitive,
        parameters: Values,
        normal: NormalForm | None,
        dt: float,
        to: Placement,
    ) -> None:
        super().__init__()
        if row.state is None:
            raise TypeError(f"{row.path} is stateless and needs no cell")
        self.module = module
        self.path = row.path
        self.node = row.node
        self.hides = row.state.hides
        self.variables = [variable.name for variable in row.state.variables]
        self.kept_as = [variable.kept_as for variable in row.state.variables]
        self.initial = {variable.name: variable.initial for variable in primitive.state}
        self.output_index = self.kept_as.index(row.state.output) if row.state.output else None
        self.record = row.state.record
        self._hold_conversions(row.state, parameters, normal or NormalForm(parameters), dt, to)
        # Plain float64 arrays: they lead from the module's node back to the node that the cell stands for.
        self.free = {name: np.array(value) for name, value in normal.free.items()} if normal else {}
        self.kept_in = row.kept_in
        self.fields = self._hold_record(row.kept_in) if row.kept_in else []
        self._hold_switches()
        self.recipe = Recipe(row.build, {name: np.array(value) for name, value in parameters.items()}, dt, to)
        self.built = {name: self._attributes(name, part) for name, part in self.parts()}

    def _hold_conversions(
        self, state: StateCall, parameters: Values, normal: NormalForm, dt: float, to: Placement
    ) -> None:
        """Buffers that bring input and state to the module's units and back; only those that change anything."""
        self._hold("gain", normal.gain, 1.0, to)
        for variable in state.variables:
            entry = normal.state.get(variable.name, AffineMap())
            times = 1.0 if variable.times is None else variable.times(parameters, dt)
            self._hold(f"shift_{variable.name}", entry.shift, 0.0, to)
            self._hold(f"outward_{variable.name}", np.asarray(entry.scale) / times, 1.0, to)
            self._hold(f"inward_{variable.name}", times / np.asarray(entry.scale), 1.0, to)
        self._hold("output_shift", normal.output.shift, 0.0, to)
        self._hold("output_scale", normal.output.scale, 1.0, to)

    def _hold(self, name: str, value: Array | float, neutral: float, to: Placement) -> None:
        if bool((np.asarray(value) != neutral).any()):
            self.register_buffer(name, to.tensor(value))

    def _hold_switches(self) -> None:
        """Makes single integers that a module keeps as buffers Python integers.

        They say which way the module takes. In a tensor, each step would have to wait for the device to read them, and
        torch.compile and torch.export could not follow.
        """
        for part in self.module.modules():
            for name, value in list(part.named_buffers(recurse=False)):
                if value.dim() == 0 and value.dtype == torch.int64 and not value.is_meta:
                    delattr(part, name)
                    setattr(part, name, int(value))

    def _hold_record(self, attribute: str) -> list[tuple[str, str]]:
        """Registers the tensors of a record that torch does not know of, so that they move and are saved.

        Returns:
            The fields that hold a tensor, with the names of the buffers.
        """
        record: Any = getattr(self.module, attribute)
        held = {field: getattr(record, field) for field in record._fields}
        fields = [(field, f"{attribute}_{field}") for field in held if isinstance(held[field], torch.Tensor)]
        for field, name in fields:
            self.register_buffer(name, held[field])
        return fields

    def current_record(self) -> Any:
        """The module's record with the tensors that the cell holds now."""
        record: Any = getattr(self.module, str(self.kept_in))
        for field, name in self.fields:
            if self._buffers[name] is not getattr(record, field):
                return record._replace(**{field: self._buffers[name] for field, name in self.fields})
        return record

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Cell:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call] # pyright: ignore[reportUnknownMemberType]
        if self.kept_in is not None:
            setattr(self.module, self.kept_in, self.current_record())
        return self

    def _load_from_state_dict(self, *arguments: Any, **keywords: Any) -> None:
        super()._load_from_state_dict(*arguments, **keywords)  # pyright: ignore[reportUnknownMemberType]
        if self.kept_in is not None:
            setattr(self.module, self.kept_in, self.current_record())

    def forward(self, input: torch.Tensor, state: State | None = None) -> tuple[torch.Tensor, State]:
        """One step; returns the output and the new state, both in the node's own units and the dtype of the input.

        An input that is not of a floating dtype is taken as one of torch's default dtype.
        """
        if not input.is_floating_point():
            input = input.to(torch.get_default_dtype())
        kept = [self._inward(name, input, None if state is None else state[name]) for name in self.variables]
        gain = self._buffers.get("gain")
        output, kept = self._step(input if gain is None else input * gain, kept)
        if self.output_index is not None:
            output = kept[self.output_index]
        new_state = {
            name: _as(self._outward(name, value), input.dtype)
            for name, value in zip(self.variables, kept, strict=True)
        }
        for name in self.hides:
            if name in self.module._buffers:
                self.module._buffers[name] = output.new_empty(0)
            else:
                setattr(self.module, name, None)
        return _as(self._output(output), input.dtype), new_state

    def _step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """A step with the record of the moment: torch.func.functional_call exchanges buffers for one call."""
        if self.kept_in is None:
            return self.step(input, kept)
        usual, now = getattr(self.module, self.kept_in), self.current_record()
        if now is usual:
            return self.step(input, kept)
        setattr(self.module, self.kept_in, now)
        try:
            return self.step(input, kept)
        finally:
            setattr(self.module, self.kept_in, usual)

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Calls the module in its own way, on its own variables."""
        raise NotImplementedError

    def _inward(self, name: str, input: torch.Tensor, value: torch.Tensor | None) -> torch.Tensor:
        if value is None:
            value = torch.full_like(input, self.initial[name], requires_grad=False)
        elif value.shape != input.shape:
            # Some modules begin anew, and say nothing, when the state is not of the shape of the input.
            value = value.expand(input.shape)
        shift, inward = self._buffers.get(f"shift_{name}"), self._buffers.get(f"inward_{name}")
        value = value if shift is None else value - shift
        return value if inward is None else value * inward

    def _outward(self, name: str, value: torch.Tensor) -> torch.Tensor:
        shift, outward = self._buffers.get(f"shift_{name}"), self._buffers.get(f"outward_{name}")
        value = value if outward is None else value * outward
        return value if shift is None else value + shift

    def _output(self, value: torch.Tensor) -> torch.Tensor:
        shift, scale = self._buffers.get("output_shift"), self._buffers.get("output_scale")
        value = value if scale is None else value * scale
        return value if shift is None else value + shift

    def extra_repr(self) -> str:
        """What the cell does around the module."""
        held = {name for _, name in self.fields}
        names = [name for name in self._buffers if name not in held]
        return f"nir.{self.node}" + (f", with {', '.join(names)}" if names else "")

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
                if isinstance(value, dict | list | set) or value is not built.get(key, _MISSING)
            }
            tensors[name] = {key: vars(part)[key] for key in _TENSORS}
        recipe = replace(self.recipe, to=replace(self.recipe.to, device=torch.device("cpu")))
        return _rebuild, (recipe, tensors, attributes)

    def parts(self) -> list[tuple[str, torch.nn.Module]]:
        """The cell and the modules in it, by their paths."""
        return list(cast("Iterable[tuple[str, torch.nn.Module]]", self.named_modules()))

    def _attributes(self, name: str, part: torch.nn.Module) -> dict[str, Any]:
        """The attributes of the cell or a module in it, with its children, and without tensors and what holds them."""
        left_out = {*_TENSORS, "_modules", "built", "recipe", *(self.hides if name else ())}
        if name == "module":
            left_out.add(str(self.kept_in))
        attributes = {key: value for key, value in vars(part).items() if key not in left_out}
        return {**attributes, _CHILDREN: dict(part.named_children())}


def _as(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value if value.dtype is dtype else value.to(dtype)


_CHILDREN = "(children)"
_TENSORS = ("_parameters", "_buffers", "_non_persistent_buffers_set")
_MISSING = object()


def _rebuild(
    recipe: Recipe, tensors: Mapping[str, Mapping[str, Any]], attributes: Mapping[str, Mapping[str, Any]]
) -> Cell:
    """A cell from its pickled parts."""
    cell = build_cell(recipe.row(), recipe.parameters, recipe.dt, recipe.to)
    for name, part in cell.parts():
        vars(part).update({**tensors[name], **attributes[name]})
    if cell.kept_in is not None:
        setattr(cell.module, cell.kept_in, cell.current_record())
    return cell


class ExplicitCell(Cell):
    """``module(input, {name: value}) -> (output, {name: value})``."""

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Calls the module with a dictionary."""
        output, new = self.module(input, dict(zip(self.kept_as, kept, strict=True)))
        return output, [new[name] for name in self.kept_as]


class RecordCell(Cell):
    """``module(input, Record(name=value)) -> (output, Record)``."""

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Calls the module with a record."""
        if self.record is None:
            raise TypeError(f"{self.path} is declared without its record")
        output, new = self.module(input, self.record(**dict(zip(self.kept_as, kept, strict=True))))
        return output, [getattr(new, name) for name in self.kept_as]


class PositionalCell(Cell):
    """``module(input, a, b) -> (output, a, b)``."""

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Calls the module with one argument for each variable."""
        output, *new = self.module(input, **dict(zip(self.kept_as, kept, strict=True)))
        return output, new


CELLS: Mapping[str, type[Cell]] = {
    "explicit": ExplicitCell,
    "record": RecordCell,
    "positional": PositionalCell,
}
