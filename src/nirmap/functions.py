"""The table of traced functions and methods, with the functions themselves as keys."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, cast

import torch

from nirmap.errors import TraceError
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
# What takes any number of arguments, which are looked at one by one.
_VARIADIC = ("cast", "reshape")
_IN_PLACE = {"operator.iadd", "operator.isub", "operator.imul", "operator.itruediv"}


def function_of(node: torch.fx.Node, where: str) -> Function:
    """What a call of a function or method means.

    Raises:
        TraceError: the table does not have it.
    """
    table: dict[Any, Function] = METHODS if node.op == "call_method" else FUNCTIONS
    function = table.get(node.target)
    if function is None:
        raise TraceError(
            where,
            "a function that NIR has no node for",
            "one of " + ", ".join(sorted(entry.name for entry in table.values())),
            "use a layer for it, or move it into a module and pass a function for that in module_map",
        )
    return function


def meaning(node: torch.fx.Node) -> Function | None:
    """What a call means, or None for one that is of no function of the table."""
    table: dict[Any, Function] = METHODS if node.op == "call_method" else FUNCTIONS
    return table.get(node.target) if node.op in ("call_method", "call_function") else None


def asks_only(node: torch.fx.Node) -> bool:
    """Whether a call asks how large its operand is, or for its dtype or device."""
    function = meaning(node)
    if function is None:
        return False
    return function.means == "size" or (
        node.target is getattr and node.args[1] in ("shape", "dtype", "device")
    )


def module_class(function: Function) -> type[torch.nn.Module]:
    """The class of the module that does what a function does."""
    kind: Any = _resolve(function.module)
    return cast("type[torch.nn.Module]", kind)


def is_zeros(node: torch.fx.Node) -> bool:
    """Whether a call gives zeros, whatever its arguments are."""
    function = meaning(node)
    return function is not None and function.means == "scale" and function.factor == 0


def arguments_of(node: torch.fx.Node, function: Function, where: str) -> dict[str, Any]:
    """The arguments of a call by name; the operand, which comes first, is called ``input``.

    Raises:
        TraceError: an argument is left out that has no default, or is given that the table does not name.
    """
    if function.means in _VARIADIC:
        return {}
    names = ("input", *function.parameters)
    arguments: dict[str, Any] = {**function.defaults, **dict(zip(names, node.args, strict=False))}
    unknown = [name for name in node.kwargs if name not in names]
    if unknown or len(node.args) > len(names):
        found = f"the argument {unknown[0]!r}" if unknown else f"{len(node.args)} arguments"
        raise TraceError(where, found, "no arguments but " + ", ".join(names), "leave it out")
    arguments.update(node.kwargs)
    missing = [name for name in names if name not in arguments]
    if missing:
        raise TraceError(where, f"no argument {missing[0]!r}", "one, by position")
    return arguments


def is_in_place(node: torch.fx.Node) -> bool:
    """Whether a call changes its first operand."""
    if node.op == "call_method":
        name, known = str(node.target), meaning(node)
        # What only concerns gradients changes nothing here.
        is_bypass = known is not None and known.means == "bypass"
        return name.endswith("_") and not name.endswith("__") and not is_bypass
    function = FUNCTIONS.get(node.target) if callable(node.target) else None
    return function is not None and function.name in _IN_PLACE
