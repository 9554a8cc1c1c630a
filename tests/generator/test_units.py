"""If these fail, an equation that adds volts to amperes becomes a neuron, and nobody is told."""

from __future__ import annotations

import ast
import dataclasses
import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from declaring import MAPPINGS, changed, copied, declared, edited, name_of_place, problems_of
from nirmap_generator.evaluate import evaluate
from nirmap_generator.expressions import parse
from nirmap_generator.model import Located, Parameter, Place, Primitive
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problem, Problems
from nirmap_generator.units import UNIT_TEXT, Unit, check_primitive, check_units, parse_unit

CATALOGUE = declared().catalogue
V, A, S, OHM = (parse_unit(text) for text in ("V", "A", "s", "ohm"))
integers = st.integers(-3, 3).map(Fraction)
units = st.builds(Unit, integers, integers, integers)


def formulas(primitive: Primitive) -> list[tuple[Located, str]]:
    """The equations of a primitive, each with the unit of its value; none for conditions."""
    state = {name: variable.unit for name, variable in primitive.state.items()}
    found = [(located, state[name] + "/s") for name, located in primitive.dynamics.items()]
    resets = [*primitive.reset.items(), *primitive.reset_by_subtraction.items()]
    found += [(located, state[name]) for name, located in resets]
    found += [(primitive.spike, "")] if primitive.spike else []
    found += [(primitive.output, primitive.output_unit)] if primitive.output else []
    parameters = primitive.equivalence.parameters.items() if primitive.equivalence else ()
    return [*found, *((located, primitive.parameters[name].unit) for name, located in parameters)]


EQUATIONS = [
    pytest.param(primitive, located, unit, id=name_of_place(located.place))
    for primitive in CATALOGUE.primitives.values()
    for located, unit in formulas(primitive)
]


def found_in(primitive: Primitive) -> list[Problem]:
    problems = Problems()
    check_primitive(primitive, problems)
    return list(problems)


def with_factor(primitive: Primitive, located: Located, text: str, unit: Unit) -> Primitive:
    """The primitive with another text for one of its formulas, and a parameter that it speaks of."""
    place = primitive.place
    parameter = {"kind": "neuron", "unit": str(unit), "description": "drawn"}
    document = changed(place.document, located.place.path, text)
    document = changed(document, (*place.path, "parameters", "factor"), parameter)
    data = document.data["primitives"][primitive.name]
    return Parser().primitive(primitive.name, data, Place(document, place.path))


def terms(located: Located, whole: bool) -> list[ast.expr]:
    """The terms of every sum, the sides of every comparison, and the whole formula where it has a unit."""
    tree = located.expression.tree
    found: list[ast.expr] = [tree.body] if whole else []
    for node in ast.walk(tree):
        if _is_sign(node):
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            sides = [node.left, node.right]
            found += [side for side in sides if side is node.right or not _is_sum(side)]
        elif isinstance(node, ast.Compare):
            found += [node.left, *node.comparators]
    return found


def _is_sign(node: ast.AST) -> bool:
    """Whether it is a comparison with zero, which holds or does not in all units."""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    return any(isinstance(side, ast.Constant) and side.value == 0 for side in sides)


