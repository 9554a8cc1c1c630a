"""If these fail, the audit calls exact what is not, or wrong what is only rounded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nirmap.audit.cells import rounded_up
from nirmap.audit.judging import TOLERANCES, Verdict, computes_in_float32_only


@given(st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]), st.floats(1e-3, 1e3))
def test_one_value_that_is_off_is_found_with_its_place(seed: int, dtype: str, scale: float) -> None:
    random = np.random.default_rng(seed)
    expected = np.asarray(scale * random.uniform(-1, 1, (6, 2, 3)))
    place = tuple(int(random.integers(size)) for size in (6, 2, 3))
    for factor, is_wrong in ((0.5, False), (2.0, True)):
        found = expected.copy()
        found[place] += factor * TOLERANCES[dtype] * np.abs(expected).max()
        verdict = Verdict()
        verdict.hold("v", found, expected, dtype, exactly=False)
        assert bool(verdict.wrong) == is_wrong
        if is_wrong:
            assert f"v at step {place[0]}, {place[1:]}" in verdict.wrong
        else:
            assert verdict.errors[dtype] == pytest.approx(factor * TOLERANCES[dtype], rel=1e-6)


def test_a_spike_too_many_is_wrong_and_so_is_a_number_that_is_none() -> None:
    spikes = np.zeros((3, 1, 2))
    more = spikes.copy()
    more[1, 0, 1] = 1
    for found, exactly in ((more, True), (np.full_like(spikes, np.nan), False), (spikes[:2], False)):
        verdict = Verdict()
        verdict.hold("z", found, spikes, "float32", exactly=exactly)
        assert verdict.wrong


@pytest.mark.parametrize(
    ("left", "right", "is_refusal"),
    [
        (torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2), True),
        (torch.ones(2, 3, dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64), False),
    ],
)
def test_only_a_refusal_of_the_dtype_is_one(
    left: torch.Tensor, right: torch.Tensor, is_refusal: bool
) -> None:
    """Anything else that is raised in float64 is an error of the mapping."""
    right_in_float32 = Verdict(errors={"float32": 0.0})
    with pytest.raises(RuntimeError) as raised:
        torch.mm(left, right)
    assert computes_in_float32_only(raised.value, right_in_float32, "float64") == is_refusal
    assert not computes_in_float32_only(raised.value, right_in_float32, "float32")
    assert not computes_in_float32_only(raised.value, Verdict(), "float64")
    assert not computes_in_float32_only(KeyError("float or double"), right_in_float32, "float64")


@given(st.floats(0, 1))
def test_an_error_is_rounded_up(error: float) -> None:
    assert error <= rounded_up(error) <= max(1e-5, 10.001 * error)
