"""What commands print: tables for people, JSON for programs, on standard output; everything else goes to the error stream.

A table has colours and lines on a terminal, and is plain columns, never cut, anywhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any, Literal

from pydantic_core import to_json
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from casehub.cli.text import Row, plain_table, shown, write

Form = Literal["table", "json", "ndjson"]

STYLES = {
    "RUNNING": "cyan",
    "WAITING": "yellow",
    "SUSPENDED": "magenta",
    "COMPENSATING": "magenta",
    "COMPLETED": "green",
    "FAULTED": "bold red",
    "CANCELLED": "red",
    "stalled": "bold red",
    "ELIGIBLE": "green",
    "IN_FLIGHT": "cyan",
    "fault": "bold red",
    "note": "yellow",
    "ok": "green",
}
"""Words that stand out, wherever they are a cell of a table."""


ROOM = 30
"""Columns that a cell needs to be broken into lines; with fewer the terminal breaks the whole line."""


class Printer:
    """Prints in one form. `form`: `table` for people, `json` for one document, `ndjson` for a line an item."""

    def __init__(self, form: Form = "table", *, colour: bool = True) -> None:
        self.form = form
        self._out = Console(no_color=not colour or None, highlight=False, emoji=False, markup=False)

    @property
    def for_people(self) -> bool:
        return self.form == "table"

    def items(
        self,
        items: Iterable[Mapping[str, Any]],
        columns: Sequence[str],
        row: Callable[[Mapping[str, Any]], Row],
        *,
        more: str | None = None,
        empty: str = "nothing",
    ) -> None:
        """A list. `more`: where to go on behind; in JSON `{"items": [...], "next": more}`."""
        if self.form == "ndjson":
            for item in items:
                self.line(item)
        elif self.form == "json":
            self.document({"items": list(items), "next": more})
        else:
            rows = [row(item) for item in items]
            if rows:
                self.table(columns, rows)
            else:
                self.say(empty)

    def document(self, value: Any) -> None:
        """One value as JSON."""
        write(sys.stdout, to_json(value, indent=2 if self.form == "json" else None).decode())

    def text(self, text: str) -> None:
        """Text in a form of its own, whatever the form of the rest."""
        write(sys.stdout, text.rstrip("\n"))

    def line(self, value: Any) -> None:
        """One value as a line of JSON; bytes are JSON already."""
        write(sys.stdout, (value if isinstance(value, bytes) else to_json(value)).decode())

    def say(self, text: str, style: str = "") -> None:
        """A line for people; it is not for programs, so it is left out of JSON."""
        if self.for_people:
            if self._out.is_terminal:
                self._out.print(Text(shown(text), style=style))
            else:
                write(sys.stdout, shown(text))

    def table(self, columns: Sequence[str], rows: Sequence[Row], *, heading: bool = True) -> None:
        """Rows under headings; a long last cell goes on below itself where there is room for that."""
        if not self._out.is_terminal:
            for line in plain_table(columns if heading else (), rows):
                write(sys.stdout, line)
            return
        cells = [[shown(cell) for cell in row] for row in rows]
        widths = [max(cell_len(row[place]) for row in [columns, *cells]) for place in range(len(columns) - 1)]
        left = sum(widths) + 2 * len(widths)
        room = self._out.width - left
        if heading:
            self._row(columns, widths, "bold")
        for *first, last in cells:
            lines = wrap(last, room) or [""] if room >= ROOM else [last]
            self._row([*first, lines[0]], widths)
            for line in lines[1:]:
                self._row([""] * len(first) + [line], widths)

    def _row(self, cells: Sequence[str], widths: Sequence[int], style: str = "") -> None:
        line = Text(style=style)
        for cell, width in zip(cells[:-1], widths, strict=True):
            line.append(cell, STYLES.get(cell, "")).append(" " * (width - cell_len(cell) + 2))
        line.append(cells[-1], STYLES.get(cells[-1], ""))
        line.rstrip()
        self._out.print(line, soft_wrap=True)


@contextmanager
def progress(text: str) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal, on the error stream, that something takes its time; to be told what is done, and of how much."""
    console = Console(stderr=True, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        yield lambda done, all: None
        return
    with console.status(Text(shown(text))) as status:
        yield lambda done, all: status.update(Text(shown(f"{text}: {100 * done // max(all, 1)} %")))