def _is_sum(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


def number(text: str, values: dict[str, float]) -> float:
    value = evaluate(parse(text), values)
    assert isinstance(value, int | float)
    return float(value)


def test_the_catalogue_is_consistent() -> None:
    problems = Problems()
    check_units(CATALOGUE, problems)
    assert list(problems) == []
    assert len(EQUATIONS) > 40


@pytest.mark.parametrize(("primitive", "located", "unit"), EQUATIONS)
def test_an_equation_holds_whatever_the_units_are_called(
    primitive: Primitive, located: Located, unit: str
) -> None:
    """Counted in millivolts, hours and so on, it gives the same value: checked with numbers, not with units."""
    if "delayed" in located.expression.functions:
        return
    text = located.expression.text.replace(
        "before(", "("
    )  # a value before the step has the unit of one after it
    sizes = {"V": 1e3, "A": 7.0, "s": 1 / 3600, "ohm": 1e3 / 7, "1": 1.0}
    equivalence = primitive.equivalence
    names = {name: entry.unit for name, entry in primitive.parameters.items()}
    names |= {name: entry.unit for name, entry in primitive.state.items()}
    names |= {"input": primitive.input_unit, "spike": "1"}
    names |= dict.fromkeys(equivalence.free if equivalence else (), "1")
    names |= {"offset": primitive.input_unit, "shift": "V"}
    values = {name: 0.3 + 0.17 * index for index, name in enumerate(sorted(located.expression.names))}
    scaled = {name: value * number(names[name], sizes) for name, value in values.items()}
    if unit:
        expected = number(text, values) * number(unit, sizes)
        assert number(text, scaled) == pytest.approx(expected, rel=1e-12)
    else:
        assert evaluate(located.expression, scaled) == evaluate(located.expression, values)


@pytest.mark.parametrize(("primitive", "located", "unit"), EQUATIONS)
@settings(max_examples=10)
@given(data=st.data(), extra=units.filter(lambda unit: unit != Unit()), divided=st.booleans())
def test_a_term_with_a_factor_that_has_a_unit_is_named(
    primitive: Primitive, located: Located, unit: str, data: st.DataObject, extra: Unit, divided: bool
) -> None:
    term = data.draw(st.sampled_from(terms(located, bool(unit))))
    text, end = located.expression.text, term.end_col_offset
    other = f"({text[term.col_offset : end]}) {'/' if divided else '*'} factor"
    # Brackets around a term are not part of it, so that this stays right inside of them.
    whole = text[: term.col_offset] + f"({other})" + text[end:]
    (problem,) = found_in(with_factor(primitive, located, whole, extra))
    assert (problem.file, problem.line) == (
        located.place.document.file,
        located.place.document.position(located.place.path)[0],
    )
    assert repr(ast.unparse(ast.parse(other))) in problem.found
    # Both units are there, and differ by the factor.
    words = f"{problem.found} {problem.expected}".replace(",", " ").split()
    named = [parse_unit(word) for word in words if UNIT_TEXT.fullmatch(word)]
    assert any(one / other == extra for one in named for other in named)


SCOPE = {"v": "V", "w": "V", "i": "A", "r": "ohm", "tau": "s", "n": "1"}


def unit_problems(text: str, unit: str) -> list[Problem]:
    """What is wrong with a formula for a variable in a unit, by way of an output in that unit."""
    scale = CATALOGUE.primitives["Scale"]
    assert scale.output is not None
    parameters = {name: Parameter(name, "neuron", name, unit=text) for name, text in SCOPE.items()}
    other = Located(parse(text), scale.output.place)
    return found_in(dataclasses.replace(scale, parameters=parameters, output=other, output_unit=unit))


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0", "V"),
        ("-0.0 * i + v", "V"),
        ("v + r * i - 0", "V"),
        ("v * exp(-tau / tau) + w", "V"),
        ("sqrt(v * w) + v", "V"),
        ("sqrt(v / w) * 2", "1"),
        ("v ** 2 / w", "V"),
        ("v ** -2 * w", "1/V"),
        ("sqrt(v) ** 2", "V"),
        ("v ** 0.5 * sqrt(w)", "V"),
        ("n ** n", "1"),
        ("minimum(v, maximum(w, 0))", "V"),
        ("where(v > 0 and i > 0, v, 0)", "V"),
        ("v if v > w else 0", "V"),
        ("v % w", "V"),
        ("v // w", "1"),
        ("abs(v) * (1 + n)", "V"),
        ("zeros_like(i)", "V"),
        ("ones_like(i) * v", "V"),
        ("full_like(i, v)", "V"),
        ("delayed(v, tau)", "V"),
        ("not v > w", "1"),
        ("log(v / w) * tau", "s"),
    ],
)
def test_a_consistent_formula_passes(text: str, unit: str) -> None:
    assert unit_problems(text, unit) == []


@pytest.mark.parametrize(
    ("text", "found", "expected"),
    [
        ("v + 1", "'1' in 1 beside 'v' in V", "one unit in every term of a sum"),
        ("v - r * i + tau", "'tau' in s beside 'v' in V", "one unit in every term of a sum"),
        ("v * w", "'v * w' in V**2", "V, the unit of the output"),
        ("exp(v) * v", "'v' in V", "a plain number, in 1, as the argument of exp"),
        ("log(r / v) * v", "'r / v' in 1/A", "a plain number, in 1, as the argument of log"),
        ("v ** w", "'w' in V", "a plain number, in 1, as an exponent"),
        ("v ** n", "'v' in V to the power of 'n'", "a plain number, or an exponent that is written as one"),
        ("sqrt(v)", "'sqrt(v)' in V**(1/2)", "V, the unit of the output"),
        ("minimum(v, i)", "'i' in A beside 'v' in V", "one unit for both arguments of minimum"),
        ("where(v > i, v, w)", "'i' in A beside 'v' in V", "one unit on both sides of a comparison"),
        ("where(v > w, v, i)", "'i' in A beside 'v' in V", "one unit for both alternatives"),
        ("v if i > tau else w", "'tau' in s beside 'i' in A", "one unit on both sides of a comparison"),
        ("i if v > 0 else v", "'v' in V beside 'i' in A", "one unit for both alternatives"),
        ("v % i", "'i' in A beside 'v' in V", "one unit for a number and its divisor"),
        ("delayed(v, r)", "'r' in ohm where s belongs", "one unit for a time"),
        ("nearest(v)", "'v' in V", "a plain number, in 1, as the argument of nearest"),
        ("(v, w)", "'(v, w)', which has no unit", "a number or a condition"),
        ("pair(v)", "a call of pair, which has no unit", "a number or a condition"),
        (
            "w if i > 0 or tau > v else v",
            "'v' in V beside 'tau' in s",
            "one unit on both sides of a comparison",
        ),
    ],
)
def test_an_inconsistent_formula_is_explained(text: str, found: str, expected: str) -> None:
    (problem,) = unit_problems(text, "V")
    assert (problem.found, problem.expected) == (found, expected)
    assert problem.do.startswith("correct the equation, or the unit of one of its names")


