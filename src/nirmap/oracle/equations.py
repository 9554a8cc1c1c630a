"""Nodes that are given by their equations: the text of a node class, computed in NumPy.

The text is parsed anew here, and nothing but numbers, names, arithmetic, comparisons and a few functions is computed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nirmap.oracle.spatial import Array

_ARITHMETIC: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.And: np.logical_and,
    ast.Or: np.logical_or,
    ast.Not: np.logical_not,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "where": np.where,
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
}


def before(name: str) -> str:
    """The name under which a formula finds a state variable as it was before the step."""
    return f"before({name})"


def computed(text: str, names: Mapping[str, Array]) -> Array:
    """The value of a formula.

    Args:
        text: the formula, in the language of the mappings.
        names: arrays by name.

    Raises:
        ValueError: it is no such formula, or has an unknown name.
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"the equation {text!r} is not a formula") from error
    return np.asarray(_value(tree, names, text), dtype=np.float64)


def compared(text: str, names: Mapping[str, Array]) -> tuple[Array, Array]:
    """Both sides of a spike condition ``left > right``.

    Raises:
        ValueError: it is no such condition.
    """
    tree = ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Compare) or len(tree.ops) != 1 or not isinstance(tree.ops[0], ast.Gt):
        raise ValueError(f"the spike condition {text!r} is not of the form a > b")
    left, right = (np.asarray(_value(part, names, text)) for part in (tree.left, tree.comparators[0]))
    return left, right


def _value(node: ast.AST, names: Mapping[str, Array], text: str) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left=left, op=kind, right=right) if type(kind) in _ARITHMETIC:
            return _ARITHMETIC[type(kind)](_value(left, names, text), _value(right, names, text))
        case ast.UnaryOp(op=kind, operand=operand) if type(kind) in _ARITHMETIC:
            return _ARITHMETIC[type(kind)](_value(operand, names, text))
        case ast.BoolOp(op=kind, values=[first, *others]):
            result = _value(first, names, text)
            for other in others:
                result = _ARITHMETIC[type(kind)](result, _value(other, names, text))
            return result
        case ast.Compare(left=left, ops=[kind], comparators=[right]) if type(kind) in _ARITHMETIC:
            return _ARITHMETIC[type(kind)](_value(left, names, text), _value(right, names, text))
        case ast.Call(func=ast.Name(id="before"), args=[ast.Name(id=name)]) if before(name) in names:
            return names[before(name)]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(argument, names, text) for argument in arguments))
        case _:
            raise ValueError(f"the equation {text!r} has {ast.unparse(node)!r}, which is not of its language")
