"""The table of traced functions and methods, with the functions themselves as keys."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

from nirmap_registry import functions
from nirmap_registry.rows import Function


def _resolve(path: str) -> Callable[..., Any]:
    package, _, name = path.rpartition(".")
    function: Callable[..., Any] = getattr(importlib.import_module(package), name)
    return function


FUNCTIONS: Final[dict[Callable[..., Any], Function]] = {
    _resolve(path): function for path, function in functions.FUNCTIONS.items()
}
METHODS: Final[dict[str, Function]] = functions.METHODS
