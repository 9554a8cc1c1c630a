"""Proof that ``build`` and ``read`` of every row are inverse to one another, and that every equivalence holds.

For a row: node -> module -> node is the node in its normal form, and module -> node -> module is the module. Both are
shown symbolically where every expression has a symbolic form, and in any case on drawn values, which also give the
counter-example where they are not inverse. A per-neuron parameter is one number here: all expressions are elementwise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nirmap_generator.check import build_expressions, module_paths
from nirmap_generator.evaluate import NotSymbolic, equal, evaluate, symbolic
from nirmap_generator.model import (
    Catalogue,
    Constraint,
    Equivalence,
    Located,
    Parameter,
    Place,
    Primitive,
    Row,
)
from nirmap_generator.problems import Problems

Values = dict[str, Any]
DRAWS = 24
TOLERANCE = 1e-9


def prove_row(row: Row, primitive: Primitive, problems: Problems) -> None:
    """Proves one row; every failure is a problem that shows the counter-example."""
    draw = _Draw(row, primitive)
    for _ in range(DRAWS):
        node = draw.node()
        if node is None:
            problems.add(
                row.place.problem("no drawn node fulfils requires", "requirements that some node fulfils")
            )
            return
        if not _holds_for(node, row, primitive, problems):
            return
    _prove_symbolically(row, primitive, problems)


def _holds_for(node: Values, row: Row, primitive: Primitive, problems: Problems) -> bool:
    """Whether node -> module -> node, and then module -> node -> module, is the identity for these values."""
    normal = normalise(node, row, primitive)
    module = built(normal, row)
    reading = {**module, "dt": node["dt"]}
    for constraint in row.reads_only_if:
        if not evaluate(constraint.that.expression, reading):
            found = f"a module built for {_shown(node)} does not fulfil it: {_shown(module)}"
            problems.add(constraint.that.place.problem(found, "a condition that every built module fulfils"))
            return False
    again = {name: evaluate(row.read[name].expression, reading) for name in primitive.declared}
    for name in primitive.declared:
        if not same(again[name], normal[name]):
            found = (
                f"build and read are not inverse: for {_shown(node)}, whose normal form has {name} = "
                f"{_number(normal[name])}, read gives {_number(again[name])}"
            )
            problems.add(row.read[name].place.problem(found, f"read to give {name} back"))
            return False
    second = built(
        normalise({**again, "dt": node["dt"], "surrogate": node["surrogate"]}, row, primitive), row
    )
    for path, located in build_expressions(row):
        key = f"module.{path}"
        if not same(second[key], module[key]):
            found = f"read and build are not inverse: {key} = {_number(module[key])} comes back as {_number(second[key])}"
            problems.add(
                located.place.problem(found, f"build to give {path} back", f"drawn node: {_shown(node)}")
            )
            return False
    return True


def normalise(node: Mapping[str, Any], row: Row, primitive: Primitive) -> Values:
    """The node in the normal form of the row."""
    equivalence = primitive.equivalence
    if equivalence is None or not row.normal_form:
        return dict(node)
    free: Values = dict(equivalence.free)
    free.update({name: evaluate(located.expression, node) for name, located in row.normal_form.items()})
    changed = {
        name: evaluate(located.expression, {**node, **free})
        for name, located in equivalence.parameters.items()
    }
    return {**node, **changed}


def built(normal: Mapping[str, Any], row: Row) -> Values:
    """The attributes of the module that is built from a node in normal form."""
    module = {
        f"module.{path}": evaluate(located.expression, normal) for path, located in build_expressions(row)
    }
    module.update({f"module.{path}": evaluate(located.expression, {}) for path, located in row.holds.items()})
    return module


def same(a: Any, b: Any) -> bool:
    """Equal; numbers up to rounding."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(a == b)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_number(value)}" for name, value in values.items() if name != "surrogate")


