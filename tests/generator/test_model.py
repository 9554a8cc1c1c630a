"""If these fail, messages point to the wrong place, or an entry of a file is lost on the way into the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from declaring import (
    FILES,
    MAPPINGS,
    changed,
    classes,
    copied,
    declared,
    edited,
    is_tuple,
    mapping,
    problems_of,
    rows,
    sequence,
)
from nirmap_generator.load import Document, load
from nirmap_generator.model import Located, Place, Record
from nirmap_generator.model import Path as Keys
from nirmap_generator.parsing import Parser
from nirmap_generator.problems import Problems

# Below these keys of a framework's file, names stand for expressions; under these other keys, a text is one.
TABLES = frozenset({"build", "assign", "read", "normal_form", "holds", "arguments"})
TEXTS = frozenset({"that", "times", "above", "by", "scale", "shift", "alone_if"})


def located_in(value: Any) -> Iterator[Located]:
    """Every expression of a part of the model."""
    entries: Iterable[Any] = ()
    if isinstance(value, Located):
        yield value
    elif isinstance(value, Document | Place):
        return
    elif dataclasses.is_dataclass(value):
        entries = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif is_tuple(value):
        entries = value
    for entry in (*entries, *mapping(value).values()):
        yield from located_in(entry)


def everything() -> list[Located]:
    declarations = declared()
    return [
        *located_in(dict(declarations.catalogue.primitives)),
        *located_in(declarations.frameworks),
    ]


def value_at(document: Document, path: Keys) -> Any:
    value = document.data
    for key in path:
        value = value[key]
    return value


def test_every_expression_stands_where_its_place_says() -> None:
    """Found in the text of the file itself, by line and column, not by the positions that were kept."""
    texts = {f"mappings/{name}": (MAPPINGS / name).read_text(encoding="utf-8").splitlines() for name in FILES}
    found = everything()
    assert len(found) > 400
    for located in found:
        document, path = located.place.document, located.place.path
        if path[-1] == "initial" and "initial" not in value_at(document, path[:-1]):
            assert located.expression.text == "0"  # where nothing is said
            continue
        problem = located.place.problem("x", "y")
        line = texts[problem.file][problem.line - 1][problem.column - 1 :]
        text = located.expression.text
        assert str(value_at(document, path)) == text
        assert line.removeprefix('"').startswith(text)


def expression_texts(data: Any, path: Keys = ()) -> Iterator[Keys]:
    """Where the expressions of a framework's file are, found by its keys alone."""
    for key, entry in mapping(data).items():
        is_text = key in TEXTS or (path and path[-1] in TABLES)
        if is_text and isinstance(entry, str):
            yield (*path, key)
        yield from expression_texts(entry, (*path, key))
    for index, entry in enumerate(sequence(data)):
        yield from expression_texts(entry, (*path, index))


@pytest.mark.parametrize(
    "name", [name for name in FILES if "/" in name and not name.startswith("extensions/")]
)
def test_no_expression_of_a_framework_is_lost(name: str) -> None:
    document = load(MAPPINGS / name)
    framework = Parser().framework(document)
    assert {located.place.path for located in located_in(framework)} == set(expression_texts(document.data))


def test_entries_keep_the_order_of_the_file() -> None:
    """The order of the constructor's arguments and of the rows is that which the writer gave."""
    for framework, row in rows():
        data = value_at(framework.document, row.place.path)
        assert list(row.build) == list(data.get("build", {}))
        assert list(row.read) == list(data["read"])
        assert [constraint.because for constraint in row.requires] == [
            entry["because"] for entry in data.get("requires", [])
        ]
    for framework in declared().frameworks:
        assert [(row.node, row.module) for row in framework.rows] == [
            (node, module)
            for node, entries in framework.document.data["nodes"].items()
            for entry in entries
            for module in classes(entry)
        ]


def test_shapes_are_no_parameters_of_a_mapping() -> None:
    primitives = declared().catalogue.primitives
    assert primitives["Conv1d"].declared == ["weight", "stride", "padding", "dilation", "groups", "bias"]
    assert primitives["Flatten"].declared == ["start_dim", "end_dim"]
    assert primitives["LIF"].declared == list(primitives["LIF"].parameters)


