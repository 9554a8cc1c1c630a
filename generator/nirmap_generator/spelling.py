"""Expressions as Python text, for the generated modules."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from nirmap_generator.vocabulary import FUNCTIONS, Function

if TYPE_CHECKING:
    from nirmap_generator.expressions import Expression

# From the text of a dotted attribute to the text that stands for it.
Attribute = Callable[[str], str]

_PLACEHOLDER = "argument_{}"
_LOGICAL: Mapping[type[ast.boolop], str] = {ast.And: "np.logical_and", ast.Or: "np.logical_or"}


def quote(text: str) -> str:
    """The Python literal of a text, in ASCII and on one line, whatever the text holds."""
    return ascii(str(text))


def path_of(node: ast.expr) -> tuple[str, ...] | None:
    """``module.p.v_th`` as a tuple of names; None for what is not a name with attributes."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    return (node.id, *reversed(path)) if isinstance(node, ast.Name) else None


def to_torch(expression: Expression, rename: Mapping[str, str]) -> str:
    """The expression as Python text, on tensors, as :func:`to_python` has it on arrays.

    Raises:
        ValueError: the expression calls a function that has no spelling for tensors.
    """
    return ast.unparse(_Writer(expression, rename, None, on_tensors=True).value(expression.tree.body))


def to_python(expression: Expression, rename: Mapping[str, str], attribute: Attribute | None = None) -> str:
    """The expression as Python text, on NumPy arrays.

    ``and``, ``or``, ``not`` and chained comparisons work entry by entry where a function takes a condition, and are
    Python's own everywhere else, where they need single values.

    Args:
        expression: what to write.
        rename: Python text to write for a name, also where the name comes before a dot. Other names stay.
        attribute: what to write for a dotted attribute, given its text after renaming; by default that text. It is not
            asked about attributes that are compared with a text, None, a bool or a tuple, or that a function takes as
            they are.

    Raises:
        ValueError: the expression calls a function that generated code has no spelling for.
    """
    return ast.unparse(_Writer(expression, rename, attribute).value(expression.tree.body))


def to_condition(
    expression: Expression, rename: Mapping[str, str], attribute: Attribute | None = None
) -> str:
    """The expression as Python text whose value is a single bool: whether it holds for every entry.

    Each comparison becomes ``bool(np.all(...))``, and ``and``, ``or``, ``not`` and ``if`` work on those bools:
    ``not a > b`` holds if ``a > b`` fails for some entry. A comparison with a text, None, a bool or a tuple stays
    as it is.

    Args and raises: as for :func:`to_python`.
    """
    return ast.unparse(_Writer(expression, rename, attribute).condition(expression.tree.body))


