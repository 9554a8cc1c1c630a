"""Values of expressions: on one number, in NumPy and in sympy, which have to agree.

The tables' proofs stand on these values: where they were wrong, a mapping that loses a parameter would count as proven.
"""

from __future__ import annotations

import ast
import importlib
import math
import random
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from nirmap_generator.evaluate import (
    EvaluationError,
    NotSymbolic,
    Opaque,
    Transposed,
    differs,
    equal,
    evaluate,
    symbolic,
)
from nirmap_generator.expressions import FUNCTIONS, parse, to_condition, to_python

sympy: Any = importlib.import_module("sympy")


def value(text: str, **values: object) -> object:
    return evaluate(parse(text), values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 - dt / tau", 0.75),
        ("start_dim + 1 if start_dim >= 0 else start_dim", 2),
        ("(tau, dt, 'x', None)", (2.0, 0.5, "x", None)),
        ("shape[0] * shape[-1]", 12),
        ("zeros_like(tau) + ones_like(tau) + full_like(tau, dt)", 1.5),
        ("where('a' == 'b', 1, 2) if flag and tau > dt else 3", 2),
        ("minimum(tau, dt) + maximum(tau, dt)", 2.5),
        ("flag and not flag", False),
        ("none is None and 'x' is not None", True),
        ("0 < dt < tau != 3", True),
        ("(1, 2) == (1, 2.0)", True),
        ("integers(tau) == (2,) and pair(3) == (3, 3) and pair(shape) == shape", True),
        ("integer(tau)", 2),
        ("number(start_dim)", 1.0),
        ("text('x')", "x"),
        ("name_of(word)", "zero"),
        ("bias_or_zeros(none, tau)", 0.0),
        ("bias_or_zeros(dt, tau)", 0.5),
        ("is_uniform(tau) and all(tau > dt) and any(tau > dt)", True),
        ("tensor(tau)", 2.0),
        ("(2 ** 3) ** 2 // 5", 12),
        ("module.p.tau / 2", 1.5),
    ],
)
def test_values(text: str, expected: object) -> None:
    values = {
        "tau": 2.0,
        "dt": 0.5,
        "start_dim": 1,
        "shape": (3, 4),
        "flag": True,
        "none": None,
        "word": "zero",
    }
    result = evaluate(parse(text), {**values, "module.p.tau": 3.0})
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("tau + bogus", "'bogus'.*not among"),
        ("module.x", "'module.x'.*not among"),
        ("word * 2", "'zero' is not a number"),
        ("flag * 2", "True is not a number"),
        ("none < 1", "None is not a number"),
        ("exp(word)", "'zero' is not a number"),
        ("shape[2]", "no entry 2"),
        ("tau[0]", "no entry 0"),
        ("integer(dt)", "0.5 is not an integer"),
        ("integer(1 / zero)", "inf is not an integer"),
        ("text(tau)", "2.0 is not a text"),
        ("1 if size(tau, 0) > 1 else 2", "shapes are not known"),
        ("transpose(tau) + dt", "transpose the result"),
    ],
)
def test_what_has_no_value_is_an_error_that_names_the_part_and_the_reason(text: str, because: str) -> None:
    values = {"tau": 2.0, "dt": 0.5, "shape": (3, 4), "flag": True, "none": None, "word": "zero", "zero": 0.0}
    with pytest.raises(EvaluationError, match=because) as caught:
        evaluate(parse(text), values)
    assert repr(text) in str(caught.value)


def test_a_transposed_weight_is_another_one_and_twice_transposed_the_same() -> None:
    assert value("transpose(w)", w=3.0) == Transposed(3.0)
    assert value("transpose(w)", w=3.0) != value("w", w=3.0)
    assert value("transpose(transpose(w))", w=3.0) == 3.0
    assert value("transpose(2 * transpose(v))", v=Transposed(3.0)) == Transposed(6.0)
    assert value("exp(-transpose(w)) + transpose(w)", w=1.0) == Transposed(math.exp(-1) + 1)
    assert value("transpose(w) == w", w=3.0) is False


