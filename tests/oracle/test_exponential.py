"""The oracle's exact step against mpmath and a closed form: were it wrong, it would prove a wrong one right."""

from __future__ import annotations

import importlib
from typing import Any

import nir
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nirmap.oracle.exponential import exponential
from nirmap.oracle.interpreter import simulate
from oracle.building import chain
from oracle.parameters import TIME_STEP as DT
from oracle.parameters import neuron

mpmath: Any = importlib.import_module("mpmath")


@given(st.integers(1, 4), st.floats(1e-6, 30), st.integers(0, 2**32 - 1))
def test_it_is_the_exponential_of_mpmath(size: int, norm: float, seed: int) -> None:
    matrices = norm * np.random.default_rng(seed).uniform(-1, 1, (2, size, size)) / size
    with mpmath.workdps(60):
        exact = [np.array(mpmath.expm(mpmath.matrix(entry)).tolist(), dtype=np.float64) for entry in matrices]
    found = exponential(matrices)
    scale = np.abs(exact).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(found / scale, exact / scale, rtol=0, atol=1e-13 * max(1, norm))


def test_nothing_moves_where_the_matrix_is_zero() -> None:
    np.testing.assert_array_equal(exponential(np.zeros((3, 2, 2))), np.broadcast_to(np.eye(2), (3, 2, 2)))


@settings(max_examples=40)
@given(neuron("CubaLI", (3,)), st.floats(-3, 3), st.booleans())
def test_cubali_is_the_difference_of_two_exponentials(node: Any, x: float, equal: bool) -> None:
    """From rest, for a constant input; with one time constant it is the alpha function's integral."""
    times = DT * np.arange(1, 31).reshape(-1, 1, 1)
    if equal:
        node = nir.CubaLI(node.tau_mem, node.tau_mem, node.r, node.v_leak, w_in=node.w_in)
    syn, mem = np.exp(-times / node.tau_syn), np.exp(-times / node.tau_mem)
    if equal:
        late = (1 + times / node.tau_mem) * mem
    else:
        late = (node.tau_mem * mem - node.tau_syn * syn) / (node.tau_mem - node.tau_syn)
    expected = node.v_leak * (1 - mem) + node.r * node.w_in * x * (1 - late)
    trace = simulate(chain([node], (3,)), np.full((30, 1, 3), x), DT, method="exponential")
    np.testing.assert_allclose(trace.outputs["output"], expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(trace.states[("0",)]["i"], node.w_in * x * (1 - syn), rtol=1e-12, atol=1e-12)


def test_the_gap_between_the_methods_closes_with_the_step() -> None:
    """Forward Euler is of order 1, in the oracle too."""
    node = nir.CubaLI(
        np.array([5e-3]), np.array([1e-2]), np.array([2.0]), np.array([0.1]), w_in=np.array([1.0])
    )
    gaps: list[float] = []
    for parts in (16, 32, 64):
        xs = np.full((10 * parts, 1, 1), 0.7)
        outputs = [
            simulate(chain([node]), xs, 1e-3 / parts, method=method).outputs["output"][-1, 0, 0]
            for method in ("forward_euler", "exponential")
        ]
        gaps.append(abs(outputs[0] - outputs[1]))
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.05)
    assert gaps[1] / gaps[2] == pytest.approx(2, rel=0.05)
