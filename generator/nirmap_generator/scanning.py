"""The tokens of the expression language: what a text is made of before Python's parser sees it."""

from __future__ import annotations

import keyword
import re
from typing import NoReturn

MAX_DEPTH = 30

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\n]+)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<operator>\*\*|//|==|!=|<=|>=|[-+*/%<>(),.\[\]])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"""\\(?:[\\'"abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})""")
_KEYWORDS = frozenset({"and", "or", "not", "is", "if", "else", "None", "True", "False"})
_CLOSING = {")": "(", "]": "["}
# Attributes by which Python's frames and functions lead to everything else, although they begin with a letter.
_INTROSPECTION = frozenset(
    {"ag_code", "ag_frame", "cr_code", "cr_frame", "f_back", "f_builtins", "f_code", "f_globals", "f_locals"}
    | {"func_closure", "func_code", "func_globals", "gi_code", "gi_frame", "mro", "tb_frame", "tb_next"}
)


class ExpressionError(ValueError):
    """A text is not in the language.

    Attributes:
        column: where, as an offset into the text, from 0.
        found: what stands there.
        expected: what could stand there.
    """

    def __init__(self, column: int, found: str, expected: str) -> None:
        self.column = column
        self.found = found
        self.expected = expected
        super().__init__(column, found, expected)

    def __str__(self) -> str:
        return f"column {self.column + 1}: found {self.found}, expected {self.expected}"


def check_tokens(text: str) -> None:
    """Check that a text consists of the language's tokens, and that its brackets match.

    Raises:
        ExpressionError: it does not, or they do not.
    """
    brackets: list[tuple[str, int]] = []
    position, previous = 0, ""
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or token.lastgroup is None:
            _refuse_character(text, position)
        word = token.group()
        if token.lastgroup == "name":
            _check_word(word, position, text[token.end() : token.end() + 1])
        elif token.lastgroup == "number":
            _check_number_ends(token, text)
        elif token.lastgroup == "string":
            _check_string(word, position)
            if previous == "string":
                raise ExpressionError(position, "a text after a text", "an operator or a comma between them")
        elif word in ("(", "["):
            brackets.append((word, position))
            if len(brackets) > MAX_DEPTH:
                raise ExpressionError(
                    position, "brackets nested too deeply", f"a depth of at most {MAX_DEPTH}"
                )
        elif word in _CLOSING and (not brackets or brackets.pop()[0] != _CLOSING[word]):
            raise ExpressionError(position, f"{word!r}", f"a {_CLOSING[word]!r} that it closes")
        previous = previous if token.lastgroup == "space" else token.lastgroup
        position = token.end()
    if not previous:
        raise ExpressionError(0, "nothing", "an expression")
    if brackets:
        raise ExpressionError(
            brackets[-1][1], f"{brackets[-1][0]!r} that is never closed", "its closing bracket"
        )


def _refuse_character(text: str, position: int) -> NoReturn:
    character = text[position]
    expected = "a number, a text, a name, an operator or a bracket"
    if character in "'\"":
        raise ExpressionError(
            position, f"a text without its closing {character}", f"{character} on the same line"
        )
    if character == "=":
        expected = "'==' for a comparison"
    if character == "^":
        expected = "'**' for a power"
    raise ExpressionError(position, f"the character {character!a}", expected)


def _check_word(word: str, position: int, following: str) -> None:
    if word.startswith("_"):
        raise ExpressionError(position, f"the name {word!r}", "a name that does not begin with an underscore")
    if word in _INTROSPECTION:
        raise ExpressionError(
            position, f"the name {word!r}", "a name that does not lead into Python's own workings"
        )
    if keyword.iskeyword(word) and word not in _KEYWORDS:
        allowed = ", ".join(sorted(_KEYWORDS))
        raise ExpressionError(position, f"the keyword {word!r}", f"a name, or one of the keywords {allowed}")
    if following and following in "'\"":
        raise ExpressionError(position, f"{word!r} before a text", "a text in plain quotes")


def _check_number_ends(token: re.Match[str], text: str) -> None:
    end = token.end()
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    if end > token.end():
        found = ascii(text[token.start() : end])
        raise ExpressionError(token.start(), found, "a decimal number, apart from what follows it")


def _check_string(word: str, position: int) -> None:
    """Every character of a text can be seen, and every escape is one that Python knows."""
    index = 0
    while index < len(word):
        escape = _ESCAPE.match(word, index)
        if escape is not None:
            index = escape.end()
            continue
        if word[index] == "\\":
            raise ExpressionError(position + index, f"the escape {word[index : index + 2]!a}", "a known one")
        if not word[index].isprintable():
            raise ExpressionError(position + index, f"the invisible character {word[index]!a}", "its escape")
        index += 1
