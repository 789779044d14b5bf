"""Mistakes in a text: each with its place, what is wrong and what to do; all of a file are told at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from casehub.errors import DefinitionError, Problem, nearest


class Place(NamedTuple):
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Mistakes:
    """Those of one file, as they are found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: dict[Place, Problem] = {}

    def note(self, place: Place, subject: str, reason: str, remedy: str) -> None:
        """Note one; of several at the same place the first is kept, as the others follow from it."""
        self._found.setdefault(place, Problem(subject, reason, remedy, str(place)))

    def known(self, first: int, last: int) -> bool:
        """Whether a mistake in these lines is known."""
        return any(first <= place.line <= last for place in self._found)

    def __len__(self) -> int:
        return len(self._found)

    def error(self, definition: str) -> DefinitionError:
        """All of them, in the order of the text."""
        return DefinitionError(definition, [self._found[place] for place in sorted(self._found)])


def instead(name: str, known: Iterable[str]) -> str:
    """A remedy for a name that is none: the nearest one, or all that there are."""
    names = list(known)
    near = nearest(name, names) or next((each for each in names if each.casefold() == name.casefold()), None)
    if near is not None:
        return f"did you mean {near!r}?"
    return f"one of: {', '.join(names)}" if names else "there is none"
