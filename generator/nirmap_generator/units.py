"""Units: that every equation of the catalogue adds, compares and assigns like to like.

A unit is a product of powers of volt, ampere and second; ohm is V/A, and ``1`` stands for a plain number. Terms of a
sum, sides of a comparison and alternatives need one unit, exponents and the arguments of exp and log none. A literal 0
fits every unit, any other number is a plain one. The unit of ``d/dt x`` is that of x per second.

sympy.physics.units and pint compute with quantities that they have parsed or multiplied themselves. Neither says which
term of a formula is off, which is the point here, and pint would be one more dependency.

The free variables of an equivalence have no units of their own in the files. They follow from what each is for: what is
added to a value has its unit, and factors are plain numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from nirmap_generator.model import Catalogue, Equivalence, Located, Primitive
from nirmap_generator.problems import Problem, Problems

# The same as in catalogue.schema.json, from which an editor knows it.
UNIT_TEXT = re.compile(r"(?:1|(?:V|A|s|ohm)(?:\*\*[1-9])?)(?:[*/](?:V|A|s|ohm)(?:\*\*[1-9])?)*(?![\s\S])")
_FACTOR = re.compile(r"(?P<by>[*/]?)(?P<symbol>1|V|A|s|ohm)(?:\*\*(?P<power>[1-9]))?")
_CORRECT = "correct the equation, or the unit of one of its names"


@dataclass(frozen=True)
class Unit:
    """A product of powers of volt, ampere and second, with exact exponents."""

    volt: Fraction = Fraction(0)
    ampere: Fraction = Fraction(0)
    second: Fraction = Fraction(0)

    def __mul__(self, other: Unit) -> Unit:
        return Unit(self.volt + other.volt, self.ampere + other.ampere, self.second + other.second)

    def __truediv__(self, other: Unit) -> Unit:
        return self * other ** Fraction(-1)

    def __pow__(self, exponent: Fraction) -> Unit:
        return Unit(self.volt * exponent, self.ampere * exponent, self.second * exponent)

    def __str__(self) -> str:
        """As in the files where that can be: ``V/s``, ``ohm``, ``1/s``; other powers as in ``V**(1/2)``.

        >>> str(parse_unit("V/A/s"))
        'ohm/s'
        """
        powers = {"V": self.volt, "A": self.ampere, "s": self.second}
        if self.volt and self.volt == -self.ampere:
            powers = {"ohm": self.volt, "s": self.second}
        above = "*".join(_power(symbol, power) for symbol, power in powers.items() if power > 0)
        below = "".join("/" + _power(symbol, -power) for symbol, power in powers.items() if power < 0)
        return (above or "1") + below


def _power(symbol: str, power: Fraction) -> str:
    if power == 1:
        return symbol
    return f"{symbol}**{power}" if power.denominator == 1 else f"{symbol}**({power})"


NUMBER = Unit()
SECOND = Unit(second=Fraction(1))
_SYMBOLS = {
    "1": NUMBER,
    "V": Unit(volt=Fraction(1)),
    "A": Unit(ampere=Fraction(1)),
    "s": SECOND,
    "ohm": Unit(volt=Fraction(1), ampere=Fraction(-1)),
}
# A value that fits every unit: a literal 0, or a name that is not known, which is a problem by itself.
_ANY = None


def parse_unit(text: str) -> Unit:
    """The unit that a text of the catalogue says: ``V``, ``1/s``, ``A/V**2``; read from left to right.

    Raises:
        ValueError: the text is not a unit.
    """
    if UNIT_TEXT.match(text) is None:
        raise ValueError(f"{text!r} is not a unit, as in V, s, ohm, A, 1, V/s or A/V**2")
    unit = NUMBER
    for factor in _FACTOR.finditer(text):
        power = Fraction(int(factor["power"] or 1))
        unit *= _SYMBOLS[factor["symbol"]] ** (-power if factor["by"] == "/" else power)
    return unit


def check_units(catalogue: Catalogue, problems: Problems) -> None:
    """The units of every equation, of every primitive that is readable."""
    for primitive in catalogue.primitives.values():
        if primitive.name not in catalogue.unreadable:
            problems.extend(_without_unit(primitive))
            check_primitive(primitive, problems)


def _without_unit(primitive: Primitive) -> Iterator[Problem]:
    """What lacks a unit, and what has one that nothing uses."""
    for parameter in primitive.parameters.values():
        if parameter.kind == "neuron" and not parameter.unit:
            place = primitive.place / "parameters" / parameter.name
            yield place.problem("no unit", "one, for a number that equations speak of", "unit: '1' is none")
    for key, text in (("input_unit", primitive.input_unit), ("output_unit", primitive.output_unit)):
        if primitive.output is not None and not text:
            yield primitive.place.problem(f"no {key}", "one, for there are equations", f"{key}: '1' is none")
        if primitive.output is None and text:
            yield (primitive.place / key).problem(f"{text!r}", f"no {key}, for there is no output")


def check_primitive(primitive: Primitive, problems: Problems) -> None:
    """The units of a primitive's equations, and of its equivalence."""
    values = {name: _declared(entry.unit) for name, entry in primitive.parameters.items()}
    state = {name: _declared(entry.unit) for name, entry in primitive.state.items()}
    scope = {**values, **state, "input": _declared(primitive.input_unit), "spike": NUMBER}
    for name, declared in primitive.state.items():
        if declared.initial.expression.names:  # a number is in the unit of the variable
            _check(declared.initial, values, state[name], f"{name} before the first step", problems)
    for name, located in primitive.dynamics.items():
        variable = state.get(name)
        rate = _ANY if variable is None else variable / SECOND
        _check(located, scope, rate, f"d/dt {name}", problems)
    for name, located in [*primitive.reset.items(), *primitive.reset_by_subtraction.items()]:
        _check(located, scope, state.get(name), name, problems)
    if primitive.spike is not None:
        _check(primitive.spike, scope, None, "", problems)
    if primitive.output is not None:
        _check(primitive.output, scope, _declared(primitive.output_unit), "the output", problems)
    if primitive.equivalence is not None:
        _check_equivalence(primitive.equivalence, primitive, scope, problems)


