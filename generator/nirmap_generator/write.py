"""Writes generated files, each whole or not at all, and compares them with those of a folder."""

from __future__ import annotations

import difflib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Changes:
    """What became of the files of a folder: their names, sorted."""

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


def write_files(folder: Path, files: Mapping[str, str], *, owned: Callable[[str], bool]) -> Changes:
    """Make a folder hold the files.

    Each file is written to a temporary file beside it, which then takes its place, so that nobody ever sees
    half a file. A file that has the text already is not touched and keeps its time stamp. Text is stored as
    UTF-8 with Unix line ends, whatever the platform and the locale.

    Args:
        folder: created if it is missing.
        files: text by name, relative to the folder, with ``/`` between the parts.
        owned: whether an existing file, by its name, is one that was written here before: such a file is
            deleted if it is not in ``files``. Files that are not owned stay.

    Raises:
        ValueError: a name leads out of the folder, or a text cannot be stored as UTF-8; nothing was changed.
        OSError: a file cannot be read, written or deleted. Files before it, in the order of their names, are
            written, no temporary file is left.
    """
    contents = _contents(files)
    written: list[str] = []
    unchanged: list[str] = []
    for name, content in contents.items():
        target = folder / name
        if _stored(target) == content:
            unchanged.append(name)
        else:
            _replace(target, content)
            written.append(name)
    deleted = _left_over(folder, contents, owned)
    for name in deleted:
        (folder / name).unlink()
    return Changes(tuple(written), tuple(unchanged), tuple(deleted))


def compare_files(folder: Path, files: Mapping[str, str], owned: Callable[[str], bool]) -> list[str]:
    """What ``write_files`` would change: a unified diff for each stale, missing and left-over file, by name.

    Nothing is changed. The list is empty if and only if ``write_files`` would write and delete nothing. Each
    diff can be applied with ``git apply`` or ``patch -p1``.

    Raises:
        ValueError: as for ``write_files``.
        OSError: a file cannot be read.
    """
    contents = _contents(files)
    diffs: dict[str, str] = {}
    for name, content in contents.items():
        stored = _stored(folder / name)
        if stored != content:
            diffs[name] = _diff(name, stored, content)
    for name in _left_over(folder, contents, owned):
        diffs[name] = _diff(name, _stored(folder / name), None)
    return [diffs[name] for name in sorted(diffs)]


def _contents(files: Mapping[str, str]) -> dict[str, bytes]:
    """The bytes to store, by name, sorted."""
    contents: dict[str, bytes] = {}
    for name, text in sorted(files.items()):
        path = PurePosixPath(name)
        if "\\" in name or path.is_absolute() or ".." in path.parts or path.as_posix() != name or name == ".":
            raise ValueError(
                f"file name {name!r}: expected a path inside the folder, like 'package/module.py'"
            )
        contents[name] = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8")
    return contents


def _stored(path: Path) -> bytes | None:
    """The content of the file, None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _left_over(folder: Path, contents: Mapping[str, bytes], owned: Callable[[str], bool]) -> list[str]:
    """Names of the owned files that are no longer written, sorted."""
    names = [
        (Path(parent) / name).relative_to(folder).as_posix()
        for parent, _, here in os.walk(folder)
        for name in here
    ]
    return sorted(name for name in names if name not in contents and owned(name))


def _replace(target: Path, content: bytes) -> None:
    """Put the content in the place of the file in one step; it takes over the old file's permissions."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _diff(name: str, stored: bytes | None, content: bytes | None) -> str:
    """The unified diff from the stored to the new content; None is a file that is not there."""
    before = "/dev/null" if stored is None else f"a/{name}"
    after = "/dev/null" if content is None else f"b/{name}"
    # Lines that differ only in how they end look the same: say so, where a reader of diffs takes it for a
    # time stamp.
    stamp = "with carriage returns" if b"\r" in (stored or b"") else ""
    lines = list(difflib.unified_diff(_lines(stored), _lines(content), before, after, stamp))
    return "".join(lines) or f"--- {before}\n+++ {after}\n"


def _lines(content: bytes | None) -> list[str]:
    """The lines with their ends; a last line that has none is marked as diffs mark it."""
    text = (content or b"").decode("utf-8", errors="replace")
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()
    return lines if last == "\n" else [*lines, last + "\\ No newline at end of file\n"]
