"""What is declared of a case: collected in order, with the mistakes in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from casehub.activities import Activity
from casehub.binding import Binding, On, Worker, trigger_of
from casehub.condition import Condition
from casehub.declared import declared, name_of
from casehub.errors import Problem
from casehub.gate import Gate
from casehub.goals import Goal, Milestone
from casehub.policies import OnOutcome, PolicyOptions, policy_of
from casehub.sentry import Guard, Sentry, as_sentry
from casehub.stage import Stage
from casehub.subcase import SubCase
from casehub.wiring import WiringError


class Declarations:
    """The declarations of one definition.

    `returned`: from a worker to the annotation of what it writes; `resources`: what each offers and what opens it;
    `problems`: what is wrong with what was declared, for whoever builds from it.
    """

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.bindings: list[Binding] = []
        self.conditions: list[Condition] = []
        self.milestones: list[Milestone] = []
        self.goals: list[Goal] = []
        self.stages: list[Stage] = []
        self.returned: dict[str, Any] = {}
        self.resources: dict[str, tuple[Any, Callable[[], AsyncIterator[Any]]]] = {}
        self.activities: list[Activity] = []
        self.flags: list[str] = []
        self.problems: list[Problem] = []

    def _collect(
        self, worker: Worker, when: Guard | None, on: On | Sequence[On], policy: PolicyOptions, namespace: Mapping[str, Any]
    ) -> None:  # fmt: skip
        """Take a worker in, with a binding of its own unless it has a capability."""
        self.workers.append(worker)
        if not worker.capability:
            self._bind(worker.name, (worker,), when, on, policy, namespace)
        elif lost := [*policy, *(["when"] if when is not None else ()), *(["on"] if on else ())]:
            self.problems.append(
                Problem(
                    f"worker {worker.name!r}",
                    f"has a capability, and {', '.join(lost)} would be of its binding",
                    f"give that to binding(..., capability={worker.capability!r})",
                )
            )

    def _worker(
        self, function: Callable[..., Any], name: str | None, writes: str | Sequence[str] | None, capability: str,
        namespace: Mapping[str, Any], *, people: bool = False, sub_case: Callable[[Any], SubCase] | None = None,
        gate: Gate[Any] | None = None,
    ) -> Worker | None:  # fmt: skip
        name = name or name_of(function)
        try:
            found = declared(function, name, writes, capability, namespace, people=people, sub_case=sub_case, gate=gate)
        except WiringError as error:
            self._problem(f"worker {name!r}", error)
            return None
        if found.unsaid:
            self.problems.append(
                Problem(f"worker {name!r}", "its return annotation does not say which facts it writes", "give writes=")
            )
        self.returned[name] = found.returns
        return found.worker

    def _bind(
        self, name: str, workers: tuple[Worker, ...], when: Guard | None, on: On | Sequence[On],
        policy: PolicyOptions, namespace: Mapping[str, Any],
    ) -> None:  # fmt: skip
        guard = None if when is None else self._guard(f"binding {name!r}", when, namespace)
        if any(worker.form is not None for worker in workers):  # people are not asked again unless somebody says so
            policy = {"on_expired": OnOutcome.FAULT_ITEM, **policy}
        if callable(of := policy.get("compensates")):
            policy = {**policy, "compensates": self._member(of)}
        self.bindings.append(Binding(name, workers, guard, trigger_of(on), policy_of(policy)))

    def _member(self, member: str | Callable[..., Any]) -> str:
        """The name of a binding or another member; a worker's function stands for the binding that runs it."""
        if isinstance(member, str):
            return member
        for binding in self.bindings:
            if any(worker.function is member for worker in binding.workers):
                return binding.name
        return name_of(member)

    def _guard(self, subject: str, guard: Guard, namespace: Mapping[str, Any]) -> Sentry | None:
        try:
            return as_sentry(guard, namespace)
        except WiringError as error:
            self._problem(subject, error)
            return None

    def _problem(self, subject: str, error: WiringError) -> None:
        self.problems.append(Problem(subject, str(error), error.remedy))
