"""A module as its own forward sees it, with the state of a whole batch where it keeps that of one sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch.overrides import TorchFunctionMode


class StandIn:
    """A module as its own forward sees it: with other values of some attributes, and nothing that is set stays.

    Args:
        module: the module.
        own: the attributes that are others; what forward sets is added.
    """

    def __init__(self, module: torch.nn.Module, own: dict[str, Any]) -> None:
        object.__setattr__(self, "_module", module)
        object.__setattr__(self, "_own", own)

    def __getattr__(self, name: str) -> Any:
        own: dict[str, Any] = self._own
        if name in own:
            return own[name]
        value: Any = getattr(self._module, name)
        if isinstance(value, dict):  # what forward writes to it must not stay either
            value = own[name] = dict(cast("Mapping[Any, Any]", value))
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        self._own[name] = value


def spread_already(
    data: torch.Tensor, states: tuple[torch.Tensor, ...] = (), *others: Any
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """In place of the method that spreads state over a batch: copies, for forward may write to its state."""
    return data, tuple(state.clone() for state in states)


class Allocating(TorchFunctionMode):
    """Inside, tensors that are made without a dtype have this one, and not torch's default.

    Args:
        dtype: the dtype.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in _FACTORIES and given.get("dtype") is None:
            given = {**given, "dtype": self.dtype}
        return func(*args, **given)


_FACTORIES = frozenset({torch.zeros, torch.ones, torch.randn})
