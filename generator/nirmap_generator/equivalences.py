"""Proof that every equivalence of the catalogue holds: a node and its equivalent stay equivalent in every step.

The step is forward Euler; what is shown is that the right-hand sides, the distance to the threshold, the reset and the
output transform as the equivalence says, which does not depend on the scheme. All of it is shown symbolically.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from nirmap_generator.expressions import Expression, parse
from nirmap_generator.model import AffineMap, Catalogue, Equivalence, Located, Primitive
from nirmap_generator.problems import Problem, Problems
from nirmap_generator.symbolic import NotSymbolic, equal, symbolic

Symbols = dict[str, Any]

# What the names of state variables of the equivalent node end with; no name of a file has a space.
_INNER = " of the equivalent node"


def prove_catalogue(catalogue: Catalogue, problems: Problems) -> None:
    """Proves every equivalence of the catalogue."""
    for primitive in catalogue.primitives.values():
        if primitive.equivalence is not None:
            prove_equivalence(primitive, primitive.equivalence, problems)


def prove_equivalence(primitive: Primitive, equivalence: Equivalence, problems: Problems) -> None:
    """One step of a node and of its equivalent stay equivalent, for every value of the free variables.

    Every formula that does not transform as the equivalence says is a problem, with numbers for which it does not.
    """
    try:
        _Proof(primitive, equivalence, problems).run()
    except _NotProven as failure:
        problems.add(failure.problem)


class _NotProven(Exception):
    """A formula of which nothing can be shown."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _symbolic(located: Located, symbols: Symbols, expression: Expression | None = None) -> Any:
    try:
        return symbolic(expression or located.expression, symbols, functions={"before": _before})
    except NotSymbolic as error:
        found = f"no proof, for {error}"
        expected = "arithmetic, exp, log, sqrt, abs, minimum, maximum and where, on numbers"
        raise _NotProven(located.place.problem(found, expected)) from error


def _before(value: Any) -> Any:
    """A state variable before the step: it is converted as the variable is, and may be any other number."""
    import sympy

    inner = [symbol for symbol in value.free_symbols if symbol.name.endswith(_INNER)]
    return value.xreplace({symbol: sympy.Symbol(f"{symbol.name}before", real=True) for symbol in inner})


