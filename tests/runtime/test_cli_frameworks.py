"""The commands ``audit`` and ``list``. If these fail, a user plans with support that is not there."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Callable

import jsonschema
import pytest

import nirmap
from commands import ROOT, invoke

AUDIT = {
    "type": "object",
    "required": ["nirmap", "coverage", "cells"],
    "additionalProperties": False,
    "properties": {
        "nirmap": {"type": "string"},
        "coverage": {"const": "declared"},
        "cells": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["framework", "primitive", "from_nir", "to_nir", "modules", "conditions"],
                "additionalProperties": False,
                "properties": {
                    "framework": {"type": "string"},
                    "primitive": {"type": "string"},
                    "from_nir": {"enum": ["exact", "exact when", "no"]},
                    "to_nir": {"enum": ["exact", "exact when", "no"]},
                    "modules": {"type": "array", "items": {"type": "string"}},
                    "conditions": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
}


def test_audit_as_json_is_what_the_registries_hold() -> None:
    from nirmap.registry import frameworks, load_registry

    found = json.loads(invoke("audit", "--format", "json").stdout)
    jsonschema.validate(found, AUDIT)
    cells = {(cell["framework"], cell["primitive"]): cell for cell in found["cells"]}
    for name in frameworks():
        rows = load_registry(name).rows
        for primitive in {primitive for _, primitive in cells}:
            own = [row for row in rows if row.node == primitive]
            cell = cells[name, primitive]
            assert cell["modules"] == [row.path for row in own]
            assert cell["from_nir"] == (
                "no" if not own else "exact" if any(not r.requires for r in own) else "exact when"
            )
            assert own or cell["conditions"]


def test_audit_in_the_terminal_marks_every_cell() -> None:
    cells = json.loads(invoke("audit", "--format", "json").stdout)["cells"]
    text = invoke("audit").stdout
    marks = {"exact": "yes", "exact when": "if", "no": "no"}
    frameworks = list(dict.fromkeys(cell["framework"] for cell in cells))
    for primitive in dict.fromkeys(cell["primitive"] for cell in cells):
        row = next(line for line in text.splitlines() if line.split()[:1] == [primitive])
        expected = [
            c for f in frameworks for c in cells if (c["framework"], c["primitive"]) == (f, primitive)
        ]
        assert re.findall(r"(yes|if|no) / (yes|if|no)", row) == [
            (marks[c["from_nir"]], marks[c["to_nir"]]) for c in expected
        ]
    assert "a neuron of snnTorch resets to its resting potential" in invoke("audit", "--reasons").stdout
    assert "norse" not in invoke("audit", "--framework", "snntorch").stdout


def test_audit_as_markdown_is_the_committed_table() -> None:
    committed = (ROOT / "generated" / "COVERAGE.md").read_text()
    table = invoke("audit", "--format", "markdown").stdout
    assert table.startswith("# Coverage")
    assert committed.endswith(table)  # it begins with a comment on where it comes from


def test_list_says_what_is_installed_and_what_it_has() -> None:
    from nirmap.registry import frameworks, load_registry

    entries = {entry["framework"]: entry for entry in json.loads(invoke("list", "--format", "json").stdout)}
    assert set(entries) == set(frameworks())
    for name, entry in entries.items():
        registry = load_registry(name)
        assert entry["installed"] == importlib.metadata.version(registry.distribution)
        assert entry["usable"]
        assert set(entry["nodes"]) == {row.node for row in registry.rows}
        stateful = {module["path"] for module in entry["modules"] if module["stateful"]}
        assert stateful == {row.path for row in registry.rows if row.state is not None}
        assert {module["path"] for module in entry["modules"]} == {row.path for row in registry.rows}
    text = invoke("list", "--modules").stdout
    assert re.search(r"norse\.torch\.LIFBoxCell +LIF +stateful", text)
    assert re.search(r"norse +" + re.escape(importlib.metadata.version("norse")), text)


def test_list_knows_a_framework_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table comes from the declarations, and the list says how to install it."""
    installed: Callable[[str], str] = importlib.metadata.version

    def version(name: str) -> str:
        if name == "norse":
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    result = invoke("list", "norse")
    assert result.exit_code == 0
    assert re.search(r"norse +no +>=1", result.stdout)
    assert "pip install 'norse>=1.1,<2'" in result.stdout
    assert re.search(r"norse\.torch\.LIFBoxCell +LIF +stateful", result.stdout)


def test_list_says_why_a_framework_is_not_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        raise nirmap.MappingError("norse.yaml:3", "norse.torch.LIFBoxCell has no argument 'p'")

    monkeypatch.setattr("nirmap.registry.load_registry", load)
    result = invoke("list", "norse")
    assert result.exit_code == 0
    assert "not usable" in result.stdout
    assert "LIFBoxCell has no argument 'p'" in result.stdout
