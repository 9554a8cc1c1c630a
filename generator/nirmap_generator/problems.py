"""What is wrong with a declaration, and where: problems are collected, and raised all at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Keys that read well after a dot; every other key is quoted in a path.
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong at one place of one file.

    ``line`` and ``column`` count from 1, columns in characters. ``path`` is the place in the document, as in
    ``nodes.LIF[0].build.beta``, and empty for the whole of it. Problems are ordered by file, line and column.
    """

    file: str
    line: int
    column: int
    path: str
    found: str
    expected: str
    do: str = ""

    def __str__(self) -> str:
        """The problem on one line: ``file:line:column: path: found ..., expected ...; what to do``."""
        place = f"{self.file}:{self.line}:{self.column}: " + (f"{self.path}: " if self.path else "")
        text = f"{place}found {self.found}, expected {self.expected}" + (f"; {self.do}" if self.do else "")
        return " ".join(text.splitlines())


class DeclarationError(ValueError):
    """Declarations cannot be used as they are.

    ``problems`` holds every problem once, sorted by file, line and column; the message has one line for each.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(sorted(set(problems)))
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class Problems:
    """Collects problems, so that one run shows all of them."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Remember one problem."""
        self._found.append(problem)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Remember several problems."""
        self._found.extend(problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Go on if nothing was added.

        Raises:
            DeclarationError: with all problems that were added.
        """
        if self._found:
            raise DeclarationError(self._found)


def shortened(text: str, length: int = 80) -> str:
    """The text, or its beginning and three dots where it is longer than ``length`` characters."""
    return text if len(text) <= length else text[: length - 3] + "..."


def shown_path(path: Iterable[str | int]) -> str:
    """A path as people write it: ``nodes.LIF[0].build.beta``; a key that is not a plain word is quoted.

    >>> shown_path(("nodes", "LIF", 0, "holds", "p.reset_method"))
    "nodes.LIF[0].holds['p.reset_method']"
    """
    text = ""
    for key in path:
        if isinstance(key, str) and _PLAIN_KEY.fullmatch(key):
            text += f".{key}" if text else key
        else:
            text += f"[{shortened(repr(key))}]"
    return text
