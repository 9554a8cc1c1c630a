"""If these fail, a text in a YAML file can become code, or a generated module says something else than the file."""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from declaring import changed, copied, declared, edited, mapping, sequence
from nirmap_generator.filters import class_imports, class_reference, snake
from nirmap_generator.load import Document
from nirmap_generator.model import Catalogue, Framework
from nirmap_generator.parsing import Parser
from nirmap_generator.pipeline import read, render
from nirmap_generator.render import Renderer, header

# Everything that ends a string, a comment or a line, or that a template engine or a formatter takes for its own.
TEXTS = {
    "quotes": 'it\'s "quoted"',
    "triple quotes": '"""\nimport os\n"""',
    "triple apostrophes": "'''\nimport os\n'''",
    "three quotes at the end": 'ends with """',
    "quote at the end": 'ends with "',
    "newline": "one\nimport os\ntwo",
    "line separators": "one\u2028import os\x85two\x0cthree",
    "carriage return": "one\rimport os\r\ntwo",
    "backslash": "\\",
    "backslashes": "\\\\ \\n \\N{BULLET} \\x41 \\' \\\" \\u",
    "braces": "{0} {name} {{ 7 * 7 }} {% if true %} {# note #} }}",
    "expression": "{{ cycler.__init__.__globals__.os }}",
    "percent": "%s %d %%",
    "beyond the plane": "\U0001f9e0 \U0001d703 \u00e9 \u4e2d",
    "right to left": "\u202eabc\u202c",
    "hash": "# type: ignore  # noqa: F401",
    "call": "__import__('os').system('true')",
    "empty line": "\n\n",
    "tabs and spaces": "\t  x  \t",
}
# The keys of the files under which a person writes a text; the second ones hold a text for each name.
PROSE = frozenset(
    {
        "description",
        "because",
        "do",
        "unit",
        "input_unit",
        "output_unit",
        "distribution",
        "versions",
        "source",
    }
)
REASONS = frozenset({"ignores", "not_mapped", "structure"})


def with_texts(document: Document, text: str) -> Document:
    """The document with the text in every place where a person writes one."""
    data = copy.deepcopy(document.data)

    def fill(entry: Any, is_reasons: bool) -> None:
        keys: list[Any] = [*mapping(entry), *range(len(sequence(entry)))]
        for key in keys:
            if not isinstance(entry[key], str):
                fill(entry[key], key in REASONS)
            elif is_reasons or key in PROSE:
                entry[key] = text

    fill(data, False)
    return dataclasses.replace(document, data=data)


def rendered(change: Callable[[Document], Document]) -> dict[str, str]:
    """The modules as the templates give them, before they are formatted."""
    declarations = declared()
    further = [change(document) for document in declarations.catalogue.extensions]
    catalogue: Catalogue = Parser().catalogue(change(declarations.catalogue.document), further)
    renderer = Renderer(catalogue)
    texts = {
        "catalogue": renderer.catalogue(catalogue, {}, "nirmap_registry"),
        "neurons": renderer.neurons(catalogue, {}),
        "nodes": renderer.nodes(catalogue, {}),
    }
    for framework in declarations.frameworks:
        parsed: Framework = Parser().framework(change(framework.document))
        texts[framework.name] = renderer.framework(parsed, {})
    return texts


class _Blank(ast.NodeTransformer):
    """Makes all texts the same, so that only the code remains."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """A text without its letters."""
        return ast.Constant("") if isinstance(node.value, str) else node


def code_of(source: str) -> str:
    return ast.dump(_Blank().visit(ast.parse(source)))


def texts_of(source: str) -> list[str]:
    """All texts of a module that are not docstrings."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


PLAIN = {name: code_of(text) for name, text in rendered(lambda document: document).items()}


@cache
def with_text_everywhere(text: str) -> dict[str, str]:
    """The modules with the text in every place where a person writes one."""
    return rendered(lambda document: with_texts(document, text))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_text_becomes_code(text: str) -> None:
    codes = {module: code_of(source) for module, source in with_text_everywhere(text).items()}
    assert [module for module in PLAIN if codes[module] != PLAIN[module]] == []


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_is_the_same_text_in_the_module(text: str) -> None:
    """The reason that a user reads is the one that was written."""
    declarations = declared()
    sources = with_text_everywhere(text)
    for framework in declarations.frameworks:
        constraints = [entry for row in framework.all_rows for entry in (*row.requires, *row.reads_only_if)]
        constraints += [entry for other in framework.without_node for entry in other.reads_only_if]
        shown = len(constraints) + sum(bool(entry.do) for entry in constraints)
        shown += len(framework.not_mapped) + len(["description", "distribution", "versions"])
        assert texts_of(sources[framework.name]).count(text) == shown
    parameters = [
        entry
        for primitive in declarations.catalogue.primitives.values()
        for entry in primitive.parameters.values()
    ]
    variables = [
        entry
        for primitive in declarations.catalogue.primitives.values()
        for entry in primitive.state.values()
    ]
    shown = (
        len(declarations.catalogue.primitives)
        + len(parameters)
        + sum(bool(entry.unit) for entry in parameters)
        + sum(2 for primitive in declarations.catalogue.primitives.values() if primitive.output)
    )
    assert texts_of(sources["catalogue"]).count(text) == shown + 2 * len(variables)


