"""Runs code of the user's: imports a module, makes a network. What goes wrong in there is told as theirs."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import typer

from nirmap.cli.text import shown
from nirmap.errors import NirmapError

Result = TypeVar("Result")


class UserCodeError(NirmapError):
    """Code of the user's raised an error while the command ran it."""


def load_object(path: str) -> Any:
    """The object at ``package.module:name``; modules in the current folder are found too.

    Raises:
        typer.BadParameter: there is no such module, or nothing of that name in it.
        UserCodeError: importing the module fails.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name or module_name.endswith(".py") or "/" in module_name:
        raise typer.BadParameter(
            f"{shown(path, None)}: expected package.module:name, such as my_models:make_net",
            param_hint="SOURCE",
        )
    folder = os.getcwd()  # noqa: PTH109 (an entry of sys.path is a text)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        value: Any = run_user_code(lambda: importlib.import_module(module_name), f"importing {module_name}")
    except UserCodeError as error:
        if _is_absent(error.__cause__, module_name):
            raise typer.BadParameter(
                f"there is no module {shown(module_name, None)}, neither installed nor in {folder}",
                param_hint="SOURCE",
            ) from error
        raise
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError as error:
            raise typer.BadParameter(
                f"{shown(module_name, None)} has no {shown(part, None)}", param_hint="SOURCE"
            ) from error
    return value


def _is_absent(error: BaseException | None, module_name: str) -> bool:
    """Whether an import failed since there is no such module, and not since something that it imports is absent."""
    return (
        isinstance(error, ModuleNotFoundError)
        and error.name is not None
        and (module_name == error.name or module_name.startswith(error.name + "."))
    )


def run_user_code(run: Callable[[], Result], doing: str) -> Result:
    """What the function returns.

    Args:
        run: calls code of the user's.
        doing: what it does, for the error: ``importing my_models``.

    Raises:
        UserCodeError: the code raised an error, or ended the program. Errors of nirmap pass.
    """
    try:
        return run()
    except NirmapError:
        raise
    except (Exception, SystemExit) as error:
        raise UserCodeError(
            f"{_place(error)} while {doing}",
            f"{type(error).__name__}: {error}",
            "your code to run; this error comes from it, and not from nirmap",
            f"run it in Python to see the whole traceback: python -c {_command(doing)}",
        ) from error


def _command(doing: str) -> str:
    module_name, _, name = doing.rpartition(" ")[2].partition(":")
    call = f"; {module_name}.{name}()" if name else ""
    return f"'import {module_name}{call}'"


def _place(error: BaseException) -> str:
    """``file:line`` of the error, in the innermost file that is not part of Python, torch or another library."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not _is_library(frame.filename)
    ]
    return f"{_short(frames[-1].filename)}:{frames[-1].lineno}" if frames else "your code"


def _is_library(filename: str) -> bool:
    own = Path(__file__).parents[1]
    standard = Path(os.__file__).parent
    path = Path(filename)
    return "site-packages" in path.parts or path.is_relative_to(own) or path.is_relative_to(standard)


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
