"""JSON that comes from outside, read so that nothing in it is lost or made up before somebody can refuse it.

Other readers keep the last of two equal keys, take `1e400` for infinity without a word, or give up at long integers. Here a
key that stands twice is an error; numbers that JSON cannot hold come out as what `casehub.plain` refuses, with the path to them.
"""

from __future__ import annotations

import json
from typing import Any, Final

from casehub.plain import MAX_INTEGER, Plain

_LONG: Final = len(str(MAX_INTEGER))
_LONGEST: Final = 5_000
"""Digits of an integer that is only to be refused."""


class _Doubled(dict[str, Any]):
    """An object with a key that stands twice, `key`."""

    key: str = ""


def read_json(text: str | bytes) -> Plain:
    """What a JSON text says. Raises `ValueError` for what is none, with the path to a key that stands twice."""
    doubled: list[_Doubled] = []

    def make(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        seen: set[str] = set()
        twice = _Doubled(found)
        twice.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # it is None
        doubled.append(twice)
        return twice

    try:
        whole = text.decode() if isinstance(text, bytes) else text
        found: Plain = json.loads(whole, object_pairs_hook=make, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if doubled:
        raise ValueError(f"{_path(found, doubled[0])}the key {doubled[0].key!r:.60} stands twice; give it once")
    return found


def _integer(digits: str) -> int:
    if len(digits) <= _LONG + 1:
        return int(digits)
    magnitude: int = 10 ** min(len(digits.lstrip("-")) - 1, _LONGEST)
    return -magnitude if digits[0] == "-" else magnitude


def _path(whole: Plain, wanted: _Doubled) -> str:
    """The path to an object in a value: `.rows[2]: `, empty where it is the whole of it."""
    waiting: list[tuple[str, Any]] = [("", whole)]
    while waiting:
        path, value = waiting.pop()
        if value is wanted:
            return f"{path}: " if path else ""
        if isinstance(value, dict):
            waiting += [(f"{path}.{key:.60}", item) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", item) for index, item in enumerate(value)]
    return ""  # it stood under a key that stood twice itself