def _declared(text: str) -> Unit | None:
    return parse_unit(text) if text else _ANY


def _check_equivalence(
    equivalence: Equivalence, primitive: Primitive, scope: Mapping[str, Unit | None], problems: Problems
) -> None:
    free: dict[str, Unit | None] = dict.fromkeys(equivalence.free, _ANY)
    for located, unit in _uses(equivalence, primitive, scope):
        name = located.expression.text
        known = free.get(name)
        if known is not None and unit is not None and known != unit:
            found = f"{name!r} in {unit}, and elsewhere in {known}"
            problems.add(located.place.problem(found, "one unit", "declare two free variables"))
        elif name in free and unit is not None:
            free[name] = unit
    for name, located in equivalence.inverse.items():
        _check(located, free, free.get(name), name, problems)
    for name, located in equivalence.parameters.items():
        _check(located, {**scope, **free}, scope.get(name), name, problems)


def _uses(
    equivalence: Equivalence, primitive: Primitive, scope: Mapping[str, Unit | None]
) -> Iterator[tuple[Located, Unit | None]]:
    """Where a free variable stands by itself, and the unit that it has there."""
    yield equivalence.input, NUMBER
    if equivalence.offset is not None:
        yield equivalence.offset, scope["input"]
    maps = [(entry, scope.get(name)) for name, entry in equivalence.state.items()]
    if equivalence.output is not None:
        maps.append((equivalence.output, _declared(primitive.output_unit)))
    for entry, unit in maps:
        if entry.shift is not None:
            yield entry.shift, unit
        if entry.scale is not None:
            yield entry.scale, NUMBER


def _check(
    located: Located, scope: Mapping[str, Unit | None], expected: Unit | None, what: str, problems: Problems
) -> None:
    """Adds a problem where a formula is not consistent, or not in the unit of ``what`` it is for."""
    body = located.expression.tree.body
    try:
        unit = _Units(scope).of(body)
    except _Inconsistent as error:
        problems.add(located.place.problem(error.found, error.expected, error.do))
        return
    if unit is not None and expected is not None and unit != expected:
        do = f"{_CORRECT}: a factor in {expected / unit} is missing"
        problems.add(located.place.problem(_term(body, unit), f"{expected}, the unit of {what}", do))


class _Inconsistent(Exception):
    """A formula that has no unit."""

    def __init__(self, found: str, expected: str, do: str = _CORRECT) -> None:
        super().__init__(found, expected)
        self.found, self.expected, self.do = found, expected, do


def _term(node: ast.expr, unit: Unit) -> str:
    return f"{ast.unparse(node)!r} in {unit}"


