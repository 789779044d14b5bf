"""Gates: a worker plans an action instead of doing it, and people approve what is risky before it is done.

@incident.worker(gate=Gate(isolate, risk=is_risky, groups=["secops"], approvals=2, expires="4h"))
async def respond(alert: Alert) -> Planned[Isolation]:
    return Planned(Isolation(alert.host), f"Isolate {alert.host}")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Concatenate, Final, Generic, TypeVar

from casehub.durations import Duration, duration
from casehub.errors import SettingsError
from casehub.humantask import HumanTask, When
from casehub.values import FactType

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
Risk = bool | str
"""What a risk policy says of an action: False passes it, True or a reason holds it."""
APPROVALS: Final = 100
"""Most approvals that a gate may ask for."""


@dataclass(frozen=True, slots=True)
class Planned(Generic[A_co]):
    """What a worker returns instead of acting. `action`: data that says all that is to be done; `title`: in a line."""

    action: A_co
    title: str = ""
    _: KW_ONLY
    description: str = ""


@dataclass(slots=True)
class GateAnswer:
    """What people say of a planned action: the form of a gate's tasks."""

    approved: bool
    reason: str = ""


ANSWER: Final = FactType(GateAnswer)


@dataclass(frozen=True, slots=True)
class Gate(Generic[A]):
    """What stands between a planned action and its being carried out.

    - `perform`: carries it out. Its first parameter is the action; the others may be resources, the execution and the
      view of the case. What it returns is the result of the worker that planned.
    - `risk`: says of an action, awaited or not, whether it is held: False or no text passes it; True, a reason, anything
      else, an error and an answer that takes longer than `patience` hold it. Without it everything is held.
    - `approvals`: how many people have to approve it, each for themselves. One who does not is enough to reject it.
    - `users`, `groups`, `priority`, `due`, `escalate`, `escalate_to`: as of `HumanTask`. `expires`: an action that is not
      approved by then is rejected.

    Raises `SettingsError` for what cannot be meant.
    """

    perform: Callable[Concatenate[A, ...], object]
    _: KW_ONLY
    risk: Callable[[A], Risk | Awaitable[Risk]] | None = None
    approvals: int = 1
    users: Sequence[str] = ()
    groups: Sequence[str] = ()
    priority: int | None = None
    due: When | None = None
    expires: Duration | None = None
    escalate: When | None = None
    escalate_to: Sequence[str] = ()
    patience: Duration = "30s"

    def __post_init__(self) -> None:
        if not 1 <= self.approvals <= APPROVALS:
            raise SettingsError(f"Gate(approvals={self.approvals}): from 1 to {APPROVALS}")
        if len(self.users) and not self.groups and not self.escalate_to and len(set(self.users)) < self.approvals:
            raise SettingsError(
                f"Gate(approvals={self.approvals}): only {len(set(self.users))} users may approve it, each once; name more"
            )
        if not callable(self.perform):
            raise SettingsError(f"Gate({self.perform!r}): give the function that carries the action out")
        duration(self.patience)
        self.task("check")

    def task(self, title: str, description: str = "") -> HumanTask[Any]:
        """What one of those who approve is asked."""
        return HumanTask(
            title,
            GateAnswer,
            groups=self.groups,
            users=self.users,
            description=description,
            priority=self.priority,
            due=self.due,
            expires=self.expires,
            escalate=self.escalate,
            escalate_to=self.escalate_to,
        )

    def __str__(self) -> str:
        return f"{self.approvals} of {list(self.users)} {list(self.groups)} until {self.expires}"
