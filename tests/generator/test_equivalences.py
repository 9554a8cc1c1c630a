"""If these fail, a node is rewritten into one that spikes at other times."""

from __future__ import annotations

import re
from typing import Any

import pytest

from declaring import changed, declared, name_of_place, with_name_replaced, without
from nirmap_generator.equivalences import prove_equivalence
from nirmap_generator.load import Document
from nirmap_generator.model import Located, Place, Primitive
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problem, Problems

CATALOGUE = declared().catalogue


def equivalence_expressions() -> list[Any]:
    found: list[Any] = []
    for primitive in CATALOGUE.primitives.values():
        equivalence = primitive.equivalence
        if equivalence is None:
            continue
        maps = [*equivalence.state.values(), *([equivalence.output] if equivalence.output else [])]
        parts = [part for entry in maps for part in (entry.shift, entry.scale) if part]
        for located in [
            *equivalence.inverse.values(),
            equivalence.input,
            *parts,
            *equivalence.parameters.values(),
        ]:
            found.append(pytest.param(primitive, located, id=name_of_place(located.place)))
    return found


def proven_equivalence(primitive: Primitive, document: Document) -> list[Problem]:
    problems = Problems()
    place = Place(document, ("primitives", primitive.name))
    other = Parser(problems).primitive(primitive.name, document.data["primitives"][primitive.name], place)
    assert list(problems) == []
    assert other.equivalence is not None
    prove_equivalence(other, other.equivalence, problems)
    return list(problems)


@pytest.mark.parametrize(("primitive", "located"), equivalence_expressions())
def test_every_changed_formula_of_an_equivalence_is_refused_with_numbers(
    primitive: Primitive, located: Located
) -> None:
    text = located.expression.text
    assert primitive.equivalence is not None
    free = list(primitive.equivalence.free)
    others = [f"2 * ({text})", f"-({text})", f"({text}) + 1"]
    for name in sorted(located.expression.names):
        names = free if name in free else primitive.declared
        others += [with_name_replaced(text, name, other) for other in names if other != name]
    for other in others:
        problems = proven_equivalence(primitive, changed(located.place.document, located.place.path, other))
        assert problems != [], other
        assert any(
            re.search(r"for [\w ]+ = \d.* it is -?\d\S*, and not -?\d", problem.found)
            or "positive" in problem.found
            for problem in problems
        )
        assert {problem.file for problem in problems} == {located.place.document.file}


BROKEN = {
    "no symbolic form": (("primitives", "LIF", "equivalence", "parameters", "r"), "next_above(r)"),
    "no comparison": (("primitives", "LIF", "spike"), "v"),
    "another comparison": (("primitives", "LIF", "spike"), "v >= v_threshold"),
    "no state": (("primitives", "LIF", "spike"), "input > v_threshold"),
    "division by zero": (("primitives", "LIF", "equivalence", "input"), "1 / (gain - gain)"),
}


@pytest.mark.parametrize(("path", "text"), BROKEN.values(), ids=BROKEN)
def test_an_equivalence_without_a_proof_is_a_problem_and_no_traceback(
    path: tuple[str, ...], text: str
) -> None:
    problems = proven_equivalence(CATALOGUE.primitives["LIF"], changed(CATALOGUE.document, path, text))
    assert problems != []
    assert all(problem.line > 1 for problem in problems)
    assert any(problem.path == ".".join(path) for problem in problems)


def test_a_spike_without_reset_is_proven_all_the_same() -> None:
    assert (
        proven_equivalence(
            CATALOGUE.primitives["LIF"], without(CATALOGUE.document, ("primitives", "LIF", "reset"))
        )
        == []
    )
