"""If these fail, an audit cannot be kept, compared or published: JSON, differences, Markdown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from audit import results
from commands import ROOT, invoke
from nirmap.audit.cells import Audit, Case, audit_from_json
from nirmap.audit.changes import losses
from nirmap.audit.documents import AUDIT_SCHEMA, GRAPH_SCHEMA, load_schema, read_document
from nirmap.audit.markdown import as_markdown
from nirmap.errors import NirmapError


@pytest.mark.parametrize("name", [AUDIT_SCHEMA, GRAPH_SCHEMA])
def test_the_schemas_are_schemas_and_allow_nothing_else(name: str) -> None:
    schema = load_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    for entry in [schema, *schema["$defs"].values()]:
        if "properties" in entry:
            assert entry["additionalProperties"] is False
            assert set(entry["required"]) == set(entry["properties"])


def test_json_is_valid_and_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(results.audit().to_json()))
    assert audit_from_json(read_document(path, AUDIT_SCHEMA)) == results.audit()


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "nirmap audit"}', "[" * 100_000])
def test_another_document_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(NirmapError, match=r"old\.json"):
        read_document(path, AUDIT_SCHEMA)
    result = invoke("audit", "--diff", path)
    assert (result.exit_code, "old.json" in result.stderr.replace("\n", "")) == (1, True)


def test_the_same_is_no_loss_and_neither_is_more() -> None:
    before = results.audit()
    assert losses(before, before) == []
    assert losses(before, results.changed(before, "LIF", status="exact", because=())) == []
    assert losses(results.changed(before, "LIF", status="wrong"), before) == []


def test_a_cell_that_is_worse_or_gone_is_a_loss() -> None:
    before = results.audit()
    (worse,) = losses(before, results.changed(before, "Scale", status="no", because=("it went",)))
    assert worse == "first Scale from NIR: exact before, no now (it went)"
    lost = results.changed(before, "Scale", cases=(Case("general", "refused"),))
    assert losses(before, lost) == ["first Scale from NIR: refused now: general"]
    column = before.columns[0]
    gone = replace(before, columns=(replace(column, cells=column.cells[1:]),))
    assert losses(before, gone) == ["first Scale from NIR: it is gone"]
    absent = replace(before, columns=(replace(column, state="absent", problem="not there", cells=()),))
    assert losses(before, absent) == ["first: absent, not there"]
    assert losses(before, replace(before, columns=())) == ["first: it is not in the new audit"]


@pytest.mark.parametrize(
    ("dtype", "before", "now", "is_loss"),
    [
        ("float32", 3e-7, 3e-6, False),
        ("float32", 3e-7, 6e-6, True),
        ("float32", 0.0, 4e-6, False),  # a few units in the last place
        ("float32", 0.0, 6e-6, True),
        ("float64", 1e-14, 9e-14, False),
        ("float64", 1e-14, 2e-13, True),
        ("float64", 2e-13, 1e-14, False),
    ],
)
def test_an_error_ten_times_as_large_is_a_loss(dtype: str, before: float, now: float, is_loss: bool) -> None:
    def with_error(error: float) -> Audit:
        return results.changed(
            results.audit(), "Scale", cases=(Case("general", "native", errors={dtype: error}),)
        )

    found = losses(with_error(before), with_error(now))
    expected = f"first Scale from NIR: its error in {dtype} was {before:.1e}, and is {now:.1e} now"
    assert found == ([expected] if is_loss else [])


def test_a_dtype_that_is_executed_no_more_is_a_loss() -> None:
    before = results.audit()
    without = results.changed(before, "Scale", cases=(Case("general", "native", errors={"float32": 3e-7}),))
    assert losses(before, without) == ["first Scale from NIR: no longer executed in float64"]


def test_percent_counts_what_did_not_run_as_not_covered() -> None:
    assert results.audit().percent() == pytest.approx(100 * 3 / 5 / 3)
    assert replace(results.audit(), columns=results.audit().columns[:1]).percent() == pytest.approx(60)


def test_markdown_is_the_same_on_every_machine() -> None:
    before = results.audit()
    other = results.changed(
        replace(before, versions={"torch": "9.9"}),
        "Scale",
        cases=(Case("general", "native", errors={"float32": 4e-6, "float64": 0.0}),),
    )
    other = replace(other, columns=(replace(other.columns[0], installed="1.9"), *other.columns[1:]))
    assert as_markdown(other) == as_markdown(before)
    much = results.changed(before, "Scale", cases=(Case("general", "native", errors={"float64": 2e-6}),))
    assert "error at most 1e-05 in float64" in as_markdown(much)


def test_markdown_has_every_cell_with_its_reasons() -> None:
    text = as_markdown(results.audit())
    lines = text.splitlines()
    for row, status in results.STATUSES.items():
        (line,) = [line for line in lines if line.startswith(f"| {row} |")]
        assert line == f"| {row} | {status} / {status} | ? / ? | ? / ? |"
    assert "first: 3 of 5 primitives from NIR, 3 to NIR" in lines
    assert "        * `v_reset < v_leak` (first.Module): it \\</script> rests \\<b>there" in lines
    unbroken = "        * `dt == 1` (first.Module): it ticks; declared, and broken by no draw"
    assert unbroken in lines
    assert "        * a reason for LIF" in lines
    assert "It is broken: its process ended with signal 9" in lines


def test_the_committed_page_has_every_framework_and_nothing_wrong() -> None:
    from nirmap.registry import frameworks

    text = (ROOT / "generated" / "COVERAGE.md").read_text(encoding="utf-8")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == sorted(frameworks())
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 16
    assert not any("wrong" in row or "?" in row for row in rows)