class _Writer:
    """Builds the tree that is written: new nodes, so that the expression's own tree stays as it is."""

    def __init__(
        self,
        expression: Expression,
        rename: Mapping[str, str],
        attribute: Attribute | None,
        *,
        on_tensors: bool = False,
    ) -> None:
        self.expression = expression
        self.on_tensors = on_tensors
        self.rename = {name: _parsed(text) for name, text in rename.items() if name in expression.names}
        self.attribute = attribute

    def value(self, node: ast.expr, raw: bool = False) -> ast.expr:
        """The node as it is computed; ``raw`` leaves attributes as they are."""
        match node:
            case ast.Constant(value=str() as text):
                # ast.unparse would leave letters beyond ASCII; a name is written as it is.
                return ast.Name(quote(text))
            case ast.Constant():
                return node
            case ast.Name():
                return self.rename.get(node.id, node)
            case ast.Attribute():
                renamed = self.dotted(node)
                if raw or self.attribute is None:
                    return renamed
                return _parsed(self.attribute(ast.unparse(renamed)))
            case ast.BinOp():
                return ast.BinOp(self.value(node.left, raw), node.op, self.value(node.right, raw))
            case ast.UnaryOp(op=ast.Not()):
                return ast.UnaryOp(node.op, self.truth(node.operand, raw))
            case ast.UnaryOp():
                return ast.UnaryOp(node.op, self.value(node.operand, raw))
            case ast.BoolOp():
                return ast.BoolOp(node.op, [self.truth(operand, raw) for operand in node.values])
            case ast.Compare():
                operands = [node.left, *node.comparators]
                left, *others = [self.value(operand, raw or _is_plain(operands)) for operand in operands]
                return ast.Compare(left, node.ops, others)
            case ast.IfExp():
                return ast.IfExp(
                    self.truth(node.test, raw), self.value(node.body, raw), self.value(node.orelse, raw)
                )
            case ast.Tuple():
                return ast.Tuple([self.value(element, raw) for element in node.elts], ast.Load())
            case ast.Subscript():
                return ast.Subscript(self.value(node.value, raw), node.slice, ast.Load())
            case ast.Call(func=ast.Name(id=name)):
                return self.call(node, name)
            case _:
                raise TypeError(
                    f"{type(node).__name__} in {self.expression.text!r} is not of the expression language"
                )

    def truth(self, node: ast.expr, raw: bool) -> ast.expr:
        """What is asked whether it is true: an attribute as it is, for as an array of numbers None would be NaN."""
        return self.value(node, raw or isinstance(node, ast.Attribute | ast.Subscript))

    def dotted(self, node: ast.expr) -> ast.expr:
        """A dotted name with its first name renamed."""
        if isinstance(node, ast.Attribute):
            return ast.Attribute(self.dotted(node.value), node.attr, ast.Load())
        return self.value(node)

    def call(self, node: ast.Call, name: str) -> ast.expr:
        """A call, as the table of functions spells it."""
        function = FUNCTIONS[name]
        if name == "before" and self.on_tensors:
            return _parsed(f"before[{ast.unparse(node.args[0])!r}]")
        arguments: list[ast.expr] = []
        for argument, takes in zip(node.args, function.arguments, strict=True):
            entry = (
                self.elementwise(argument)
                if takes == "condition"
                else self.value(argument, takes == "object")
            )
            arguments.append(entry)
        spelled = _spelled(function, function.torch if self.on_tensors else function.python)
        if spelled is None:
            raise ValueError(f"{self.expression.text!r} calls {name}, which generated code cannot call")
        return _filled(spelled, arguments)

    def elementwise(self, node: ast.expr) -> ast.expr:
        """A condition that is an array: one bool for each entry."""
        match node:
            case ast.BoolOp():
                first, *others = [self.elementwise(operand) for operand in node.values]
                return _folded(self.logical(_LOGICAL[type(node.op)]), first, others)
            case ast.UnaryOp(op=ast.Not()):
                return _call(self.logical("np.logical_not"), self.elementwise(node.operand))
            case ast.Compare() if len(node.ops) > 1:
                first, *others = [self.value(part) for part in _links(node)]
                return _folded(self.logical(_LOGICAL[ast.And]), first, others)
            case ast.IfExp():
                return ast.IfExp(
                    self.truth(node.test, False), self.elementwise(node.body), self.elementwise(node.orelse)
                )
            case _:
                return self.value(node)

    def logical(self, name: str) -> str:
        """How a logical function is called: those of torch have the names of NumPy's."""
        return name.replace("np.", "torch.") if self.on_tensors else name

    def condition(self, node: ast.expr) -> ast.expr:
        """A condition that is a single bool: whether it holds for every entry."""
        match node:
            case ast.BoolOp():
                return ast.BoolOp(node.op, [self.condition(operand) for operand in node.values])
            case ast.UnaryOp(op=ast.Not()):
                # ``not`` makes a bool of anything.
                is_name = isinstance(node.operand, ast.Name | ast.Attribute | ast.Subscript)
                return ast.UnaryOp(
                    node.op, self.truth(node.operand, True) if is_name else self.condition(node.operand)
                )
            case ast.IfExp():
                parts = [self.condition(part) for part in (node.test, node.body, node.orelse)]
                return ast.IfExp(*parts)
            case ast.Compare():
                links = [self.link(part) for part in _links(node)]
                return links[0] if len(links) == 1 else ast.BoolOp(ast.And(), links)
            case ast.Constant(value=bool()):
                return node
            case ast.Call(func=ast.Name(id=name)) if FUNCTIONS[name].returns == "condition":
                return self.value(node)
            case _:
                return _call("bool", self.value(node, raw=True))

    def link(self, node: ast.Compare) -> ast.expr:
        """One comparison of two values, as a single bool."""
        compared = self.value(node)
        operands = [node.left, *node.comparators]
        single = _is_plain(operands) or all(_is_single(operand) for operand in operands)
        return compared if single else _call("bool", _call("np.all", compared))


def _links(node: ast.Compare) -> list[ast.Compare]:
    """``a < b < c`` as ``a < b`` and ``b < c``."""
    operands = pairwise([node.left, *node.comparators])
    return [
        ast.Compare(left, [operator], [right])
        for (left, right), operator in zip(operands, node.ops, strict=True)
    ]


def _is_plain(operands: list[ast.expr]) -> bool:
    """Whether a comparison is one of texts, None, bools or tuples rather than of numbers."""
    for node in operands:
        if isinstance(node, ast.Tuple):
            return True
        if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool | str)):
            return True
    return False


def _is_single(node: ast.expr) -> bool:
    """Whether a value is certainly one number rather than an array."""
    match node:
        case ast.Constant():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return FUNCTIONS[name].returns == "scalar"
        case ast.UnaryOp():
            return _is_single(node.operand)
        case ast.BinOp():
            return _is_single(node.left) and _is_single(node.right)
        case _:
            return False


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_parsed(name), list(arguments), [])


def _folded(name: str, first: ast.expr, others: list[ast.expr]) -> ast.expr:
    for other in others:
        first = _call(name, first, other)
    return first


@cache
def _spelled(function: Function, text: str | None) -> ast.expr | None:
    """The call of a function, as a text spells it, with placeholders for its arguments."""
    if text is None:
        return None
    names = [_PLACEHOLDER.format(index) for index in range(function.arity)]
    if "{" in text:
        return _parsed(text.format(*names))
    return _parsed(f"{text}({', '.join(names)})")


def _filled(node: ast.expr, arguments: list[ast.expr]) -> ast.expr:
    """A copy of the node with the arguments in place of the placeholders."""
    filled: ast.expr = _Fill(arguments).visit(copy.deepcopy(node))
    return filled


class _Fill(ast.NodeTransformer):
    def __init__(self, arguments: list[ast.expr]) -> None:
        self.arguments = {_PLACEHOLDER.format(index): argument for index, argument in enumerate(arguments)}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The argument that the name stands for; it is not visited in its turn."""
        return self.arguments.get(node.id, node)
