"""The reference modules: one for each primitive that torch.nn has no layer for. They need nothing but torch.

All but :class:`Delay` are generated from the equations of the catalogue.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from nirmap.errors import ConstraintError
from nirmap.neuron import Neuron, State
from nirmap_registry.neurons import IF, LI, LIF, CubaLI, CubaLIF, I, Scale, Threshold

# How far a delay may be from a whole number of steps and still count as one, besides the rounding of its dtype.
STEP_TOLERANCE = 1e-6
# Rounding of a delay to a dtype by more than this part of a step could take it for a neighbour.
_LARGEST_ROUNDING = 0.25


class Delay(Neuron):
    r"""The input of some time ago, each neuron with its own delay; zero before the first step.

    The state is ``history``, of shape (\*batch, \*neurons, steps): the last inputs, the oldest first, as many as the
    longest delay has steps.

    Args:
        delay: time in s, a whole number of time steps.
        dt: time step in s.

    Raises:
        ConstraintError: a delay is negative, not a whole number of steps, too long for its dtype to tell the number of
            steps, or without numbers (on the device ``meta``).
    """

    parameter_names: ClassVar[tuple[str, ...]] = ("delay",)
    fixed_names: ClassVar[tuple[str, ...]] = ("delay",)
    delay: torch.Tensor
    entry: torch.Tensor

    def __init__(self, delay: torch.Tensor, dt: float) -> None:
        super().__init__({"delay": delay}, dt=dt)
        if self.delay.is_meta:
            raise ConstraintError(
                "Delay",
                "a delay on the device 'meta'",
                "its numbers, which say how long the history is",
                "build the network on 'cpu' and move it with .to('meta')",
            )
        # Entry of the extended history (the last inputs and then the present one) that leaves the node now.
        self.register_buffer("entry", None, persistent=False)
        self._count_steps(self.delay.dtype)

    def _count_steps(self, dtype: torch.dtype) -> None:
        """Finds the number of steps of each delay; ``dtype`` is what the delay was last rounded to."""
        exact = self.delay.detach().to("cpu", torch.float64) / self.dt
        steps = exact.round()
        # Files hold float32; whatever is computed in float64 has come through it.
        rounding = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) * exact.abs()
        wrong = ((exact - steps).abs() > rounding.clamp(min=STEP_TOLERANCE)) | (steps < 0)
        if bool(wrong.any()):
            raise ConstraintError(
                "Delay",
                f"a delay of {exact[wrong][0].item() * self.dt:g} s at a time step of {self.dt:g} s",
                "a whole, non-negative number of time steps",
                "choose dt so that it divides every delay",
            )
        if bool((rounding > 2 * _LARGEST_ROUNDING).any()):
            raise ConstraintError(
                "Delay",
                f"a delay of about {exact.max().item():g} steps in {dtype}",
                "a dtype that tells one number of steps from the next",
                "use dtype=torch.float32, or a larger dt",
            )
        self.longest = int(steps.max().item()) if steps.numel() else 0
        self.entry = (self.longest - steps).to(self.delay.device, torch.int64)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any, **keywords: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, *arguments, **keywords)  # pyright: ignore[reportUnknownMemberType]
        if not self.delay.is_meta:
            self._count_steps(state_dict.get(prefix + "delay", self.delay).dtype)

    def forward(self, input: torch.Tensor, state: State | None = None) -> tuple[torch.Tensor, State]:
        """One step; returns the delayed input and the new state."""
        history = input.new_zeros((*input.shape, self.longest)) if state is None else state["history"]
        extended = torch.cat([history, input.unsqueeze(-1)], dim=-1)
        entry = self.entry.expand(input.shape).unsqueeze(-1)
        output = torch.gather(extended, -1, entry).squeeze(-1)
        return output, {"history": extended[..., 1:]}


__all__ = ["IF", "LI", "LIF", "CubaLI", "CubaLIF", "Delay", "I", "Scale", "Threshold"]