def test_what_depends_on_a_shape_is_opaque_and_equal_if_it_came_about_in_the_same_way() -> None:
    text = "(size(w, 1) * groups, size(transpose(w), 0))"
    assert value(text, w=3.0, groups=2) == value(text, w=3.0, groups=2)
    assert value(text, w=3.0, groups=2) != value(text, w=3.0, groups=3)
    assert value("size(w, 0)", w=3.0) != value("size(w, 1)", w=3.0)
    assert isinstance(value("-size(w, 0)", w=3.0), Opaque)


def test_a_condition_on_a_shape_counts_as_fulfilled_and_decides_nothing_else() -> None:
    assert value("ndim(w) == 2", w=3.0)
    assert value("not ndim(w) == 2", w=3.0)
    assert value("ndim(w) == 2 and w > 1", w=3.0) is True
    assert value("ndim(w) == 2 and w < 1", w=3.0) is False
    assert value("(size(w, 0),) == (5,)", w=3.0)
    assert value("0 < w < ndim(w)", w=-1.0) is False


def test_every_function_has_a_value_of_the_kind_that_the_table_says() -> None:
    types: dict[str, tuple[type, ...]] = {
        "number": (int, float, Transposed, Opaque),
        "scalar": (int, float, Opaque),
        "condition": (bool,),
        "text": (str,),
        "tuple": (tuple,),
    }
    for name, function in FUNCTIONS.items():
        subject = "word" if function.returns == "text" else "x"
        arguments = ["x > 0" if takes == "condition" else subject for takes in function.arguments]
        result = value(f"{name}({', '.join(arguments)})", x=2.0, word="zero")
        assert isinstance(result, types[function.returns]), name


SPECIAL = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan]
)
FLOATS = SPECIAL | st.floats()


def next_above(x: np.float64) -> Any:
    return np.nextafter(x, np.inf)


OPERATORS: dict[str, Callable[..., Any]] = {
    "x + y": np.add,
    "x - y": np.subtract,
    "x * y": np.multiply,
    "x / y": np.divide,
    "x // y": np.floor_divide,
    "x % y": np.remainder,
    "x ** y": np.power,
    "minimum(x, y)": np.minimum,
    "maximum(x, y)": np.maximum,
    "x < y": np.less,
    "x >= y": np.greater_equal,
    "x == y": np.equal,
    "x != y": np.not_equal,
    "exp(x)": np.exp,
    "log(x)": np.log,
    "sqrt(x)": np.sqrt,
    "abs(x)": np.abs,
    "-x": np.negative,
    "next_above(x)": next_above,
}


@pytest.mark.parametrize("text", OPERATORS)
@given(x=FLOATS, y=FLOATS)
@example(x=-1e308, y=19.5)
@example(x=-1e308, y=19.0)
@example(x=-0.0, y=-3.0)
def test_arithmetic_is_that_of_numpy_also_where_it_is_not_finite(text: str, x: float, y: float) -> None:
    # NumPy takes the square root here, which C's pow does not.
    assume(not (text == "x ** y" and x == -math.inf and y == 0.5))
    with np.errstate(all="ignore"):
        operands = [np.float64(number) for name, number in (("x", x), ("y", y)) if name in parse(text).names]
        expected = float(OPERATORS[text](*operands))
    result = value(text, x=x, y=y)
    assert isinstance(result, int | float)
    assert float(result) == pytest.approx(expected, rel=1e-14, abs=0, nan_ok=True)


@given(st.integers(), st.integers(), st.sampled_from(["+", "-", "*", "//", "%", "/", "**"]))
@example(10**60, 10**60, "**")
@example(-3, 10**60, "**")
@example(10**400, 1, "/")
@example(0, -1, "**")
def test_integers_stay_integers_while_an_array_can_hold_them(a: int, b: int, sign: str) -> None:
    result = value(f"a {sign} b", a=a, b=b)
    if isinstance(result, int):
        assert result == eval(f"a {sign} b", {"a": a, "b": b})
        assert abs(result) < 2**63
    else:
        assert isinstance(result, float)


