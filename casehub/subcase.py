"""Sub-cases: an activation that is worked as cases of their own (CMMN 1.1: case tasks).

A sub-case is a case like others, with a log and a life of its own. Its id says whose it is: it is the id of the
activation that it works, so starting it twice is harmless, and its parent is found from it alone. Ids that users
give have no "/" in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, get_origin

from casehub.envelope import ActivationId, CaseId
from casehub.wiring import WiringError

SEVERAL: Final = "."
AGAIN: Final = "~"


class Rest(StrEnum):
    """What becomes of the other sub-cases once enough have completed: they are called off, or go on for themselves."""

    CANCEL = "cancel"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class SubCase:
    """How a worker's activation becomes cases of another definition.

    `definition`: its name; `takes`: the fact of a sub-case that is its result, None for none; `several`: the function
    says the inputs of any number of them, and the result is the list of theirs; `need`: how many have to complete, None
    for all; `rest`: see `Rest`; `wait`: whether the activation waits for them at all.
    """

    definition: str
    takes: str | None = None
    several: bool = False
    need: int | None = None
    rest: Rest = Rest.CANCEL
    wait: bool = True

    def __str__(self) -> str:
        need = "all" if self.need is None else str(self.need)
        count = f"{need} of several, {self.rest} the rest" if self.several else "one"
        return f"{count} {self.definition} for {self.takes}{'' if self.wait else ', not waited for'}"


def is_several(returned: Any) -> bool:
    """Whether an annotation is of the inputs of several, rather than of one. Raises `WiringError` for neither."""
    kind = get_origin(returned) or returned
    if isinstance(kind, type):
        if issubclass(kind, Mapping):
            return False
        if issubclass(kind, Sequence) and not issubclass(kind, str | bytes):
            return True
    raise WiringError(
        "it starts sub-cases, and its return annotation says neither one's inputs nor several's",
        "annotate it with a mapping such as dict[str, str] (or a TypedDict), or with a list of them",
    )


def child_id(activation: ActivationId, attempt: int, number: int | None) -> CaseId:
    """The id of the sub-case of an activation; `number`: its place among several, from 1."""
    several = "" if number is None else f"{SEVERAL}{number}"
    return CaseId(f"{activation}{several}{f'{AGAIN}{attempt}' if attempt > 1 else ''}")


def parent_of(case: CaseId) -> CaseId | None:
    """The case that started this one; None for one that somebody started."""
    return CaseId(case.rsplit("/", 2)[0]) if "/" in case else None


def depth_of(case: CaseId) -> int:
    """How many cases are around this one; 0 for one that somebody started."""
    return case.count("/") // 2
