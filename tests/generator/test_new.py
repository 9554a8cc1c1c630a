"""The file that a new neuron begins with. If these fail, generating refuses what ``nirmap new neuron`` wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from declaring import copied, edited, problems_of
from nirmap_generator.check_extensions import name_problem
from nirmap_generator.new import neuron_text


def test_a_text_is_made_for_a_class_name_only() -> None:
    assert "\n  Fresh:\n" in neuron_text("Fresh")
    with pytest.raises(ValueError, match="capital letter"):
        neuron_text("Fresh:\n  Other")


@pytest.mark.parametrize("name", ["State", "Neuron", "Mapping", "True", "adlif"])
def test_a_name_that_would_break_the_generated_modules_is_refused(tmp_path: Path, name: str) -> None:
    """``new`` would not write it; whoever types it into the file is told the same."""
    assert name_problem(name)
    folder = copied(tmp_path)
    line, _ = edited(folder / "extensions" / "adaptive.yaml", "  AdLIF:", f'  "{name}":')
    problem = problems_of(folder)[0]
    assert (problem.line, problem.found) == (line + 1, f"the name {name!r}")
    assert name_problem(name) in str(problem)
