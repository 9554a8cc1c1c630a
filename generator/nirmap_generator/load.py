"""Reads a YAML file into plain data, and keeps the line and column of every key and value.

YAML has readers that disagree: YAML 1.1 takes ``no`` for a boolean and ``010`` for 8, YAML 1.2 takes them for
a text and for 10. Where they disagree the file is refused, with one exception: ``1e-4`` is the number that it
looks like. What remains is the data of JSON, written as YAML. No tag ever constructs a Python object.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml

from nirmap_generator.problems import DeclarationError, Problem, Problems, shortened, shown_path

MAXIMUM_BYTES = 2**20
MAXIMUM_DEPTH = 50
# Far beyond every number that means something, and below the limits of Python's own conversion.
MAXIMUM_DIGITS = 300

# libyaml's parser where PyYAML has it; the slower one in Python gives the same data and positions.
LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Location = tuple[int, int]
DataPath = tuple[str | int, ...]

_CONSTANTS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_OLD_BOOLEANS = frozenset(
    spelling for word in ("yes", "no", "on", "off") for spelling in (word, word.capitalize(), word.upper())
)
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_QUOTE = "put it in quotes if it is a text"
# Spellings that YAML 1.1 and 1.2 read differently, or that JSON has no number for:
# the pattern, what it matches, what to write instead.
_AMBIGUOUS = (
    (re.compile(r"[-+]?0[box][0-9a-fA-F_]+"), "a number that is not decimal", "a decimal number"),
    (
        re.compile(r"[-+]?0[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?"),
        "a number with leading zeros, which YAML 1.1 reads in base 8",
        "a number without them",
    ),
    (
        re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"),
        "digits with colons, which YAML 1.1 reads in base 60",
        "a decimal number",
    ),
    (
        re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"),
        "a number that is not finite",
        "a finite number",
    ),
    (
        re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9].*)?"),
        "a date",
        "a text or a number",
    ),
    (re.compile(r"="), "an equals sign, which YAML 1.1 reads as a default", "a text"),
    (re.compile(r"<<"), "a merge key", "the keys written out"),
)
# How the parsers say that something else was expected: what, and (PyYAML's own) instead of what.
_MISSES = re.compile(r"(?:(?:did|could) not find (?:the )?)?expected (.*?)(?:, but (?:found|got) (.*))?")
# Characters that YAML forbids, or that YAML takes for the end of a line and editors do not.
_FORBIDDEN = re.compile(
    "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Document:
    """The content of one YAML file.

    Attributes:
        file: the name that messages show.
        data: dictionaries with keys of type str, lists, str, int, finite float, bool and None.
        digest: SHA-256 of the file's bytes with line endings normalised to Unix ones, in hexadecimal digits.
    """

    file: str
    data: Any
    digest: str
    positions: Mapping[DataPath, Location] = field(repr=False)
    key_positions: Mapping[DataPath, Location] = field(repr=False)

    def position(self, path: DataPath) -> Location:
        """Line and column, from 1, where the value at the path starts.

        A path that is not in the document has the position of the innermost value around it that is, so that
        a missing key is reported at the mapping that lacks it.
        """
        while path not in self.positions:
            path = path[:-1]
        return self.positions[path]

    def key_position(self, path: DataPath) -> Location:
        """Line and column, from 1, of the key that the path ends in; of the value where that is no key."""
        return self.key_positions.get(path) or self.position(path)


def load(path: Path | str, *, shown_as: str | None = None) -> Document:
    """Read one YAML file.

    Args:
        path: the file.
        shown_as: the name of the file in messages and in the document; the path itself if None.

    Raises:
        DeclarationError: the file cannot be read, is larger than 1 MiB, is not UTF-8, is not YAML, is empty,
            or says something that is refused: a key twice, a key that is not a text, a tag, an anchor or
            alias, a merge key, a second document, a directive, nesting deeper than 50, a value that YAML 1.1
            and 1.2 read differently. All problems of the file are in the error, up to the first that makes
            the rest unreadable.
    """
    file = Path(path).as_posix() if shown_as is None else shown_as
    content = _content(Path(path), file)
    text = _text(content, file)
    builder = _Builder(file, text)
    data = builder.stream()
    builder.problems.raise_if_any()
    digest = hashlib.sha256(content).hexdigest()
    return Document(file, data, digest, builder.positions, builder.key_positions)


def _fail(file: str, location: Location, found: str, expected: str, do: str = "") -> DeclarationError:
    return DeclarationError([Problem(file, *location, "", found, expected, do)])


def _content(path: Path, file: str) -> bytes:
    """The bytes of the file, with line endings normalised."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAXIMUM_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _fail(file, (1, 1), f"no file to read ({reason})", "a YAML file") from error
    if len(content) > MAXIMUM_BYTES:
        raise _fail(file, (1, 1), "a file of more than 1 MiB", "at most 1 MiB", "split the declarations")
    return content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _text(content: bytes, file: str) -> str:
    """The characters of the file, without a byte order mark; every one of them may stand in YAML."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A decoder that drops the byte order mark counts from behind it.
        before = error.object[: error.start].decode("utf-8")
        byte = error.object[error.start]
        found = f"the byte 0x{byte:02x}, which is not UTF-8"
        raise _fail(file, _end_of(before), found, "a file in UTF-8", "save the file as UTF-8") from error
    forbidden = _FORBIDDEN.search(text)
    if forbidden is not None:
        character = ord(forbidden.group())
        found = f"the character U+{character:04X}"
        do = f'write it as "\\u{character:04x}" in double quotes'
        raise _fail(file, _end_of(text[: forbidden.start()]), found, "printable characters", do)
    return text


def _end_of(text: str) -> Location:
    """The position behind the text."""
    return text.count("\n") + 1, len(text) - text.rfind("\n")


class _Refused(Exception):
    """A plain scalar that is not read: what it is, and what was expected."""

    def __init__(self, found: str, expected: str, do: str = _QUOTE) -> None:
        super().__init__(found, expected, do)
        self.found, self.expected, self.do = found, expected, do


def _plain(text: str) -> str | int | float | bool | None:
    """The value of a scalar without quotes.

    Raises:
        _Refused: the spelling has no value that all readers agree on.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text in _OLD_BOOLEANS:
        raise _Refused(f"{text}, which YAML 1.1 reads as a boolean", "true or false")
    if text[0] not in "+-.0123456789=<":
        return text
    if _FLOAT.fullmatch(text):
        return _number(text)
    digits = text.replace("_", "")
    for pattern, found, expected in _AMBIGUOUS:
        if pattern.fullmatch(digits):
            raise _Refused(f"{shortened(text)}, {found}", expected)
    if digits != text and _FLOAT.fullmatch(digits):
        raise _Refused(f"{shortened(text)}, a number with underscores", "plain digits")
    return text


