"""If these fail, a wrong declaration passes, or its author is sent to the wrong line with words that do not help."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing.exceptions import Unresolvable

from nirmap_generator.load import Document, load
from nirmap_generator.problems import DeclarationError, Problem, Problems
from nirmap_generator.validate import load_schema, validate

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["framework"],
    "properties": {
        "framework": {
            "type": "string",
            "pattern": "^[a-z]+(?![\\s\\S])",
            "description": "Name of the framework.",
        },
        "time_step": {"type": "number", "exclusiveMinimum": 0, "description": "Default dt in seconds."},
        "scheme": {"enum": ["forward_euler", "exponential", 3, None, True]},
        "version": {"const": 2},
        "nodes": {
            "type": "object",
            "propertyNames": {"pattern": "^[A-Z]", "description": "Name of a primitive."},
            "additionalProperties": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/row"}},
        },
        "build": {
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {"type": "string", "minLength": 1, "description": "An expression."},
                    {
                        "type": "object",
                        "required": ["call", "arguments"],
                        "properties": {
                            "call": {"type": "string", "description": "Class of the record."},
                            "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
                        },
                        "additionalProperties": False,
                    },
                ],
                "description": "An argument.",
            },
        },
        "function": {
            "oneOf": [{"required": ["function"]}, {"required": ["method"]}],
            "description": "A function.",
        },
        "either": {
            "oneOf": [
                {"properties": {"kind": {"const": "a"}, "size": {"type": "integer"}}, "required": ["kind"]},
                {
                    "properties": {"kind": {"const": "b"}, "names": {"type": "array"}},
                    "required": ["kind", "names"],
                },
            ]
        },
        "list": {"type": ["array", "null"], "uniqueItems": True, "maxItems": 2, "items": {"type": "integer"}},
        "never": False,
        "text": {"type": "string", "maxLength": 3},
        "patterned": {"patternProperties": {"^x": {"type": "boolean"}}, "additionalProperties": False},
        "closed": {"additionalProperties": False},
        "other": {"not": {"type": "string"}},
    },
    "$defs": {
        "row": {
            "type": "object",
            "required": ["module", "read"],
            "properties": {"module": {"type": "string", "description": "Class of the module."}, "read": {}},
            "additionalProperties": False,
        }
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def document(folder: Path, text: str) -> Document:
    path = folder / "x.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, shown_as="x.yaml")


def problems_of(folder: Path, text: str, schema: dict[str, Any] = SCHEMA) -> list[Problem]:
    problems = Problems()
    validate(document(folder, text), schema, problems=problems)
    return list(problems)


def only(folder: Path, line: str) -> Problem:
    """The one problem of a document with the line as its second."""
    (problem,) = problems_of(folder, f"framework: norse\n{line}\n")
    return problem


def test_a_document_that_fits_has_no_problems(folder: Path) -> None:
    text = "framework: norse\ntime_step: 1e-4\nnodes: {LIF: [{module: a.b, read: {}}]}\nbuild: {p: dt}\nscheme: null\n"
    assert problems_of(folder, text) == []


@pytest.mark.parametrize(
    ("line", "column", "path", "found", "expected", "do"),
    [
        ("time_step: fast", 12, "time_step", "'fast'", "a number", "Default dt in seconds."),
        ("time_step: true", 12, "time_step", "true", "a number", "Default dt in seconds."),
        ("time_step: 0", 12, "time_step", "0", "a number greater than 0", "Default dt in seconds."),
        ("time_step:", 11, "time_step", "null", "a number", "Default dt in seconds."),
        (
            "scheme: forward_oiler",
            9,
            "scheme",
            "'forward_oiler'",
            "one of 'forward_euler', 'exponential', 3, null, true",
            "did you mean 'forward_euler'?",
        ),
        ("version: 1", 10, "version", "1", "2", ""),
        ("text: abcd", 7, "text", "'abcd'", "a string of 3 or fewer characters", ""),
        ("list: {a: 1}", 7, "list", "a mapping with 'a'", "a list or null", ""),
        ("list: [1, 1]", 7, "list", "a list of 2", "a list without repetitions", ""),
        ("list: [1, 2, 3]", 7, "list", "a list of 3", "a list of 2 or fewer entries", ""),
        ("list: [1, 1.5]", 11, "list[1]", "1.5", "a whole number", ""),
        ("nodes: {LIF: []}", 14, "nodes.LIF", "an empty list", "a list of 1 or more entries", ""),
        (
            "nodes: {lif: [{module: a, read: 1}]}",
            9,
            "nodes.lif",
            "the key 'lif'",
            "a string that matches ^[A-Z]",
            "Name of a primitive.",
        ),
        (
            "nodes: {LIF: [{read: 1}]}",
            15,
            "nodes.LIF[0]",
            "a mapping with 'read'",
            "key 'module' (missing)",
            "Class of the module.",
        ),
        (
            "nodes: {LIF: [{module: a, read: 1, moduel: b}]}",
            36,
            "nodes.LIF[0].moduel",
            "the key 'moduel'",
            "one of 'module', 'read'",
            "did you mean 'module'?",
        ),
        (
            "patterned: {x1: true, y: 1}",
            23,
            "patterned.y",
            "the key 'y'",
            "a key that matches ^x",
            "",
        ),
        ("closed: {y: 1}", 10, "closed.y", "the key 'y'", "no keys", ""),
        ("build: {p: 3}", 12, "build.p", "3", "a string or a mapping", "An argument."),
        ("build: {p: ''}", 12, "build.p", "''", "a string of 1 or more characters", "An expression."),
        (
            "build: {p: {arguments: {}}}",
            12,
            "build.p",
            "a mapping with 'arguments'",
            "key 'call' (missing)",
            "Class of the record.",
        ),
        ("build: {p: {call: x, arguments: {a: 1}}}", 37, "build.p.arguments.a", "1", "a string", ""),
        (
            "function: {}",
            11,
            "function",
            "an empty mapping",
            "key 'function' or key 'method'",
            "A function.",
        ),
        (
            "function: {function: 1, method: 2}",
            11,
            "function",
            "a mapping with 'function', 'method'",
            "exactly one of: key 'function', key 'method'",
            "A function.",
        ),
        ("either: {kind: a, size: x}", 25, "either.size", "'x'", "a whole number", ""),
        ("either: {kind: b, names: 1}", 26, "either.names", "1", "a list", ""),
        ("either: {kind: c}", 16, "either.kind", "'c'", "'a' or 'b'", ""),
        (
            "other: text",
            8,
            "other",
            "'text'",
            "a value that fits the schema's not: a mapping with 'type'",
            "",
        ),
    ],
)
def test_each_demand_is_told_in_words_at_its_place(
    folder: Path, line: str, column: int, path: str, found: str, expected: str, do: str
) -> None:
    assert only(folder, line) == Problem("x.yaml", 2, column, path, found, expected, do)


def test_a_schema_that_allows_nothing_is_told_at_the_mapping(folder: Path) -> None:
    """The library does not say where a schema that is just ``false`` was met."""
    (problem,) = problems_of(folder, "framework: norse\nnever: 1\n")
    assert (problem.line, problem.found, problem.expected) == (1, "1", "nothing here")


def test_a_pattern_is_shown_as_people_write_it(folder: Path) -> None:
    (problem,) = problems_of(folder, "framework: Norse\n")
    assert problem.expected == "a string that matches ^[a-z]+$"
    assert problem.do == "Name of the framework."


def test_a_document_of_another_type_is_one_problem_at_its_start(folder: Path) -> None:
    (problem,) = problems_of(folder, "# a list\n- 1\n")
    assert (problem.line, problem.column, problem.path, problem.expected) == (2, 1, "", "a mapping")


def test_a_long_value_does_not_drown_the_message(folder: Path) -> None:
    assert len(str(only(folder, f"time_step: {'x' * 10_000}"))) < 250


def test_all_problems_come_at_once_in_the_order_of_the_file(folder: Path) -> None:
    text = "time_step: x\nfame: 1\nnodes:\n  LIF:\n  - {}\n  li: [1]\nscheme: no_such\n"
    problems = problems_of(folder, text)
    assert [(problem.line, problem.path, problem.expected.split()[0]) for problem in problems] == [
        (1, "", "key"),
        (1, "time_step", "a"),
        (2, "fame", "one"),
        (5, "nodes.LIF[0]", "key"),
        (5, "nodes.LIF[0]", "key"),
        (6, "nodes.li", "a"),
        (6, "nodes.li[0]", "a"),
        (7, "scheme", "one"),
    ]
    assert problems == sorted(problems)


def test_every_unknown_key_is_a_problem_of_its_own_with_the_closest_allowed_one(folder: Path) -> None:
    problems = problems_of(folder, "framework: a\ntime_steps: 1\nqqq: 2\nnode: 3\n")
    assert [(problem.line, problem.do) for problem in problems] == [
        (2, "did you mean 'time_step'?"),
        (3, ""),
        (4, "did you mean 'nodes'?"),
    ]


KEYS = st.sampled_from(
    [*SCHEMA["properties"], "call", "arguments", "kind", "module", "read", "LIF", "x", "function"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 5)
    | st.sampled_from(["a", "b", "norse", "", "forward_euler"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(data=st.dictionaries(KEYS, VALUES, max_size=6) | VALUES)
def test_there_is_a_problem_exactly_where_jsonschema_has_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    """No error of the library is lost on the way to words, none is invented, and the order is always the same."""
    folder = tmp_path_factory.mktemp("documents")
    text = json.dumps(data, indent=1)
    problems = problems_of(folder, text)
    validator: Any = jsonschema.Draft202012Validator(SCHEMA)
    errors = list(validator.iter_errors(data))
    assert bool(problems) == bool(errors)
    assert problems == sorted(set(problems)) == problems_of(folder, text)
    places = {problem.path for problem in problems}
    for error in errors:
        shown = error.json_path.removeprefix("$").removeprefix(".")
        # Alternatives, unknown keys and keys' names are told further down, at the value or key meant.
        assert any(place.startswith(shown) for place in places)
    for problem in problems:
        assert 1 <= problem.line <= text.count("\n") + 1
        assert problem.found
        assert problem.expected


@given(st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=1, max_size=12))
@settings(deadline=None)
def test_a_suggestion_is_always_an_allowed_key(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    allowed = list(SCHEMA["properties"])
    if key in allowed:
        return
    (problem,) = problems_of(tmp_path_factory.mktemp("documents"), f'framework: a\n"{key}": 1\n')
    closest = difflib.get_close_matches(key, allowed)
    assert problem.do == (f"did you mean {closest[0]!r}?" if closest else "")


def test_a_schema_is_read_and_checked(folder: Path) -> None:
    (folder / "good.json").write_text(json.dumps(SCHEMA, indent=2))
    assert load_schema(folder / "good.json") == SCHEMA


def test_every_error_of_a_schema_is_told_with_its_place(folder: Path) -> None:
    """A schema that is wrong would let every document pass."""
    path = folder / "bad.json"
    path.write_text('{"type": "strin",\n "pattern": "[",\n "required": "x",\n "minLength": -1}\n')
    with pytest.raises(DeclarationError) as caught:
        load_schema(path, shown_as="bad.json")
    problems = caught.value.problems
    assert [(problem.file, problem.line, problem.path) for problem in problems] == [
        ("bad.json", 1, "type"),
        ("bad.json", 2, "pattern"),
        ("bad.json", 3, "required"),
        ("bad.json", 4, "minLength"),
    ]
    assert "'string'" in problems[0].expected


def test_a_reference_is_never_fetched_from_the_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object, **__: object) -> None:
        pytest.fail("something was fetched")

    monkeypatch.setattr("urllib.request.urlopen", fetch)
    with pytest.raises(Unresolvable):
        problems_of(folder, "a: 1\n", {"$ref": "http://localhost/schema.json"})


def test_importing_the_module_does_not_import_jsonschema() -> None:
    """It would cost every command a tenth of a second, also those that validate nothing."""
    code = "import sys, nirmap_generator.validate; sys.exit('jsonschema' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
