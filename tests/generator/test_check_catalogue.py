"""Functions with places of their own in equations. If these fail, a neuron is generated that does something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from declaring import copied, edited, problems_of

ADAPTIVE, NIR = "extensions/adaptive.yaml", "nir.yaml"
WRONG = {
    "before in a reset": (ADAPTIVE, "      w: w + b\n", "      w: before(w) + b\n", "before()"),
    "before in a spike": (
        ADAPTIVE,
        "    spike: v > v_threshold\n",
        "    spike: before(v) > v_threshold\n",
        "before()",
    ),
    "before of a parameter": (
        ADAPTIVE,
        "      w: (a * (v - v_leak) - w) / tau_w\n",
        "      w: (before(a) * (v - v_leak) - w) / tau_w\n",
        "before(a)",
    ),
    "delayed in dynamics": (
        ADAPTIVE,
        "      v: (v_leak - v + r * (input - w)) / tau\n",
        "      v: (v_leak - v + r * (delayed(input, tau) - w)) / tau\n",
        "delayed()",
    ),
    "a part of an output that is delayed": (
        NIR,
        "    output: delayed(input, delay)\n",
        "    output: 2 * delayed(input, delay)\n",
        "'2 * delayed(input, delay)'",
    ),
    "a delay that is no whole number of steps": (NIR, ", whole_steps: true", "", "'delayed(input, delay)'"),
    "an output of a neuron that is delayed": (
        ADAPTIVE,
        "    output: spike\n",
        "    output: delayed(spike, tau)\n",
        "'delayed(spike, tau)'",
    ),
}


@pytest.mark.parametrize(("file", "old", "new", "found"), WRONG.values(), ids=WRONG)
def test_a_function_in_another_place_than_its_own_is_a_problem(
    tmp_path: Path, file: str, old: str, new: str, found: str
) -> None:
    folder = copied(tmp_path)
    edited(folder / file, old, new)

    assert (f"mappings/{file}", found) in [(problem.file, problem.found) for problem in problems_of(folder)]
