"""If these fail, one framework that is absent, broken or crashes takes the audit of all others with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from audit.outside import install
from audit.tasks import task
from commands import invoke
from nirmap.audit.documents import AUDIT_SCHEMA, load_schema
from nirmap.audit.networks import NETWORKS
from nirmap.audit.workers import Died, in_processes
from nirmap.registry import load_registry


@pytest.fixture
def odd_frameworks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    install(tmp_path, monkeypatch)
    yield tmp_path
    load_registry.cache_clear()


def test_each_column_says_what_is_wrong_and_the_others_go_on(odd_frameworks: Path) -> None:
    names = ["absentsnn", "brokensnn", "deadsnn", "leavingsnn", "norse", "wrongsnn"]
    target = odd_frameworks / "audit.json"
    options = [option for name in names for option in ("-f", name)]
    result = invoke("audit", *options, "--json", "--output", target, "--fail-under", "21")
    assert result.exit_code == 1
    document = json.loads(target.read_text())
    jsonschema.validate(document, load_schema(AUDIT_SCHEMA))
    columns = {column["framework"]: column for column in document["columns"]}
    assert list(columns) == names
    assert columns["absentsnn"]["state"] == "absent"
    assert "a_framework_that_nobody_installed" in columns["absentsnn"]["problem"]
    assert columns["norse"]["state"] == "absent"
    assert columns["norse"]["problem"] == "No module named 'norse'"
    assert columns["brokensnn"]["state"] == "broken"
    assert "this framework is broken" in columns["brokensnn"]["problem"]
    assert columns["deadsnn"]["problem"] == "its process ended with signal 9"
    assert columns["leavingsnn"]["problem"] == "its process ended with exit code 3 (out of here)"
    wrong = {
        (cell["row"], cell["direction"]): cell["because"]
        for cell in columns["wrongsnn"]["cells"]
        if cell["status"] == "wrong"
    }
    networks = [*(f"LIF <-> {layer}" for layer in ("Linear", "Affine")), NETWORKS[-1]]
    rows = ("LI", "LIF", "LIF (subtract)", *networks)
    assert set(wrong) == {(row, direction) for row in rows for direction in ("from NIR", "to NIR")}
    assert all(
        "AttributeError: this constructor is out of order" in reason for reason in wrong["LI", "from NIR"]
    )
    assert "wrongsnn LIF from NIR is wrong: " in result.stderr
    assert "% of the primitives are covered, asked for 21 %" in result.stderr


def test_results_progress_and_the_end_of_a_process() -> None:
    heard: list[tuple[str, int, int]] = []

    def hear(name: str, done: int, total: int) -> None:
        heard.append((name, done, total))

    found = in_processes(task, ["fine", "raises"], hear, jobs=2)
    assert found == {
        "fine": ("fine", "1"),
        "raises": Died("its process ended with exit code 1 (ValueError: no good)"),
    }
    assert heard == [("fine", 1, 2)]


def test_a_process_that_is_silent_for_too_long_is_ended() -> None:
    def hear(name: str, done: int, total: int) -> None:
        pytest.fail("it is asleep")

    found = in_processes(task, ["sleeps"], hear, silence=0.5)
    assert found == {"sleeps": Died("no answer for 0.5 s")}
