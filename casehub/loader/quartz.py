"""Times as the original writes them: cron expressions of Quartz, and spans of ISO 8601."""

from __future__ import annotations

import re
from typing import Final

_SPAN = re.compile(r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?")
_DAY: Final = 7
"""Days of a week, which Quartz counts from Sunday as 1, and crontab as 0."""


class QuartzError(ValueError):
    """A time that cannot be translated; the message says why, `remedy` what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.remedy = remedy
        super().__init__(reason)


def crontab_of(expression: str) -> str:
    """The expression of six fields, seconds first, that means the same. Raises `QuartzError`."""
    fields = expression.split()
    if len(fields) not in (6, 7):
        raise QuartzError(
            f"has {len(fields)} fields, and Quartz has six or seven",
            "write second minute hour day-of-month month day-of-week",
        )
    if len(fields) == 7 and fields[6] not in ("*", "?"):
        raise QuartzError(f"is bound to the years {fields[6]}", "leave the seventh field out")
    second, minute, hour, day, month, weekday = fields[:6]
    if "W" in day:
        raise QuartzError(f"has {day!r}, the weekday nearest to a day", "give the days themselves")
    if "?" in (second, minute, hour, month):
        raise QuartzError("has a '?' where only days may have one", "write *")
    days = [_weekday(part) for part in weekday.split(",")]
    return " ".join((second, minute, hour, day.replace("?", "*"), month, ",".join(days)))


def _weekday(part: str) -> str:
    """One part of the days of the week, counted as crontab does."""
    if part in ("?", "*"):
        return "*"
    if part == "L":  # the last day of the week
        return "6"
    days, slash, step = part.partition("/")
    counted = re.sub(r"\b([1-7])(?=\b|L|#)", lambda match: str((int(match[1]) - 1) % _DAY), days.partition("#")[0])
    if "#" in days:
        counted += f"#{days.partition('#')[2]}"
    return counted + slash + step


def duration_of(span: str) -> str:
    """A span of ISO 8601 as durations are written here: `PT24H` is `24h`. Raises `QuartzError`."""
    match = _SPAN.fullmatch(span)
    parts = {} if match is None else {unit: number for unit, number in match.groupdict().items() if number}
    if not parts:
        raise QuartzError(f"{span!r} is no span of time", "write it in ISO 8601, such as PT24H or P2D")
    return "".join(f"{number}{unit}" for unit, number in parts.items())
