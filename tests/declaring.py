"""Copies of the project's mappings, and changed versions of them, for the tests of the generator."""

from __future__ import annotations

import ast
import copy
import dataclasses
import re
import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

from nirmap_generator.check import build_expressions
from nirmap_generator.load import Document
from nirmap_generator.model import Framework, Located, Place, Row
from nirmap_generator.model import Path as Keys
from nirmap_generator.pipeline import Declarations, prove_all, read
from nirmap_generator.problems import DeclarationError, Problem

ROOT = Path(__file__).parents[1]
MAPPINGS = ROOT / "mappings"
GENERATED = ROOT / "generated"
FILES = sorted(path.relative_to(MAPPINGS).as_posix() for path in MAPPINGS.rglob("*.yaml"))


@cache
def declared() -> Declarations:
    """What the project's own mappings say, without the rows of modules that are generated for extensions."""
    found = read(MAPPINGS)
    frameworks = tuple(
        dataclasses.replace(
            framework,
            rows=tuple(row for row in framework.rows if row.place.document is framework.document),
        )
        for framework in found.frameworks
    )
    return dataclasses.replace(found, frameworks=frameworks)


def copied(folder: Path) -> Path:
    """A copy of the mappings below a folder, called ``mappings`` as the original."""
    shutil.copytree(MAPPINGS, folder / "mappings")
    return folder / "mappings"


def copied_in_part(folder: Path, *frameworks: str) -> Path:
    """A copy for the reference modules and some frameworks only, which is read and rendered in less time."""
    mappings = copied(folder)
    for path in (mappings / "frameworks").glob("*.yaml"):
        if path.stem not in {"torch", *frameworks}:
            path.unlink()
    return mappings


def classes(entry: dict[str, Any]) -> list[str]:
    """The classes that an entry of a file is about."""
    module = entry["module"]
    return [module] if isinstance(module, str) else list(module)


def edited(path: Path, old: str, new: str) -> tuple[int, int]:
    """Replaces the first occurrence of a text in a file; returns its line and column, from 1."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path.name}"
    before = text[: text.index(old)]
    path.write_text(before + new + text[len(before) + len(old) :], encoding="utf-8", newline="\n")
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def problems_of(folder: Path, *, proven: bool = False) -> tuple[Problem, ...]:
    """What is wrong with a folder of mappings; ``proven`` asks for the proofs too."""
    try:
        declarations = read(folder)
        if proven:
            prove_all(declarations)
    except DeclarationError as error:
        return error.problems
    return ()


def changed(document: Document, path: Keys, value: Any) -> Document:
    """The document with another value at a path; its positions are those of the original."""
    data = copy.deepcopy(document.data)
    entry = data
    for key in path[:-1]:
        entry = entry[key]
    entry[path[-1]] = value
    return dataclasses.replace(document, data=data)


def without(document: Document, path: Keys) -> Document:
    """The document without the entry at a path."""
    data = copy.deepcopy(document.data)
    entry = data
    for key in path[:-1]:
        entry = entry[key]
    del entry[path[-1]]
    return dataclasses.replace(document, data=data)


def rows() -> list[tuple[Framework, Row]]:
    """Every row of every file."""
    return [(framework, row) for framework in declared().frameworks for row in framework.rows]


def built_rows() -> list[tuple[Framework, Row]]:
    """Every row from which a module is built."""
    return [(framework, row) for framework, row in rows() if not row.not_built]


def name_of_place(place: Place) -> str:
    """``snntorch.LIF[0].read.tau``: what a place is called in the names of tests."""
    stem = Path(place.document.file).stem
    keys = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in place.path if key != "nodes"]
    return stem + "".join(keys)


def proven_expressions(row: Row) -> Iterator[Located]:
    """Every expression of a row that the proof of build and read speaks of."""
    yield from (located for _, located in build_expressions(row))
    yield from row.read.values()
    yield from row.normal_form.values()


def reached(located: Located, row: Row) -> str:
    """The expression without the branches that are for modules with other settings than any built one has.

    Such a branch (``... if module.train_alphas else ...``) is not proven: the framework's own tests run it.
    """
    if not any(isinstance(node, ast.IfExp) for node in ast.walk(located.expression.tree)):
        return located.expression.text
    known = dict([*build_expressions(row), *row.holds.items()])
    settings = {path: entry.expression.text for path, entry in known.items()}
    return ast.unparse(_Reached(settings).visit(copy.deepcopy(located.expression.tree)))


class _Reached(ast.NodeTransformer):
    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """The branch that a constant setting of the built module decides for."""
        setting = self.settings.get(ast.unparse(node.test).removeprefix("module."))
        if setting not in ("True", "False"):
            return self.generic_visit(node)
        taken: ast.AST = self.visit(node.body if setting == "True" else node.orelse)
        return taken


def with_name_replaced(text: str, name: str, other: str) -> str:
    """The expression with another name in the place of one."""
    return re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", other, text)


def is_dictionary(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def mapping(value: Any) -> dict[str, Any]:
    """A value from JSON or YAML if it is a mapping, otherwise an empty one."""
    return value if is_dictionary(value) else {}


def sequence(value: Any) -> list[Any]:
    """A value from JSON or YAML if it is a list, otherwise an empty one."""
    return value if is_list(value) else []
