"""Values of expressions, where one number stands for a whole array; and comparisons of what two of them give.

Nothing here needs NumPy, but the results are those that it gives in float64: a division by zero is infinite or NaN, and
so is a logarithm of what is not positive. The symbolic side is in :mod:`nirmap_generator.symbolic`.
"""

from __future__ import annotations

import ast
import math
import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeGuard

from nirmap_generator.expressions import Expression, path_of
from nirmap_generator.symbolic import NotSymbolic, equal, symbolic

__all__ = [
    "EvaluationError",
    "NotSymbolic",
    "Opaque",
    "Transposed",
    "differs",
    "equal",
    "evaluate",
    "symbolic",
]

Number = int | float
# Integers above stay exact in Python, but not in an array.
_INTEGER_BITS = 63


class EvaluationError(ValueError):
    """An expression has no value for the given ones; the message says which part of it, and why."""


@dataclass(frozen=True)
class Transposed:
    """An array with its axes in reverse order, while the number alone stands for the array itself."""

    value: object


@dataclass(frozen=True)
class Opaque:
    """What depends on the shape of an array, which a single number does not have.

    Two are equal if they came about in the same way. As the value of a condition it counts as true: nothing
    speaks against it.
    """

    function: str
    arguments: tuple[object, ...]


def evaluate(expression: Expression, values: Mapping[str, object]) -> object:
    """The value of an expression.

    Args:
        expression: what to compute.
        values: numbers, texts, bools, None and tuples by name; dotted names are keys as well, as in
            ``{"module.p.v_th": 1.0}``. A number stands for an array that holds it everywhere.

    Raises:
        EvaluationError: a name has no value, or a value is not of the type that is needed.
    """
    return _Evaluation(expression.text, values).value(expression.tree.body)


def differs(
    f: Callable[[Mapping[str, object]], object],
    g: Callable[[Mapping[str, object]], object],
    draw: Callable[[], Mapping[str, object]],
    tries: int = 64,
    tolerance: float = 1e-9,
) -> dict[str, object] | None:
    """The first drawn values for which two functions give different results, or None if all are the same.

    Numbers are the same if they differ by at most ``tolerance`` times the larger one, or by the rounding of numbers as
    large as those drawn; NaN is the same as NaN.
    """
    for _ in range(tries):
        values = dict(draw())
        numbers = [abs(value) for value in values.values() if isinstance(value, int | float)]
        rounding = (
            16
            * sys.float_info.epsilon
            * max([number for number in numbers if math.isfinite(number)], default=0)
        )
        if not _same(f(values), g(values), tolerance, rounding):
            return values
    return None


def _same(a: object, b: object, tolerance: float, rounding: float) -> bool:
    if _is_tuple(a) and _is_tuple(b):
        return len(a) == len(b) and all(_same(x, y, tolerance, rounding) for x, y in zip(a, b, strict=True))
    match a, b:
        case (bool(), _) | (_, bool()):
            return a is b
        case ((int() | float()), (int() | float())):
            return math.isclose(a, b, rel_tol=tolerance, abs_tol=rounding) or (
                math.isnan(a) and math.isnan(b)
            )
        case Transposed(), Transposed():
            return _same(a.value, b.value, tolerance, rounding)
        case Opaque(), Opaque():
            return a.function == b.function and _same(a.arguments, b.arguments, tolerance, rounding)
        case _:
            return a == b


