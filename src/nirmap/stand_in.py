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

    def entry(self, path: str) -> Any:
        """An attribute, or the entry of a dictionary there (``attribute.key``)."""
        attribute, _, key = path.partition(".")
        value: Any = getattr(self, attribute)
        return value[key] if key else value

    def __setattr__(self, name: str, value: Any) -> None:
        self._own[name] = value


def spread_already(
    data: torch.Tensor, states: tuple[torch.Tensor, ...] = (), *others: Any
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """In place of the method that spreads state over a batch: copies, for forward may write to its state."""
    return data, tuple(state.clone() for state in states)


class Allocating(TorchFunctionMode):
    """Inside, tensors that are made without a dtype or a device have these, and not torch's defaults.

    Args:
        dtype: the dtype.
        device: the device.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.dtype, self.device = dtype, device

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in _FACTORIES and given.get("dtype") is None:
            given = {**given, "dtype": self.dtype}
        if func in _FACTORIES and given.get("device") is None:
            given = {**given, "device": self.device}
        return func(*args, **given)


_FACTORIES = frozenset({torch.zeros, torch.ones, torch.randn})
