"""The base of a reference module that hands its input on some time later: ``delayed`` in the equations."""

from __future__ import annotations

from typing import Any

import torch

from nirmap.errors import ConstraintError
from nirmap.neuron import Neuron

# How far a delay may be from a whole number of steps and still count as one, besides the rounding of its dtype.
STEP_TOLERANCE = 1e-6
# Rounding of a delay to a dtype by more than this part of a step could take it for a neighbour.
_LARGEST_ROUNDING = 0.25


class DelayLine(Neuron):
    r"""The input of some time ago, each neuron with its own delay; zero before the first step.

    Its state is the history, of shape (\*batch, \*neurons, steps): the last inputs, the oldest first, as many as the
    longest delay has steps.

    Args:
        parameters: the delay in s, a whole number of time steps, by its name.
        dt: time step in s.

    Raises:
        ConstraintError: a delay is negative, not a whole number of steps, too long for its dtype to tell the number of
            steps, or without numbers (on the device ``meta``).
    """

    entry: torch.Tensor

    def __init__(self, parameters: dict[str, torch.Tensor], *, dt: float) -> None:
        super().__init__(parameters, dt=dt)
        if self._time.is_meta:
            raise ConstraintError(
                type(self).__name__,
                "a delay on the device 'meta'",
                "its numbers, which say how long the history is",
                "build the network on 'cpu' and move it with .to('meta')",
            )
        # Entry of the extended history (the last inputs and then the present one) that leaves the node now.
        self.register_buffer("entry", None, persistent=False)
        self._count_steps(self._time.dtype)

    @property
    def _time(self) -> torch.Tensor:
        """The delay, by whatever name the primitive has for it."""
        value: torch.Tensor = getattr(self, self.parameter_names[0])
        return value

    def _count_steps(self, dtype: torch.dtype) -> None:
        """Finds the number of steps of each delay; ``dtype`` is what the delay was last rounded to."""
        exact = self._time.detach().to("cpu", torch.float64) / self.dt
        steps = exact.round()
        # Files hold float32; whatever is computed in float64 has come through it.
        rounding = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps) * exact.abs()
        wrong = ((exact - steps).abs() > rounding.clamp(min=STEP_TOLERANCE)) | (steps < 0)
        if bool(wrong.any()):
            raise ConstraintError(
                type(self).__name__,
                f"a delay of {exact[wrong][0].item() * self.dt:g} s at a time step of {self.dt:g} s",
                "a whole, non-negative number of time steps",
                "choose dt so that it divides every delay",
            )
        if bool((rounding > 2 * _LARGEST_ROUNDING).any()):
            raise ConstraintError(
                type(self).__name__,
                f"a delay of about {exact.max().item():g} steps in {dtype}",
                "a dtype that tells one number of steps from the next",
                "use dtype=torch.float32, or a larger dt",
            )
        self.longest = int(steps.max().item()) if steps.numel() else 0
        self.entry = (self.longest - steps).to(self._time.device, torch.int64)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any, **keywords: Any
    ) -> None:
        super()._load_from_state_dict(state_dict, prefix, *arguments, **keywords)  # pyright: ignore[reportUnknownMemberType]
        if not self._time.is_meta:
            name = self.parameter_names[0]
            self._count_steps(state_dict.get(prefix + name, self._time).dtype)

    def empty_history(self, input: torch.Tensor) -> torch.Tensor:
        r"""The history before the first step, for an input of shape (\*batch, \*neurons)."""
        return input.new_zeros((*input.shape, self.longest))

    def delayed(self, input: torch.Tensor, history: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The input as it was, of the shape of the input, and the history with the present one."""
        extended = torch.cat([history, input.unsqueeze(-1)], dim=-1)
        entry = self.entry.expand(input.shape).unsqueeze(-1)
        return torch.gather(extended, -1, entry).squeeze(-1), extended[..., 1:]
