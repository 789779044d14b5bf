"""Durations as people write them: a `timedelta`, or text such as `"2h30m"`, `"1.5s"`, `"7d"`."""

from __future__ import annotations

import re
from datetime import timedelta

from casehub.errors import SettingsError

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")

Duration = timedelta | str
"""What every option that takes a time span accepts."""


def duration(value: Duration) -> timedelta:
    """The span that `value` means.

    Text is one or more numbers with a unit each (`w d h m s ms`), largest first by habit but in any order.
    Raises `SettingsError` for anything else, for a negative span and for an empty one.
    """
    if isinstance(value, timedelta):
        span = value
    else:
        text = str(value).strip().replace(" ", "")  # a bare number comes to text without a unit
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise SettingsError(
                f"duration {value!r} is not one: write numbers with units, such as '90s', '2h30m' or '7d'"
            )
        span = timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))
    if span < timedelta(0):
        raise SettingsError(f"duration {value!r} is negative: a span of time is zero or more")
    return span


def in_words(span: timedelta) -> str:
    """The shortest text that `duration` reads back as `span`, to the millisecond: `"2h30m"`."""
    rest = round(span.total_seconds() * 1000)
    if rest == 0:
        return "0s"
    words: list[str] = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        if count:
            words.append(f"{count}{unit}")
    return "".join(words)
