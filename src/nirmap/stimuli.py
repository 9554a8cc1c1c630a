"""What goes into a graph in a comparison: a column of a file, an array in a file, random numbers, or a constant."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from nirmap.errors import NirmapError

Array = npt.NDArray[np.float64]
# Steps of an input that has no length of its own.
DEFAULT_STEPS = 500
RANDOM, CONSTANT = "random", "constant"
_DELIMITERS = ",;\t"
_SHOWN_COLUMNS = 20


def stimulus(
    source: str,
    shape: tuple[int, ...],
    *,
    columns: Sequence[str] = (),
    steps: int | None = None,
    seed: int = 0,
    place: int = 0,
) -> Array:
    r"""The input that a text describes.

    Args:
        source: one of

            * ``random`` or ``random:HIGH``: each number is drawn evenly between 0 and HIGH, which is 1 if left out, by
              ``numpy.random.default_rng((seed, place)).uniform(0, HIGH, (T, 1, *shape))``
            * ``constant:VALUE``: this value in every step
            * the path of a ``.csv`` file; see :func:`read_columns`
            * the path of a ``.npy`` file with an array of shape (T,), (T, \*shape) or (T, B, \*shape)
        shape: shape of the Input node, without batch.
        columns: the columns of a CSV file, by name or position: one, which is fed to every element, or one for each
            element, in the order of the elements.
        steps: how many steps T; None for all that a file has, or for 500.
        seed: seed of random numbers.
        place: place of the Input node among those of the graph, sorted by name, so that no two draw the same.

    Returns:
        An array of shape (T,), (T, \*shape) or (T, B, \*shape), in float64.

    Raises:
        NirmapError: the source is none of these, a file cannot be read, a number in it is malformed, a column is not
            there, or there are fewer steps than asked for.
    """
    kind, colon, rest = source.partition(":")
    if is_generated(source):
        count = DEFAULT_STEPS if steps is None else steps
        value = _number(rest, source) if colon else 1.0
        if kind == CONSTANT:
            return np.full((count, *shape), value)
        low, high = sorted((0.0, value))
        return np.random.default_rng((seed, place)).uniform(low, high, (count, 1, *shape))
    path = Path(source)
    if not path.is_file():
        found = "it is a folder" if path.is_dir() else "there is no such file"
        raise NirmapError(
            f"input {source!r}", found, "a .csv or .npy file, random, random:HIGH or constant:VALUE"
        )
    if path.suffix.lower() == ".npy":
        return _cut(_read_array(path), steps, path)
    table = read_columns(path, columns)
    size = int(np.prod(shape))
    if table.shape[1] not in (1, size):
        raise NirmapError(
            f"input {source!r}",
            f"{table.shape[1]} columns for an Input of {size} elements, of shape {shape}",
            "one column, which every element gets, or one for each element",
        )
    return _cut(table[:, 0] if table.shape[1] == 1 else table.reshape(-1, *shape), steps, path)


def is_generated(source: str) -> bool:
    """Whether a source is random or constant, and no file."""
    kind, colon, _ = source.partition(":")
    return kind == RANDOM or (kind == CONSTANT and bool(colon))


def _number(text: str, source: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.inf
    if not np.isfinite(value):
        raise NirmapError(f"input {source!r}", f"{text!r} behind the colon", "a finite number")
    return value


def _cut(values: Array, steps: int | None, path: Path) -> Array:
    if steps is not None and steps > len(values):
        raise NirmapError(f"file {str(path)!r}", f"{len(values)} steps", f"at least {steps}, as asked for")
    return values[:steps]


def _read_array(path: Path) -> Array:
    where = f"file {str(path)!r}"
    try:
        # Mapped, so that a header that promises more than the file holds is found before memory is taken.
        array: Any = np.load(path, allow_pickle=False, mmap_mode="r")
    except (EOFError, OSError, ValueError) as error:
        raise NirmapError(
            where, f"it cannot be read ({error})", "an array as numpy.save writes it"
        ) from error
    if array.dtype.kind not in "fiub" or array.ndim == 0:
        raise NirmapError(
            where, f"an array of {array.dtype} and shape {array.shape}", "real numbers, time first"
        )
    return np.array(array, dtype=np.float64)


def read_columns(path: Path, columns: Sequence[str] = ()) -> Array:
    """Columns of a file of numbers, separated by commas, semicolons or tabs.

    Args:
        path: the file. A first line that holds anything but numbers gives the columns their names; ``#`` before it and
            empty lines are skipped.
        columns: each the name of a column, or its position, counted from 1. None are needed where the file has a single
            column, or one that is called ``input``.

    Returns:
        An array (lines, columns), in float64.

    Raises:
        NirmapError: there is no such column, a line has too few, a number is malformed, or there is no line of numbers.
    """
    where = f"file {str(path)!r}"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = _lines(file)
    except (UnicodeDecodeError, csv.Error) as error:
        raise NirmapError(where, f"it is no text of this kind ({error})", "a CSV file of numbers") from error
    names: list[str] = []
    if lines and not all(map(_is_number, lines[0][1])):
        names = [cell.removeprefix("#").strip() for cell in lines.pop(0)[1]]
    if not lines:
        raise NirmapError(where, "no line of numbers", "one line for each time step")
    width = len(lines[0][1])
    wanted = [_column(column, names, width, where) for column in columns] or [_only(names, width, where)]
    table = np.empty((len(lines), len(wanted)))
    for row, (number, cells) in enumerate(lines):
        for place, column in enumerate(wanted):
            cell = cells[column] if column < len(cells) else None
            if cell is None or not _is_number(cell):
                found = f"{len(cells)} columns" if cell is None else repr(cell)
                raise NirmapError(f"{path}:{number}", found, f"a finite number in column {column + 1}")
            table[row, place] = float(cell)
    return table


def _lines(file: TextIO) -> list[tuple[int, list[str]]]:
    """The lines that are not empty, with their numbers, cut at the delimiter that the first of them has."""
    start = file.tell()
    first = next((line for line in file.readlines() if line.strip()), "")
    file.seek(start)
    delimiter = next((mark for mark in _DELIMITERS if mark in first), ",")
    reader = csv.reader(file, delimiter=delimiter)
    return [
        (reader.line_num, [cell.strip() for cell in cells]) for cells in reader if any(map(str.strip, cells))
    ]


def _is_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _column(column: str, names: list[str], width: int, where: str) -> int:
    """The index of a column that is called by its name or by its position from 1."""
    if names.count(column) == 1:
        return names.index(column)
    if not names.count(column) and column.isdecimal() and 1 <= int(column) <= width:
        return int(column) - 1
    found = f"{names.count(column)} columns named {column!r}" if column in names else f"no column {column!r}"
    raise NirmapError(where, found, _choices(names, width), "name one of these with --column")


def _only(names: list[str], width: int, where: str) -> int:
    if width == 1:
        return 0
    if names.count("input") == 1:
        return names.index("input")
    raise NirmapError(
        where, f"{width} columns, and none chosen", _choices(names, width), "name one with --column"
    )


def _choices(names: list[str], width: int) -> str:
    positions = f"a position from 1 to {width}"
    if not names:
        return positions
    shown = ", ".join(map(repr, names[:_SHOWN_COLUMNS])) + (", ..." if len(names) > _SHOWN_COLUMNS else "")
    return f"{shown}, or {positions}"


def as_sources(texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The source of each Input node.

    Args:
        texts: sources, each for every Input node, or for one of them as ``NAME=SOURCE``.
        names: the names of the Input nodes.

    Raises:
        NirmapError: an Input node has two sources, or none.
    """
    general: list[str] = []
    own: dict[str, str] = {}
    for text in texts:
        name = next(
            (name for name in sorted(names, key=len, reverse=True) if text.startswith(f"{name}=")), None
        )
        if name is None:
            general.append(text)
        elif own.setdefault(name, text[len(name) + 1 :]) != text[len(name) + 1 :]:
            raise NirmapError(f"input {name!r}", "two sources", "one source for each Input")
    if len(general) > 1:
        listed = ", ".join(map(repr, names))
        raise NirmapError(
            "input", ", ".join(map(repr, general)), f"one source, or NAME=SOURCE for each of {listed}"
        )
    sources = {**(dict.fromkeys(names, general[0]) if general else {}), **own}
    missing = [name for name in names if name not in sources]
    if missing:
        raise NirmapError(
            f"input {missing[0]!r}", "no source", "one for each Input", f"add --input {missing[0]}=SOURCE"
        )
    return sources
