"""The arguments of a model's forward: which are inputs, which may be state, and which have a value in every step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from nirmap.errors import TraceError


@dataclass(frozen=True)
class Arguments:
    """The arguments that are no plain inputs.

    Attributes:
        optional: those that may be state: their default is None, or the caller says None for them.
        fixed: those for which the caller says a value, which they have in every step.
    """

    optional: tuple[str, ...]
    fixed: Mapping[str, Any]


def parameters_of(module: torch.nn.Module) -> Mapping[str, inspect.Parameter]:
    """The parameters of a module's forward."""
    forward: Callable[..., Any] = module.forward
    return inspect.signature(forward).parameters


def arguments_of(module: torch.nn.Module, concrete: Mapping[str, Any]) -> Arguments:
    """The arguments of a module's forward that are no plain inputs.

    Args:
        module: the model.
        concrete: values of arguments, by name; None for one that is state.

    Raises:
        TraceError: forward has no argument of that name.
    """
    parameters = parameters_of(module)
    for name in concrete:
        if name not in parameters:
            expected = "an argument of forward: " + ", ".join(parameters)
            raise TraceError("concrete_args", repr(name), expected, "correct the name")
    fixed = {name: value for name, value in concrete.items() if value is not None}
    optional = tuple(
        name
        for name, parameter in parameters.items()
        if name not in fixed and (parameter.default is None or name in concrete)
    )
    return Arguments(optional, fixed)
