"""The base of the reference modules: parameters as buffers, a time step, a spike with a surrogate gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch

from nirmap.discretisation import Method, check_method
from nirmap.errors import ConstraintError
from nirmap.resets import Reset, check_reset
from nirmap.surrogate import SURROGATES

State = dict[str, torch.Tensor]


class Neuron(torch.nn.Module):
    """A module whose parameters are tensors of one number per neuron, or of a single number.

    Parameters are buffers, so that they are in the state dict and move with the module, but are not trained;
    :meth:`train_parameters` makes some of them trainable.

    Attributes:
        parameter_names: the parameters of the class.
        fixed_names: those of them that cannot be trained, since no gradient reaches them.

    Args:
        parameters: the tensors by name.
        dt: time step in s; 0 for a module without dynamics.
        surrogate: name of the surrogate gradient, a key of ``nirmap.surrogate.SURROGATES``.
        reset: ``value`` or ``subtract``; it matters for neurons that are reset.
        method: ``forward_euler`` or ``exponential``; it matters for modules with dynamics that are linear.

    Raises:
        ConstraintError: the surrogate gradient, the reset or the method is not known.
    """

    parameter_names: ClassVar[tuple[str, ...]] = ()
    fixed_names: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        parameters: dict[str, torch.Tensor],
        *,
        dt: float = 0.0,
        surrogate: str = "fast_sigmoid",
        reset: str = "value",
        method: str = "forward_euler",
    ) -> None:
        super().__init__()
        if surrogate not in SURROGATES:
            known = ", ".join(sorted(SURROGATES))
            raise ConstraintError("surrogate gradient", f"{surrogate!r}", f"one of {known}")
        for name, value in parameters.items():
            self.register_buffer(name, torch.as_tensor(value))
        self.dt = dt
        self.surrogate = surrogate
        self.reset: Reset = check_reset(reset, "reset")
        self.method: Method = check_method(method, "method")

    def spike(self, distance: torch.Tensor) -> torch.Tensor:
        """1 where the distance to the threshold is above 0, else 0, in the dtype of the distance."""
        return SURROGATES[self.surrogate](distance)

    def train_parameters(self, names: Iterable[str]) -> None:
        """Turns the named buffers into trainable parameters."""
        for name in names:
            value = self._buffers.pop(name)
            if value is not None:
                self.register_parameter(name, torch.nn.Parameter(value))

    def extra_repr(self) -> str:
        """Parameters that are the same for all neurons as numbers, the others as shapes."""
        parts = [f"{name}={_summary(getattr(self, name))}" for name in self.parameter_names]
        if self.dt:
            parts.append(f"dt={self.dt:g}")
        if self.reset != "value":
            parts.append(f"reset={self.reset!r}")
        if self.method != "forward_euler":
            parts.append(f"method={self.method!r}")
        return ", ".join(parts)


def _summary(value: torch.Tensor) -> str:
    if value.is_meta or value.numel() == 0:
        return str(tuple(value.shape))
    first = value.detach().flatten()[0]
    return f"{float(first):.6g}" if bool((value == first).all()) else str(tuple(value.shape))
