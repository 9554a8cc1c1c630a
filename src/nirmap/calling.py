"""Calling conventions: how state goes into a framework's module and comes out again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, cast

import torch

from nirmap.attributes import attribute, set_attribute
from nirmap.cells import Cell
from nirmap.spike_functions import Applied
from nirmap.stand_in import Allocating, StandIn, spread_already
from nirmap_registry.rows import Placement, Primitive, Row, Values


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
        if self.call.record is None:
            raise TypeError(f"{self.path} is declared without its record")
        variables = dict(zip(self.kept_as, kept, strict=True)) | self._zeroed(input, kept)
        output, new = self.module(input, self.call.record(**variables))
        return output, [getattr(new, name) for name in self.kept_as]


class PositionalCell(Cell):
    """``module(input, a, b) -> (output, a, b)``."""

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Calls the module with one argument for each variable."""
        variables = dict(zip(self.kept_as, kept, strict=True)) | self._zeroed(input, kept)
        output, *new = self.module(input, **variables)
        returned = {**dict(zip(self.returns, new, strict=True)), _FORWARD: output}
        return output, [returned[name] for name in self.read_from]


class AttributesCell(Cell):
    """``module(input) -> output``, with the state in attributes of the module.

    Each class of an autograd function in an attribute becomes an object (:class:`nirmap.spike_functions.Applied`).
    """

    def __init__(self, module: torch.nn.Module, row: Row, primitive: Primitive, *arguments: Any) -> None:
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and issubclass(value, torch.autograd.Function):
                setattr(module, name, Applied(value))
        super().__init__(module, row, primitive, *arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> Cell:
        # A class's own way to copy may go through its constructor, which does not know what was set afterwards.
        module: torch.nn.Module = type(self.module).__new__(type(self.module))
        memo[id(self.module)] = module
        vars(module).update(copy.deepcopy(vars(self.module), memo))
        return super().__deepcopy__(memo)

    def step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Sets the module's attributes, calls it, with an axis of time where it takes one, and reads them."""
        if input.dim() == 0:  # a single neuron, which the module knows in a batch only
            one, after = self.step(input[None], [value[None] for value in kept])
            return one[0], [value[0] for value in after]
        variables = dict(zip(self.kept_as, kept, strict=True)) | self._zeroed(input, kept)
        if self.call.spread_by is not None:
            return self._by_stand_in(input, variables, self.call.spread_by)
        axis = self.call.time_axis
        lists = {entry.kept_as for entry in self.call.variables if entry.entries is not None}
        for name, value in variables.items():
            set_attribute(self.module, name, list(value.unbind(-1)) if name in lists else value)
        # The feature axes of the input follow one batch axis and the axis of time.
        returned: Any = self.module(input if axis is None else input.unsqueeze(axis))
        output: torch.Tensor = cast("Any", returned)[0] if isinstance(returned, tuple) else returned
        new = [output if name == _FORWARD else attribute(self.module, name) for name in self.read_from]
        # One more entry, which is taken away again, gives an empty list the shape of the input.
        new = [
            torch.stack([*value, input], dim=-1)[..., :-1] if isinstance(value, list) else value
            for value in new
        ]
        if axis is None:
            return output, new
        along_time = [variable.read_from is not None for variable in self.call.variables]
        return output.squeeze(axis), [
            value.squeeze(axis) if has_time else value
            for value, has_time in zip(new, along_time, strict=True)
        ]

    def _step(self, input: torch.Tensor, kept: list[torch.Tensor]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        # A stand-in takes what a call leaves behind, so that there is nothing to put back.
        return super()._step(input, kept) if self.call.spread_by is None else self.step(input, kept)

    def _by_stand_in(
        self, input: torch.Tensor, variables: dict[str, torch.Tensor], spread_by: str
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The module's forward, on a stand-in that has the state of the whole batch.

        The last axis of the input is that of the features, and all others are one batch.
        """
        axis, width = self.call.time_axis or 0, input.shape[-1]
        kept = {name: value.reshape(-1, width) for name, value in variables.items()}
        stand_in = StandIn(self.module, {**kept, spread_by: spread_already})
        with Allocating(input.dtype, input.device):
            forward: Any = type(self.module).forward
            output: torch.Tensor = forward(stand_in, input.reshape(-1, width).unsqueeze(axis))
        new: list[torch.Tensor] = [
            output if name == _FORWARD else stand_in.entry(name) for name in self.read_from
        ]
        return self._unfolded(output, input), [self._unfolded(value, input) for value in new]

    def _unfolded(self, value: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
        """One step, with the batch axes of the input."""
        axis = self.call.time_axis or 0
        return value.squeeze(axis).reshape(*input.shape[:-1], value.shape[-1])


# Under ``from``: the new state is what forward returns.
_FORWARD = "forward"


CELLS: Mapping[str, type[Cell]] = {
    "explicit": ExplicitCell,
    "record": RecordCell,
    "positional": PositionalCell,
    "attributes": AttributesCell,
}


def build_cell(row: Row, parameters: Values, dt: float, to: Placement) -> Cell:
    """The framework's module for a node, in a cell that calls it in the module's own way.

    Args and result are those of :meth:`nirmap.cells.Cell.build`.

    Raises:
        TypeError: the module is stateless, or never built.
    """
    if row.state is None:
        raise TypeError(f"{row.path} is stateless and needs no cell")
    return CELLS[row.state.call].build(row, parameters, dt, to)
