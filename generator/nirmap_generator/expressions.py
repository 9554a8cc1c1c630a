"""The expression language of the mappings: a small, closed part of Python, parsed with ``ast`` and never executed.

There are numbers, texts, True, False, None; names and dotted attributes of names; ``+ - * / // % **``; comparisons,
``is None``, ``and``, ``or``, ``not``; ``a if c else b``; tuples; indexing with an integer constant; and calls of the
functions of :data:`nirmap_generator.vocabulary.FUNCTIONS`. Everything else is refused with an :class:`ExpressionError`.

A text is first cut into tokens (:mod:`nirmap_generator.scanning`), so that Python's parser only ever sees ASCII outside
of texts, brackets that match, and nothing that it would warn of; then each node of the tree is checked.
"""

from __future__ import annotations

import ast
import difflib
import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NoReturn

from nirmap_generator.scanning import MAX_DEPTH, ExpressionError, check_tokens
from nirmap_generator.spelling import Attribute, path_of, quote, to_condition, to_python
from nirmap_generator.vocabulary import FUNCTIONS, Argument, Function, Kind

__all__ = [
    "FUNCTIONS",
    "Attribute",
    "Expression",
    "ExpressionError",
    "Function",
    "closest",
    "parse",
    "path_of",
    "quote",
    "to_condition",
    "to_python",
    "unknown_names",
]

MAX_LENGTH = 500
MAX_EXPONENT = 64
# Larger integers are not all exact as a float.
MAX_INTEGER = 2**53

_NUMBERS: frozenset[Kind] = frozenset({"any", "number", "scalar"})
_CONDITIONS: frozenset[Kind] = frozenset({"any", "condition"})
_SHOWN: dict[Kind, str] = {"condition": "a condition", "text": "a text", "none": "None", "tuple": "a tuple"}


@dataclass(frozen=True)
class Expression:
    """A checked expression.

    Attributes:
        text: as it was written.
        tree: the syntax tree, which is not to be changed.
        names: the names that it speaks of, those before a dot included, functions not.
        attributes: its dotted names, as in ``("module", "p", "tau_mem_inv")``.
        functions: the functions that it calls, by their names in the language.
    """

    text: str
    tree: ast.Expression = field(compare=False, repr=False)
    names: frozenset[str]
    attributes: frozenset[tuple[str, ...]]
    functions: frozenset[str]


