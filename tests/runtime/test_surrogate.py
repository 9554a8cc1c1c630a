"""Spikes and their surrogate gradients: if these fail, networks fire at the wrong moment or train on another slope."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nirmap.surrogate import SURROGATES
from runtime.suitable import backward, numbers

# The slopes as the documentation gives them, in plain Python.
SLOPES: dict[str, Callable[[float], float]] = {
    "fast_sigmoid": lambda x: 1 / (1 + 25 * abs(x)) ** 2,
    "arctan": lambda x: 2 / (2 * (1 + (math.pi * 2 * x / 2) ** 2)),
    "sigmoid": lambda x: 4 * _logistic(4 * x) * (1 - _logistic(4 * x)),
}
each_surrogate = pytest.mark.parametrize("name", sorted(SURROGATES))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_every_surrogate_has_a_documented_slope() -> None:
    assert SURROGATES.keys() == SLOPES.keys()


@each_surrogate
@given(x=st.floats(-20, 20))
def test_the_slope_is_the_documented_one(name: str, x: float) -> None:
    distance = torch.tensor([x], dtype=torch.float64, requires_grad=True)
    backward(SURROGATES[name](distance))
    assert distance.grad is not None
    assert distance.grad.item() == pytest.approx(SLOPES[name](x), rel=1e-9, abs=1e-30)


@each_surrogate
def test_the_slope_multiplies_what_comes_from_above(name: str) -> None:
    distance = torch.tensor([0.1, -0.2, 0.0], dtype=torch.float64, requires_grad=True)
    backward(SURROGATES[name](distance) * torch.tensor([2.0, -3.0, 0.5]))
    expected = [2.0 * SLOPES[name](0.1), -3.0 * SLOPES[name](-0.2), 0.5 * SLOPES[name](0.0)]
    assert distance.grad is not None
    assert numbers(distance.grad) == pytest.approx(expected)


@each_surrogate
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_a_spike_is_strictly_above_the_threshold(name: str, dtype: torch.dtype) -> None:
    smallest = torch.finfo(dtype).tiny
    distance = torch.tensor([-1.0, -smallest, -0.0, 0.0, smallest, 1.0, math.inf, -math.inf], dtype=dtype)
    spikes = SURROGATES[name](distance)
    assert spikes.dtype == dtype
    assert numbers(spikes) == [0, 0, 0, 0, 1, 1, 1, 0]


@each_surrogate
def test_transforms_of_torch_func_go_through(name: str) -> None:
    distance = torch.linspace(-1, 1, 7, dtype=torch.float64)
    mapped = torch.func.vmap(SURROGATES[name])(distance.reshape(7, 1))
    assert torch.equal(mapped.flatten(), SURROGATES[name](distance))
    slopes = torch.func.vmap(torch.func.grad(SURROGATES[name]))(distance)
    torch.testing.assert_close(slopes, torch.tensor([SLOPES[name](x) for x in numbers(distance)]).double())


@each_surrogate
def test_compiled_it_keeps_its_slope(name: str) -> None:
    torch.compiler.reset()
    compiled = torch.compile(SURROGATES[name], backend="eager", fullgraph=True)
    distance = torch.tensor([0.1, -0.2], dtype=torch.float64, requires_grad=True)
    backward(compiled(distance))
    assert distance.grad is not None
    assert numbers(distance.grad) == pytest.approx([SLOPES[name](0.1), SLOPES[name](-0.2)])
