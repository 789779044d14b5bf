"""Everything that CaseHub raises.

    CaseHubError
    |- DefinitionError            a definition that can never work; carries its problems
    |- CaseNotFoundError          no case has this id
    |- CaseExistsError            a case with this id is there already
    |- UnknownNameError           a definition, binding, fact or kind of event that there is not
    |- InputRefusedError          an input that the case does not take: unknown fact, missing input, wrong type
    |  |- CaseEndedError          the case has ended and takes nothing more
    |  |- IllegalTransitionError  the life cycle forbids it in this status
    |  |- FactsChangedError       a fact has changed since the version that the writer saw
    |  |- TaskNotFoundError       no human task has this id
    |  |- TaskRefusedError        a human task is not theirs, or has ended; carries the answer
    |  `- AnswerRefusedError      an answer does not fit the form of a human task; carries its fields
    |- FactError                  a value that cannot be a fact, or that cannot be read as what it should be
    |- SubCaseError               a sub-case ended in another way than by completing
    |- MergeConflictError         two writers of one fact under the merge policy `fail`
    |- LimitError                 a bound was reached: queue, payload, depth
    |- CaseOutcomeError           raised to whoever waits for a case that does not complete
    |  |- CaseStalledError        nothing can move it; carries the reasons
    |  |- CaseFaultedError
    |  `- CaseCancelledError
    |- HubClosedError             the hub has not been entered, or has been left
    |- LoopControlError           a loop control broke its contract
    |- StoreError                 the store said no
    |  |- StoreUnavailableError   ... for now: the same call may go through later
    |  |- StoreOwnedError         another process owns the database
    |  |- CaseElsewhereError      another hub works the case; carries the hub's name
    |  |- SnapshotError           a snapshot that cannot be used, or is not taken
    |  |  `- SnapshotConflictError  ... as somebody else has saved another; carries both versions
    |  `- SchemaError             the database's schema is not this version's
    |- NotReachableError          the worker process cannot be reached, or went away
    |- FileError                  a file that cannot be written, or is not what it should be
    |- SettingsError              a setting or a reference to code that cannot be used
    `- MissingExtraError          an optional dependency is not installed

    XesError, of casehub.adapters.xes, is a CaseHubError too: a log of another system that cannot be read or written.

    Declined, Permanent           outcomes that a worker raises; they are not failures of CaseHub

A message names the thing, the reason and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches


class CaseHubError(Exception):
    """Base of every error of this package."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing in a definition that can never work: what it is about, why, and what to do.

    `place`: `file:line:column` where the definition is a text.
    """

    subject: str
    reason: str
    remedy: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place + ': ' if self.place else ''}{self.subject}: {self.reason}; {self.remedy}"


class DefinitionError(CaseHubError):
    """A definition that can never work. `problems` lists everything that is wrong with it, in order of declaration."""

    def __init__(self, definition: str, problems: Sequence[Problem]) -> None:
        self.definition = definition
        self.problems = tuple(problems)
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        super().__init__(f"definition {definition!r} cannot work:{lines}")


class CaseNotFoundError(CaseHubError):
    """No case has this id."""


class CaseExistsError(CaseHubError):
    """A case with this id is there already."""


class UnknownNameError(CaseHubError):
    """Something is asked for by a name that nothing has; the message names the nearest."""


class InputRefusedError(CaseHubError):
    """An input that the case does not take. Nothing of it was recorded."""


class CaseEndedError(InputRefusedError):
    """The case has ended (`COMPLETED`, `FAULTED` or `CANCELLED`: a terminal status) and takes no more inputs."""


class IllegalTransitionError(InputRefusedError):
    """The life cycle forbids the step; the message names the statuses that would allow it."""


class FactsChangedError(InputRefusedError):
    """A fact that was to be written has changed since the version that the writer saw. Nothing of it was recorded."""


class TaskNotFoundError(InputRefusedError):
    """No human task has this id."""


class TaskRefusedError(InputRefusedError):
    """A human task is with somebody else, not for this person, or has ended. Nothing of it was recorded.

    `answer`: what they had answered, as they gave it, so that it is not lost; None if they had not.
    """

    def __init__(self, message: str, answer: object = None) -> None:
        self.answer = answer
        super().__init__(message)


class AnswerRefusedError(InputRefusedError):
    """An answer does not fit the form of a human task, which stays as it was.

    `fields`: what is wrong with it, by the field's name (`address.city`), `""` for the answer as a whole; `answer`: as
    it was given.
    """

    def __init__(self, task: str, fields: Mapping[str, str], answer: object = None) -> None:
        self.fields = dict(fields)
        self.answer = answer
        lines = "; ".join(f"{name}: {why}" if name else why for name, why in fields.items())
        super().__init__(
            f"the answer to task {task!r} does not fit its form: {lines}; it stays as it was, answer again"
        )


class FactError(CaseHubError):
    """A value that cannot be a fact, or a stored one that does not fit the type it is asked for."""


class MergeConflictError(CaseHubError):
    """A fact changed while the worker ran, and the binding's merge policy is `fail`."""