@dataclass
class _Proof:
    """One equivalence. ``here`` are the values in the node's step, ``there`` those in its equivalent's."""

    primitive: Primitive
    equivalence: Equivalence
    problems: Problems

    def __post_init__(self) -> None:
        import sympy

        primitive, equivalence = self.primitive, self.equivalence
        self.free: Symbols = {name: self.free_symbol(name) for name in equivalence.free}
        self.node: Symbols = {name: sympy.Symbol(name, real=True) for name in primitive.declared}
        scope = {**self.node, **self.free}
        changed = {name: _symbolic(entry, scope) for name, entry in equivalence.parameters.items()}
        self.other: Symbols = {**self.node, **changed}
        self.maps = {name: self.affine(entry) for name, entry in equivalence.state.items()}
        inner = {name: sympy.Symbol(f"{name}{_INNER}", real=True) for name in primitive.state}
        outer = {name: shift + scale * inner[name] for name, (shift, scale) in self.maps.items()}
        x = sympy.Symbol("input", real=True)
        self.here: Symbols = {**self.node, **outer, "input": x}
        offset = _symbolic(equivalence.offset, self.free) if equivalence.offset else sympy.Integer(0)
        gain = _symbolic(equivalence.input, self.free)
        self.there: Symbols = {**self.other, **inner, "input": gain * (x + offset)}

    def free_symbol(self, name: str) -> Any:
        """A symbol for a free variable: positive where a spike depends on its sign, otherwise not zero."""
        import sympy

        spike = self.primitive.spike
        for variable, entry in self.equivalence.state.items():
            watched = spike is not None and variable in spike.expression.names
            if watched and entry.scale is not None and name in entry.scale.expression.names:
                return sympy.Symbol(name, positive=True)
        return sympy.Symbol(name, real=True, zero=False)

    def affine(self, entry: AffineMap) -> tuple[Any, Any]:
        """Shift and scale."""
        import sympy

        shift = _symbolic(entry.shift, self.free) if entry.shift else sympy.Integer(0)
        scale = _symbolic(entry.scale, self.free) if entry.scale else sympy.Integer(1)
        return shift, scale

    def run(self) -> None:
        """Everything that has to hold."""
        primitive = self.primitive
        self.inverse_leads_back()
        for name, variable in primitive.state.items():
            # Where a neuron begins at a number, a module is given that number, as its state is converted.
            if variable.initial.expression.names:
                self.transforms(variable.initial, f"{name} before the first step", self.maps[name])
        for name, located in primitive.dynamics.items():
            self.transforms(located, f"d/dt {name}", (0, self.maps[name][1]))
        for name, located in [*primitive.reset.items(), *primitive.reset_by_subtraction.items()]:
            self.transforms(located, f"reset of {name}", self.maps[name])
        if primitive.spike is not None:
            self.threshold(primitive.spike)
        elif primitive.output is not None and self.equivalence.output is not None:
            self.transforms(primitive.output, "output", self.affine(self.equivalence.output))

    def transforms(
        self, located: Located, what: str, by: tuple[Any, Any], expression: Expression | None = None
    ) -> None:
        """The formula's value is ``shift + scale * (its value in the equivalent)``."""
        shift, scale = by
        expected = _symbolic(located, self.here, expression)
        self.same(
            located, what, expected, shift + scale * _symbolic(located, self.there, expression), "a node"
        )

    def threshold(self, spike: Located) -> None:
        """The distance to the threshold changes by a positive factor only."""
        import sympy

        scales = [scale for name, (_, scale) in self.maps.items() if name in spike.expression.names]
        scale: Any = scales[0] if scales else sympy.Integer(1)
        if scale.is_positive is not True:
            found = f"the scale {scale}, which need not be positive"
            self.problems.add(
                (self.equivalence.place / "state").problem(
                    found, "a positive one: otherwise a spike is where none was"
                )
            )
        self.transforms(spike, "distance to the threshold", (0, scale), _distance(spike))

    def inverse_leads_back(self) -> None:
        """The inverse leads from the equivalent node back to the node."""
        inverse = self.equivalence.inverse
        back = {name: _symbolic(located, self.free) for name, located in inverse.items()}
        for name, located in self.equivalence.parameters.items():
            again = _symbolic(located, {**self.other, **back})
            self.same(located, f"{name}, after the inverse", self.node[name], again, "the node")

    def same(self, located: Located, what: str, expected: Any, found: Any, whose: str) -> None:
        """Adds a problem where two forms are not one function."""
        if equal(expected, found) is not True:
            text = f"{what} is {expected}, and by the equivalence {found}{_example(expected, found)}"
            self.problems.add(located.place.problem(text, f"an equivalence that keeps {what} of {whose}"))


def _example(expected: Any, found: Any) -> str:
    """Numbers for which two forms differ."""
    import sympy

    symbols = sorted({*expected.free_symbols, *found.free_symbols}, key=str)
    point: Symbols = {symbol: sympy.Rational(3 * index + 2, 13) for index, symbol in enumerate(symbols)}
    values = [form.subs(point).evalf(6) for form in (expected, found)]
    if not point or values[0] == values[1] or not all(value.is_number for value in values):
        return ""
    given = ", ".join(f"{symbol} = {float(value):.4g}" for symbol, value in point.items())
    return f": for {given} it is {values[0]}, and not {values[1]}"


def _distance(spike: Located) -> Expression:
    """``left - right`` of the comparison ``left > right``."""
    body = spike.expression.tree.body
    if isinstance(body, ast.Compare) and len(body.ops) == 1 and isinstance(body.ops[0], ast.Gt):
        return parse(f"({ast.unparse(body.left)}) - ({ast.unparse(body.comparators[0])})")
    raise _NotProven(
        spike.place.problem(f"{spike.expression.text!r}", "a comparison, as in 'v > v_threshold'")
    )
