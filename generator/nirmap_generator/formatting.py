"""Formats generated Python modules with ruff."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

LINE_LENGTH = 110


def formatted(texts: Mapping[str, str]) -> dict[str, str]:
    """All texts sorted in their imports, cleaned of unused ones, and formatted; one call of ruff for all of them."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="nirmap-") as folder:
        # In a package of their own, so that a registry called torch.py is not taken for the torch that it imports.
        root = Path(folder) / "nirmap_registry"
        root.mkdir()
        for name, text in texts.items():
            (root / name).write_text(text, encoding="utf-8", newline="\n")
        options = ["--isolated", "--quiet", "--no-cache", "--config", f"line-length = {LINE_LENGTH}"]
        own = "lint.isort.known-first-party = ['nirmap', 'nirmap_registry']"
        _ruff(["check", "--select", "I,F401", "--fix", *options, "--config", own, "."], Path(folder))
        _ruff(["format", *options, "--config", "format.skip-magic-trailing-comma = true", "."], Path(folder))
        return {name: (root / name).read_text(encoding="utf-8") for name in texts}


def _ruff(arguments: list[str], folder: Path) -> None:
    from ruff import find_ruff_bin

    done = subprocess.run(
        [find_ruff_bin(), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"ruff {arguments[0]} failed on generated code:\n{done.stdout}{done.stderr}")
