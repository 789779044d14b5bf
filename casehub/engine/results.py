"""What a worker returned: the facts that it is to become, and how sure the worker is of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from casehub.binding import Worker
from casehub.context import Fact
from casehub.errors import FactError
from casehub.values import Absent, Confident, Plain, apart, same


@dataclass(slots=True)
class Result:
    """`items`: by fact, not yet made plain; `sure`: the confidence of those that have one; `lowest`: of all that were given."""

    items: Mapping[str, object] = field(default_factory=dict[str, object])
    sure: Mapping[str, float] = field(default_factory=dict[str, float])
    lowest: float | None = None


def result_of(worker: Worker, value: object) -> Result:
    """What a worker's value is to become. Raises `FactError` for one that does not fit what the worker declares."""
    whole: float | None = None
    if isinstance(value, Confident):
        whole, value = float(value.confidence), value.value
    if value is None:
        return Result(lowest=whole)
    if worker.mapping:
        if not isinstance(value, Mapping):
            raise FactError(
                f"worker {worker.name!r} returned {type(value).__name__}, and it declares several facts; return a mapping"
            )
        items, sure = apart(value)
        if whole is not None:
            sure = {**dict.fromkeys(items, whole), **sure}
        return Result(items, sure, min(sure.values(), default=whole))
    if len(worker.writes) == 1:
        (name,) = worker.writes
        return Result({name: value}, {} if whole is None else {name: whole}, whole)
    raise FactError(f"worker {worker.name!r} returned {type(value).__name__}, and it declares no fact; give writes=")


def merged_confidence(merged: object, there: Plain | Absent, mine: float | None, theirs: Fact) -> float | None:
    """Of a value that a merge made: theirs where it is their value, `there`, else the lower of those that there are."""
    if same(merged, there):
        return theirs.confidence
    return min((each for each in (mine, theirs.confidence) if each is not None), default=None)
