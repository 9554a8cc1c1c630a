"""Functions that modules take as arguments: what a spike is, what it does, and its surrogate gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import torch


class ResetTo(NamedTuple):
    """Sets one state variable to a value in every neuron that spiked.

    It is called as ``reset(spikes, state, threshold)`` with the state as a mapping, and returns a new mapping. No
    gradient flows through the variable of a neuron that spiked.

    Attributes:
        value: what the variable is set to; one number, or one per neuron.
        variable: name of the variable in the mapping.
    """

    value: torch.Tensor
    variable: str

    def __call__(self, spikes: torch.Tensor, state: Mapping[str, Any], threshold: Any) -> dict[str, Any]:
        """The state after the spikes."""
        return {**state, self.variable: torch.where(spikes != 0, self.value, state[self.variable])}


def relative_exponential(potential: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
    """Surrogate gradient ``exp(-|v - threshold| / w) / w``, whose width w is half of the threshold's magnitude.

    The shape is that of Shrestha and Orchard, "SLAYER", NeurIPS 2018. For a threshold of 0 the width is 1/2, so that
    the gradient is finite, and never negative, for all thresholds.

    Args:
        potential: the membrane potential v.
        threshold: the threshold; one number, or one per neuron.
    """
    width = threshold.abs() / 2
    width = torch.where(width > torch.finfo(width.dtype).tiny, width, 0.5)
    return torch.exp(-torch.abs(potential - threshold) / width) / width


class Applied:
    """A ``torch.autograd.Function`` class as an object, for torch.compile cannot read what else such a class says.

    Args:
        function: the class. Its name, and what its public attributes hold, are those of the object too.
    """

    def __init__(self, function: type[torch.autograd.Function]) -> None:
        self.function = function
        self.__name__ = function.__name__
        for kind in reversed(function.__mro__[: function.__mro__.index(torch.autograd.Function)]):
            for name, value in vars(kind).items():
                if not name.startswith("_") and not hasattr(value, "__get__"):
                    setattr(self, name, value)

    def __repr__(self) -> str:
        return self.__name__

    def apply(self, *arguments: Any) -> Any:
        """Applies the function."""
        return cast("Any", self.function).apply(*arguments)