def test_a_tower_of_powers_is_infinite_and_not_endless() -> None:
    tower = "x" + " ** 64" * 1
    for _ in range(8):
        tower = f"({tower}) ** 64"
    assert value(tower, x=9) == math.inf
    assert value("x ** x ** x ** x ** x", x=9) == math.inf
    with pytest.raises(NotSymbolic, match="digits"):
        symbolic(parse(tower), {"x": 9})


# Trees whose value does not jump where rounding differs, and with no division by what may vanish: only names and
# constants are divided by, compared, and taken the logarithm of.
SIGNED = st.sampled_from(["x", "y", "0.5", "3.0", "0.125"])
POSITIVE = st.sampled_from(["p", "q", "0.5", "3.0"])
COMPARED = st.builds("{} {} {}".format, SIGNED, st.sampled_from(["<", "<=", ">", ">=", "!=", "=="]), SIGNED)
CONDITIONS = st.recursive(
    COMPARED | st.builds("{} < {} <= {}".format, SIGNED, SIGNED, SIGNED),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("(not {})".format, inner)
    ),
    max_leaves=3,
)


def values_over(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("({} / {})".format, inner, POSITIVE),
        st.builds("({} ** {})".format, inner, st.sampled_from(["2", "3"])),
        st.builds("(-{})".format, inner),
        st.builds("abs({})".format, inner),
        st.builds("{}({}, {})".format, st.sampled_from(["minimum", "maximum"]), inner, inner),
        st.builds("where({}, {}, {})".format, CONDITIONS, inner, inner),
        st.builds(
            "({}({}) + {})".format, st.sampled_from(["zeros_like", "ones_like", "tensor"]), inner, inner
        ),
    )


LEAVES = st.one_of(
    SIGNED,
    st.builds("exp({})".format, SIGNED),
    st.builds("{}({})".format, st.sampled_from(["log", "sqrt"]), POSITIVE),
    st.builds("({} {} {})".format, SIGNED, st.sampled_from(["//", "%"]), POSITIVE),
)
TREES = st.recursive(LEAVES, values_over, max_leaves=6)
EIGHTHS = st.integers(-24, 24).map(lambda number: number / 8)
DRAWN = st.fixed_dictionaries(
    {
        name: st.lists(
            EIGHTHS if name in "xy" else EIGHTHS.map(lambda number: abs(number) + 0.125),
            min_size=3,
            max_size=3,
        )
        for name in "xypq"
    }
)


class Placement:
    """Stands for what the generated modules are given."""

    def tensor(self, array: object) -> object:
        return array


def python_value(text: str, values: Mapping[str, object]) -> Any:
    with np.errstate(all="ignore"):
        return eval(text, {"np": np, "rows": SimpleNamespace(where=np.where), "to": Placement(), **values})


def close(a: float, b: float, text: str, values: Mapping[str, object]) -> bool:
    """Equal up to rounding, measured by the largest number that occurs on the way."""
    scale = 0.0
    for node in ast.walk(parse(text).tree.body):
        if isinstance(node, ast.BinOp | ast.UnaryOp | ast.Name | ast.Call | ast.Constant) and not (
            isinstance(node, ast.Name) and node.id in FUNCTIONS
        ):
            part = value(ast.unparse(node), **values)
            scale = max(scale, abs(part)) if isinstance(part, int | float) else scale
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 * scale)


@settings(deadline=None)
@given(TREES, DRAWN)
def test_the_generated_python_computes_on_arrays_what_evaluate_computes_on_numbers(
    text: str, drawn: dict[str, list[float]]
) -> None:
    arrays = {name: np.array(numbers) for name, numbers in drawn.items()}
    computed = np.broadcast_to(python_value(to_python(parse(text), {}), arrays), 3)
    for index in range(3):
        numbers = {name: entries[index] for name, entries in drawn.items()}
        single = value(text, **numbers)
        assert isinstance(single, int | float)
        assert close(float(computed[index]), single, text, numbers), (computed[index], single)


