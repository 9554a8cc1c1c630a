"""Attributes of a framework's module that a cell exchanges for a call, with tensors that torch does not know of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

if TYPE_CHECKING:
    from nirmap.cells import Cell

MISSING = object()


def buffers_of(module: torch.nn.Module) -> dict[str, Any]:
    """A module's own buffers by name, to be read and to be replaced."""
    buffers: dict[str, Any] = vars(module)["_buffers"]
    return buffers


def attribute(module: torch.nn.Module, name: str) -> Any:
    """An attribute, or a mark where there is none."""
    buffers = buffers_of(module)
    return buffers[name] if name in buffers else getattr(module, name, MISSING)


def set_attribute(module: torch.nn.Module, name: str, value: Any) -> None:
    """Sets an attribute, or removes it where there was none."""
    if value is MISSING:
        if hasattr(module, name):
            delattr(module, name)
    elif name in buffers_of(module):
        buffers_of(module)[name] = value
    else:
        setattr(module, name, value)


class Unknown:
    """The tensors of a module that torch does not know of, alone in an attribute or in a record there.

    The cell holds them as buffers of its own, so that they move and are saved.

    Args:
        cell: the cell around the module.
        attributes: the attributes.
    """

    def __init__(self, cell: Cell, attributes: tuple[str, ...]) -> None:
        self.attributes = attributes
        self.entries: list[
            tuple[str, str | None, str]
        ] = []  # attribute, field of the record, buffer of the cell
        for attribute in attributes:
            value: Any = getattr(cell.module, attribute)
            fields: dict[str | None, Any] = {None: value}
            if isinstance(value, tuple):
                record = cast("Any", value)
                fields = {field: getattr(record, field) for field in record._fields}
            for field, tensor in fields.items():
                if isinstance(tensor, torch.Tensor):
                    buffer = "_".join(filter(None, (attribute, field)))
                    cell.register_buffer(buffer, tensor)
                    self.entries.append((attribute, field, buffer))

    def buffers(self) -> set[str]:
        """The names of the cell's buffers."""
        return {buffer for _, _, buffer in self.entries}

    def now(self, cell: Cell, attribute: str) -> Any:
        """The attribute with the tensors that the cell holds now; the same object where none is another one."""
        value: Any = getattr(cell.module, attribute)
        for owner, field, buffer in self.entries:
            if owner == attribute:
                tensor: torch.Tensor = getattr(cell, buffer)
                if field is None:
                    value = tensor
                elif getattr(value, field) is not tensor:
                    value = value._replace(**{field: tensor})
        return value

    def replace(self, cell: Cell) -> list[tuple[str, Any]]:
        """Gives the module the tensors that the cell holds now; returns the attributes that were others."""
        replaced: list[tuple[str, Any]] = []
        for attribute in self.attributes:
            usual, now = getattr(cell.module, attribute), self.now(cell, attribute)
            if now is not usual:
                replaced.append((attribute, usual))
                setattr(cell.module, attribute, now)
        return replaced

    def refresh(self, cell: Cell) -> None:
        """Gives the module the tensors that the cell holds now, for good."""
        self.replace(cell)
