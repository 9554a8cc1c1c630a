"""The expression language: what it takes and what it refuses.

A text that slips through here is code in every user's generated module.
"""

from __future__ import annotations

import ast
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nirmap_generator.expressions import (
    FUNCTIONS,
    Expression,
    ExpressionError,
    closest,
    parse,
    quote,
    to_condition,
    to_python,
    unknown_names,
)

ALLOWED = [
    "1",
    "-2.5e-3",
    ".5",
    "tau",
    "  tau  ",
    "tau\n  + dt",
    "1 - dt / tau",
    "x // 2 % 3",
    "x ** 64",
    "x ** -64.0",
    "x ** y",
    "+x - -x",
    "module.p.tau_mem_inv",
    "a < b <= c != d",
    "a is None",
    "module.bias is not None",
    "not a or b and c",
    "a if b > 0 else c",
    "(1, 2)",
    "(size(weight, 2),)",
    "()",
    "size[0]",
    "module.kernel_size[-1]",
    "pair(x)[1]",
    "where(a > b, a, b)",
    "all(a > 0 and b > 0)",
    "'zero'",
    '"it\'s"',
    "'é \\n \\U0001F600 \\\\'",
    "True",
    "None",
    "module.mode == 'zero'",
    "pair(module.padding) == (0, 0)",
    "match + type",
]

REFUSED = [
    # Ways to Python's insides.
    "__import__('os')",
    "__builtins__",
    "module.__class__",
    "module.__class__.__mro__[1]",
    "module.forward.__globals__",
    "module.f.func_globals",
    "module.gi_frame.f_back",
    "module.f_builtins",
    "module._private",
    "_",
    "getattr(module, 'x')",
    "eval('1')",
    "exec('1')",
    "open('x')",
    "print(1)",
    "isinstance_of(module, 'x')",
    "np.exp(1)",
    "module.forward(1)",
    "exp(1).real",
    "'a'.join",
    "(1).real",
    "(lambda: 1)()",
    "exp(1)(2)",
    # Constructs outside of the language.
    "lambda: 1",
    "[x for x in y]",
    "(x for x in y)",
    "{1: 2}",
    "{1}",
    "[1]",
    "f'{x}'",
    "f'{f\"{x}\"}'",
    "rf'{x}'",
    "b'x'",
    "r'x'",
    "u'x'",
    "(x := 1)",
    "x = 1",
    "x; y",
    "x\ny",
    "import os",
    "await x",
    "(yield)",
    "*x",
    "exp(*x)",
    "exp(**x)",
    "exp(x=1)",
    "exp()",
    "exp(1, 2)",
    "x[1:2]",
    "x[y]",
    "x[1.0]",
    "x[True]",
    "x[+1]",
    "(1, 2)[0]",
    "'abc'[0]",
    "x in y",
    "x not in y",
    "x is y",
    "x is 1",
    "x is None is None",
    "x @ y",
    "x & y",
    "x | y",
    "x ^ y",
    "x << y",
    "~x",
    "x <> y",
    "...",
    "Ellipsis()",
    "1j",
    "0x10",
    "0b1",
    "1_000",
    "007",
    "1if x else 2",
    "x # comment",
    "x \\\n + y",
    "assert x",
    "",
    "   ",
    ")",
    "(x",
    "(x]",
    "x +",
    "x y",
    "x if y",
    "'x",
    "'a' 'b'",
    "'''a'''",
    "'\\d'",
    "'\\N{BULLET}'",
    "'\\U00110000'",
    "'a\nb'",
    "'a\x00b'",
    "x\x00",
    "'\u202e'",
    "'\ud800'",
    # Letters that look like ASCII, or that Python turns into it.
    "ｔａｕ",
    "tаu",
    "ﬁ",
    "µ",
    "x−1",
    "１",
    "x\xa0+ 1",
    # Gigantic numbers and deep nesting.
    "9 ** 65",
    "9 ** -65",
    "x ** (8 * 8 * 8)",
    "x ** 2 ** 2",
    "x ** exp(9)",
    "9007199254740993",
    "1e999",
    "9" * 400,
    "(" * 31 + "x" + ")" * 31,
    "-" * 40 + "x",
    "x" + " + x" * 40,
    "x" + ".y" * 40,
    "x" + "[0]" * 40,
    "x" * 501,
    "x" * 10**6,
    "(" * 10**6,
    # Arithmetic on what is not a number: formatting and repeating could be made to fill the memory.
    "'%1000000000d' % 3",
    "'x' * 10",
    "('x' if a else 1) * 2",
    "(1, 2) * 3",
    "None + 1",
    "True + 1",
    "(a > b) * 2",
    "-'x'",
    "exp('x')",
    "'a' < b",
    "None < b",
    "(a > b) == (c > d)",
    "1 and 2",
    "not 'x'",
    "where(1, 2, 3)",
    "where(a > b, 'x', 'y')",
]


@pytest.mark.parametrize("text", ALLOWED)
def test_what_the_mappings_need_is_in_the_language(text: str) -> None:
    expression = parse(text)
    assert expression.text == text
    assert expression == parse(text)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text)[:40])
