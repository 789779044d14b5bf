"""`HumanTask`: what a function declared by `definition.human_task` returns: what to ask of people.

@loan.human_task(writes="approval")
def approve(applicant: Applicant, risk: Risk) -> HumanTask[Approval]:
    return HumanTask(f"Approve {applicant.name}?", Approval, groups=["underwriters"], due="2d", expires="5d")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar, get_args, get_origin

from casehub.durations import Duration, duration
from casehub.errors import FactError, InputRefusedError, SettingsError
from casehub.values import FactType
from casehub.wiring import WiringError

T_co = TypeVar("T_co", covariant=True)
When = Duration | datetime
"""A span from when the task is created (`"2d"`), or a time (aware)."""

USER = "user:"
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)


def person_of(by: str) -> str:
    """Who somebody is among the users of tasks: `ada` for `user:ada`, the whole of it for other kinds of authors.

    Raises `InputRefusedError` for an author without a name.
    """
    name = by.removeprefix(USER)
    if not name or name in ("user", "engine"):
        raise InputRefusedError(f"by={by!r} does not say who; give a name, such as by='user:ada'")
    return name


@dataclass(frozen=True, slots=True)
class HumanTask(Generic[T_co]):
    """Something to ask of people.

    - `title`: in a line; `form`: the type of the answer, which is also the one of the annotation `HumanTask[...]`.
    - `groups`, `users`: who may take it; without either, everybody. `priority`: the binding's if None; higher is first.
    - `due`: when it should be done, `follow_up`: when somebody should have looked at it. Both only remind.
    - `expires` and `deadline`: when it is too late, as a span and as a time; the earliest counts, and the binding's
      `timeout` is one of them.
    - `escalate`: when the groups `escalate_to` may take it too.

    Raises `SettingsError` for what cannot be meant.
    """

    title: str
    form: type[T_co]
    _: KW_ONLY
    groups: Sequence[str] = ()
    users: Sequence[str] = ()
    description: str = ""
    priority: int | None = None
    due: When | None = None
    follow_up: When | None = None
    expires: Duration | None = None
    deadline: datetime | None = None
    escalate: When | None = None
    escalate_to: Sequence[str] = ()

    def __post_init__(self) -> None:
        said: object = self.title
        if not isinstance(said, str) or not said.strip():
            raise SettingsError(f"HumanTask(title={said!r}): say in a line what is asked for")
        for name in ("groups", "users", "escalate_to"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise SettingsError(f"HumanTask({name}={given!r}): give a list of names, [{given!r}]")
            if not all(isinstance(each, str) and each for each in given):
                raise SettingsError(f"HumanTask({name}={given!r}): names are text")
        if (self.escalate is None) != (not self.escalate_to):
            raise SettingsError("HumanTask(): escalate= says when and escalate_to= to whom; give both, or neither")
        if self.expires is not None:
            duration(self.expires)
        for name in ("due", "follow_up", "escalate", "deadline"):
            time_of(name, getattr(self, name), _ANY_DAY)

    def expiry(self, created: datetime, timeout: timedelta | None) -> datetime | None:
        """The earliest of its deadlines."""
        spans = (None if self.expires is None else duration(self.expires), timeout)
        times = [created + span for span in spans if span is not None]
        if self.deadline is not None:
            times.append(self.deadline.astimezone(UTC))
        return min(times, default=None)


def time_of(name: str, when: When | None, created: datetime) -> datetime | None:
    """The time (UTC) that is meant. Raises `SettingsError` for a time without a zone and for a span that is none."""
    if isinstance(when, datetime):
        if when.utcoffset() is None:
            raise SettingsError(f"HumanTask({name}={when}): it has no time zone; give an aware time")
        return when.astimezone(UTC)
    return None if when is None else created + duration(when)


def form_of(name: str, annotation: Any) -> FactType:
    """The form that the annotation of a function names: `Approval` of `HumanTask[Approval]`. Raises `WiringError`."""
    given = get_args(annotation)
    if get_origin(annotation) is not HumanTask or len(given) != 1:
        raise WiringError(
            f"{name} is a human task, and its return annotation does not say what the answer is",
            "annotate it with HumanTask[Form] and return HumanTask(title, Form)",
        )
    try:
        form = FactType(given[0])
        form.schema()
    except FactError as error:
        raise WiringError(f"the form of {name}: {error}", "use a dataclass, a pydantic model or a plain type") from None
    return form
