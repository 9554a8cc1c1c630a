"""The command ``list``. If these fail, a user plans with support that is not there."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Callable

import pytest

import nirmap
from commands import invoke


def test_list_says_what_is_installed_and_what_it_has() -> None:
    from nirmap.registry import frameworks, load_registry

    entries = {entry["framework"]: entry for entry in json.loads(invoke("list", "--format", "json").stdout)}
    assert set(entries) == set(frameworks())
    for name, entry in entries.items():
        registry = load_registry(name)
        assert entry["installed"] == importlib.metadata.version(registry.distribution)
        assert entry["usable"]
        assert set(entry["nodes"]) == {row.node for row in registry.rows}
        graphs = [row for row in registry.graphs if row.graph is not None]
        stateful = {module["path"] for module in entry["modules"] if module["stateful"]}
        assert stateful == {row.path for row in (*registry.rows, *graphs) if row.state is not None}
        assert {module["path"] for module in entry["modules"]} == {
            row.path for row in (*registry.rows, *graphs)
        }
        named = {(module["path"], name) for module in entry["modules"] for name in module["graphs"]}
        assert named == {(row.path, row.graph.name) for row in graphs if row.graph is not None}
        assert entry["refused"] == {row.path: row.not_read for row in registry.graphs if row.graph is None}
    text = invoke("list", "--modules").stdout
    assert re.search(r"norse\.torch\.LIFBoxCell +LIF +stateful", text)
    assert re.search(r"norse\.torch\.LILinearCell +Linear \+ CubaLI +stateful", text)
    assert "norse.torch.LIFRefracCell is refused: no primitive has a synapse and a refractory time" in text
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
