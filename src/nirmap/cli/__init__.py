"""The command line: ``nirmap``.

Exit codes: 0 done; 1 refused (a graph, a module or a declaration that cannot be used, or stale files); 2 the command
was called in a wrong way.
"""

from __future__ import annotations

import io
import sys

from nirmap.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or a file that lacks a character gets its escape, and no traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