def _value_of(event: Any) -> str | int | float | bool | None:
    """The value of a scalar event.

    Raises:
        _Refused: the scalar is not read.
    """
    if _SURROGATE.search(event.value):
        raise _Refused(
            "an escape of half a character", "the character itself", "or its escape with \\U and 8 digits"
        )
    return _plain(event.value) if event.implicit[0] else str(event.value)


def _number(text: str) -> int | float:
    if len(text) > MAXIMUM_DIGITS:
        raise _Refused(f"a number of {len(text)} characters", f"at most {MAXIMUM_DIGITS}")
    if _INTEGER.fullmatch(text):
        return int(text)
    value = float(text)
    if math.isinf(value):
        raise _Refused(f"{text}, which is beyond the largest number", "a number that a float can hold")
    return value


def _location(mark: Any) -> Location:
    return mark.line + 1, mark.column + 1


def _character(text: str, location: Location) -> str:
    """The character at the position; empty at the end of its line."""
    line, column = location
    return "".join(text.split("\n")[line - 1 : line])[column - 1 : column]


def _context(error: yaml.MarkedYAMLError) -> str:
    """What the parser was at when it met the error."""
    line = f" that starts in line {error.context_mark.line + 1}" if error.context_mark else ""
    return f"{error.context}{line}" if error.context else ""