def test_everything_else_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert 0 <= caught.value.column <= len(text)
    assert caught.value.found
    assert caught.value.expected
    assert caught.value.found in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "column", "found"),
    [
        ("tau + _x", 6, "the name '_x'"),
        ("  tau + lambda", 8, "the keyword 'lambda'"),
        ("'é' == module.x and foo(1)", 20, "a call of 'foo'"),
        ("1 +\n  [2]", 6, "List"),
        ("a = 1", 2, "the character '='"),
        ("x ** 65", 5, "the exponent 65"),
        ("exp(x, 1)", 0, "2 arguments of exp"),
        ("tau +", 5, "no expression (invalid syntax)"),
        ("'a\u202eb'", 2, "the invisible character '\\u202e'"),
    ],
)
def test_the_column_points_at_what_was_found(text: str, column: int, found: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (caught.value.column, caught.value.found) == (column, found)


def test_an_expression_says_what_it_speaks_of() -> None:
    expression = parse("where(module.p.v_th > 0, exp(dt), size[0]) / module.p.tau")
    assert expression.names == {"module", "dt", "size"}
    assert expression.attributes == {("module", "p", "v_th"), ("module", "p", "tau")}
    assert expression.functions == {"where", "exp"}


def test_unknown_names_are_named_with_the_closest_known_one() -> None:
    known = ["v_threshold", "v_reset", "tau"]
    assert unknown_names(parse("v_treshold + tau * bogus"), known) == ["bogus", "v_treshold"]
    assert closest("v_treshold", known) == "v_threshold"
    assert closest("bogus", known) is None


def test_every_function_is_described_and_can_be_called() -> None:
    for name, function in FUNCTIONS.items():
        arguments = ["a > b" if takes == "condition" else "x" for takes in function.arguments]
        expression = parse(f"{name}({', '.join(arguments)})")
        assert name == function.name
        assert function.description
        assert expression.functions == {name}
        if function.python is not None:
            assert "argument_" not in to_python(expression, {})


# Trees by the kind of their value, as text in which every operation has its brackets.
NAMES = st.sampled_from(["x", "tau", "module.p.tau", "size[0]", "module.k[-1]"])
LITERALS = st.one_of(
    st.integers(0, 2**53).map(str),
    st.floats(0, allow_infinity=False).map(repr),
    st.just("7."),
    st.just(".5e3"),
)
TEXTS = st.text(max_size=4).map(quote)


def numbers_over(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    comparison = st.builds("({} {} {})".format, inner, st.sampled_from(["<", ">=", "==", "!="]), inner)
    condition = st.one_of(
        comparison,
        st.builds(
            "({} {} {} and not {})".format, comparison, st.sampled_from(["and", "or"]), comparison, NAMES
        ),
        st.builds("({} == {})".format, NAMES, TEXTS),
        NAMES.map("({} is not None)".format),
    )
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner),
        st.builds("({} ** {})".format, inner, st.sampled_from(["2", "-3", "x"])),
        st.builds("{}{}".format, st.sampled_from("+-"), inner),
        st.builds("({} if {} else {})".format, inner, condition, inner),
        st.builds("where({}, {}, {})".format, condition, inner, inner),
        st.builds("exp({})".format, inner),
        st.builds("pair(({}, {}))[0]".format, inner, TEXTS),
    )


TREES = st.recursive(st.one_of(NAMES, LITERALS), numbers_over, max_leaves=6)


@given(TREES)
def test_a_tree_written_as_text_is_read_as_the_same_tree(text: str) -> None:
    expression = parsed(text)
    if isinstance(expression, ExpressionError):
        # A random tree may be too long or too deep; nothing else may be wrong with it.
        assert "too deeply" in expression.found or "characters" in expression.found
        return
    written = ast.unparse(expression.tree)
    if len(written) <= 500:
        assert ast.dump(parse(written).tree) == ast.dump(expression.tree)
    if not expression.functions:
        assert ast.dump(ast.parse(to_python(expression, {}), mode="eval")) == ast.dump(expression.tree)


WORDS = (
    "x module . , ( ) [ ] + - * ** / // % < > == != <= is not None and or if else True 1 2.5 0 65 'a' \"b\" '\\n' "
    "exp where size all lambda for in _ __class__ : = ' \" \\ # ~ é 1e 1_0 0x f' {"
)
TOKENS = st.sampled_from([*WORDS.split(), "\n"])


def parsed(text: str) -> Expression | ExpressionError:
    """What parsing gives, an error included; a warning is not among it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return parse(text)
        except ExpressionError as error:
            return error
        finally:
            assert caught == []


SCRAMBLED = st.lists(TOKENS, max_size=20).map(" ".join) | st.lists(TOKENS, max_size=20).map("".join)


@settings(max_examples=400)
@given(st.text(max_size=60) | SCRAMBLED | TREES)
@example("1if x else y")
@example("1or 2")
@example("'\\8'")
@example("1 is None")
@example("(1)(2)")
@example("0x1for x in y")
def test_any_text_is_parsed_or_refused_and_what_is_parsed_becomes_tame_python(text: str) -> None:
    expression = parsed(text)
    if isinstance(expression, ExpressionError):
        assert 0 <= expression.column <= len(text)
        return
    for written in (to_python(expression, {}), to_condition(expression, {})):
        assert written.isascii()
        assert written.isprintable()
        for node in ast.walk(ast.parse(written, mode="eval")):
            if isinstance(node, ast.Name):
                assert node.id in {*expression.names, "np", "rows", "to", "bool", "int", "str"}
            if isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_")
