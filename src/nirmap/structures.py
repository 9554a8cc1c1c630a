"""Structures of values, and modules that are left as they were.

A structure is a tuple, a list, a queue (``deque``), a dictionary, a named tuple or a dataclass, at any depth.
"""

from __future__ import annotations

import dataclasses
import operator
import random
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import torch

Replace = Callable[[Any], Any]
# The attributes that every module has.
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module())) - {"_buffers", "_parameters", "_modules", "training"}


@dataclass(frozen=True)
class Leaf:
    """Stands in a structure for a value that changes from step to step."""


def is_named_tuple(value: object) -> bool:
    """Whether a value is an instance of a named tuple."""
    return is_sequence(value) and hasattr(value, "_fields")


def is_dictionary(value: object) -> TypeGuard[dict[Any, Any]]:
    """Whether a value is a dictionary."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a value is a list."""
    return isinstance(value, list)


def is_deque(value: object) -> TypeGuard[deque[Any]]:
    """Whether a value is a queue with two ends."""
    return isinstance(value, deque)


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether a value is a list or a tuple."""
    return isinstance(value, list | tuple)


def parts_of(value: Any) -> dict[Any, Any] | None:
    """The parts of a structure by key, index or field; None for a value that is no structure."""
    if is_dictionary(value):
        return dict(value)
    if is_named_tuple(value):
        return dict(zip(value._fields, value, strict=True))
    if is_sequence(value) or is_deque(value):
        return dict(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Leaf):
        return {entry.name: getattr(value, entry.name) for entry in dataclasses.fields(value)}
    return None


def replaced(value: Any, kind: type, replace: Replace) -> Any:
    """A new structure with every value of the given kind replaced; other values are the same."""
    if isinstance(value, kind):
        return replace(value)
    parts = parts_of(value)
    if parts is None:
        return value
    return _with_parts(value, {key: replaced(part, kind, replace) for key, part in parts.items()})


def _with_parts(value: Any, new: dict[Any, Any]) -> Any:
    """A structure like another one with other parts."""
    if is_dictionary(value):
        return new
    if is_named_tuple(value):
        return type(value)(**new)
    if is_deque(value):
        return deque(new.values(), value.maxlen)
    if is_sequence(value):
        return tuple(new.values()) if isinstance(value, tuple) else list(new.values())
    return dataclasses.replace(value, **new)


def joined(one: Any, other: Any) -> Any:
    """A structure with a leaf where either of two has one; the first where they differ otherwise."""
    if isinstance(one, Leaf) or isinstance(other, Leaf):
        return Leaf()
    parts, others = parts_of(one), parts_of(other)
    if parts is None:
        return other if values_of(other, Leaf) else one
    if others is None or others.keys() != parts.keys():
        return one
    return _with_parts(one, {key: joined(part, others[key]) for key, part in parts.items()})


def outline(value: Any) -> Any:
    """What two structures have in common that have leaves in the same places."""
    if isinstance(value, Leaf):
        return value
    parts = parts_of(value)
    return None if parts is None else [(key, outline(part)) for key, part in parts.items()]


def values_of(value: Any, kind: type) -> list[Any]:
    """All values of the given kind in a structure, in order."""
    if isinstance(value, kind):
        return [value]
    parts = parts_of(value)
    return [] if parts is None else [entry for part in parts.values() for entry in values_of(part, kind)]


def aligned(template: Any, value: Any) -> list[Any] | None:
    """What stands in a structure where a template has its leaves, in order; None where the two differ in structure."""
    if isinstance(template, Leaf):
        return [value]
    parts = parts_of(template)
    if parts is None:
        return []
    others = parts_of(value)
    if others is None or (list(others) != list(parts) and others.keys() != parts.keys()):
        return None
    found: list[Any] = []
    for key, part in parts.items():
        below = aligned(part, others[key])
        if below is None:
            return None
        found += below
    return found


@contextmanager
def unchanged(root: torch.nn.Module, is_leaf: Callable[[torch.nn.Module], bool]) -> Generator[None]:
    """Whatever happens inside, attributes, containers and tensors in them, and random numbers are as before in the end.

    Buffers of leaf modules are only put back, since those modules are not run.
    """
    randomness = torch.get_rng_state(), random.getstate(), np.random.get_state()
    # Frameworks may have a method of their own that is called ``modules``.
    attributes = [(module, dict(vars(module))) for module in torch.nn.Module.modules(root)]
    kept = _Kept()
    for module, before in attributes:
        for name in before.keys() - _OF_EVERY_MODULE:
            kept.add(before[name], with_tensors=not is_leaf(module))
    try:
        yield
    finally:
        for module, before in attributes:
            now = vars(module)
            if now.keys() != before.keys():
                for name in now.keys() - before.keys():
                    del now[name]
            now.update(before)
        kept.put_back()
        torch.set_rng_state(randomness[0])
        random.setstate(randomness[1])
        np.random.set_state(randomness[2])


_CONTAINERS = (dict, list, deque)
_KEPT = (*_CONTAINERS, torch.Tensor)


class _Kept:
    """Containers and tensors, each with what was in it."""

    def __init__(self) -> None:
        self.dictionaries: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self.lists: list[tuple[list[Any] | deque[Any], list[Any]]] = []
        self.tensors: list[tuple[torch.Tensor, torch.Tensor, int]] = []

    def add(self, value: Any, around: tuple[int, ...] = (), *, with_tensors: bool = True) -> None:
        """Keeps what is in a value, at any depth, if that is a container, and the numbers of tensors in it."""
        if id(value) in around:
            return  # it is in itself
        if is_dictionary(value):
            self.dictionaries.append((value, dict(value)))
            inner: Iterable[Any] = value.values()
        elif is_list(value) or is_deque(value):
            self.lists.append((value, list(value)))
            inner = value
        elif with_tensors and isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            self.tensors.append((value, value.detach().clone(), version_of(value)))
            return
        else:
            return
        for part in inner:
            if isinstance(part, _KEPT if with_tensors else _CONTAINERS):
                self.add(part, (*around, id(value)), with_tensors=with_tensors)

    def put_back(self) -> None:
        """Makes all of them what they were."""
        for dictionary, entries in self.dictionaries:
            are_the_same = map(operator.is_, dictionary.values(), entries.values())
            if dictionary.keys() != entries.keys() or not all(are_the_same):
                dictionary.clear()
                dictionary.update(entries)
        for items, before in self.lists:
            items.clear()
            items.extend(before)
        for tensor, numbers, version in self.tensors:
            if version_of(tensor) != version or tensor.is_inference():
                with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                    tensor.copy_(numbers)


def version_of(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place; tensors of torch's inference mode do not know, and say 0."""
    return 0 if tensor.is_inference() else tensor._version