@dataclass(frozen=True)
class _Units:
    """The units of the parts of one formula, for names with known units."""

    scope: Mapping[str, Unit | None]

    def of(self, node: ast.expr) -> Unit | None:
        """The unit of a value; None if it fits every unit. A condition is a plain number."""
        match node:
            case ast.Constant(value=bool()):
                return NUMBER
            case ast.Constant(value=int() | float()):
                return _ANY if node.value == 0 else NUMBER
            case ast.Name():
                return self.scope.get(node.id, _ANY)
            case ast.Attribute():
                return _ANY
            case ast.UnaryOp():
                return self.of(node.operand)
            case ast.BinOp():
                return self.arithmetic(node)
            case ast.BoolOp():
                for operand in node.values:
                    self.of(operand)
                return NUMBER
            case ast.Compare():
                self.common([node.left, *node.comparators], "on both sides of a comparison")
                return NUMBER
            case ast.IfExp():
                self.of(node.test)
                return self.common([node.body, node.orelse], "for both alternatives")
            case ast.Call(func=ast.Name(id=name)):
                return self.call(name, node.args)
            case _:
                raise _Inconsistent(f"{ast.unparse(node)!r}, which has no unit", "a number or a condition")

    def arithmetic(self, node: ast.BinOp) -> Unit | None:
        match node.op:
            case ast.Add() | ast.Sub():
                return self.common(list(_terms(node)), "in every term of a sum")
            case ast.Mod():
                return self.common([node.left, node.right], "for a number and its divisor")
            case ast.FloorDiv():
                self.common([node.left, node.right], "for a number and its divisor")
                return NUMBER
            case ast.Pow():
                return self.power(node)
            case _:
                left, right = self.of(node.left), self.of(node.right)
                if left is None or right is None:
                    return _ANY
                return left * right if isinstance(node.op, ast.Mult) else left / right

    def power(self, node: ast.BinOp) -> Unit | None:
        base = self.of(node.left)
        self.plain(node.right, "an exponent")
        if base is None or base == NUMBER:
            return base
        sign, number = Fraction(1), node.right
        if isinstance(number, ast.UnaryOp):
            sign, number = Fraction(-1 if isinstance(number.op, ast.USub) else 1), number.operand
        if not isinstance(number, ast.Constant):
            raise _Inconsistent(
                f"{_term(node.left, base)} to the power of {ast.unparse(node.right)!r}",
                "a plain number, or an exponent that is written as one",
            )
        return base ** (sign * Fraction(repr(number.value)))

    def call(self, name: str, arguments: list[ast.expr]) -> Unit | None:
        match name:
            case "exp" | "log" | "nearest" | "integer" | "size" | "ndim":
                self.plain(arguments[0], f"the argument of {name}")
                return NUMBER
            case "sqrt":
                unit = self.of(arguments[0])
                return _ANY if unit is None else unit ** Fraction(1, 2)
            case "minimum" | "maximum":
                return self.common(arguments, f"for both arguments of {name}")
            case "where":
                self.of(arguments[0])
                return self.common(arguments[1:], "for both alternatives")
            case "delayed":
                self.common([arguments[1]], "for a time", SECOND)
                return self.of(arguments[0])
            case "zeros_like":
                return _ANY
            case "ones_like" | "all" | "any" | "is_uniform":
                self.of(arguments[0])
                return NUMBER
            case "full_like":
                return self.of(arguments[1])
            case (
                "before"
                | "abs"
                | "next_above"
                | "next_below"
                | "transpose"
                | "diagonal"
                | "tensor"
                | "number"
            ):
                return self.of(arguments[0])
            case _:
                raise _Inconsistent(f"a call of {name}, which has no unit", "a number or a condition")

    def plain(self, node: ast.expr, what: str) -> None:
        unit = self.of(node)
        if unit is not None and unit != NUMBER:
            raise _Inconsistent(_term(node, unit), f"a plain number, in 1, as {what}")

    def common(self, nodes: Iterable[ast.expr], where: str, first: Unit | None = None) -> Unit | None:
        """The one unit of several values."""
        known = "" if first is None else f"where {first} belongs"
        for node in nodes:
            unit = self.of(node)
            if unit is None:
                continue
            if first is None:
                first, known = unit, f"beside {_term(node, unit)}"
            elif unit != first:
                do = f"{_CORRECT}: they differ by a factor in {first / unit}"
                raise _Inconsistent(f"{_term(node, unit)} {known}", f"one unit {where}", do)
        return first


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """``a``, ``b`` and ``c`` of ``a + b - c``; a sum in brackets after an operator is one term."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from _terms(node.left)
        yield node.right
    else:
        yield node