@settings(max_examples=15)
@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_no_drawn_text_becomes_code(text: str) -> None:
    for name, source in rendered(lambda document: with_texts(document, text)).items():
        assert code_of(source) == PLAIN[name]


def test_generated_modules_are_plain_ascii() -> None:
    """No editor and no terminal shows them otherwise than they are."""
    text = TEXTS["right to left"] + TEXTS["beyond the plane"]
    for source in rendered(lambda document: with_texts(document, text)).values():
        assert source.isascii()


QUOTED = "scale * input if '\"\"\"' != '\\\\' else input"


def test_a_text_inside_of_an_expression_does_not_end_a_docstring() -> None:
    def change(document: Document) -> Document:
        if document.file != "mappings/nir.yaml":
            return document
        return changed(document, ("primitives", "Scale", "output"), QUOTED)

    tree = ast.parse(rendered(change)["neurons"])
    (scale,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Scale"]
    (forward,) = [node for node in scale.body if isinstance(node, ast.FunctionDef) and node.name == "forward"]
    assert ast.unparse(forward.body[-1]) == ("return self.scale * input if '\"\"\"' != '\\\\' else input")


def test_texts_come_through_the_whole_way(tmp_path: Path) -> None:
    """From the YAML file through the formatter; read from the module as Python reads it."""
    folder = copied(tmp_path)
    told = 'a \\ "b" \'c\'\n{{ 7 * 7 }} """ \U0001f9e0'
    written = json.dumps(told, ensure_ascii=False)
    edited(folder / "frameworks/snntorch.yaml", "Delay: snnTorch has no delay line", f"Delay: {written}")
    edited(
        folder / "frameworks/norse.yaml",
        "because: a NIR neuron is reset to a value",
        f"because: {written}, do: {written}",
    )
    files = render(read(folder))
    assert told in texts_of(files["nirmap_registry/snntorch.py"])
    assert texts_of(files["nirmap_registry/norse.py"]).count(told) == 2
    for name, text in files.items():
        if name.endswith(".py"):
            compile(text, name, "exec")


def test_a_row_is_found_by_the_line_that_the_module_names() -> None:
    sources = rendered(lambda document: document)
    for framework in declared().frameworks:
        texts = texts_of(sources[framework.name])
        for row in framework.all_rows:
            line, _ = framework.document.position(row.place.path)
            assert f"{framework.document.file}:{line}" in texts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LIF", "lif"),
        ("LIFBoxCell", "lif_box_cell"),
        ("CubaLIF", "cuba_lif"),
        ("Conv2d", "conv2d"),
        ("SumPool2d", "sum_pool2d"),
        ("Leaky", "leaky"),
        ("I", "i"),
    ],
)
def test_names_are_spelt_as_functions_are(name: str, expected: str) -> None:
    assert snake(name) == expected


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,12}", fullmatch=True))
def test_a_name_of_a_function_is_an_identifier_that_keeps_the_letters(name: str) -> None:
    assert snake(name).isidentifier()
    assert snake(name).replace("_", "") == name.lower()


def test_classes_are_imported_once_and_in_order() -> None:
    paths = ["b.x.Two", "torch.nn.Linear", "a.One", "b.x.One", "b.x.Two"]
    assert class_imports(paths) == ["from a import One", "from b.x import One, Two"]
    assert class_reference("torch.nn.Linear") == "torch.nn.Linear"
    assert class_reference("b.x.Two") == "Two"


def test_the_header_names_the_command_and_the_sources() -> None:
    lines = header({"mappings/a.yaml": "0123456789abcdef" * 4}).splitlines()
    assert "nirmap generate" in lines[0]
    assert lines[1:] == ["#   mappings/a.yaml sha256:0123456789abcdef"]
    assert all(line.startswith("#") for line in header({}).splitlines())


def test_order_and_hashes_do_not_matter() -> None:
    """Rendering twice in one process gives the same text; in two processes it is tested with the pipeline."""
    assert rendered(lambda document: document) == rendered(lambda document: document)
