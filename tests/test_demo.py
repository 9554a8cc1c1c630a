"""`make demo`. If this fails, the first thing that a newcomer sees is an error, or a claim that is not true."""

from __future__ import annotations

import re
import runpy

import pytest

from commands import ROOT
from nirmap.registry import frameworks


def test_the_demo_shows_equal_spikes_in_every_framework(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert re.search(r"written +small\.nir: [\d,]+ bytes", shown)
    assert re.search(r"lif +nir\.LIF +-> fc2", shown)
    rows = re.findall(r"^ (\w+) +\w+ +([\d,]+) +(\d+) +(\S+) V", shown, re.MULTILINE)
    assert {framework for framework, *_ in rows} == set(frameworks())
    (spikes,) = {int(count.replace(",", "")) for _, count, _, _ in rows}
    assert spikes > 1000
    assert {different for _, _, different, _ in rows} == {"0"}
    assert max(float(difference) for *_, difference in rows) < 1e-5
    assert "found: snntorch, node 'lif', nir.LIF with v_reset = 0, v_threshold = -0.05" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_make_demo_regenerates_runs_and_shows_the_coverage() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe
    commands = [line.strip().removeprefix("$(BIN)/") for line in recipe[1].splitlines()]
    assert commands == ["nirmap generate", "python examples/demo.py", "nirmap audit"]
