"""Expressions as sympy expressions, and whether two of those are the same function."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from nirmap_generator.expressions import Expression, path_of

# A power of two numbers is computed at once and exactly, so its digits are limited.
_MAX_BITS = 4096
# Where two functions are compared in numbers: for symbols that may be of either sign, and for positive ones.
_POINTS = (
    ("7/5", "11/3", "3/13", "17/19", "23/7", "5/31"),
    ("-9/4", "2/11", "13/6", "-7/17", "29/3", "-8/37"),
    ("5/8", "-19/5", "-41/9", "43/47", "-6/53", "59/2"),
)
_DIGITS = 40
_SMALLEST_DIFFERENCE = 1e-20


class NotSymbolic(ValueError):
    """An expression, or a part of it that the message names, has no symbolic form."""


def symbolic(
    expression: Expression,
    symbols: Mapping[str, object],
    *,
    functions: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> Any:
    """The sympy expression that an expression stands for.

    There is one for arithmetic, comparisons, exp, log, sqrt, abs, minimum, maximum, where, ``a if c else b``, and
    the functions that only make an array or a tensor of a number. A decimal number is taken at its word: 0.1 is 1/10.

    Args:
        expression: what to translate.
        symbols: sympy expressions, or numbers, by name; dotted names are keys as well.
        functions: what further functions of the language stand for, given their arguments.

    Raises:
        NotSymbolic: a part has no symbolic form, a name is not among the symbols, or a number is divided by zero.
    """
    sympy = _sympy()
    translation = _Translation(expression.text, symbols, functions)
    try:
        result = translation.value(expression.tree.body)
        undefined = result.has(sympy.zoo, sympy.nan, sympy.oo, -sympy.oo)
    except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        if isinstance(error, NotSymbolic):
            raise
        raise NotSymbolic(f"{expression.text!r} has no symbolic form: {error}") from error
    if undefined:
        raise NotSymbolic(f"{expression.text!r} has no finite value")
    return result


def equal(a: Any, b: Any) -> bool | None:
    """Whether two sympy expressions are the same function, wherever both are defined.

    Symbols are taken as what they were declared to be, and as positive where nothing was declared. True and False are
    certain: the difference vanishes identically, or a point is known where it does not. None means that neither was
    found.
    """
    sympy = _sympy()
    a, b = sympy.sympify(a), sympy.sympify(b)
    if a == b:
        return True
    # A symbol is a Boolean as well, as far as sympy is concerned.
    if any(isinstance(side, sympy.logic.boolalg.Boolean) and not side.is_Symbol for side in (a, b)):
        return None
    difference = sympy.nsimplify(a - b, rational=True) if (a - b).has(sympy.Float) else a - b
    undeclared = [symbol for symbol in difference.free_symbols if symbol.is_extended_real is None]
    difference = difference.xreplace(
        {symbol: sympy.Dummy(symbol.name, positive=True) for symbol in undeclared}
    )
    if difference.has(sympy.zoo, sympy.nan, sympy.oo):
        return None
    numerator, _ = sympy.fraction(sympy.together(difference))
    numerator = sympy.expand(numerator)
    if numerator == 0:
        return True
    # A rational polynomial of which something is left vanishes at some points only.
    if _is_rational_polynomial(numerator) or _differs_somewhere(difference):
        return False
    return True if sympy.simplify(difference) == 0 else None


def _is_rational_polynomial(expression: Any) -> bool:
    """Whether it is a polynomial with rational coefficients, in symbols that take a whole range of numbers."""
    symbols = expression.free_symbols
    if any(symbol.is_integer or symbol.is_zero for symbol in symbols) or not expression.is_polynomial(
        *symbols
    ):
        return False
    numbers = expression.as_poly(*symbols).coeffs() if symbols else [expression]
    return all(number.is_Rational for number in numbers)


def _differs_somewhere(difference: Any) -> bool:
    """Whether the difference is a number other than 0 at one of some points."""
    sympy = _sympy()
    symbols = sorted(difference.free_symbols, key=str)
    for point in _POINTS:
        numbers = [sympy.Rational(number) for number in point]
        places: dict[Any, Any] = {}
        for index, symbol in enumerate(symbols):
            number = numbers[index % len(numbers)] + index // len(numbers)
            places[symbol] = abs(number) if symbol.is_extended_nonnegative else number
        if any(symbol.is_integer or symbol.is_extended_nonpositive for symbol in symbols):
            return False
        value = difference.subs(places).evalf(_DIGITS)
        if value.is_Float and value.is_finite and abs(value) > _SMALLEST_DIFFERENCE:
            return True
    return False


@cache
def _sympy() -> Any:
    # Imported when it is first needed, since it takes a while; and it has no types.
    return importlib.import_module("sympy")


class _Translation:
    """One translation."""

    def __init__(
        self, text: str, symbols: Mapping[str, object], functions: Mapping[str, Callable[..., Any]]
    ) -> None:
        self.sympy = _sympy()
        self.functions = functions
        self.text = text
        self.symbols = symbols

    def value(self, node: ast.expr) -> Any:
        """The sympy expression of a node."""
        sympy = self.sympy
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return self.number(node.value)
            case ast.Name() | ast.Attribute():
                return self.named(node)
            case ast.BinOp():
                return self.arithmetic(node.op, self.value(node.left), self.value(node.right))
            case ast.UnaryOp(op=ast.Not()):
                return sympy.Not(self.condition(node.operand))
            case ast.UnaryOp():
                return (
                    -self.value(node.operand) if isinstance(node.op, ast.USub) else self.value(node.operand)
                )
            case ast.BoolOp():
                join = sympy.And if isinstance(node.op, ast.And) else sympy.Or
                return join(*(self.condition(operand) for operand in node.values))
            case ast.Compare():
                return self.comparison(node)
            case ast.IfExp():
                return self.chosen(node.test, node.body, node.orelse)
            case ast.Call(func=ast.Name(id=name)):
                return self.call(node, name)
            case _:
                raise NotSymbolic(f"{ast.unparse(node)!r} in {self.text!r} has no symbolic form")

    def number(self, value: object) -> Any:
        if isinstance(value, bool):
            return self.sympy.true if value else self.sympy.false
        return self.sympy.Rational(repr(value))

    def named(self, node: ast.expr) -> Any:
        name = ".".join(path_of(node) or ())
        value = self.symbols.get(name)
        if isinstance(value, int | float):
            return self.number(value)
        if not isinstance(value, self.sympy.Basic):
            raise NotSymbolic(f"{name!r} in {self.text!r} has no symbol")
        return value

    def arithmetic(self, operation: ast.operator, a: Any, b: Any) -> Any:
        match operation:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Div():
                return a / b
            case ast.FloorDiv():
                return self.sympy.floor(a / b)
            case ast.Mod():
                return self.sympy.Mod(a, b)
            case _:
                if (
                    a.is_Rational
                    and b.is_Rational
                    and abs(b) * max(a.p.bit_length(), a.q.bit_length()) > _MAX_BITS
                ):
                    raise NotSymbolic(f"a power in {self.text!r} has too many digits")
                return a**b

    def comparison(self, node: ast.Compare) -> Any:
        operands = [self.value(operand) for operand in (node.left, *node.comparators)]
        links: list[Any] = []
        for operation, left, right in zip(node.ops, operands, operands[1:], strict=False):
            name = type(operation).__name__
            if name not in _RELATIONS:
                raise NotSymbolic(f"{ast.unparse(node)!r} in {self.text!r} has no symbolic form")
            links.append(getattr(self.sympy, _RELATIONS[name])(left, right))
        return self.sympy.And(*links)

    def chosen(self, condition: ast.expr, one: ast.expr, other: ast.expr) -> Any:
        return self.sympy.Piecewise((self.value(one), self.condition(condition)), (self.value(other), True))

    def condition(self, node: ast.expr) -> Any:
        """A condition; a symbol that stands for a number is none."""
        condition = self.value(node)
        if condition.is_Symbol or not isinstance(condition, self.sympy.logic.boolalg.Boolean):
            raise NotSymbolic(f"{ast.unparse(node)!r} in {self.text!r} is not a condition")
        return condition

    def call(self, node: ast.Call, name: str) -> Any:
        if name == "where":
            return self.chosen(*node.args)
        arguments = [self.value(argument) for argument in node.args]
        match name:
            case "zeros_like":
                return self.sympy.Integer(0)
            case "ones_like":
                return self.sympy.Integer(1)
            case "full_like":
                return arguments[1]
            case "tensor" | "number" | "all" | "any":
                return arguments[0]
            case _ if name in self.functions:
                return self.functions[name](*arguments)
            case _ if name in _FUNCTIONS:
                return getattr(self.sympy, _FUNCTIONS[name])(*arguments)
            case _:
                raise NotSymbolic(f"{name} in {self.text!r} has no symbolic form")


_RELATIONS = {"Eq": "Eq", "NotEq": "Ne", "Lt": "Lt", "LtE": "Le", "Gt": "Gt", "GtE": "Ge"}
_FUNCTIONS = {"exp": "exp", "log": "log", "sqrt": "sqrt", "abs": "Abs", "minimum": "Min", "maximum": "Max"}