class LimitError(CaseHubError):
    """A stated bound was reached."""


class CaseOutcomeError(CaseHubError):
    """The case that is waited for does not complete."""


class CaseStalledError(CaseOutcomeError):
    """Nothing can move the case. `reasons` says, a line a binding, what is missing and who would have written it."""

    def __init__(self, case: str, reasons: Sequence[str]) -> None:
        self.case = case
        self.reasons = tuple(reasons)
        lines = "".join(f"\n  - {reason}" for reason in self.reasons)
        super().__init__(
            f"case {case!r} has stalled: nothing is running, nothing is eligible, its goals are unmet{lines}"
        )


class SubCaseError(CaseHubError):
    """A sub-case ended in another way than by completing. What its activation failed with."""


class CaseFaultedError(CaseOutcomeError):
    """The case ended as `FAULTED`. `reason` is the text of its `CASE_FAULTED` event."""

    def __init__(self, case: str, reason: str) -> None:
        self.case = case
        self.reason = reason
        super().__init__(f"case {case!r} has faulted: {reason}")


class CaseCancelledError(CaseOutcomeError):
    """The case ended as `CANCELLED`."""

    def __init__(self, case: str, by: str, reason: str) -> None:
        self.case = case
        self.by = by
        self.reason = reason
        super().__init__(f"case {case!r} was cancelled by {by}" + (f": {reason}" if reason else ""))


class HubClosedError(CaseHubError):
    """The hub is not open: use it inside `async with CaseHub(...) as hub:`."""


class LoopControlError(CaseHubError):
    """A loop control broke its contract: suspended although immediate, or answered outside of what is eligible."""


class StoreError(CaseHubError):
    """The store refused or failed."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or written now; the same call may go through later."""


class StoreOwnedError(StoreError):
    """Another process owns the database."""


class SnapshotError(StoreError):
    """A snapshot that cannot be used, or that a store does not take."""


class SnapshotConflictError(SnapshotError):
    """The snapshot that is to be replaced is not the one that is there; nothing was written.

    `expected`: the version that was to be replaced, `found`: the one that is there; None for none.
    """

    def __init__(self, case: str, expected: int | None, found: int | None) -> None:
        self.case = case
        self.expected = expected
        self.found = found
        there = "there is none" if found is None else f"version {found} is there"
        wanted = "there was to be none" if expected is None else f"version {expected} was to be replaced"
        super().__init__(f"snapshot of case {case!r}: {wanted}, and {there}; read the latest and decide anew")


class CaseElsewhereError(StoreError):
    """Another hub of the same store works the case. Nothing was recorded. `owner`: what that is called, if it is known."""

    def __init__(self, message: str, owner: str = "") -> None:
        self.owner = owner
        super().__init__(message)


class SchemaError(StoreError):
    """The database's schema is newer or older than this version works with."""


class NotReachableError(CaseHubError):
    """The worker process cannot be reached, or went away before it answered."""


class FileError(CaseHubError):
    """A file that cannot be written, is there already, or is not whole."""


class SettingsError(CaseHubError):
    """A setting, a URL or a `module:attribute` reference that cannot be used."""


class MissingExtraError(CaseHubError):
    """An optional dependency is missing; the message has the command that installs it."""


class Declined(Exception):  # noqa: N818 - an answer of a worker, not a failure of it
    """Raised by a worker that will not do this: the activation is rejected, not retried."""

    def __init__(self, reason: str = "declined") -> None:
        self.reason = reason
        super().__init__(reason)


class Permanent(Exception):  # noqa: N818 - an answer of a worker about its own failure
    """Raised by a worker whose failure no retry can mend."""

    def __init__(self, reason: str = "permanent failure") -> None:
        self.reason = reason
        super().__init__(reason)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, if one is near enough to be a slip of the keyboard."""
    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A ready clause for a message: `did you mean 'facts'?`, or the known names when none is near."""
    names = sorted(map(str, known))  # members of an enumeration are written as their values
    guess = nearest(name, names)
    if guess is not None:
        return f"did you mean {guess!r}?"
    return f"known: {', '.join(names)}" if names else "none is declared"
