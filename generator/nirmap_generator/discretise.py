"""Discretisation: the exact step of equations that are linear in the state, for an input that is constant during dt.

With ``d/dt x = f(x) = A x + b``, the state after dt is ``x + dt phi1(dt A) f(x)``, ``phi1(z) = (exp(z) - 1) / z``
(Hochbruck and Ostermann, "Exponential integrators", Acta Numerica 19, 2010). It needs no inverse of A. In phi1 of the
matrix, a variable's own rate a gives ``phi1(dt a)``; where a variable with rate a drives one with rate b by
``A_ba``, the entry is ``dt A_ba phi1[dt a, dt b]``, a divided difference (Higham, "Functions of Matrices", 2008,
section 4.6), and ``phi1[p, q] = (exp[p, q] - phi1(q)) / p``. So no difference of rates is divided by but in exp[p, q],
for which the runtime has a function.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nirmap_generator.expressions import Expression, ExpressionError, parse
from nirmap_generator.model import Primitive
from nirmap_generator.spelling import to_torch
from nirmap_generator.symbolic import NotSymbolic, symbolic


class NotExact(ValueError):
    """Equations of which no exact step is known; the message says why."""


@dataclass(frozen=True)
class Weight:
    """What the rate of change of one variable, times dt, is multiplied by in the step of a variable.

    Attributes:
        source: the variable whose rate it is.
        python: the factor, in a method of a reference module; empty where it is 1.
    """

    source: str
    python: str


@dataclass(frozen=True)
class ExactStep:
    """The exact step of some equations: ``x + dt * (sum of weight * rate)`` for each state variable x.

    Attributes:
        factors: local names that the weights speak of, ``phi1_x`` for a variable x, and what they stand for.
        weights: the terms of each variable's step.
    """

    factors: Mapping[str, str]
    weights: Mapping[str, tuple[Weight, ...]]


def methods(primitive: Primitive) -> tuple[str, ...]:
    """The methods by which a primitive can be stepped; none where it has no ``d/dt``."""
    if not primitive.dynamics:
        return ()
    try:
        exact_step(primitive)
    except NotExact:
        return ("forward_euler",)
    return ("forward_euler", "exponential")


def exact_step(primitive: Primitive) -> ExactStep:
    """The exact step of a primitive.

    Raises:
        NotExact: the equations are not linear in the state, or their variables are coupled in more than one stage.
    """
    matrix = _matrix(primitive)
    driving = {
        name: [source for source, entry in row.items() if source != name and entry != 0]
        for name, row in matrix.items()
    }
    factors = {
        f"phi1_{name}": f"exprel({_scaled(row[name], primitive)})"
        for name, row in matrix.items()
        if row[name] != 0
    }
    weights: dict[str, tuple[Weight, ...]] = {}
    for name, sources in driving.items():
        for source in sources:
            if driving[source]:
                raise NotExact(f"{source} drives {name}, and {', '.join(driving[source])} drives {source}")
        own = Weight(name, f"phi1_{name}" if f"phi1_{name}" in factors else "")
        weights[name] = (
            own,
            *(Weight(source, _coupling(matrix, source, own, primitive)) for source in sources),
        )
    return ExactStep(factors, weights)


def _matrix(primitive: Primitive) -> Mapping[str, Mapping[str, Any]]:
    """The matrix A: how the rate of each variable depends on each."""
    names = (*primitive.parameters, *primitive.state, "input")
    rates = tuple((name, located.expression) for name, located in primitive.dynamics.items())
    matrix = _derivatives(names, rates)
    for name, row in matrix.items():
        varying = {str(symbol) for entry in row.values() for symbol in entry.free_symbols}
        if not varying.isdisjoint({*primitive.dynamics, "input"}):
            raise NotExact(f"d/dt {name} is not linear in the state")
    return matrix


@functools.cache
def _derivatives(
    names: tuple[str, ...], rates: tuple[tuple[str, Expression], ...]
) -> Mapping[str, Mapping[str, Any]]:
    """The derivative of each rate by each variable, found once: simplifying is slow, and many places ask for it.

    Args:
        names: everything that the rates may speak of.
        rates: ``d/dt`` of the variables, by their names.

    Raises:
        NotExact: a rate is not a formula.
    """
    sympy: Any = importlib.import_module("sympy")  # it has no types

    symbols = {name: sympy.Symbol(name, real=True) for name in names}
    try:
        # All rates of an exact step are those before it.
        forms = {
            name: symbolic(expression, symbols, functions={"before": _same}) for name, expression in rates
        }
    except NotSymbolic as error:
        raise NotExact(str(error)) from error
    return {
        name: {source: sympy.simplify(form.diff(symbols[source])) for source in forms}
        for name, form in forms.items()
    }


def _same(value: Any) -> Any:
    return value


def _python(form: Any, primitive: Primitive) -> str:
    """A sympy expression of the parameters, in a method of a reference module."""
    try:
        expression = parse(str(form))
    except ExpressionError as error:
        raise NotExact(f"{form} has no spelling: {error}") from error
    return to_torch(expression, {name: f"self.{name}" for name in primitive.parameters})


def _scaled(rate: Any, primitive: Primitive) -> str:
    return f"self.dt * ({_python(rate, primitive)})"


def _coupling(matrix: Mapping[str, Mapping[str, Any]], source: str, own: Weight, primitive: Primitive) -> str:
    """``dt A_ts phi1[dt A_ss, dt A_tt]``, divided by a rate that is not 0 identically.

    Args:
        matrix: A.
        source: the variable that drives.
        own: the variable that is driven, and what its own rate is multiplied by.
        primitive: whose equations these are.
    """
    by, a, b = matrix[own.source][source], matrix[source][source], matrix[own.source][own.source]
    if a == 0 and b == 0:
        return _scaled(by / 2, primitive)
    if a == 0:
        return f"({_python(by / b, primitive)}) * ({own.python} - 1)"
    both = f"{_scaled(a, primitive)}, {_scaled(b, primitive)}"
    return f"({_python(by / a, primitive)}) * (exp_difference({both}) - {own.python or '1'})"
