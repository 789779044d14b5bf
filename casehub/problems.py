"""What each error is called outside of Python: one table for commands, HTTP and documents.

An error becomes a problem object (RFC 9457): `{"type": "case-not-found", "title": "...", "status": 404, "detail":
"...", "error": "CaseNotFoundError"}`; a command ends with the exit code of its kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from casehub.errors import (
    AnswerRefusedError,
    CaseElsewhereError,
    CaseEndedError,
    CaseExistsError,
    CaseNotFoundError,
    CaseOutcomeError,
    CaseStalledError,
    DefinitionError,
    FactError,
    FileError,
    HubClosedError,
    IllegalTransitionError,
    InputRefusedError,
    LimitError,
    MissingExtraError,
    NotReachableError,
    SchemaError,
    SettingsError,
    StoreOwnedError,
    StoreUnavailableError,
    TaskNotFoundError,
    TaskRefusedError,
    UnknownNameError,
)


class Exit(IntEnum):
    """How a command ends. Fixed: scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NOT_ALLOWED = 5
    TIMED_OUT = 6
    NOT_REACHABLE = 7
    DEFINITION_INVALID = 8


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of error. `slug` and `title` name it for programs and people; `status` is HTTP's."""

    slug: str
    title: str
    status: int
    exit: Exit


_UNKNOWN: Final = Kind("failed", "It failed", 500, Exit.FAILED)

# From the special to the general: the first that fits.
_KINDS: Final[tuple[tuple[type[BaseException], Kind], ...]] = (
    (CaseNotFoundError, Kind("case-not-found", "No such case", 404, Exit.NOT_FOUND)),
    (TaskNotFoundError, Kind("task-not-found", "No such task", 404, Exit.NOT_FOUND)),
    (TaskRefusedError, Kind("task-refused", "The task is not theirs", 409, Exit.CONFLICT)),
    (AnswerRefusedError, Kind("answer-refused", "The answer does not fit its form", 422, Exit.USAGE)),
    (UnknownNameError, Kind("not-found", "Nothing has this name", 404, Exit.NOT_FOUND)),
    (CaseExistsError, Kind("case-exists", "The case is there already", 409, Exit.CONFLICT)),
    (CaseEndedError, Kind("case-ended", "The case has ended", 409, Exit.CONFLICT)),
    (IllegalTransitionError, Kind("illegal-transition", "Not in this status", 409, Exit.CONFLICT)),
    (InputRefusedError, Kind("input-refused", "The case does not take this", 422, Exit.USAGE)),
    (FactError, Kind("fact-invalid", "No such value can be a fact", 422, Exit.USAGE)),
    (LimitError, Kind("limit-reached", "A limit is reached", 429, Exit.FAILED)),
    (CaseStalledError, Kind("case-stalled", "The case has stalled", 409, Exit.FAILED)),
    (CaseOutcomeError, Kind("case-not-completed", "The case did not complete", 409, Exit.FAILED)),
    (DefinitionError, Kind("definition-invalid", "The definition can never work", 422, Exit.DEFINITION_INVALID)),
    (FileError, Kind("file-refused", "The file cannot be written or used", 422, Exit.FAILED)),
    (SettingsError, Kind("setting-invalid", "A setting or a reference is wrong", 400, Exit.USAGE)),
    (MissingExtraError, Kind("extra-missing", "An optional dependency is missing", 501, Exit.FAILED)),
    (CaseElsewhereError, Kind("case-elsewhere", "Another hub works the case", 423, Exit.NOT_REACHABLE)),
    (StoreOwnedError, Kind("store-owned", "Another process owns the database", 423, Exit.NOT_REACHABLE)),
    (StoreUnavailableError, Kind("store-unavailable", "The store cannot be reached", 503, Exit.NOT_REACHABLE)),
    (SchemaError, Kind("schema-mismatch", "The database is of another version", 500, Exit.FAILED)),
    (HubClosedError, Kind("stopping", "The worker process is stopping", 503, Exit.NOT_REACHABLE)),
    (NotReachableError, Kind("not-reachable", "The worker process cannot be reached", 503, Exit.NOT_REACHABLE)),
    (TimeoutError, Kind("timeout", "Not in this time", 504, Exit.TIMED_OUT)),
    (PermissionError, Kind("not-allowed", "Not allowed", 403, Exit.NOT_ALLOWED)),
)


def kind_of(error: BaseException) -> Kind:
    """The kind of an error; `failed` for one that is none of CaseHub's."""
    return next((kind for known, kind in _KINDS if isinstance(error, known)), _UNKNOWN)


def problem(error: BaseException, kind: Kind | None = None) -> dict[str, Any]:
    """The problem object of an error; what it carries besides its message comes along."""
    kind = kind or kind_of(error)
    found: dict[str, Any] = {
        "type": kind.slug,
        "title": kind.title,
        "status": kind.status,
        "detail": text_of(error),
        "error": type(error).__name__,
    }
    if isinstance(error, DefinitionError):
        found["definition"] = error.definition
        found["problems"] = [
            {
                "subject": each.subject,
                "reason": each.reason,
                "remedy": each.remedy,
                **({"place": each.place} if each.place else {}),
            }
            for each in error.problems
        ]
    elif isinstance(error, AnswerRefusedError):
        found |= {"fields": error.fields, "answer": error.answer}
    elif isinstance(error, TaskRefusedError):
        found["answer"] = error.answer
    elif isinstance(error, CaseStalledError):
        found["case"] = error.case
        found["reasons"] = list(error.reasons)
    return found


def text_of(error: BaseException) -> str:
    """The error in words; its class where it has none."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error).strip() or type(error).__name__
