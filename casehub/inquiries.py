"""What was asked of a log, as plain data: so that a decision can say what it rested on.

Kept are the verb and the arguments as they were given, never the answers: these follow from the log and the position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from casehub.durations import in_words
from casehub.values import Plain

MOST: Final = 100
"""Questions that are kept of one deliberation."""
SIZE: Final = 16_384
"""Characters that the arguments of all of them may have."""
LONGEST: Final = 200
"""Characters of one argument, and items of one that is a sequence."""


@dataclass(slots=True)
class Inquiries:
    """The questions of one deliberation, in order. `left_out`: how many came when there was no room any more."""

    kept: list[Mapping[str, Plain]] = field(default_factory=list[Mapping[str, Plain]])
    left_out: int = 0
    _size: int = 0

    def note(self, verb: str, kinds: Iterable[Any], arguments: Mapping[str, object]) -> None:
        """Keep one question. Arguments that are None were not given."""
        names = [str(getattr(kind, "name", kind)) for kind in kinds]
        said: dict[str, Plain] = {"verb": verb}
        if names:
            said["kinds"] = _plain(names)
        said.update({name: _plain(value) for name, value in arguments.items() if value is not None})
        size = len(str(said))
        if self.left_out or len(self.kept) >= MOST or self._size + size > SIZE:
            self.left_out += 1
            return
        self._size += size
        self.kept.append(said)


def _plain(value: object) -> Plain:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        items: list[Plain] = [_plain(item) for item in value[:LONGEST]]
        return items if len(value) <= LONGEST else [*items, f"... {len(value)} in all"]
    if isinstance(value, datetime):
        return value.isoformat()
    text = in_words(value) if isinstance(value, timedelta) else str(value)
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}... {len(text)} characters in all"
    return cut.encode(errors="backslashreplace").decode()  # what no store could write must not void an answer
