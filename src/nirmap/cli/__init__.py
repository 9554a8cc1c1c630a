"""The command line: ``nirmap``."""

from __future__ import annotations

import sys

from nirmap.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Runs the command line; errors that nirmap raises on purpose are shown without a traceback, with exit code 1."""
    from rich.console import Console
    from rich.text import Text

    from nirmap.errors import NirmapError
    from nirmap_generator.problems import DeclarationError

    try:
        app()
    except NirmapError as error:
        message = Text.assemble(("error: ", "bold red"), error.where, "\n")
        for label, text in (("found", error.found), ("expected", error.expected), ("do", error.do)):
            if text:
                message.append(f"  {label}: ", style="bold").append(text + "\n")
        Console(stderr=True, soft_wrap=True).print(message, end="")
        sys.exit(1)
    except DeclarationError as error:
        Console(stderr=True, soft_wrap=True).print(Text(str(error)))
        sys.exit(1)
