"""What all commands share in writing to a terminal.

Names, metadata and messages may come from a file that nobody vouches for. They never reach the terminal as they are:
rich gets them as :class:`rich.text.Text`, which has no markup, and characters that a terminal obeys instead of showing
them (escape sequences, line breaks, changes of the writing direction) are shown as Python escapes.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Characters of a name that are shown, unless all are asked for.
NAME_LIMIT = 60
# Lines of a list (nodes, edges, ...) that are shown, unless all are asked for.
LINE_LIMIT = 40
# A table in a narrower terminal would be unreadable; there the terminal breaks the lines.
LEAST_WIDTH = 60


def help_text(summary: str, *paragraphs: str, examples: Iterable[str]) -> str:
    """The help of a command. The terminal breaks the lines; examples have a line each."""
    commands = "\n".join(f"  {example}" for example in examples)
    return "\n\n".join([summary, *paragraphs, f"Examples:\n{commands}"])


def escaped(text: str) -> str:
    """The text, with everything that is not printable as a Python escape; line breaks too."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shown(name: str, limit: int | None = NAME_LIMIT) -> str:
    """A name as a line can show it: as it is where it is plain, else as Python writes it, in quotes.

    Args:
        name: any text.
        limit: how many of its characters are shown; the others are counted. None for all of them.
    """
    cut = name if limit is None or len(name) <= limit else name[:limit]
    is_plain = cut.isprintable() and cut and cut == cut.strip() and "\\" not in cut and cut[0] not in "'\""
    text = cut if is_plain else escaped(repr(cut))
    return text if len(cut) == len(name) else f"{text}... ({len(name):,} characters)"


def output() -> Console:
    """The console for results."""
    return _console(stderr=False)


def messages() -> Console:
    """The console for everything else: progress, warnings, errors."""
    return _console(stderr=True)


def _console(stderr: bool) -> Console:
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if console.width < LEAST_WIDTH:
        console = Console(
            stderr=stderr, markup=False, highlight=False, emoji=False, width=LEAST_WIDTH, soft_wrap=True
        )
    return console


def write(line: str, style: str = "") -> None:
    """One line of a result, whole: where it is too long, the terminal breaks it."""
    from rich.text import Text

    output().print(Text(escaped(line), style=style), soft_wrap=True)


def note(line: str) -> None:
    """One line beside the result, on stderr."""
    from rich.text import Text

    messages().print(Text(escaped(line), style="dim"), soft_wrap=True)


def table(*columns: str) -> Table:
    """An empty table whose columns break long text instead of cutting it."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def add_row(to: Table, *cells: str | tuple[str, str]) -> None:
    """Adds a row; a cell is a text, which may have several lines, or a text and its style."""
    from rich.text import Text

    texts: list[Text] = []
    for cell in cells:
        text, style = (cell, "") if isinstance(cell, str) else cell
        texts.append(Text("\n".join(escaped(line) for line in text.split("\n")), style=style))
    to.add_row(*texts)


def limited(entries: Iterable[Any], show_all: bool, limit: int = LINE_LIMIT) -> tuple[list[Any], int]:
    """The entries to show, and how many are hidden."""
    every = list(entries)
    return (every, 0) if show_all else (every[:limit], max(0, len(every) - limit))


def hidden(count: int, what: str) -> None:
    """Says that something is not shown, and how to see it."""
    if count:
        write(f"... and {count:,} more {what}, hidden here: --all shows everything", style="yellow")


@contextlib.contextmanager
def status(text: str) -> Generator[None]:
    """Shows on a terminal that something is going on; leaves no trace in files and pipes."""
    # Asked of the stream itself: rich takes every stream for a terminal where colours are forced, as in logs of CI.
    if not sys.stderr.isatty():
        yield
        return
    from rich.text import Text

    with messages().status(Text(escaped(text))):
        yield


def show_refusal(where: str, parts: Iterable[tuple[str, str]] = ()) -> None:
    """An error: the place, and below it what was found, what was expected and what to do; empty parts are left out."""
    from rich.text import Text

    message = Text.assemble(("error: ", "bold red"), escaped(where))
    for label, text in parts:
        for index, line in enumerate(text.split("\n") if text else ()):
            begin = f"\n  {label}: " if index == 0 else "\n    "
            message.append(begin, style="bold").append(escaped(line))
    messages().print(message, soft_wrap=True)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning on one line; takes the place of ``warnings.showwarning``."""
    from rich.text import Text

    is_meant_for_users = issubclass(category, UserWarning)
    place = "" if is_meant_for_users else f" ({category.__name__}, {filename}:{lineno})"
    text = Text.assemble(("warning: ", "bold yellow"), escaped(f"{message}{place}"))
    messages().print(text, soft_wrap=True)
