"""How an event is told on a line: when, which case, what, by whom, and what is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from casehub.cli.text import compact

# The headings of a table of events.
COLUMNS = ("seq", "time", "case", "event", "by", "what")
WIDTH = 100
"""Characters of a value."""


def told(event: Mapping[str, Any]) -> Sequence[object]:
    """An event, as `casehub.adapters.codec` has it in JSON, as a row of a table."""
    at = datetime.fromisoformat(event["at"])
    return event["seq"], at, event["case"], event["name"], event["by"], what(event["body"])


def what(body: Mapping[str, Any]) -> str:
    """The body in words: what is empty, and what only the engine needs, is left out."""
    parts = []
    for name, value in body.items():
        if (
            name in _SILENT
            or (name == "binding" and "facts" in body)
            or (name == "worker" and value == body.get("binding"))
        ):
            continue
        if value in (None, "", [], {}, False, 0):
            continue
        if name == "facts" and isinstance(value, dict):
            parts += [f"{fact}={compact(each, WIDTH)}" for fact, each in value.items()]
        elif name in _PLAIN and isinstance(value, str):
            parts.append(value)
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            parts.append(f"{name}: {', '.join(value)}")
        elif value is True:
            parts.append(name)
        else:
            parts.append(
                f"{name}={value}" if isinstance(value, str | int | float) else f"{name}={compact(value, WIDTH)}"
            )
    return " ".join(parts)


# What only the engine needs, and what needs no name in front of it.
_SILENT = frozenset(
    {"activation", "stamps", "occurrence", "structure", "before", "as_of", "settled", "queries", "queries_left_out"}
)
_PLAIN = frozenset({"binding", "milestone", "goal", "timer", "message", "reason", "after"})
