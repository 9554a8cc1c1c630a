"""Proof that ``build`` and ``read`` of every row are inverse to one another.

Three things are shown. A node is built and read: it comes back as it was, in its normal form. The module is built
again from what was read: it is the same module. And a module that somebody configured otherwise, as far as
``reads_only_if`` lets it through, is read and built: it is the same module too, so that no node is written that means
another module.

The first is shown symbolically where every expression has a symbolic form; all are shown on drawn values, which also
give the counter-example. A per-neuron parameter is one number here: all expressions are elementwise.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from nirmap_generator.check import BUILD_NAMES, WISHES, build_expressions, class_names, module_paths
from nirmap_generator.draw import Draw
from nirmap_generator.evaluate import EvaluationError, NotSymbolic, Opaque, equal, evaluate, symbolic
from nirmap_generator.expressions import Expression, parse
from nirmap_generator.graphs import primitive_of
from nirmap_generator.model import Catalogue, Constraint, Located, Parameter, Place, Primitive, Row
from nirmap_generator.problems import Problem, Problems

Values = dict[str, Any]
DRAWS = 24
# For so many of the drawn nodes, the built module is also reconfigured: so often for each of its attributes.
RECONFIGURED, SETTINGS = 2, 6
TOLERANCE = 1e-9


class _NotProven(Exception):
    """A row that cannot be proven, or is wrong."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def prove(catalogue: Catalogue, rows: list[Row], problems: Problems) -> None:
    """Proves every row that is built."""
    for row in rows:
        # What is never built, cannot be built and read.
        if not row.not_built:
            prove_row(row, primitive_of(row, catalogue), problems)


def prove_row(row: Row, primitive: Primitive, problems: Problems) -> None:
    """Proves one row; every failure is a problem that shows the counter-example."""
    before = len(problems)
    proof = _Proof(row, primitive, problems)
    name = row.node if row.graph is None else row.graph.name
    draw = Draw(f"{name} {row.module} {row.reset}", primitive)
    try:
        for number in range(DRAWS):
            node = proof.node(draw)
            module = proof.node_comes_back(node)
            if len(problems) == before:
                proof.module_comes_back(node, module)
            if len(problems) == before and number < RECONFIGURED and not row.not_read:
                proof.reconfigured_come_back(node, module, draw)
            if len(problems) > before:
                return
    except _NotProven as failure:
        problems.add(failure.problem)
        return
    _prove_symbolically(row, primitive, problems)


def _value(located: Located, values: Mapping[str, Any], expression: Expression | None = None) -> Any:
    try:
        return evaluate(expression or located.expression, values)
    except EvaluationError as error:
        found = f"{error}; drawn: {shown(values)}"
        expected = "an expression that has a value for every node that fulfils requires"
        raise _NotProven(located.place.problem(found, expected)) from error


def normalise(node: Mapping[str, Any], row: Row, primitive: Primitive) -> Values:
    """The node in the normal form of the row."""
    equivalence = primitive.equivalence
    if equivalence is None or not row.normal_form:
        return dict(node)
    free: Values = dict(equivalence.free)
    free.update({name: _value(located, node) for name, located in row.normal_form.items()})
    changed = {name: _value(located, {**node, **free}) for name, located in equivalence.parameters.items()}
    for name, entry in equivalence.state.items():
        watched = primitive.spike is not None and name in primitive.spike.expression.names
        if watched and entry.scale is not None and not _value(entry.scale, free) > 0:
            found = f"a scale of {name} that is not positive: {shown(free)}, drawn: {shown(node)}"
            raise _NotProven(
                (row.place / "normal_form").problem(found, "a positive scale, which keeps the spikes")
            )
    return {**node, **changed}


def built(normal: Mapping[str, Any], row: Row) -> Values:
    """The attributes of the module that is built from a node in normal form."""
    module = {f"module.{path}": _value(located, normal) for path, located in build_expressions(row)}
    module.update({f"module.{path}": _value(located, {}) for path, located in row.holds.items()})
    module.update({f"module.{path}": name for path, name in class_names(row).items()})
    return module


