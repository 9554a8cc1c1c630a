"""Symbolic forms, and which of them are the same function: the proofs of the tables say what these say."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from nirmap_generator.expressions import parse
from nirmap_generator.symbolic import NotSymbolic, equal, symbolic

sympy: Any = importlib.import_module("sympy")

SYMBOLS = {name: sympy.Symbol(name, real=True) for name in "xy"} | {
    name: sympy.Symbol(name, positive=True) for name in "pq"
}


@pytest.mark.parametrize(
    "text",
    [
        "'zero'",
        "size(x, 0)",
        "transpose(x)",
        "next_above(x)",
        "unknown",
        "x / (y - y)",
        "log(x - x)",
        "x is None",
        "where(x, y, p)",
        "not x or y",
        "(x, y)",
        "shape[0]",
        "integer(x)",
        "1 / (x - x) > y",
    ],
)
def test_what_has_no_symbolic_form_says_so(text: str) -> None:
    with pytest.raises(NotSymbolic):
        symbolic(parse(text), {**SYMBOLS, "word": "zero", "shape": (1, 2)})


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("dt / (1 - (1 - dt / tau))", "tau", True),
        ("1 / (1 / tau)", "tau", True),
        ("(x + y) ** 3", "x ** 3 + 3 * x ** 2 * y + 3 * x * y ** 2 + y ** 3", True),
        ("-dt / log(exp(-dt / tau))", "tau", True),
        ("exp(x) * exp(y)", "exp(x + y)", True),
        ("log(tau * dt)", "log(tau) + log(dt)", True),
        ("sqrt(2) * sqrt(3)", "sqrt(6)", True),
        ("sqrt(tau ** 2)", "tau", True),
        ("0.1 + 0.2", "0.3", True),
        ("minimum(x, y) + maximum(x, y)", "x + y", None),
        ("dt / tau", "tau / dt", False),
        ("x", "x + 1e-30", False),
        ("sqrt(x ** 2)", "x", False),
        ("abs(x)", "x", False),
        ("where(x > 0, x, 0)", "x", False),
        ("exp(-dt / tau)", "1 - dt / tau", False),
    ],
)
def test_equal_functions_are_told_from_different_ones(one: str, other: str, expected: bool | None) -> None:
    symbols = {**SYMBOLS, "dt": sympy.Symbol("dt", positive=True), "tau": sympy.Symbol("tau", positive=True)}
    a, b = symbolic(parse(one), symbols), symbolic(parse(other), symbols)
    assert equal(a, b) in ((True, None) if expected is None else (expected,))
    assert equal(a, a) is True


def test_undeclared_symbols_are_positive_and_the_undecidable_is_none() -> None:
    x, (f, g) = sympy.Symbol("x"), sympy.symbols("f g", cls=sympy.Function)
    assert equal(sympy.sqrt(x**2), x) is True
    assert equal(f(x), g(x)) is None
    assert equal(x > 0, x < 0) is None
    assert equal(0.5 * x, x / 2) is True
    assert equal(sympy.sin(sympy.pi * sympy.Symbol("n", integer=True)), 0) is True
