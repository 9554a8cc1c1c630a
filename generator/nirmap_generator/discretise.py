"""Discretisation: the exact step of equations that are linear in the state, for an input that is constant during dt.

With ``d/dt x = f(x) = A x + b``, the state after dt is ``x + dt phi1(dt A) f(x)``, ``phi1(z) = (exp(z) - 1) / z``
(Hochbruck and Ostermann, "Exponential integrators", Acta Numerica 19, 2010). It needs no inverse of A. In phi1 of the
matrix, a variable's own rate a gives ``phi1(dt a)``; where a variable with rate a drives one with rate b by
``A_ba``, the entry is ``dt A_ba phi1[dt a, dt b]``, a divided difference (Higham, "Functions of Matrices", 2008,
section 4.6), and ``phi1[p, q] = (exp[p, q] - phi1(q)) / p``. So no difference of rates is divided by but in exp[p, q],
for which the runtime has a function.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nirmap_generator.expressions import ExpressionError, parse
from nirmap_generator.model import Primitive
from nirmap_generator.spelling import to_python
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


def methods(primitive: Primitive) -> tuple[str, ...]:
    """The methods by which a primitive can be stepped; none where it has no ``d/dt``."""
    if not primitive.dynamics:
        return ()
    try:
        exact_step(primitive)
    except NotExact:
        return ("forward_euler",)
    return ("forward_euler", "exponential")


def exact_step(primitive: Primitive) -> Mapping[str, tuple[Weight, ...]]:
    """For each state variable the terms of its exact step: ``x + dt * (sum of weight * rate)``.

    Raises:
        NotExact: the equations are not linear in the state, or their variables are coupled in more than one stage.
    """
    matrix = _matrix(primitive)
    driving = {
        name: [source for source, entry in row.items() if source != name and entry != 0]
        for name, row in matrix.items()
    }
    step: dict[str, tuple[Weight, ...]] = {}
    for name, sources in driving.items():
        for source in sources:
            if driving[source]:
                raise NotExact(f"{source} drives {name}, and {', '.join(driving[source])} drives {source}")
        own = Weight(name, _phi1(matrix[name][name], primitive))
        coupled = [Weight(source, _coupling(matrix, source, name, primitive)) for source in sources]
        step[name] = (own, *coupled)
    return step


def _matrix(primitive: Primitive) -> dict[str, dict[str, Any]]:
    """The matrix A: how the rate of each variable depends on each."""
    sympy: Any = importlib.import_module("sympy")  # it has no types

    names = [*primitive.parameters, *primitive.state, "input"]
    symbols = {name: sympy.Symbol(name, real=True) for name in names}
    state = [symbols[name] for name in primitive.dynamics]
    matrix: dict[str, dict[str, Any]] = {}
    for name, located in primitive.dynamics.items():
        try:
            rate = symbolic(located.expression, symbols)
        except NotSymbolic as error:
            raise NotExact(str(error)) from error
        row = {source: sympy.simplify(rate.diff(symbols[source])) for source in primitive.dynamics}
        varying = {*state, symbols["input"]}
        if any(entry.free_symbols & varying for entry in row.values()):
            raise NotExact(f"d/dt {name} is not linear in the state")
        matrix[name] = row
    return matrix


def _python(form: Any, primitive: Primitive) -> str:
    """A sympy expression of the parameters, in a method of a reference module."""
    try:
        expression = parse(str(form))
    except ExpressionError as error:
        raise NotExact(f"{form} has no spelling: {error}") from error
    return to_python(expression, {name: f"self.{name}" for name in primitive.parameters})


def _scaled(rate: Any, primitive: Primitive) -> str:
    return f"self.dt * ({_python(rate, primitive)})"


def _phi1(rate: Any, primitive: Primitive) -> str:
    return "" if rate == 0 else f"exprel({_scaled(rate, primitive)})"


def _coupling(matrix: Mapping[str, Mapping[str, Any]], source: str, target: str, primitive: Primitive) -> str:
    """``dt A_ts phi1[dt A_ss, dt A_tt]``, divided by a rate that is not 0 identically."""
    sympy: Any = importlib.import_module("sympy")  # it has no types

    by, a, b = matrix[target][source], matrix[source][source], matrix[target][target]
    if a == 0 and b == 0:
        return _scaled(by / 2, primitive)
    if a == 0:
        difference = f"{_phi1(b, primitive)} - 1"
    else:
        both = f"{_scaled(a, primitive)}, {_scaled(b, primitive)}"
        difference = f"exp_difference({both}) - {_phi1(b, primitive) or '1'}"
    return f"({_python(sympy.simplify(by / (a if a != 0 else b)), primitive)}) * ({difference})"