@dataclass
class _Draw:
    """Draws nodes that fulfil a row's requirements, the same ones on every run."""

    row: Row
    primitive: Primitive

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.row.node} {self.row.module}")

    def node(self, tries: int = 400) -> Values | None:
        """A node's parameters with dt, or None where nothing drawn fulfils the requirements."""
        for _ in range(tries):
            node: Values = {
                name: self.parameter(self.primitive.parameters[name]) for name in self.primitive.declared
            }
            node["dt"] = 10 ** self.random.uniform(-4, -3)
            node["surrogate"] = "surrogate"
            for constraint in self.row.requires:
                impose(constraint, node)
            if all(evaluate(constraint.that.expression, node) for constraint in self.row.requires):
                return node
        return None

    def parameter(self, parameter: Parameter) -> Any:
        """A legal value of one parameter."""
        axes = range(parameter.axes)
        low = parameter.minimum if parameter.minimum is not None else -3
        if parameter.kind == "integer":
            return self.random.randint(low, low + 6)
        if parameter.kind == "integers":
            return tuple(self.random.randint(low, low + 3) for _ in axes)
        if parameter.kind == "padding":
            return self.random.choice(["same", "valid", tuple(self.random.randint(0, 3) for _ in axes)])
        if parameter.domain is not None:
            return 10 ** self.random.uniform(-2.5, -0.5)
        return self.random.choice([-1, 1]) * 10 ** self.random.uniform(-1.5, 1)


def impose(constraint: Constraint, values: Values) -> None:
    """Makes a requirement of the form ``name == expression`` hold by setting the name."""
    import ast

    body = constraint.that.expression.tree.body
    if isinstance(body, ast.Compare) and isinstance(body.left, ast.Name) and isinstance(body.ops[0], ast.Eq):
        from nirmap_generator.expressions import parse

        right = parse(ast.unparse(body.comparators[0]))
        values[body.left.id] = evaluate(right, values)


def _symbols(row: Row, primitive: Primitive) -> Values:
    """A symbol for each parameter; those that a requirement fixes are set to what it says."""
    import sympy

    values: Values = {
        name: sympy.Symbol(name, positive=True)
        if primitive.parameters[name].domain
        else sympy.Symbol(name, real=True)
        for name in primitive.declared
    }
    values["dt"] = sympy.Symbol("dt", positive=True)
    return values


def _prove_symbolically(row: Row, primitive: Primitive, problems: Problems) -> None:
    """Node -> module -> node on symbols; silent where an expression has no symbolic form."""
    if any(primitive.parameters[name].kind not in ("neuron", "weight") for name in primitive.declared):
        return
    values = _symbols(row, primitive)
    try:
        for constraint in row.requires:
            _impose_symbolically(constraint, values)
        normal = _normalise_symbolically(values, row, primitive)
        module: Values = {"dt": values["dt"]}
        for path, located in build_expressions(row):
            if any(path in module_paths(read) for read in row.read.values()):
                module[f"module.{path}"] = symbolic(located.expression, normal)
        again = {name: symbolic(row.read[name].expression, module) for name in primitive.declared}
    except NotSymbolic:
        return
    for name in primitive.declared:
        if equal(again[name], normal[name]) is False:
            found = f"build and read are not inverse: {name} = {normal[name]} comes back as {again[name]}"
            problems.add(row.read[name].place.problem(found, f"read to give {name} back"))


def _impose_symbolically(constraint: Constraint, values: Values) -> None:
    import ast

    from nirmap_generator.expressions import parse

    body = constraint.that.expression.tree.body
    if isinstance(body, ast.Compare) and isinstance(body.left, ast.Name) and isinstance(body.ops[0], ast.Eq):
        values[body.left.id] = symbolic(parse(ast.unparse(body.comparators[0])), values)


def _normalise_symbolically(values: Values, row: Row, primitive: Primitive) -> Values:
    equivalence = primitive.equivalence
    if equivalence is None or not row.normal_form:
        return values
    free: Values = {name: _number_symbol(value) for name, value in equivalence.free.items()}
    free.update({name: symbolic(located.expression, values) for name, located in row.normal_form.items()})
    scope = {**values, **free}
    return {
        **values,
        **{name: symbolic(entry.expression, scope) for name, entry in equivalence.parameters.items()},
    }


def _number_symbol(value: float) -> Any:
    import sympy

    return sympy.nsimplify(value)


