"""Spikes with a surrogate gradient: a step forward, a smooth slope backward.

``spike(x) = 1 if x > 0 else 0``, where x is the distance of the membrane potential to the threshold. The derivative of
the step is zero nearly everywhere; for training it is replaced by a bump around the threshold:

* ``fast_sigmoid``: ``1 / (1 + k |x|)^2`` with k = 25 (Zenke and Ganguli, "SuperSpike", Neural Computation 30, 2018)
* ``arctan``: ``a / (2 (1 + (pi a x / 2)^2))`` with a = 2 (Fang et al., "Incorporating Learnable Membrane Time
  Constant", ICCV 2021)
* ``sigmoid``: ``k s(k x) (1 - s(k x))`` with k = 4 and s the logistic function (the same work, section 3.3)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Final

import torch

Spike = Callable[[torch.Tensor], torch.Tensor]
FAST_SIGMOID_SLOPE = 25.0
ARCTAN_SLOPE = 2.0
SIGMOID_SLOPE = 4.0


class _Step(torch.autograd.Function):
    """Heaviside step; subclasses say what its derivative is taken to be."""

    generate_vmap_rule = True

    @staticmethod
    def forward(distance: torch.Tensor) -> torch.Tensor:
        return (distance > 0).to(distance.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        ctx.save_for_backward(inputs[0])


# torch asks for the signature in every call, which takes as long as all the rest unless it is kept here.
_Step.forward.__signature__ = inspect.signature(_Step.forward)  # type: ignore[attr-defined]


class _FastSigmoid(_Step):
    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        distance: torch.Tensor = ctx.saved_tensors[0]
        return gradients[0] / (1 + FAST_SIGMOID_SLOPE * distance.abs()) ** 2


class _Arctan(_Step):
    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        distance: torch.Tensor = ctx.saved_tensors[0]
        return gradients[0] * ARCTAN_SLOPE / 2 / (1 + (math.pi / 2 * ARCTAN_SLOPE * distance) ** 2)


class _Sigmoid(_Step):
    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        distance: torch.Tensor = ctx.saved_tensors[0]
        logistic = torch.sigmoid(SIGMOID_SLOPE * distance)
        return gradients[0] * SIGMOID_SLOPE * logistic * (1 - logistic)


def fast_sigmoid(distance: torch.Tensor) -> torch.Tensor:
    """1 where ``distance > 0``, else 0; gradient of a fast sigmoid."""
    return _apply(_FastSigmoid, distance)


def arctan(distance: torch.Tensor) -> torch.Tensor:
    """1 where ``distance > 0``, else 0; gradient of an arc tangent."""
    return _apply(_Arctan, distance)


def sigmoid(distance: torch.Tensor) -> torch.Tensor:
    """1 where ``distance > 0``, else 0; gradient of a logistic function."""
    return _apply(_Sigmoid, distance)


def _apply(function: type[_Step], distance: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = function.apply(distance)
    return result


SURROGATES: Final[dict[str, Spike]] = {"fast_sigmoid": fast_sigmoid, "arctan": arctan, "sigmoid": sigmoid}
