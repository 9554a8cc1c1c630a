"""The reference modules: one for each primitive that torch.nn has no layer for. They need nothing but torch.

All but :class:`Delay` are generated from the equations of the catalogue.
"""

from __future__ import annotations

from typing import ClassVar

import torch

from nirmap.errors import ConstraintError
from nirmap.neuron import Neuron, State
from nirmap_registry.neurons import IF, LI, LIF, CubaLI, CubaLIF, I, Scale, Threshold

# How far a delay may be from a whole number of steps and still count as one: rounding of delay / dt in float32.
STEP_TOLERANCE = 1e-4


class Delay(Neuron):
    """The input of some time ago, each neuron with its own delay; zero before the first step.

    The state is ``history``, of shape (\\*batch, \\*neurons, steps): the last inputs, the oldest first, as many as the
    longest delay has steps.

    Args:
        delay: time in s, a whole number of time steps.
        dt: time step in s.

    Raises:
        ConstraintError: a delay is negative or not a whole number of steps.
    """

    parameter_names: ClassVar[tuple[str, ...]] = ("delay",)
    delay: torch.Tensor

    def __init__(self, delay: torch.Tensor, dt: float) -> None:
        super().__init__({"delay": delay}, dt=dt)
        exact = torch.as_tensor(delay, dtype=torch.float64, device="cpu") / dt
        steps = exact.round()
        if bool(((exact - steps).abs() > STEP_TOLERANCE * exact.abs().clamp(min=1)).any()) or bool(
            (steps < 0).any()
        ):
            raise ConstraintError(
                "Delay",
                f"a delay of {exact.flatten()[0].item() * dt:g} s at a time step of {dt:g} s",
                "a whole, non-negative number of time steps",
                "choose dt so that it divides every delay",
            )
        self.longest = int(steps.max().item()) if steps.numel() else 0
        # Entry of the extended history (the last inputs and then the present one) that leaves the node now.
        self.register_buffer(
            "entry", (self.longest - steps).to(torch.int64).to(delay.device), persistent=False
        )

    entry: torch.Tensor

    def forward(self, input: torch.Tensor, state: State | None = None) -> tuple[torch.Tensor, State]:
        """One step; returns the delayed input and the new state."""
        history = input.new_zeros((*input.shape, self.longest)) if state is None else state["history"]
        extended = torch.cat([history, input.unsqueeze(-1)], dim=-1)
        entry = self.entry.expand(input.shape).unsqueeze(-1)
        output = torch.gather(extended, -1, entry).squeeze(-1)
        return output, {"history": extended[..., 1:]}


__all__ = ["IF", "LI", "LIF", "CubaLI", "CubaLIF", "Delay", "I", "Scale", "Threshold"]
