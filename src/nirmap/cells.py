"""Calling conventions: every stateful module of every framework as one pure function.

A cell wraps a framework's module. ``cell(input, state)`` returns the output and the new state, where the state is a
dictionary of the node's own state variables, in the node's own units; None is the initial state. What the module keeps
inside, how it is called, and the normal form in which it was built, stay inside the cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from nirmap.neuron import State
from nirmap_registry.rows import AffineMap, Array, NormalForm, Placement, Primitive, Row, StateCall, Values


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
        self.free = {name: np.asarray(value) for name, value in normal.free.items()} if normal else {}
        self.kept_in = row.kept_in
        if row.kept_in is not None:
            self._hold_record(row.kept_in)

    def _hold_conversions(
        self, state: StateCall, parameters: Values, normal: NormalForm, dt: float, to: Placement
    ) -> None:
        """Buffers that bring the input and the state to the module's units and back; only those that change anything."""
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
        tensor = to.tensor(value)
        changes = not tensor.is_meta and bool((tensor != neutral).any())
        self.register_buffer(name, tensor if changes else None)

    def _hold_record(self, attribute: str) -> None:
        """Registers the tensors of a record that torch does not know of, so that they move and are saved."""
        record: Any = getattr(self.module, attribute)
        for field, value in record._asdict().items():
            if isinstance(value, torch.Tensor):
                self.register_buffer(f"{attribute}_{field}", value)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Cell:
        super()._apply(fn, recurse)
        if self.kept_in is not None:
            record: Any = getattr(self.module, self.kept_in)
            held = {field: self._buffers.get(f"{self.kept_in}_{field}") for field in record._asdict()}
            changed = {field: value for field, value in held.items() if value is not None}
            setattr(self.module, self.kept_in, record._replace(**changed))
        return self

    def forward(self, input: torch.Tensor, state: State | None = None) -> tuple[torch.Tensor, State]:
        """One step; returns the output and the new state, both in the node's own units."""
        kept = [
            self._inward(name, input if state is None else state[name], state is None)
            for name in self.variables
        ]
        gain = self._buffers["gain"]
        output, kept = self.step(input if gain is None else input * gain, kept)
        if self.output_index is not None:
            output = kept[self.output_index]
        new_state = {
            name: self._outward(name, value) for name, value in zip(self.variables, kept, strict=True)
        }
        for name in self.hides:
            setattr(self.module, name, output.new_empty(0))
        return self._output(output.to(input.dtype)), new_state

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Calls the module in its own way, on its own variables."""
        raise NotImplementedError

    def _inward(self, name: str, value: torch.Tensor, is_input: bool) -> torch.Tensor:
        if is_input:
            value = torch.full_like(value, self.initial[name], requires_grad=False)
        shift, inward = self._buffers[f"shift_{name}"], self._buffers[f"inward_{name}"]
        value = value if shift is None else value - shift
        return value if inward is None else value * inward

    def _outward(self, name: str, value: torch.Tensor) -> torch.Tensor:
        shift, outward = self._buffers[f"shift_{name}"], self._buffers[f"outward_{name}"]
        value = value if outward is None else value * outward
        return value if shift is None else value + shift

    def _output(self, value: torch.Tensor) -> torch.Tensor:
        shift, scale = self._buffers["output_shift"], self._buffers["output_scale"]
        value = value if scale is None else value * scale
        return value if shift is None else value + shift

    def extra_repr(self) -> str:
        """What the cell does around the module."""
        names = [
            name for name, value in self._buffers.items() if value is not None and not name.startswith("p_")
        ]
        return f"nir.{self.node}" + (f", with {', '.join(names)}" if names else "")


class ExplicitCell(Cell):
    """``module(input, {name: value}) -> (output, {name: value})``."""

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        output, new = self.module(input, dict(zip(self.kept_as, kept, strict=True)))
        return output, [new[name] for name in self.kept_as]


class RecordCell(Cell):
    """``module(input, Record(name=value)) -> (output, Record)``."""

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        if self.record is None:
            raise TypeError(f"{self.path} is declared without its record")
        output, new = self.module(input, self.record(**dict(zip(self.kept_as, kept, strict=True))))
        return output, [getattr(new, name) for name in self.kept_as]


class PositionalCell(Cell):
    """``module(input, a, b) -> (output, a, b)``."""

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        output, *new = self.module(input, **dict(zip(self.kept_as, kept, strict=True)))
        return output, new


CELLS: Mapping[str, type[Cell]] = {
    "explicit": ExplicitCell,
    "record": RecordCell,
    "positional": PositionalCell,
}