class _Evaluation:
    """One evaluation."""

    def __init__(self, text: str, values: Mapping[str, object]) -> None:
        self.text = text
        self.values = values

    def refuse(self, node: ast.expr, why: str) -> NoReturn:
        raise EvaluationError(f"no value for {ast.unparse(node)!r} in {self.text!r}: {why}")

    def value(self, node: ast.expr) -> object:
        """The value of a node."""
        match node:
            case ast.Constant():
                return node.value
            case ast.Name() | ast.Attribute():
                name = ".".join(path_of(node) or ())
                return (
                    self.values[name]
                    if name in self.values
                    else self.refuse(node, "it is not among the given values")
                )
            case ast.BinOp():
                operation = _ARITHMETIC[type(node.op)]
                return self.apply(node, operation, self.value(node.left), self.value(node.right))
            case ast.UnaryOp(op=ast.Not()):
                operand = self.value(node.operand)
                return Opaque("not", (operand,)) if _is_opaque(operand) else not operand
            case ast.UnaryOp():
                operand = self.value(node.operand)
                return self.apply(node, _negative if isinstance(node.op, ast.USub) else _positive, operand)
            case ast.BoolOp():
                return self.junction(node)
            case ast.Compare():
                return self.comparison(node)
            case ast.IfExp():
                return self.value(node.body if self.decided(node.test) else node.orelse)
            case ast.Tuple():
                return tuple(self.value(element) for element in node.elts)
            case ast.Subscript():
                return self.entry(node)
            case ast.Call(func=ast.Name(id=name)):
                return self.call(node, name)
            case _:
                raise TypeError(f"{type(node).__name__} in {self.text!r} is not of the expression language")

    def apply(self, node: ast.expr, operation: Callable[..., Number], *operands: object) -> object:
        """An elementwise operation. It does the same on transposed arrays, if all of them are transposed."""
        if any(_is_opaque(operand) for operand in operands):
            name = type(node.op).__name__ if isinstance(node, ast.BinOp | ast.UnaryOp) else ast.unparse(node)
            return Opaque(name, operands)
        transposed = [operand for operand in operands if isinstance(operand, Transposed)]
        if len(transposed) == len(operands):
            return Transposed(self.apply(node, operation, *(operand.value for operand in transposed)))
        if transposed:
            self.refuse(
                node, "it joins a transposed array with one that is not; transpose the result instead"
            )
        return _within_array(operation(*(self.number(node, operand) for operand in operands)))

    def number(self, node: ast.expr, value: object) -> Number:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(node, f"{value!r} is not a number")
        return _within_array(int(value) if isinstance(value, int) else float(value))

    def decided(self, node: ast.expr) -> bool:
        """Whether a condition holds that decides between two values."""
        condition = self.value(node)
        if _is_opaque(condition):
            self.refuse(node, "it depends on a shape, and shapes are not known")
        return bool(condition)

    def junction(self, node: ast.BoolOp) -> object:
        """``and`` and ``or``: the first operand that decides, or the last one."""
        result: object = None
        for operand in node.values:
            result = self.value(operand)
            if bool(result) is isinstance(node.op, ast.Or):
                break
        return result

    def comparison(self, node: ast.Compare) -> object:
        left, undecided = self.value(node.left), None
        for operation, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand)
            holds = self.compared(node, operation, left, right)
            if not holds:
                return False
            undecided = holds if isinstance(holds, Opaque) else undecided
            left = right
        return undecided or True

    def compared(self, node: ast.expr, operation: ast.cmpop, left: object, right: object) -> object:
        if isinstance(operation, ast.Is | ast.IsNot):
            return (left is None) is isinstance(operation, ast.Is)
        if _is_opaque(left) or _is_opaque(right):
            return Opaque(type(operation).__name__, (left, right))
        if isinstance(operation, ast.Eq | ast.NotEq):
            return (left == right) is isinstance(operation, ast.Eq)
        return _ORDER[type(operation)](self.number(node, left), self.number(node, right))

    def entry(self, node: ast.Subscript) -> object:
        value, index = self.value(node.value), int(ast.literal_eval(node.slice))
        if isinstance(value, Opaque):
            return Opaque("[]", (value, index))
        if not _is_tuple(value) or not -len(value) <= index < len(value):
            self.refuse(node, f"{value!r} has no entry {index}")
        return value[index]

    def call(self, node: ast.Call, name: str) -> object:
        if name == "where":
            # As in an array, both values are computed, whichever is taken.
            one, other = self.value(node.args[1]), self.value(node.args[2])
            return one if self.decided(node.args[0]) else other
        arguments = [self.value(argument) for argument in node.args]
        if name in _ELEMENTWISE:
            return self.apply(node, _ELEMENTWISE[name], *arguments)
        if name == "transpose":
            (array,) = arguments
            return array.value if isinstance(array, Transposed) else Transposed(array)
        if name in ("size", "ndim", "delayed", "before") or any(
            _is_opaque(argument) for argument in arguments
        ):
            return Opaque(name, tuple(arguments))
        return self.converted(node, name, arguments)

    def converted(self, node: ast.Call, name: str, arguments: list[object]) -> object:
        """The functions that do not work elementwise, on what does not depend on a shape."""
        first = arguments[0]
        match name:
            case "tensor" | "diagonal":
                return first
            case "all" | "any":
                return bool(first)
            case "is_uniform":
                return True
            case "number":
                return float(self.number(node, first.value if isinstance(first, Transposed) else first))
            case "integer":
                return self.integer(node, first)
            case "integers":
                return tuple(self.integer(node, entry) for entry in (first if _is_tuple(first) else (first,)))
            case "pair":
                return first if _is_tuple(first) else (self.integer(node, first),) * 2
            case "text" | "name_of":
                return first if isinstance(first, str) else self.refuse(node, f"{first!r} is not a text")
            case "bias_or_zeros":
                return 0.0 if first is None else first
            case _:
                raise NotImplementedError(f"{name} is in the table of functions, but has no value")

    def integer(self, node: ast.expr, value: object) -> int:
        number = self.number(node, value)
        if not math.isfinite(number) or number != int(number):
            self.refuse(node, f"{value!r} is not an integer")
        return int(number)