@given(CONDITIONS, DRAWN)
def test_a_condition_without_not_or_or_holds_for_arrays_if_it_holds_for_each_entry(
    text: str, drawn: dict[str, list[float]]
) -> None:
    assume("not" not in text and "or" not in text)
    arrays = {name: np.array(numbers) for name, numbers in drawn.items()}
    holds = python_value(to_condition(parse(text), {}), arrays)
    assert isinstance(holds, bool)
    assert holds is all(
        value(text, **{name: entries[i] for name, entries in drawn.items()}) for i in range(3)
    )


@given(CONDITIONS, DRAWN)
def test_any_condition_on_uniform_arrays_is_that_on_their_numbers(
    text: str, drawn: dict[str, list[float]]
) -> None:
    arrays = {name: np.full(3, numbers[0]) for name, numbers in drawn.items()}
    numbers = {name: entries[0] for name, entries in drawn.items()}
    assert python_value(to_condition(parse(text), {}), arrays) is value(text, **numbers)


SYMBOLS = {name: sympy.Symbol(name, real=True) for name in "xy"} | {
    name: sympy.Symbol(name, positive=True) for name in "pq"
}


def _remainder(a: Any, b: Any) -> Any:
    return a - b * sympy.floor(a / b)


@settings(max_examples=60, deadline=None)
@given(TREES, DRAWN)
def test_the_symbolic_form_has_the_value_that_evaluate_computes(
    text: str, drawn: dict[str, list[float]]
) -> None:
    form = symbolic(parse(text), SYMBOLS)
    # sympy writes -2 * (a % b) as -2 * a % b.
    form = form.replace(sympy.Mod, _remainder)
    numbers = {name: entries[0] for name, entries in drawn.items()}
    computed = sympy.lambdify(list(SYMBOLS.values()), form, "math")(*(numbers[name] for name in SYMBOLS))
    single = value(text, **numbers)
    assert isinstance(single, int | float)
    assert close(float(computed), single, text, numbers), form


@settings(max_examples=40, deadline=None)
@given(TREES, TREES, st.data())
def test_what_is_called_equal_or_different_is_so_in_numbers(
    one: str, other: str, data: st.DataObject
) -> None:
    verdict = equal(symbolic(parse(one), SYMBOLS), symbolic(parse(other), SYMBOLS))
    if verdict is True:
        numbers = {name: entries[0] for name, entries in data.draw(DRAWN).items()}
        a, b = value(one, **numbers), value(other, **numbers)
        assert isinstance(a, int | float)
        assert isinstance(b, int | float)
        assert close(a, b, f"({one}) + ({other})", numbers)
    if ast.dump(parse(one).tree) == ast.dump(parse(other).tree):
        assert verdict is True


def test_a_pair_that_differs_is_shown_with_the_values_at_which_it_does() -> None:
    drawn = random.Random(1)

    def draw() -> dict[str, object]:
        return {"tau": drawn.uniform(0.001, 0.1), "v": drawn.uniform(-1, 1), "mode": drawn.choice(["a", "b"])}

    def of(text: str) -> Callable[[Mapping[str, object]], object]:
        return lambda values: evaluate(parse(text), values)

    found = differs(of("abs(v)"), of("v"), draw)
    assert found is not None
    assert isinstance(found["v"], float)
    assert found["v"] < 0
    assert differs(of("v / tau * tau"), of("v"), draw) is None
    assert differs(of("(v + 1) - 1"), of("v"), draw) is None
    assert (
        differs(
            of("(v, mode, transpose(tau), size(v, 0))"), of("(v, mode, transpose(tau), size(v, 0))"), draw
        )
        is None
    )
    assert differs(of("tau * (1 + 1e-6)"), of("tau"), draw) is not None
    assert differs(of("tau * (1 + 1e-6)"), of("tau"), draw, tolerance=1e-5) is None
    assert differs(of("transpose(v)"), of("v"), draw) is not None
    assert differs(of("mode"), of("'a'"), draw) is not None
    assert differs(of("v > 2"), of("False"), draw) is None
    assert differs(of("v > 2"), of("zeros_like(v)"), draw) is not None
    assert differs(of("log(-tau)"), of("log(-2 * tau)"), draw) is None