def test_a_list_of_classes_is_a_row_for_each() -> None:
    """And one thing that is wrong with them is told once."""
    (framework,) = [entry for entry in declared().frameworks if entry.name == "spikingjelly"]
    rows_of_one = [row for row in framework.rows if row.place.path == ("nodes", "Threshold", 1)]
    named = framework.document.data["nodes"]["Threshold"][1]["module"]
    assert len(named) > 5
    assert [row.module for row in rows_of_one] == named
    assert all(replace(row, module=named[0]) == rows_of_one[0] for row in rows_of_one)
    path = ("nodes", "Threshold", 1, "read", "threshold")
    problems = Problems()
    Parser(problems).framework(changed(framework.document, path, "import os"))
    assert [problem.path for problem in problems] == ["nodes.Threshold[1].read.threshold"]


def test_a_record_is_an_argument_with_arguments() -> None:
    (row,) = [
        row for framework, row in rows() if (framework.name, row.node, row.reset) == ("norse", "LIF", "value")
    ]
    record = row.build["p"]
    assert isinstance(record, Record)
    assert (record.call, list(record.arguments)) == (
        "norse.torch.LIFBoxParameters",
        ["tau_mem_inv", "v_leak", "v_th", "v_reset"],
    )
    assert row.class_name == "LIFBoxCell"
    assert row.discretisation == "forward_euler"


@pytest.mark.parametrize("framework", declared().frameworks, ids=lambda framework: framework.name)
def test_every_text_outside_of_the_language_is_one_problem_at_its_place(framework: Any) -> None:
    """All expressions of a file are broken at once, and each is told."""
    document = framework.document
    paths = sorted(expression_texts(document.data), key=str)
    broken = document
    for path in paths:
        broken = changed(broken, path, "import os")
    problems = Problems()
    parsed = Parser(problems).framework(broken)
    shown = {located.place.problem("", "").path for located in located_in(framework)}
    assert {problem.path for problem in problems} == shown
    assert len(list(problems)) == len(paths)
    assert parsed.rows == ()
    for problem in problems:
        assert problem.file == document.file
        assert "'import os'" in problem.do


def test_what_does_not_parse_hides_nothing_else_and_adds_nothing(tmp_path: Path) -> None:
    """Errors of every sort in four files are told in one run, and each of them once."""
    folder = copied(tmp_path)
    torch_nn = edited(
        folder / "shared/torch_nn.yaml", "start_dim: start_dim + 1 if", "start_dim: start_dim + if"
    )
    snntorch = edited(
        folder / "frameworks/snntorch.yaml",
        "{gain: r * dt, shift: v_reset}",
        "{gain: q * dt, shift: v_reset}",
    )
    norse = edited(folder / "frameworks/norse.yaml", "framework: norse\n", "framework: norse\nnoise: 1\n")
    functions = edited(
        folder / "functions.yaml", "method: clone, means: bypass", "method: clone, means: bypas"
    )
    problems = [(problem.file, problem.line) for problem in problems_of(folder)]
    assert problems == [
        ("mappings/frameworks/norse.yaml", norse[0] + 1),
        ("mappings/frameworks/snntorch.yaml", snntorch[0]),
        ("mappings/functions.yaml", functions[0]),
        ("mappings/shared/torch_nn.yaml", torch_nn[0]),
    ]


def test_a_primitive_that_does_not_parse_is_told_once(tmp_path: Path) -> None:
    """The rows of the frameworks that speak of it are not reported for what is missing in it."""
    folder = copied(tmp_path)
    path = folder / "nir.yaml"
    text = path.read_text(encoding="utf-8")
    place = text.index("input: gain", text.index("  LIF:"))
    path.write_text(text[:place] + "input: gain gain" + text[place + len("input: gain") :], encoding="utf-8")
    (problem,) = problems_of(folder)
    assert (problem.file, problem.path) == ("mappings/nir.yaml", "primitives.LIF.equivalence.input")
    assert problem.line == text[:place].count("\n") + 1
