"""If these fail, an editor leaves a key unexplained, or a key that is allowed does nothing."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from declaring import FILES, MAPPINGS, ROOT, copied, edited, mapping, problems_of, sequence
from nirmap_generator.load import load
from nirmap_generator.validate import load_schema

SCHEMAS = sorted((MAPPINGS / "schema").glob("*.json"))
README = (MAPPINGS / "README.md").read_text(encoding="utf-8")
names = [path.name for path in SCHEMAS]
# The schema of each file that is not a framework's.
KINDS = {
    "nir.yaml": "catalogue",
    "functions.yaml": "functions",
    "rewrites.yaml": "rewrites",
    **{name: "catalogue" for name in FILES if name.startswith("extensions/")},
}


def keys_of(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key that a schema gives a meaning, with its own schema, wherever it is nested."""
    for key, entry in mapping(mapping(schema).get("properties")).items():
        yield f"{path}.{key}", mapping(entry)
    for key, entry in mapping(schema).items():
        yield from keys_of(entry, f"{path}.{key}")
    for index, entry in enumerate(sequence(schema)):
        yield from keys_of(entry, f"{path}[{index}]")


def mappings_in(schema: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of a mapping."""
    if mapping(schema).get("type") == "object":
        yield path, mapping(schema)
    for key, entry in mapping(schema).items():
        yield from mappings_in(entry, f"{path}.{key}")
    for index, entry in enumerate(sequence(schema)):
        yield from mappings_in(entry, f"{path}[{index}]")


@pytest.mark.parametrize("path", SCHEMAS, ids=names)
@pytest.mark.parametrize("what", ["title", "description"])
def test_every_key_has_a_title_and_a_description(path: Path, what: str) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    assert schema[what]
    assert [key for key, entry in keys_of(schema) if not entry.get(what, "").strip()] == []


@pytest.mark.parametrize("path", SCHEMAS, ids=names)
def test_every_mapping_says_which_keys_it_allows(path: Path) -> None:
    """Otherwise a misspelt key would be ignored."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    assert [place for place, entry in mappings_in(schema) if "additionalProperties" not in entry] == []
    assert [place for place, entry in mappings_in(schema) if entry.get("additionalProperties") is True] == []


@pytest.mark.parametrize("path", SCHEMAS, ids=names)
def test_every_schema_is_one_of_draft_2020_12(path: Path) -> None:
    assert load_schema(path)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("name", FILES)
def test_the_first_line_names_the_schema_that_the_file_is_held_against(name: str) -> None:
    first = (MAPPINGS / name).read_text(encoding="utf-8").splitlines()[0]
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert named is not None
    kind = KINDS.get(name, "framework")
    target = ((MAPPINGS / name).parent / named[1]).resolve()
    assert target == (MAPPINGS / "schema" / f"{kind}.schema.json").resolve()
    assert target.is_file()


def used_keys(data: Any, schema: dict[str, Any]) -> Iterator[str]:
    """The keys of a document that its schema knows by name; names that the writer chooses are none."""
    for entry in sequence(data):
        yield from used_keys(entry, mapping(schema.get("items")))
    branches = [schema, *sequence(schema.get("anyOf")), *sequence(schema.get("oneOf"))]
    for branch in map(mapping, branches):
        properties = mapping(branch.get("properties"))
        for key, entry in mapping(data).items():
            if key in properties:
                yield key
            yield from used_keys(entry, mapping(properties.get(key, branch.get("additionalProperties"))))


def is_described(key: str) -> bool:
    return re.search(rf"`(?:\w+\.|\*\.)*{re.escape(key)}(?:[:.][^`]*)?`", README) is not None or (
        re.search(rf"`\{{[^`]*\b{re.escape(key)}:[^`]*\}}`", README) is not None
    )


@pytest.mark.parametrize("name", FILES)
def test_every_key_that_a_file_uses_is_described_in_the_readme(name: str) -> None:
    kind = KINDS.get(name, "framework")
    schema = json.loads((MAPPINGS / "schema" / f"{kind}.schema.json").read_text(encoding="utf-8"))
    used = set(used_keys(load(MAPPINGS / name).data, schema))
    assert used
    assert sorted(key for key in used if not is_described(key)) == []


@pytest.mark.parametrize("path", SCHEMAS, ids=names)
def test_every_key_that_is_allowed_is_read(path: Path) -> None:
    """A key that passes the schema and that nothing reads is a declaration that is dropped in silence."""
    folder = ROOT / "generator" / "nirmap_generator"
    sources = [(folder / name).read_text(encoding="utf-8") for name in ("parsing.py", "rewrites.py")]
    read = {
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    schema = json.loads(path.read_text(encoding="utf-8"))
    assert sorted({key for key, _ in keys_of(schema) if key.rpartition(".")[2] not in read}) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "key"),
    [
        ("nir.yaml", "nir: ", "nirr: ", "nirr"),
        ("functions.yaml", "{function: operator.iadd, means", "{function: operator.iadd, mean", "mean"),
        ("frameworks/snntorch.yaml", "time_step: 1.0e-4", "timestep: 1.0e-4", "timestep"),
    ],
)
def test_a_misspelt_key_is_told_with_its_place_and_the_right_one(
    tmp_path: Path, name: str, old: str, new: str, key: str
) -> None:
    folder = copied(tmp_path)
    line, column = edited(folder / name, old, new)
    found = [problem for problem in problems_of(folder) if repr(key)[1:-1] in problem.found]
    (problem,) = [entry for entry in found if entry.found.startswith("the key")]
    assert (problem.file, problem.line) == (f"mappings/{name}", line)
    assert problem.column >= column
    assert "did you mean" in problem.do