@dataclass
class _Proof:
    """The proof of one row, for one drawn node after the other."""

    row: Row
    primitive: Primitive
    problems: Problems

    def __post_init__(self) -> None:
        built_paths = [(f"module.{path}", path, located) for path, located in build_expressions(self.row)]
        self.own = [entry for entry in built_paths if entry[1] not in self.row.ignores]

    def node(self, draw: Draw) -> Values:
        """A drawn node that fulfils the requirements."""
        for node in draw.nodes():
            for constraint in self.row.requires:
                impose(constraint, node)
            if all(fulfils(constraint, node) for constraint in self.row.requires):
                return node
        found = "requirements that no drawn node fulfils"
        raise _NotProven(self.row.place.problem(found, "requirements that some node fulfils"))

    def read(self, module: Values, node: Values) -> Values:
        """The node that is read from a module, in normal form."""
        reading = {**module, "dt": node["dt"]}
        again = {name: _value(self.row.read[name], reading) for name in self.primitive.declared}
        return {**again, **{name: node[name] for name in BUILD_NAMES}}

    def node_comes_back(self, node: Values) -> Values:
        """Node -> module -> node; returns the module."""
        normal = normalise(node, self.row, self.primitive)
        module = built(normal, self.row)
        for constraint in self.row.reads_only_if:
            if not _value(constraint.that, {**module, "dt": node["dt"]}):
                found = f"a condition that does not hold for the module of {shown(node)}, which has {shown(module)}"
                expected = "a condition that every built module fulfils"
                raise _NotProven(constraint.that.place.problem(found, expected))
        again = self.read(module, node)
        for name in self.primitive.declared:
            if not same(again[name], normal[name]):
                found = (
                    f"build and read are not inverse: for {shown(node)}, whose normal form has {name} = "
                    f"{_number(normal[name])}, read gives {_number(again[name])}"
                )
                self.problems.add(self.row.read[name].place.problem(found, f"read to give {name} back"))
        return module

    def module_comes_back(self, node: Values, module: Values) -> None:
        """Module -> node -> module, for a module that was built."""
        second = built(normalise(self.read(module, node), self.row, self.primitive), self.row)
        for path, located in build_expressions(self.row):
            key = f"module.{path}"
            if not same(second[key], module[key]):
                values = f"{_number(module[key])} comes back as {_number(second[key])}"
                found = f"read and build are not inverse: {key} = {values}"
                do = f"drawn node: {shown(node)}"
                self.problems.add(located.place.problem(found, f"build to give {path} back", do))

    def reconfigured_come_back(self, node: Values, module: Values, draw: Draw) -> None:
        """Module -> node -> module, for a module that differs in one setting and that reads_only_if lets through."""
        for key, path, located in self.own:
            if _depends_on_shape(module[key]):
                continue
            for setting in draw.settings(module[key], SETTINGS):
                other = {**module, key: setting}
                outcome = self.comes_back(other, node)
                if outcome is not None:
                    found = f"a module with {path} = {_number(other[key])} {outcome}: {shown(other)}"
                    expected = "a condition under reads_only_if that it does not fulfil, or a read that tells it apart"
                    self.problems.add(located.place.problem(found, expected))
                    break

    def comes_back(self, module: Values, node: Values) -> str | None:
        """What is wrong with the node of a module that is read; None where it is right, or not read at all."""
        try:
            reading = {**module, "dt": node["dt"]}
            if not all(evaluate(entry.that.expression, reading) for entry in self.row.reads_only_if):
                return None
            again = {
                name: evaluate(self.row.read[name].expression, reading) for name in self.primitive.declared
            }
            legal = all(_legal(again[name], self.primitive.parameters[name]) for name in again)
        except EvaluationError:
            return None  # Such a module is refused when it is read.
        if not legal:
            return None  # Such a node is refused by the checks of the parameters.
        again |= {name: node[name] for name in BUILD_NAMES}
        for constraint in self.row.requires:
            if not fulfils(constraint, again):
                return f"is read as {shown(again)}, which does not fulfil {constraint.that.expression.text!r}"
        second = built(normalise(again, self.row, self.primitive), self.row)
        for key, path, _ in self.own:
            if not _depends_on_shape(module[key]) and not same(second[key], module[key]):
                return f"is read as {shown(again)}, and built again with {path} = {_number(second[key])}"
        return None


