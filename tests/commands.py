"""Runs the commands of nirmap, for the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nir
import numpy as np
from typer.testing import CliRunner

from nirmap.cli import app

Result = Any  # of CliRunner: exit_code, stdout, stderr, output
ROOT = Path(__file__).parents[1]


def invoke(*arguments: str | Path, columns: int = 80) -> Result:
    """Runs a command in a terminal of so many columns, without colour."""
    environment = {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def run_alone(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a process of its own."""
    paths = os.pathsep.join(str(ROOT / name) for name in ("src", "generator", "generated"))
    return subprocess.run(
        [sys.executable, "-c", "from nirmap.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "80", **environment},
    )


def neurons(size: int = 3) -> nir.NIRNode:
    """Some LIF neurons that are all alike."""
    ones = np.ones(size)
    return nir.LIF(ones * 0.02, ones, ones * 0, ones * 0.25, v_reset=ones * 0)
