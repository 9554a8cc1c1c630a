"""What expressions become in the generated modules: a wrong spelling there is a wrong network."""

from __future__ import annotations

import ast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nirmap_generator.expressions import parse, quote, to_condition, to_python


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("((1)) - (dt / tau)", "1 - dt / p.tau"),
        ("(-x) ** 2 - x ** (-2)", "(-x) ** 2 - x ** (-2)"),
        ("exp(tau) * zeros_like(x)", "np.exp(p.tau) * np.zeros_like(x)"),
        ("size(x + 1, 1) * ndim(x)", "(x + 1).shape[1] * x.ndim"),
        ("tensor(1 / tau)", "to.tensor(1 / p.tau)"),
        ("next_above(x)", "to.next_above(x)"),
        ("(integers(x), number(x), integer(x))", "(rows.integers(x), rows.number(x), int(x))"),
        ("all(x > 0)", "bool(np.all(x > 0))"),
        ("full_like(x, 0.5)", "np.full_like(x, 0.5, dtype=np.float64)"),
        (
            "where(x > 0 and not x > 9, x, 0)",
            "rows.where(np.logical_and(x > 0, np.logical_not(x > 9)), x, 0)",
        ),
        ("any(0 < x < 1)", "bool(np.any(np.logical_and(0 < x, x < 1)))"),
        ("module.p.tau if module.flag else 'é'", "mod.p.tau if mod.flag else '\\xe9'"),
        ("not is_uniform(x)", "not np.unique(x).size == 1"),
    ],
)
def test_expressions_become_plain_python(text: str, python: str) -> None:
    assert to_python(parse(text), {"tau": "p.tau", "module": "mod"}) == python


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("a > b", "bool(np.all(node['a'] > b))"),
        ("not a > b or b == 1", "not bool(np.all(node['a'] > b)) or bool(np.all(b == 1))"),
        ("0 < b < 1", "bool(np.all(0 < b)) and bool(np.all(b < 1))"),
        ("module.mode == 'zero'", "module.mode == 'zero'"),
        ("module.bias is not None", "module.bias is not None"),
        ("module.flag == True", "module.flag == True"),
        ("not module.flag", "not module.flag"),
        ("module.flag or a > b", "bool(module.flag) or bool(np.all(node['a'] > b))"),
        ("module.beta == 1", "bool(np.all(rows.array(module.beta) == 1))"),
        ("pair(module.padding) == (0, 0)", "rows.pair(module.padding) == (0, 0)"),
        ("name_of(module.p.method) == 'x'", "rows.name_of(module.p.method) == 'x'"),
        ("ndim(a) == 2", "node['a'].ndim == 2"),
        ("is_uniform(a)", "np.unique(node['a']).size == 1"),
        ("a > b if module.flag else True", "bool(np.all(node['a'] > b)) if bool(module.flag) else True"),
    ],
)
def test_conditions_become_single_bools(text: str, python: str) -> None:
    written = to_condition(parse(text), {"a": "node['a']"}, attribute=lambda path: f"rows.array({path})")
    assert written == python


def test_attributes_of_numbers_are_wrapped_and_others_are_not() -> None:
    expression = parse(
        "bias_or_zeros(module.bias, module.w) / module.p.tau if module.flag else module.size[0]"
    )
    assert to_python(expression, {"module": "m"}, attribute=lambda path: f"a({path})") == (
        "rows.bias_or_zeros(m.bias, m.w) / a(m.p.tau) if m.flag else a(m.size)[0]"
    )


def test_writing_leaves_the_expression_as_it_was() -> None:
    expression = parse("where(x > 0 and y > 0, module.p.tau, 1) if 'é' == z else 0")
    before = ast.dump(expression.tree)
    to_python(expression, {"x": "a", "module": "b"}, attribute=lambda path: f"c({path})")
    to_condition(expression, {"x": "a"})
    assert ast.dump(expression.tree) == before


def test_a_function_that_only_describes_is_not_written() -> None:
    with pytest.raises(ValueError, match="delayed"):
        to_python(parse("delayed(input, delay)"), {})


@given(st.text())
@example("'\"\\\n\r\t\x00\u2028\U0001f600\ud800\u202e'''\"\"\"")
def test_a_quoted_text_is_the_same_text_on_one_line_of_ascii(text: str) -> None:
    quoted = quote(text)
    assert quoted.isascii()
    assert quoted.isprintable()
    assert ast.literal_eval(quoted) == text
    if len(quoted) <= 500:
        constant = parse(quoted).tree.body
        assert isinstance(constant, ast.Constant)
        assert constant.value == text
        assert to_python(parse(quoted), {}) == quoted