def prove_equivalence(primitive: Primitive, equivalence: Equivalence, problems: Problems) -> None:
    """One step of a node and of its equivalent stay equivalent, for every value of the free variables.

    The step is forward Euler; what is shown is that the right-hand sides, the distance to the threshold, the reset and
    the output transform as the equivalence says, which does not depend on the scheme.
    """
    import sympy

    free: Values = {name: sympy.Symbol(name, positive=True) for name in equivalence.free}
    node: Values = {name: sympy.Symbol(name, real=True) for name in primitive.declared}
    inner: Values = {name: sympy.Symbol(f"{name}_", real=True) for name in primitive.state}
    other = {
        **node,
        **{name: symbolic(e.expression, {**node, **free}) for name, e in equivalence.parameters.items()},
    }
    _prove_inverse(equivalence, node, other, free, problems)
    x = sympy.Symbol("input", real=True)
    outer: Values = {}
    scales: Values = {}
    for name, entry in equivalence.state.items():
        shift, scale = _map(entry.shift, 0, free), _map(entry.scale, 1, free)
        outer[name], scales[name] = shift + scale * inner[name], scale
    here: Values = {**node, **outer, "input": x}
    there: Values = {**other, **inner, "input": symbolic(equivalence.input.expression, free) * x}

    def expect(located: Located, left: Any, right: Any, what: str) -> None:
        if equal(left, right) is not True:
            problems.add(
                located.place.problem(f"{what}: {left} becomes {right}", "an equivalence that keeps it")
            )

    for name, located in primitive.dynamics.items():
        expect(
            located,
            symbolic(located.expression, here),
            scales[name] * symbolic(located.expression, there),
            "d/dt",
        )
    for name, located in primitive.reset.items():
        shift = outer[name] - scales[name] * inner[name]
        value = shift + scales[name] * symbolic(located.expression, there)
        expect(located, symbolic(located.expression, here), value, "reset")
    if primitive.spike is not None:
        distance = _distance(primitive.spike)
        scale = next(iter(scale for name, scale in scales.items() if name in primitive.reset))
        expect(
            primitive.spike,
            symbolic(distance, here),
            scale * symbolic(distance, there),
            "distance to the threshold",
        )
    elif primitive.output is not None and equivalence.output is not None:
        shift, scale = _map(equivalence.output.shift, 0, free), _map(equivalence.output.scale, 1, free)
        value = shift + scale * symbolic(primitive.output.expression, there)
        expect(primitive.output, symbolic(primitive.output.expression, here), value, "output")


def _prove_inverse(
    equivalence: Equivalence, node: Values, other: Values, free: Values, problems: Problems
) -> None:
    """The inverse leads from the equivalent node back to the node."""
    back = {name: symbolic(located.expression, free) for name, located in equivalence.inverse.items()}
    for name, located in equivalence.parameters.items():
        again = symbolic(located.expression, {**other, **back})
        if equal(again, node[name]) is not True:
            problems.add(located.place.problem(f"inverse: {name} comes back as {again}", f"{name} itself"))


def _map(located: Located | None, neutral: int, free: Values) -> Any:
    return _number_symbol(neutral) if located is None else symbolic(located.expression, free)


def _distance(spike: Located) -> Any:
    """``left - right`` of the comparison ``left > right``."""
    import ast

    from nirmap_generator.expressions import parse

    body = spike.expression.tree.body
    if not isinstance(body, ast.Compare) or not isinstance(body.ops[0], ast.Gt):
        raise TypeError(f"{spike.expression.text!r} is not of the form 'variable > threshold'")
    return parse(f"({ast.unparse(body.left)}) - ({ast.unparse(body.comparators[0])})")


def prove(catalogue: Catalogue, rows: list[Row], problems: Problems) -> None:
    """Proves every row."""
    for row in rows:
        prove_row(row, catalogue.primitives[row.node], problems)


def prove_catalogue(catalogue: Catalogue, problems: Problems) -> None:
    """Proves every equivalence of the catalogue."""
    for primitive in catalogue.primitives.values():
        if primitive.equivalence is not None:
            prove_equivalence(primitive, primitive.equivalence, problems)


__all__ = [
    "Place",
    "built",
    "normalise",
    "prove",
    "prove_catalogue",
    "prove_equivalence",
    "prove_row",
    "same",
]
