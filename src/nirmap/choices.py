"""Arguments that are one of a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from nirmap.errors import ConstraintError

Word = TypeVar("Word", bound=str)


def check_choice(value: object, known: Sequence[Word], where: str) -> Word:
    """The word that was asked for.

    Args:
        value: what was asked for.
        known: the words that there are.
        where: the argument, for errors.

    Raises:
        ConstraintError: there is none of that name.
    """
    for word in known:
        if isinstance(value, str) and value == word:
            return word
    raise ConstraintError(where, repr(value), " or ".join(map(repr, known)))