def _is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)


def _is_opaque(value: object) -> bool:
    """Whether a value, or a part of it, depends on a shape."""
    if _is_tuple(value):
        return any(_is_opaque(entry) for entry in value)
    return _is_opaque(value.value) if isinstance(value, Transposed) else isinstance(value, Opaque)


def _within_array(value: Number) -> Number:
    """The number, as a float if it is an integer that an array cannot hold."""
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        if value.bit_length() < sys.float_info.max_exp:
            return float(value)
        return -math.inf if value < 0 else math.inf
    return value


def _over_zero(a: Number, b: Number) -> float:
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def _power(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int) and b >= 0 and a.bit_length() * b < sys.float_info.max_exp:
        return int(a**b)
    base, exponent = float(a), float(b)
    if -math.inf < base < 0 and math.isfinite(exponent) and not exponent.is_integer():
        return math.nan
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError):
        # Too large, or zero to a negative power.
        return math.copysign(math.inf, base) if exponent % 2 == 1 else math.inf


def _exp(x: Number) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _log(x: Number) -> float:
    if x == 0:
        return -math.inf
    return math.nan if x < 0 else math.log(x)


def _sqrt(x: Number) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def _absolute(x: Number) -> Number:
    return abs(x)


def _nearest(x: Number) -> Number:
    return float(round(x)) if math.isfinite(x) else x


def _negative(x: Number) -> Number:
    return -x


def _positive(x: Number) -> Number:
    return x


def _next_above(x: Number) -> float:
    return math.nextafter(x, math.inf)


def _next_below(x: Number) -> float:
    return math.nextafter(x, -math.inf)


def _zero(x: Number) -> float:
    return 0.0


def _one(x: Number) -> float:
    return 1.0


def _second(x: Number, value: Number) -> float:
    return float(value)


def _either(choose: Callable[[Number, Number], Number]) -> Callable[[Number, Number], Number]:
    """The smaller or the larger of two numbers; NaN if one of them is NaN."""
    return lambda a, b: math.nan if a != a or b != b else choose(a, b)


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b if b != 0 else _over_zero(a, b),
    ast.FloorDiv: lambda a, b: a // b if b != 0 else _over_zero(a, b),
    ast.Mod: lambda a, b: a % b if b != 0 else math.nan,
    ast.Pow: _power,
}
_ORDER: Mapping[type[ast.cmpop], Callable[[Number, Number], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ELEMENTWISE: Mapping[str, Callable[..., Number]] = {
    "exp": _exp,
    "log": _log,
    "sqrt": _sqrt,
    "abs": _absolute,
    "nearest": _nearest,
    "minimum": _either(min),
    "maximum": _either(max),
    "next_above": _next_above,
    "next_below": _next_below,
    "zeros_like": _zero,
    "ones_like": _one,
    "full_like": _second,
}
