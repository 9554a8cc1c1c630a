"""What is tried in the place of a function, a class or an object that a module takes as an argument."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch

# Functions that frameworks' modules take as arguments, and that nirmap has itself.
OWN = "nirmap.spike_functions"


def as_given(other: Any, value: Any) -> Iterator[Any]:
    """A class itself where a class stood, an object of it where an object stood, a function where a function stood."""
    if not isinstance(other, type):
        if inspect.isroutine(other) and (value is None or inspect.isroutine(value)):
            yield other
        return
    if value is None or isinstance(value, type):
        yield other
    if not isinstance(value, type):
        for arguments in ((), (2,)):
            with contextlib.suppress(
                Exception
            ):  # it takes other arguments, or is no class to make objects of
                yield other(*arguments)
                return


def as_layer(kind: Any, width: int) -> Iterator[torch.nn.Module]:
    """A layer that leaves the shape as it is, without bias and with one."""
    if kind is torch.nn.Linear:
        for bias in (False, True):
            yield torch.nn.Linear(width, width, bias=bias)
