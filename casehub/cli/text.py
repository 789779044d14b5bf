"""Text for terminals and pipes: lines, plain columns, values on a line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO
from unicodedata import category

from pydantic_core import to_json

Row = Sequence[object]


def plain_table(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Columns padded with spaces, headings in capitals, no cell cut."""
    cells = [[shown(cell) for cell in row] for row in rows]
    if columns:
        cells.insert(0, [column.upper() for column in columns])
    widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))] if cells else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def shown(value: object) -> str:
    """A value on a line: times in UTC to the second, no control characters, which a terminal would obey."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
    text = str(value)
    return text if text.isprintable() else "".join(map(_tamed, text))


def _tamed(character: str) -> str:
    if category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):  # controls, what turns text around, what ends lines
        return character.encode("unicode_escape", "surrogatepass").decode()
    return character


def compact(value: object, width: int = 0) -> str:
    """A plain value as JSON on a line; past `width`, if there is one, with an ellipsis."""
    text = to_json(value).decode()
    return text if not width or len(text) <= width else f"{text[: width - 3]}..."


def sized(count: int) -> str:
    """A number of bytes as people say it: `512 B`, `1.4 MB`."""
    size, units = float(count), iter(("kB", "MB", "GB", "TB"))
    unit = "B"
    while size >= 1_000 and (larger := next(units, "")):
        size, unit = size / 1_000, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def note(text: str) -> None:
    """A line to the error stream: progress, hints, what is not the answer."""
    write(sys.stderr, text)


def write(stream: TextIO, line: str) -> None:
    """A whole line, at once, so that lines of several processes do not mix."""
    stream.write(f"{line}\n")
    stream.flush()