def _is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)


def _depends_on_shape(value: object) -> bool:
    if _is_tuple(value):
        return any(isinstance(entry, Opaque) for entry in value)
    return isinstance(value, Opaque)


def _legal(value: object, parameter: Parameter) -> bool:
    """Whether a node may have the value."""
    if parameter.domain is not None:
        return bool(evaluate(parameter.domain.expression, {parameter.name: value}))
    if parameter.kind == "padding" and isinstance(value, str):
        return value in ("same", "valid")
    entries = value if _is_tuple(value) else (value,)
    if parameter.minimum is None:
        return True
    return all(isinstance(entry, int | float) and entry >= parameter.minimum for entry in entries)


def same(a: Any, b: Any) -> bool:
    """Equal; numbers up to rounding."""
    if _is_tuple(a) and _is_tuple(b):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(a, Opaque) and isinstance(b, Opaque):
        return a.function == b.function and same(a.arguments, b.arguments)
    return bool(a == b)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def shown(values: Mapping[str, Any]) -> str:
    """Values as people read them, without what depends on a shape."""
    return ", ".join(
        f"{name} = {_number(value)}"
        for name, value in values.items()
        if name not in WISHES and not _depends_on_shape(value)
    )


def _equation(constraint: Constraint) -> tuple[Expression, Expression] | None:
    """The two sides of ``a == b``."""
    body = constraint.that.expression.tree.body
    if isinstance(body, ast.Compare) and len(body.ops) == 1 and isinstance(body.ops[0], ast.Eq):
        return parse(ast.unparse(body.left)), parse(ast.unparse(body.comparators[0]))
    return None


def fulfils(constraint: Constraint, values: Values) -> bool:
    """Whether a requirement holds; an equation up to rounding."""
    sides = _equation(constraint)
    if sides is None:
        return bool(_value(constraint.that, values))
    left, right = (_value(constraint.that, values, side) for side in sides)
    return _depends_on_shape(left) or _depends_on_shape(right) or same(left, right)


def impose(constraint: Constraint, values: Values, *, symbols: bool = False) -> None:
    """Makes a requirement of the form ``name == expression`` hold by setting the name."""
    sides = _equation(constraint)
    if sides is not None and sides[0].text in values:
        name, right = sides[0].text, sides[1]
        values[name] = symbolic(right, values) if symbols else _value(constraint.that, values, right)


def _symbols(primitive: Primitive) -> Values:
    """A symbol for each parameter."""
    import sympy

    values: Values = {}
    for name in primitive.declared:
        positive = primitive.parameters[name].domain is not None
        values[name] = sympy.Symbol(name, positive=True) if positive else sympy.Symbol(name, real=True)
    values["dt"] = sympy.Symbol("dt", positive=True)
    return values


def _prove_symbolically(row: Row, primitive: Primitive, problems: Problems) -> None:
    """Node -> module -> node on symbols; silent where an expression has no symbolic form."""
    if any(primitive.parameters[name].kind not in ("neuron", "weight") for name in primitive.declared):
        return
    values = _symbols(primitive)
    try:
        for constraint in row.requires:
            impose(constraint, values, symbols=True)
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


def _normalise_symbolically(values: Values, row: Row, primitive: Primitive) -> Values:
    equivalence = primitive.equivalence
    if equivalence is None or not row.normal_form:
        return values
    free: Values = {name: symbolic(parse(repr(value)), {}) for name, value in equivalence.free.items()}
    free.update({name: symbolic(located.expression, values) for name, located in row.normal_form.items()})
    scope = {**values, **free}
    return {
        **values,
        **{name: symbolic(entry.expression, scope) for name, entry in equivalence.parameters.items()},
    }


__all__ = ["Place", "built", "fulfils", "impose", "normalise", "prove", "prove_row", "same", "shown"]
