"""Frameworks of another package, of which each has something wrong, as if the package were installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nirmap.registry import load_registry

# The modules of the framework torch, but for a LIF whose time constant is one percent too long, and an LI that cannot
# be made at all.
_WRONG = """
from dataclasses import replace
from nirmap_registry import torch as built_in

def build(node, dt, to):
    return LIF.build({**node, "tau": 1.01 * node["tau"]}, dt, to)

def raises(node, dt, to):
    raise AttributeError("this constructor is out of order")

LIF = next(row for row in built_in.REGISTRY.rows if row.node == "LIF")
BUILDS = {"LIF": build, "LI": raises}
ROWS = tuple(replace(row, build=BUILDS.get(row.node, row.build)) for row in built_in.REGISTRY.rows)
REGISTRY = replace(built_in.REGISTRY, framework="wrongsnn", rows=ROWS)
"""
MODULES = {
    "wrongsnn": _WRONG,
    "absentsnn": "import a_framework_that_nobody_installed\n",
    "brokensnn": "raise RuntimeError('this framework is broken')\n",
    "deadsnn": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "leavingsnn": "import os, sys\nprint('out of here', file=sys.stderr, flush=True)\nos._exit(3)\n",
}


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the frameworks known, to the processes that are started as well."""
    package = folder / "oddsnn"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, text in MODULES.items():
        (package / f"{name}.py").write_text(text)
    # A known framework that is not installed: whatever there is of it comes later on the path.
    (folder / "norse").mkdir()
    (folder / "norse" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'norse'\", name='norse')\n"
    )
    metadata = folder / "oddsnn-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: oddsnn\nVersion: 1.0\n")
    entries = "".join(f"{name} = oddsnn.{name}\n" for name in MODULES)
    (metadata / "entry_points.txt").write_text(f"[nirmap.frameworks]\n{entries}")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    load_registry.cache_clear()
