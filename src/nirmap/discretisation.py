"""How one time step is computed: the methods there are, and the functions that exact steps are made of."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch

from nirmap.choices import check_choice

Method = Literal["forward_euler", "exponential"]
# Up to here exprel is a series: expm1(x) / x has a derivative that loses all its digits near 0.
_SERIES = 0.1
# 0.1 ** 10 / 11! is below the rounding of float64.
_COEFFICIENTS = [1 / math.factorial(power + 1) for power in reversed(range(10))]


def check_method(method: object, where: str) -> Method:
    """A method that was asked for.

    Raises:
        ConstraintError: there is none of that name.
    """
    found: Method = check_choice(method, get_args(Method), where)
    return found


def exprel(x: torch.Tensor) -> torch.Tensor:
    r"""``(exp(x) - 1) / x``, and 1 where x is 0; also called phi1. Accurate everywhere, and so is its gradient.

    Args:
        x: of any shape, in a floating dtype.
    """
    near = x.abs() < _SERIES
    # Both branches are computed, and neither may be infinite where the other is taken: 0 times that has no gradient.
    small = torch.where(near, x, torch.zeros_like(x))
    large = torch.where(near, torch.ones_like(x), x)
    series = torch.zeros_like(x)
    for coefficient in _COEFFICIENTS:
        series = coefficient + small * series
    return torch.where(near, series, torch.expm1(large) / large)


def exp_difference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The divided difference ``(exp(a) - exp(b)) / (a - b)``, and exp(a) where both are equal.

    It is accurate however near a and b are to one another. The shapes are broadcast.
    """
    # The larger exponential stands before a factor of at most 1, so that nothing overflows on the way.
    return torch.exp(torch.maximum(a, b)) * exprel(-(a - b).abs())
