"""If these fail, the oracle shares code with what it judges, and a fault there can hide from every comparison."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import nirmap.oracle

_FOLDER = Path(nirmap.oracle.__file__).parent
_FILES = sorted(_FOLDER.rglob("*.py"))
_ALLOWED = {"nir", "numpy", "nirmap.oracle", *sys.stdlib_module_names}
_LOADED = """
import sys
import nirmap.oracle.interpreter
print(*(name for name in sys.modules if name.partition(".")[0] in ("torch", "nirmap", "nirmap_registry")))
"""


def _imported(file: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for statement in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        if isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, "a relative import"
            found.add(statement.module or "")
    return found


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.name)
def test_it_imports_nothing_but_numpy_and_nir(file: Path) -> None:
    for name in _imported(file):
        assert name.partition(".")[0] in _ALLOWED or name.startswith("nirmap.oracle"), name


def test_every_file_is_looked_at() -> None:
    assert {"interpreter.py", "spatial.py", "feedback.py"} <= {file.name for file in _FILES}


def test_nothing_else_is_loaded_with_it() -> None:
    paths = [str(_FOLDER.parents[1]), *sys.path]
    program = f"import sys; sys.path[:0] = {paths!r}\n{_LOADED}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert loaded == {
        "nirmap",
        "nirmap.oracle",
        "nirmap.oracle.interpreter",
        "nirmap.oracle.spatial",
        "nirmap.oracle.feedback",
        "nirmap.oracle.equations",
        "nirmap.oracle.exponential",
        "nirmap.oracle.inputs",
        "nirmap.oracle.nodes",
    }