@given(units)
def test_a_unit_is_read_as_it_is_shown(unit: Unit) -> None:
    assert parse_unit(str(unit)) == unit


@given(units, units, integers)
def test_units_are_multiplied_as_numbers_are(one: Unit, other: Unit, power: Fraction) -> None:
    assert one * other / other == one
    assert (one * other) ** power == one**power * other**power
    assert one ** Fraction(2) / one == one


def test_units_that_go_by_two_names_are_one() -> None:
    assert OHM * A == V
    assert parse_unit("V*s/A") == OHM * S
    assert parse_unit("V/A/s") == parse_unit("ohm/s")
    assert str(OHM ** Fraction(2) / S) == "ohm**2/s"
    assert str(V ** Fraction(2) / A) == "V**2/A"


@pytest.mark.parametrize(
    "text", ["", "Ohm", "mV", "V/", "/s", "V s", "V^2", "V**0", "V**10", "1/1", "V\n", "2*V"]
)
def test_what_is_not_a_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a unit"):
        parse_unit(text)


def test_a_unit_that_is_misspelt_is_told_with_its_line(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    line, _ = edited(folder / "nir.yaml", "input_unit: A", "input_unit: Ampere")
    problems = problems_of(folder)
    assert {(problem.line, problem.path) for problem in problems} == {(line, "primitives.I.input_unit")}


def test_the_editor_knows_the_units_that_the_generator_reads() -> None:
    text = (MAPPINGS / "schema" / "catalogue.schema.json").read_text(encoding="utf-8")
    entry = json.loads(text)["properties"]["primitives"]["additionalProperties"]["properties"]
    kinds = [entry[key]["additionalProperties"]["properties"]["unit"] for key in ("parameters", "state")]
    for schema in (entry["input_unit"], entry["output_unit"], *kinds):
        assert schema["pattern"] == "^" + UNIT_TEXT.pattern
        assert [parse_unit(example) for example in schema["examples"]]


@pytest.mark.parametrize(
    ("old", "new", "path", "found", "expected"),
    [
        (
            "v: (v_leak - v + r * input) / tau",
            "v: v_leak - v + r * input / tau",
            "primitives.LI.dynamics.v",
            "'r * input / tau' in V/s beside 'v_leak' in V",
            "one unit in every term of a sum",
        ),
        (
            "unit: ohm/s",
            "unit: ohm",
            "primitives.I.dynamics.v",
            "'r * input' in V",
            "V/s, the unit of d/dt v",
        ),
        (
            "v: v_reset",
            "v: v_reset / r",
            "primitives.IF.reset.v",
            "'v_reset / r' in A*s",
            "V, the unit of v",
        ),
        (
            "r: r / (gain * scale)",
            "r: r * shift",
            "primitives.I.equivalence.parameters.r",
            "unknown name 'shift'",
            "one of gain, r, scale",
        ),
        (
            "offset: -offset * gain, shift: -shift / scale",
            "offset: -offset * shift, shift: -shift / scale",
            "primitives.LI.equivalence.inverse.offset",
            "'-offset * shift' in V*A",
            "A, the unit of offset",
        ),
        (
            "output: {scale: scale}",
            "output: {shift: scale}",
            "primitives.I.equivalence.output.shift",
            "'scale' in V, and elsewhere in 1",
            "one unit",
        ),
        ("    input_unit: A\n", "", "primitives.I", "no input_unit", "one, for there are equations"),
        (
            "kind: neuron, unit: s, domain: tau > 0",
            "kind: neuron, domain: tau > 0",
            "primitives.LI.parameters.tau",
            "no unit",
            "one, for a number that equations speak of",
        ),
        (
            "shape: linear\n",
            "shape: linear\n    input_unit: A\n",
            "primitives.Affine.input_unit",
            "'A'",
            "no input_unit, for there is no output",
        ),
        (
            "domain: tau > 0",
            "domain: tau > 1",
            "primitives.LI.parameters.tau.domain",
            "'tau > 1'",
            "'tau > 0' or 'tau >= 0'",
        ),
    ],
)
def test_a_slip_in_the_file_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, path: str, found: str, expected: str
) -> None:
    folder = copied(tmp_path)
    line, _ = edited(folder / "nir.yaml", old, new)
    problems = [problem for problem in problems_of(folder) if problem.path == path]
    assert [(problem.found, problem.expected) for problem in problems] == [(found, expected)]
    assert all(problem.file == "mappings/nir.yaml" for problem in problems)
    assert abs(problems[0].line - line) <= 6
