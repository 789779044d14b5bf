"""Sub-cases as their parent's log folds to them: which are open, and how those that are waited for ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from casehub.envelope import ActivationId, CaseId
from casehub.lifecycle import CaseStatus
from casehub.subcase_events import SubCaseCancelled, SubCaseEnded, SubCaseEvent, SubCaseStarted
from casehub.values import Plain


@dataclass(frozen=True, slots=True)
class Child:
    """One sub-case. `waited`: whether its activation waits for it; `status`: how it ended, None while it is open.

    `cancelled`: it was told to end; `value`: its result.
    """

    id: CaseId
    definition: str
    binding: str
    activation: ActivationId
    waited: bool
    cancelled: bool = False
    status: CaseStatus | None = None
    value: Plain = None
    reason: str = ""


@dataclass(slots=True)
class Tally:
    """How many sub-cases count for an activation, and how many of them have completed, or ended in another way."""

    all: int = 0
    completed: int = 0
    lost: int = 0


@dataclass(slots=True)
class Children:
    """The sub-cases of a case by their ids, in the order they were started: the open ones, and those that count still.

    `tallies`: of the activations that wait for theirs.
    """

    known: dict[CaseId, Child] = field(default_factory=dict[CaseId, Child])
    tallies: dict[ActivationId, Tally] = field(default_factory=dict[ActivationId, Tally])

    def of(self, activation: ActivationId) -> list[Child]:
        """Those that count for an activation: it waits for them, and they were not told to end."""
        return [c for c in self.known.values() if c.activation == activation and c.waited and not c.cancelled]

    def open(self) -> list[Child]:
        """Those that have not ended."""
        return [child for child in self.known.values() if child.status is None]

    def is_open(self, id: CaseId) -> bool:
        """Whether there is such a sub-case, and it has not ended."""
        child = self.known.get(id)
        return child is not None and child.status is None

    def apply(self, event: SubCaseEvent, *, counts: bool) -> None:
        """Take one event in; total. `counts`: its activation is in flight."""
        child = self.known.get(event.child)
        if isinstance(event, SubCaseStarted):
            self.known[event.child] = Child(
                event.child, event.child_definition, event.binding, event.activation, event.waited
            )
            if event.waited:
                self.tallies.setdefault(event.activation, Tally()).all += 1
        elif child is None:
            return
        elif isinstance(event, SubCaseCancelled):
            self.known[child.id] = replace(child, cancelled=True)
        elif isinstance(event, SubCaseEnded):
            if counts and child.waited and not child.cancelled:
                self.known[child.id] = replace(child, status=event.status, value=event.value, reason=event.reason)
                tally = self.tallies.setdefault(child.activation, Tally())
                if event.status is CaseStatus.COMPLETED:
                    tally.completed += 1
                else:
                    tally.lost += 1
            else:
                del self.known[child.id]

    def forget_cancelled(self) -> None:
        """Forget those that were told to end: nobody waits to hear that they have."""
        self.known = {id: child for id, child in self.known.items() if not child.cancelled}

    def forget_all(self) -> None:
        """Forget all of them: they are another case's, and what they count for begins anew."""
        self.known, self.tallies = {}, {}

    def forget(self, activation: ActivationId) -> None:
        """Forget those of an attempt that have ended: it is over."""
        if self.tallies.pop(activation, None) is None:
            return
        for child in self.of(activation):
            if child.status is not None:
                del self.known[child.id]
