"""Attributes of a framework's module that a cell exchanges for a call, with tensors that torch does not know of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from nirmap.cells import Cell

MISSING = object()
# The names that lead from a record, through records in it, to a value.
Fields = tuple[str, ...]


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
        self.entries: list[tuple[str, Fields, str]] = []  # attribute, path in the record, buffer of the cell
        for attribute in attributes:
            for path, tensor in _tensors(getattr(cell.module, attribute)):
                buffer = "_".join((attribute, *path))
                cell.register_buffer(buffer, tensor)
                self.entries.append((attribute, path, buffer))

    def buffers(self) -> set[str]:
        """The names of the cell's buffers."""
        return {buffer for _, _, buffer in self.entries}

    def now(self, cell: Cell, attribute: str) -> Any:
        """The attribute with the tensors that the cell holds now; the same object where none is another one."""
        value: Any = getattr(cell.module, attribute)
        for owner, path, buffer in self.entries:
            if owner == attribute:
                value = _with_tensor(value, path, getattr(cell, buffer))
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


def _tensors(value: Any, path: Fields = ()) -> Iterator[tuple[Fields, torch.Tensor]]:
    """A tensor, or those in a record and in the records there, with the fields that lead to them."""
    if isinstance(value, torch.Tensor):
        yield path, value
    for name in _fields(value):
        yield from _tensors(getattr(value, name), (*path, name))


def _with_tensor(value: Any, path: Fields, tensor: torch.Tensor) -> Any:
    """The value, or a copy of the record, with another tensor at the end of a path; the same object if it is there."""
    if not path:
        return tensor
    before = getattr(value, path[0])
    after = _with_tensor(before, path[1:], tensor)
    return value if after is before else _with_field(value, path[0], after)


def _fields(record: Any) -> list[str]:
    """The fields of a named tuple or a dataclass; none for anything else."""
    if dataclasses.is_dataclass(record):
        return [entry.name for entry in dataclasses.fields(record)]
    names: tuple[str, ...] = getattr(record, "_fields", ())
    return list(names)


def _with_field(record: Any, name: str, value: Any) -> Any:
    """A copy of a record with another value of a field."""
    exchange: Any = dataclasses.replace if dataclasses.is_dataclass(record) else _exchange
    return exchange(record, **{name: value})


def _exchange(record: Any, **values: Any) -> Any:
    """A copy of a named tuple with other values."""
    return record._replace(**values)
