"""Subclasses of modules that a table knows: what they may change, and what not."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from nirmap.errors import TraceError
from nirmap_registry.rows import Row

# What a subclass may have of its own without changing what the module computes.
_HARMLESS = frozenset(
    {
        "__init__",
        "__module__",
        "__doc__",
        "__qualname__",
        "__annotations__",
        "__annotate__",
        "__repr__",
        "__constants__",
    }
    | {
        "__firstlineno__",
        "__static_attributes__",
        "__setstate__",
        "__parameters__",
        "__dict__",
        "__weakref__",
    }
    | {
        "extra_repr",
        "reset_parameters",
        "__abstractmethods__",
        "_abc_impl",
        "__annotations_cache__",
        "__annotate_func__",
    }
)


def class_of(module: torch.nn.Module) -> type[torch.nn.Module]:
    """The class of a module, before torch made another one of it to compute its parameters."""
    if not has_parametrizations(module):
        return type(module)
    kind: type[torch.nn.Module] = torch.nn.utils.parametrize.type_before_parametrizations(module)
    return kind


def has_parametrizations(module: torch.nn.Module) -> bool:
    """Whether torch computes parameters of a module whenever they are read."""
    # torch asks every module for the attribute, which is slow where there is none.
    return "parametrizations" in getattr(
        module, "_modules", ()
    ) and torch.nn.utils.parametrize.is_parametrized(module)


def check_overrides(
    module: torch.nn.Module, base: type[torch.nn.Module], rows: Iterable[Row], path: str, where: str
) -> None:
    """Refuses a module whose class, or which itself, changes what the table relies on.

    Raises:
        TraceError: it does.
    """
    kind = class_of(module)
    overridden = _overridden(kind, base, rows)
    if "forward" in vars(module):
        overridden.append("forward")
    if overridden:
        raise TraceError(
            where,
            f"{kind.__qualname__} overrides {', '.join(overridden)} of {path}",
            f"a {path} itself, since the mapping relies on it",
            f"pass a function for {kind.__qualname__} in module_map",
        )


def _overridden(kind: type[torch.nn.Module], base: type[torch.nn.Module], rows: Iterable[Row]) -> list[str]:
    """What a subclass changes of the class that the table speaks of, construction and printing apart."""
    own = {name for entry in kind.__mro__[: kind.__mro__.index(base)] for name in vars(entry)}
    if not own:
        return []
    relied = {"forward", "__call__", "_call_impl", "__getattr__"}
    relied |= {name.partition(".")[0] for row in rows for name in row.accounted}
    for entry in base.__mro__[: base.__mro__.index(torch.nn.Module)]:
        relied |= vars(entry).keys()
    return sorted(own & relied - _HARMLESS)
