"""If these fail, a person who declares a mapping is told the wrong place, or only part of what is wrong."""

from __future__ import annotations

import ast
import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nirmap_generator.problems import DeclarationError, Problem, Problems, shown_path


def problem(
    file: str = "norse.yaml", line: int = 1, column: int = 1, found: str = "a", do: str = ""
) -> Problem:
    return Problem(file, line, column, "nodes.LIF[0]", found, "b", do)


def test_a_problem_is_one_line_that_editors_can_jump_to() -> None:
    shown = Problem(
        "mappings/frameworks/norse.yaml", 12, 5, "nodes.LIF[0].build.beta", "1", "a string", "quote it"
    )
    assert str(shown) == (
        "mappings/frameworks/norse.yaml:12:5: nodes.LIF[0].build.beta: found 1, expected a string; quote it"
    )


def test_a_problem_of_a_whole_file_shows_no_path_and_no_advice() -> None:
    assert str(Problem("a.yaml", 1, 1, "", "an empty file", "declarations")) == (
        "a.yaml:1:1: found an empty file, expected declarations"
    )


def test_the_error_has_all_problems_once_by_file_and_line() -> None:
    late, early, other = problem(line=10), problem(line=9), problem(file="a.yaml", line=99)
    error = DeclarationError([late, early, other, late])
    assert error.problems == (other, early, late)
    assert str(error).splitlines() == [str(other), str(early), str(late)]
    assert isinstance(error, ValueError)


def test_the_error_survives_pickling_so_that_worker_processes_can_report_it() -> None:
    error = DeclarationError([problem()])
    again = pickle.loads(pickle.dumps(error))
    assert again.problems == error.problems
    assert str(again) == str(error)


@given(st.text(), st.text())
def test_the_message_has_one_line_for_each_problem_whatever_was_found(found: str, do: str) -> None:
    assert len(str(DeclarationError([problem(found=found, do=do), problem(line=2)])).splitlines()) == 2


def test_a_collector_raises_everything_that_was_added_and_nothing_when_empty() -> None:
    problems = Problems()
    problems.raise_if_any()
    problems.add(problem(line=2))
    problems.extend([problem(line=1), problem(line=3)])
    assert len(problems) == 3
    assert [entry.line for entry in problems] == [2, 1, 3]
    with pytest.raises(DeclarationError) as caught:
        problems.raise_if_any()
    assert [entry.line for entry in caught.value.problems] == [1, 2, 3]


def test_paths_are_shown_as_people_write_them() -> None:
    assert shown_path(()) == ""
    assert shown_path(("nodes", "LIF", 0, "build", "beta")) == "nodes.LIF[0].build.beta"
    assert shown_path((0, "a")) == "[0].a"


@given(st.lists(st.text(max_size=7) | st.from_regex(r"[a-z_-]{1,3}", fullmatch=True) | st.integers(0, 99)))
def test_a_shown_path_can_be_read_back(path: list[str | int]) -> None:
    """No two places look the same in a message, whatever the keys contain."""
    keys: list[str | int] = []
    rest = shown_path(path)
    while rest:
        match = re.match(
            r"""\.?([A-Za-z_][A-Za-z0-9_-]*)|\[([0-9]+|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]""", rest
        )
        assert match is not None, rest
        keys.append(match[1] if match[2] is None else ast.literal_eval(match[2]))
        rest = rest[match.end() :]
    assert keys == path


def test_a_very_long_key_does_not_drown_the_message() -> None:
    assert len(shown_path(("a b" * 10_000,))) < 100