def parse(text: str) -> Expression:
    """The expression that a text says.

    Raises:
        ExpressionError: the text is not in the language.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(MAX_LENGTH, f"a text of {len(text)} characters", f"at most {MAX_LENGTH}")
    check_tokens(text)
    # A line break is a space in this language; inside of texts there is none.
    line = text.replace("\n", " ").replace("\t", " ")
    start = len(line) - len(line.lstrip())
    try:
        tree = ast.parse(line.strip(), mode="eval")
    except SyntaxError as error:
        # Where the text ends too early, Python gives no offset.
        column = min(start + error.offset - 1, len(text)) if error.offset else len(text.rstrip())
        raise ExpressionError(column, f"no expression ({error.msg})", "an expression") from None
    except (RecursionError, MemoryError):
        raise ExpressionError(start, "an expression that is nested too deeply", "a simpler one") from None
    checker = _Checker(line.strip(), start)
    checker.kind(tree.body)
    return Expression(
        text, tree, frozenset(checker.names), frozenset(checker.attributes), frozenset(checker.functions)
    )


def unknown_names(expression: Expression, known: Collection[str]) -> list[str]:
    """The names of the expression that are not known, sorted."""
    return sorted(name for name in expression.names if name not in known)


def closest(name: str, known: Collection[str]) -> str | None:
    """The known name that is most like ``name``, or None if none is like it."""
    found = difflib.get_close_matches(name, sorted(known), n=1)
    return found[0] if found else None


@dataclass
class _Checker:
    """Checks a tree node by node, and collects what it speaks of."""

    line: str
    start: int
    names: set[str] = field(default_factory=set[str])
    attributes: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    functions: set[str] = field(default_factory=set[str])

    def refuse(self, node: ast.expr, found: str, expected: str) -> NoReturn:
        # ast counts columns in bytes of UTF-8.
        before = self.line.encode()[: node.col_offset].decode()
        raise ExpressionError(self.start + len(before), found, expected)

    def kind(self, node: ast.expr, depth: int = 1) -> Kind:
        """The kind of a node's value, once it and everything below it are found to be in the language."""
        if depth > MAX_DEPTH:
            self.refuse(node, "an expression that is nested too deeply", f"a depth of at most {MAX_DEPTH}")
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                self.names.add(node.id)
                return "any"
            case ast.Attribute():
                return self.attribute(node)
            case ast.BinOp():
                return self.arithmetic(node, depth)
            case ast.UnaryOp(op=ast.Not()) | ast.BoolOp():
                for operand in [node.operand] if isinstance(node, ast.UnaryOp) else node.values:
                    self.expect(operand, _CONDITIONS, "a condition", depth)
                return "condition"
            case ast.UnaryOp(op=ast.UAdd() | ast.USub()):
                kind = self.expect(node.operand, _NUMBERS, "a number", depth)
                return "scalar" if kind == "scalar" else "number"
            case ast.Compare():
                return self.comparison(node, depth)
            case ast.IfExp():
                self.expect(node.test, _CONDITIONS, "a condition", depth)
                return _joined(self.kind(node.body, depth + 1), self.kind(node.orelse, depth + 1))
            case ast.Tuple():
                for element in node.elts:
                    self.kind(element, depth + 1)
                return "tuple"
            case ast.Subscript():
                return self.subscript(node, depth)
            case ast.Call():
                return self.call(node, depth)
            case _:
                found = "a '*' before an argument" if isinstance(node, ast.Starred) else type(node).__name__
                self.refuse(node, found, "what the expression language has")

    def expect(self, node: ast.expr, kinds: Collection[Kind], expected: str, depth: int) -> Kind:
        kind = self.kind(node, depth + 1)
        if kind not in kinds:
            self.refuse(node, _shown(kind), expected)
        return kind

    def constant(self, node: ast.Constant) -> Kind:
        match node.value:
            case bool():
                return "condition"
            case None:
                return "none"
            case str():
                return "text"
            case int() if node.value <= MAX_INTEGER:
                return "scalar"
            case float() if math.isfinite(node.value):
                return "scalar"
            case int() | float():
                self.refuse(
                    node, "a number that is too large", f"an integer up to {MAX_INTEGER}, or a finite number"
                )
            case _:
                self.refuse(node, repr(node.value), "a number, a text, True, False or None")

    def attribute(self, node: ast.Attribute) -> Kind:
        path = path_of(node)
        if path is None:
            self.refuse(
                node, f"{node.attr!r} of what is not a name", "dotted attributes that begin with a name"
            )
        if len(path) > MAX_DEPTH:
            self.refuse(node, f"a path of {len(path)} names", f"a depth of at most {MAX_DEPTH}")
        self.names.add(path[0])
        self.attributes.add(path)
        return "any"

    def arithmetic(self, node: ast.BinOp, depth: int) -> Kind:
        if not isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.FloorDiv | ast.Mod | ast.Pow):
            self.refuse(node, f"the operator {type(node.op).__name__}", "one of + - * / // % **")
        left = self.expect(node.left, _NUMBERS, "a number", depth)
        right = self.expect(node.right, _NUMBERS, "a number", depth)
        if isinstance(node.op, ast.Pow):
            self.exponent(node.right)
        return "scalar" if left == right == "scalar" else "number"

    def exponent(self, node: ast.expr) -> None:
        """An exponent that does not depend on a name is a number of modest size, so that no power is gigantic."""
        number = node.operand if isinstance(node, ast.UnaryOp) else node
        if isinstance(number, ast.Constant) and isinstance(number.value, int | float):
            if number.value > MAX_EXPONENT:
                found = f"the exponent {ast.unparse(node)}"
                self.refuse(node, found, f"a magnitude of at most {MAX_EXPONENT}")
        elif not _speaks_of_names(node):
            self.refuse(node, "an exponent that has to be computed first", "a number or a name")

    def comparison(self, node: ast.Compare, depth: int) -> Kind:
        operands = [node.left, *node.comparators]
        kinds: list[Kind] = [self.kind(operand, depth + 1) for operand in operands]
        for operand, kind in zip(operands, kinds, strict=True):
            if kind == "condition" and not isinstance(operand, ast.Constant | ast.Call):
                self.refuse(
                    operand, "a condition in a comparison", "a number, a text, a tuple, None or a bool"
                )
        for index, operator in enumerate(node.ops):
            right = node.comparators[index]
            if isinstance(operator, ast.Is | ast.IsNot):
                if kinds[index + 1] != "none" or len(node.ops) > 1:
                    self.refuse(right, "'is' where it is not followed by None only", "'is None', or '=='")
            elif isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                for side in (index, index + 1):
                    if kinds[side] not in _NUMBERS:
                        found = _shown(kinds[side])
                        self.refuse(operands[side], found, "a number, for only numbers have an order")
            elif not isinstance(operator, ast.Eq | ast.NotEq):
                self.refuse(right, f"the operator {type(operator).__name__}", "a comparison")
        return "condition"

    def subscript(self, node: ast.Subscript, depth: int) -> Kind:
        held = isinstance(node.value, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        if self.kind(node.value, depth + 1) not in ("any", "tuple") or not held:
            self.refuse(node, "an index of what is not a tuple", "an index after a name, as in size[0]")
        match node.slice:
            case ast.Constant(value=value) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
                index: object = value
            case _:
                index = None
        if isinstance(index, bool) or not isinstance(index, int) or index > MAX_INTEGER:
            self.refuse(node.slice, "an index that is not an integer", "an integer, as in size[0]")
        return "any"

    def call(self, node: ast.Call, depth: int) -> Kind:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            found = repr(node.func.id) if isinstance(node.func, ast.Name) else "what is not a name"
            self.refuse(node.func, f"a call of {found}", "a call of one of " + ", ".join(sorted(FUNCTIONS)))
        function = FUNCTIONS[node.func.id]
        if node.keywords:
            self.refuse(node.keywords[0].value, "a named argument", "positional arguments only")
        if len(node.args) != function.arity:
            found = f"{len(node.args)} arguments of {function.name}"
            self.refuse(node, found, f"{function.arity}")
        self.functions.add(function.name)
        for argument, takes in zip(node.args, function.arguments, strict=True):
            self.argument(argument, takes, depth)
        return function.returns

    def argument(self, node: ast.expr, takes: Argument, depth: int) -> None:
        if takes == "object":
            self.kind(node, depth + 1)
        elif takes == "condition":
            self.expect(node, _CONDITIONS, "a condition", depth)
        else:
            self.expect(node, _NUMBERS, "a number", depth)


def _shown(kind: Kind) -> str:
    return _SHOWN.get(kind, "a number")


def _speaks_of_names(node: ast.expr) -> bool:
    """Whether names, other than those of functions, occur in an expression."""
    nodes = list(ast.walk(node))
    functions = [id(below.func) for below in nodes if isinstance(below, ast.Call)]
    return any(isinstance(below, ast.Name) and id(below) not in functions for below in nodes)


def _joined(one: Kind, other: Kind) -> Kind:
    """The kind of a value that is either; where they differ, the one that allows less."""
    if one == other or one not in _NUMBERS:
        return one
    return "number" if other in _NUMBERS else other
