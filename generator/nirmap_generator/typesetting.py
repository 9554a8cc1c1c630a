"""Equations in LaTeX, and texts in Markdown, for the documentation that is generated.

A formula of the mappings is parsed, and printed by sympy: nothing of its text reaches the page as it is. A text, such
as a description, has everything escaped that Markdown, HTML or GitHub's LaTeX would take for something else.
"""

from __future__ import annotations

import ast
import importlib
import re
from typing import Any

from nirmap_generator.check_files import is_shared
from nirmap_generator.evaluate import evaluate
from nirmap_generator.expressions import Expression
from nirmap_generator.model import Framework, Located, Primitive
from nirmap_generator.symbolic import symbolic

# What has a meaning in a line of Markdown; a dollar sign is dealt with by itself.
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>#|~&]")
# What begins a list, a heading or a rule where a line begins.
_BEGINS = re.compile(r"^(\d*)([-+=.)])")
# LaTeX that sympy writes with punctuation, and the same in letters.
_IN_LETTERS = ((r"\text{for}\:", r"\text{for }"), ("\\\\", r"\cr "), ("<", r"\lt"), (">", r"\gt"))


def markdown(text: str) -> str:
    """A text on one line, also in a cell of a table, that shows as it is.

    GitHub looks for formulas in what Markdown gives, so a dollar sign is put into an element of its own, as its
    documentation says (docs.github.com, "Writing mathematical expressions").
    """
    line = _MARKDOWN.sub(r"\\\g<0>", " ".join(text.split()))
    return _BEGINS.sub(r"\1\\\2", line).replace("$", "<span>$</span>")


def symbol(name: str) -> str:
    """The LaTeX of a name: ``tau_mem`` is a tau with an upright index; a word of several letters is upright."""
    base, *indices = [part for part in name.split("_") if part] or [name]
    letter = base if len(base) == 1 else f"\\{base}" if base in _greek() else f"\\mathrm{{{base}}}"
    return f"{letter}_{{\\mathrm{{{','.join(indices)}}}}}" if indices else letter


def equation(expression: Expression) -> str:
    """The LaTeX of a formula.

    Raises:
        NotSymbolic: a part of it has no symbolic form.
    """
    sympy: Any = importlib.import_module("sympy")
    names = {name: sympy.Symbol(name) for name in expression.names}
    form = symbolic(expression, names, functions={"delayed": _delayed, "before": _before})
    decimals = _decimals(expression)
    spelled: dict[Any, str] = {names[name]: symbol(name) for name in names}
    spelled |= {_before(names[name]): f"{{{symbol(name)}}}^{{-}}" for name in names}
    for value, text in decimals.items():
        # As the file writes it: 0.04, and not 1/25.
        spelled[sympy.Symbol(text)] = text
        form = form.xreplace({value: sympy.Symbol(text), -value: -sympy.Symbol(text)})
    latex: str = sympy.latex(form, symbol_names=spelled, mul_symbol="dot")
    # In letters: punctuation behind a backslash, and what begins a tag, has a meaning in Markdown.
    for punctuation, letters in _IN_LETTERS:
        latex = latex.replace(punctuation, letters)
    return latex


def initial_latex(located: Located) -> str:
    """The value of a state variable before the first step, for a cell of a table."""
    if located.expression.names:
        return f"${equation(located.expression)}$"
    return repr(float(str(evaluate(located.expression, {}))))


def derivative(name: str) -> str:
    """The LaTeX of the derivative of a variable with respect to time."""
    return rf"\frac{{\mathrm{{d}} {symbol(name)}}}{{\mathrm{{d}} t}}"


def modules(primitive: Primitive, frameworks: tuple[Framework, ...]) -> dict[str, list[str]]:
    """For each framework that has a row for a primitive, the modules it is built as, or else those that are read."""
    shared = {framework.name: framework.rows for framework in frameworks if is_shared(framework)}
    found: dict[str, list[str]] = {}
    for framework in frameworks:
        if framework.name in shared:
            continue
        rows = [*framework.rows, *(row for name in framework.includes for row in shared.get(name, ()))]
        rows = [row for row in rows if row.node == primitive.name]
        names = dict.fromkeys(row.module for row in rows if not row.not_built)
        if rows:
            found[framework.name] = list(names or dict.fromkeys(row.module for row in rows))
    return found


def _delayed(value: Any, by: Any) -> Any:
    """A signal of some time ago, as a function of time."""
    sympy: Any = importlib.import_module("sympy")
    return sympy.Function(symbol(str(value)))(sympy.Symbol("t") - by)


def _before(value: Any) -> Any:
    """A state variable before the step."""
    sympy: Any = importlib.import_module("sympy")
    return sympy.Symbol(f"{value} before")


def _decimals(expression: Expression) -> dict[Any, str]:
    """The numbers of a formula that are no whole ones, as sympy has them, and their texts."""
    sympy: Any = importlib.import_module("sympy")
    constants = [node.value for node in ast.walk(expression.tree) if isinstance(node, ast.Constant)]
    values = [value for value in constants if isinstance(value, float) and not value.is_integer()]
    return {sympy.Rational(repr(value)): repr(value) for value in values if "e" not in repr(value)}


def _greek() -> frozenset[str]:
    """The names of Greek letters for which LaTeX has a command."""
    names: Any = importlib.import_module("sympy.printing.latex").tex_greek_dictionary
    letters: Any = importlib.import_module("sympy.core.alphabets").greeks
    return frozenset(letters) - frozenset(names)