class _Builder:
    """Builds data from the events of the YAML parser, noting positions and problems on the way."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.problems = Problems()
        self.positions: dict[DataPath, Location] = {}
        self.key_positions: dict[DataPath, Location] = {}
        self._last: Location = (1, 1)
        self._events = self._parse(text)

    def _parse(self, text: str) -> Iterator[Any]:
        """All events; a text that is not YAML ends in an error that tells the earlier problems too."""
        try:
            for event in yaml.parse(text, Loader=LOADER):
                self._last = _location(event.start_mark)
                yield event
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            # The parsers may point behind the last line, which they end if the file does not.
            location = self._last if mark is None else min(_location(mark), _end_of(text))
            found, expected = (error.problem or "").removeprefix("found "), "valid YAML"
            if _character(text, location) == "\t":
                found, expected = "a tab", "spaces"
            elif misses := _MISSES.fullmatch(error.problem or ""):
                found, expected = misses[2] or "something else", misses[1]
            self._stop(error, location, found, expected, _context(error))
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            # Errors of Python's own conversions come through the parsers, as for an escape that names no character.
            self._stop(error, self._last, f"something that cannot be read ({error})", "valid YAML")

    def _stop(
        self, error: Exception, location: Location, found: str, expected: str, do: str = ""
    ) -> NoReturn:
        self.problems.add(Problem(self.file, *location, "", found, expected, do))
        raise DeclarationError(self.problems) from error

    def _refuse(self, location: Location, path: DataPath, found: str, expected: str, do: str = "") -> None:
        self.problems.add(Problem(self.file, *location, shown_path(path), found, expected, do))

    def stream(self) -> Any:
        """The data of the first document; that there is none or another one is a problem."""
        roots: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if roots:
                    found, do = "a second document", "put it in a file of its own"
                    self._refuse(_location(event.start_mark), (), found, "one document", do)
                roots.append(self._document(event))
        if not roots:
            self._refuse((1, 1), (), "an empty file", "declarations")
        return roots[0] if roots else None

    def _document(self, start: Any) -> Any:
        """The data of the document that starts with the event."""
        if start.version or start.tags:
            self._refuse(_location(start.start_mark), (), "a directive", "no line that starts with %")
        root = next(self._events)
        if isinstance(root, yaml.ScalarEvent) and root.implicit[0] and not root.value:
            self._refuse(_location(root.start_mark), (), "an empty document", "declarations")
        return self._value(root, (), 1)

    def _value(self, event: Any, path: DataPath, depth: int) -> Any:
        """The value that starts with the event."""
        location = _location(event.start_mark)
        self.positions[path] = location
        if isinstance(event, yaml.AliasEvent):
            found = f"the alias *{shortened(str(event.anchor))}"
            self._refuse(location, path, found, "the value itself", "write it out")
            return None
        if event.anchor is not None:
            found = f"the anchor &{shortened(event.anchor)}"
            self._refuse(location, path, found, "no anchor", "write the value out where it is needed")
        if event.tag is not None:
            found = f"the tag {shortened(event.tag)}"
            self._refuse(location, path, found, "a value without a tag", "leave the tag out")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, location, path)
        if depth > MAXIMUM_DEPTH:
            self._refuse(location, path, "a value nested deeper", f"at most {MAXIMUM_DEPTH} levels")
            raise DeclarationError(self.problems)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._mapping(path, depth)

    def _scalar(self, event: Any, location: Location, path: DataPath) -> Any:
        try:
            return _value_of(event)
        except _Refused as error:
            self._refuse(location, path, error.found, error.expected, error.do)
            return None

    def _sequence(self, path: DataPath, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items)), depth + 1))
        return items

    def _mapping(self, path: DataPath, depth: int) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            location = _location(event.start_mark)
            key = self._key(event, path, depth)
            here = (*path, key)
            if key in entries:
                line = self.key_positions[here][0]
                self._refuse(
                    location,
                    here,
                    f"the key {shortened(repr(key))} again",
                    "each key once",
                    f"the first is in line {line}",
                )
            else:
                self.key_positions[here] = location
            value = self._value(next(self._events), here, depth + 1)
            entries.setdefault(key, value)
        return entries

    def _key(self, event: Any, path: DataPath, depth: int) -> str:
        """The key; one that is not a text is a problem, and gets a name of its own."""
        location = _location(event.start_mark)
        simple = isinstance(event, yaml.ScalarEvent) and event.anchor is None and event.tag is None
        found, expected, do = "a key that is not a text", "a text as a key", "put the key in quotes"
        if simple:
            try:
                key = _value_of(event)
            except _Refused as error:
                found = f"the key {error.found}"
                expected, do = (error.expected, "write them out") if event.value == "<<" else (expected, do)
            else:
                if isinstance(key, str):
                    return key
                found = f"the key {shortened(event.value) or 'that is empty'}, which is not a text"
        else:
            self._value(event, (*path, "?"), depth + 1)
        self._refuse(location, path, found, expected, do)
        return f"? in line {location[0]}, column {location[1]}"
