"""Case definitions in Python: what a kind of case is made of, declared by decorators.

A `CaseDefinition` only collects; nothing runs and nothing is checked until a hub is built from it. Decorators return
the function unchanged, so workers stay ordinary functions that tests can call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack, cast, overload

from casehub.activities import COMPLETE, Value, activity_of
from casehub.binding import On, Worker
from casehub.compensation import Compensation
from casehub.condition import Affirmed, Condition
from casehub.declarations import Declarations
from casehub.declared import name_of, named_types, offered_by
from casehub.durations import Duration, duration
from casehub.each import Each, elements, of_an_element, of_the_whole, whole
from casehub.errors import Problem
from casehub.gate import Gate
from casehub.goals import Goal, GoalExpression, Milestone, as_expression
from casehub.humantask import HumanTask
from casehub.policies import UNREPEATED, Budget, Limits, PolicyOptions
from casehub.sentry import Guard
from casehub.serialized import FactSerializer, Upcast
from casehub.stage import Stage, StageFault
from casehub.subcase import Rest, SubCase, is_several
from casehub.wiring import WiringError, namespace_of_caller

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=Callable[..., Mapping[str, Any] | Sequence[Mapping[str, Any]]])
P = TypeVar("P", bound=Callable[..., bool | None])
H = TypeVar("H", bound=Callable[..., HumanTask[Any]])
T = TypeVar("T")
U = TypeVar("U", bound=Callable[[Any], Any])


class CaseDefinition(Declarations):
    """A kind of case.

    - `goal`: what completes it: the name of a goal or fact, or an expression (`all_of`, `any_of`) of such names;
      `done_when`: a condition instead; `at_quiescence=True`: when nothing is left to do.
    - `inputs`: a model (pydantic, dataclass, TypedDict) that declares and types the facts that `start` takes. Without
      it a fact that workers read and nothing writes is an input.
    - `facts`: types of facts that workers write, by name, where an annotation does not say them.
    - `signals`: facts that may come from outside later: names, types, or a mapping of names to types.
      `external`: the same for facts that other systems bring.
    - `strict=False` lets a definition build although a fact that it reads is written by nobody.
    - `protected`: facts that clearing the context leaves.
    - `budget`, `limits`: bounds of one case; `compensation`: when it undoes what it did.
    - `serializers`: how some of its facts are stored, before those of the hub (see `casehub.serialized`).
    """

    def __init__(
        self,
        name: str,
        *,
        goal: str | GoalExpression | None = None,
        done_when: Guard | None = None,
        at_quiescence: bool = False,
        inputs: type | None = None,
        facts: Mapping[str, Any] | None = None,
        signals: Iterable[str | type] | Mapping[str, Any] = (),
        external: Iterable[str | type] | Mapping[str, Any] = (),
        budget: Budget | None = None,
        limits: Limits | None = None,
        compensation: Compensation | None = None,
        protected: Iterable[str] = (),
        strict: bool = True,
        title: str = "",
        serializers: Sequence[FactSerializer] = (),
    ) -> None:
        super().__init__()
        self.name = name
        self.title = title or name
        self.completion = None if goal is None else as_expression(goal)
        self.at_quiescence = at_quiescence
        self.inputs = inputs
        self.facts = dict(facts or {})
        self.signals = named_types(signals)
        self.external = named_types(external)
        self.budget = budget
        self.limits = limits or Limits()
        self.compensation = compensation or Compensation()
        self.protected = frozenset(protected)
        self.strict = strict
        self.serializers = tuple(serializers)
        self.upcasts: dict[str, Upcast] = {}
        self.sub_cases: dict[str, CaseDefinition] = {}
        self.done_when = None if done_when is None else self._guard("done_when", done_when, namespace_of_caller())

    def __repr__(self) -> str:
        return f"CaseDefinition({self.name!r})"

    @overload
    def worker(self, function: F, /) -> F: ...
    @overload
    def worker(
        self,
        /,
        *,
        name: str | None = None,
        writes: str | Sequence[str] | None = None,
        when: Guard | None = None,
        on: On | Sequence[On] = (),
        each: str | None = None,
        need: int | None = None,
        rest: Rest | str = Rest.CANCEL,
        capability: str = "",
        gate: Gate[Any] | None = None,
        **policy: Unpack[PolicyOptions],
    ) -> Callable[[F], F]: ...
    def worker(
        self,
        function: F | None = None,
        /,
        *,
        name: str | None = None,
        writes: str | Sequence[str] | None = None,
        when: Guard | None = None,
        on: On | Sequence[On] = (),
        each: str | None = None,
        need: int | None = None,
        rest: Rest | str = Rest.CANCEL,
        capability: str = "",
        gate: Gate[Any] | None = None,
        **policy: Unpack[PolicyOptions],
    ) -> F | Callable[[F], F]:
        """Declare a worker, and a binding of the same name that runs it.

        Its parameters are what it reads (see `casehub.wiring`). `writes`: the fact that its result becomes, or the
        facts that the mapping it returns may hold; without it a returned class is the fact of its snake_case name.
        `when`: its guard; `on`: what counts as a change, or which events, signals or times trigger it. A `capability` makes
        it one of several alternatives: declare their binding with `binding(name, capability=...)`.

        `each` names a list: the work is done once for every element, which is the first parameter, and what it writes is
        the list of the results, in the same order (see `casehub.each`); `need` of them have to come, by default all, and
        `rest` says what becomes of the others then. `gate`: what its actions pass (see `casehub.gate`).
        """
        namespace = namespace_of_caller()

        def declare(function: F) -> F:
            worker = self._worker(function, name, writes, capability, namespace, gate=gate)
            self._declare(worker, when, on, policy, namespace, elements(each, need, rest))
            return function

        return declare if function is None else declare(function)

    def human_task(
        self,
        *,
        name: str | None = None,
        writes: str | None = None,
        when: Guard | None = None,
        on: On | Sequence[On] = (),
        each: str | None = None,
        need: int | None = None,
        rest: Rest | str = Rest.CANCEL,
        capability: str = "",
        **policy: Unpack[PolicyOptions],
    ) -> Callable[[H], H]:
        """Declare a task for people, and a binding of the same name that asks them.

        The function says what to ask (see `casehub.humantask.HumanTask`); it is called once, when the binding fires, and
        only computes. Its parameters are the facts that it reads and that are shown with the task; `Approval` of its
        annotation `HumanTask[Approval]` is the form, and the answer is the fact that `writes` names, by default the
        form's snake_case name. The options are those of workers; a task that expires is not asked for again unless
        `on_expired` says so. `on_declined="reroute"` offers a task that somebody declines to the others. `each`: a task
        for every element of a list, `need` of which have to be answered, as for workers.
        """
        namespace = namespace_of_caller()

        def declare(function: H) -> H:
            worker = self._worker(function, name, writes, capability, namespace, people=True)
            self._declare(worker, when, on, policy, namespace, elements(each, need, rest))
            return function

        return declare

    def sub_case(
        self,
        definition: CaseDefinition,
        *,
        name: str | None = None,
        writes: str | None = None,
        takes: str | None = None,
        need: int | None = None,
        rest: Rest | str = Rest.CANCEL,
        wait: bool = True,
        when: Guard | None = None,
        on: On | Sequence[On] = (),
        capability: str = "",
        **policy: Unpack[PolicyOptions],
    ) -> Callable[[C], C]:
        """Declare cases of another definition as a worker, and a binding of the same name that starts them.

        The function says what they start with; it is called once, when the binding fires, and only computes. A mapping
        is one sub-case, a list of mappings is one for each; the annotation says which. What it `writes` is the fact
        that `takes` names of a sub-case (by default of the same name), or the list of theirs. Of several, `need` have to
        complete, by default all; `rest` says what becomes of the others then. `wait=False` starts them and goes on.

        A sub-case that does not complete fails the activation; of several, too few that still can decline it. `timeout` is
        a deadline for all of them. Nothing of this is tried again unless `on_failed`, `on_declined`, `on_expired` say so.
        """
        namespace = namespace_of_caller()
        options: PolicyOptions = {**UNREPEATED, **policy}

        def stands_for(returned: Any) -> SubCase:
            taken = (takes or writes) if wait else None
            return SubCase(definition.name, taken, is_several(returned), need, Rest(rest), wait)

        def declare(function: C) -> C:
            self.sub_cases[definition.name] = definition
            worker = self._worker(function, name, writes, capability, namespace, sub_case=stands_for)
            self._declare(worker, when, on, policy if capability else options, namespace)
            return function

        return declare

    def binding(
        self,
        name: str,
        *,
        capability: str,
        when: Guard | None = None,
        on: On | Sequence[On] = (),
        **policy: Unpack[PolicyOptions],
    ) -> None:
        """Declare a binding that any worker of a capability can serve; they are tried in order of declaration."""
        able = tuple(worker for worker in self.workers if worker.capability == capability)
        if not able:
            known = ", ".join(sorted({worker.capability for worker in self.workers if worker.capability})) or "none"
            self.problems.append(
                Problem(
                    f"binding {name!r}",
                    f"no worker has the capability {capability!r} (declared so far: {known})",
                    "declare its workers first",
                )
            )
            return
        self._bind(name, able, when, on, policy, namespace_of_caller())

    def resource(self, opener: Callable[[], AsyncIterator[T]]) -> Callable[[], AsyncIterator[T]]:
        """Declare an async generator that opens something workers share (a client, a model, a pool).

        It is opened once a hub (or worker process), before the first case, and closed when the hub is left. Workers
        get what it yields through a parameter of the type that its return annotation names.
        """
        name = name_of(opener)
        try:
            self.resources[name] = (offered_by(opener, namespace_of_caller()), opener)
        except WiringError as error:
            self._problem(f"resource {name!r}", error)
        return opener

    @overload
    def condition(self, condition: P, /) -> P: ...
    @overload
    def condition(self, condition: str, /, when: Guard | None = None) -> None: ...
    def condition(self, condition: str | Callable[..., bool | None], /, when: Guard | None = None) -> object:
        """Declare a condition by name, for the `needs=` and `brings=` of workers and for `holds(name)` in guards.

        Of a function of facts, as a decorator: it has the function's name, and is unknown where that returns None, or
        while a fact that it requires is missing. Of a name: `when` says what it is; without that it is what the fact of
        its name says, True or False, which a worker writes. It may test those that are declared before it.
        """
        namespace = namespace_of_caller()
        name = condition if isinstance(condition, str) else name_of(condition)
        guard = cast("Guard", condition) if callable(condition) else when
        sentry = Affirmed(name) if guard is None else self._guard(f"condition {name!r}", guard, namespace)
        if sentry is not None:
            self.conditions.append(Condition(name, sentry))
        return condition

    def milestone(self, name: str, when: Guard, *, entry: Guard | None = None, sla: Duration | None = None) -> None:
        """Declare a milestone: reached when `when` holds, awaited from when `entry` holds (the start by default).

        Past `sla` from there a `MILESTONE_SLA_VIOLATED` says that it is late.
        """
        namespace = namespace_of_caller()
        criterion = self._guard(f"milestone {name!r}", when, namespace)
        start = None if entry is None else self._guard(f"milestone {name!r}", entry, namespace)
        if criterion is not None:
            self.milestones.append(Milestone(name, criterion, start, None if sla is None else duration(sla)))

    def stage(
        self,
        name: str,
        *members: str | Callable[..., Any],
        entry: Guard | None = None,
        exit: Guard | None = None,
        optional: Iterable[str | Callable[..., Any]] = (),
        companions: Iterable[str | Callable[..., Any]] = (),
        autocomplete: bool = True,
        on_fault: StageFault | str = StageFault.SETTLE,
        manual: bool = False,
    ) -> None:
        """Declare a stage: its members are workers (or the names of bindings), milestones and other stages.

        See `casehub.stage.Stage` for the options. A binding that is a member fires only while the stage is active. It
        takes a loop control that works stages; `CaseHub` refuses the definition with any other.
        """
        namespace = namespace_of_caller()
        subject = f"stage {name!r}"
        start = None if entry is None else self._guard(subject, entry, namespace)
        end = None if exit is None else self._guard(subject, exit, namespace)
        self.stages.append(
            Stage(
                name,
                tuple(self._member(each) for each in members),
                start,
                end,
                frozenset(self._member(each) for each in optional),
                frozenset(self._member(each) for each in companions),
                autocomplete,
                StageFault(on_fault),
                manual,
            )
        )

    def goal(self, name: str, when: Guard, *, failure: bool = False) -> None:
        """Declare a goal: reached when `when` holds for the first time. A `failure` goal faults the case."""
        criterion = self._guard(f"goal {name!r}", when, namespace_of_caller())
        if criterion is not None:
            self.goals.append(Goal(name, criterion, failure))

    def activity(
        self,
        name: str,
        *,
        signal: str | type | None = None,
        worker: str | Callable[..., Any] | None = None,
        value: Value | None = None,
        transition: str = COMPLETE,
    ) -> None:
        """Say what an activity in another system's log means when the log is replayed into cases.

        It is a signal, or the result of a worker, which is then not run. `value`: a function of the logged event; without
        it the signal's or worker's type is filled by the names of its fields (see `casehub.activities`). `transition`: the
        step in the activity's own life that counts, as logs write it. Raises `SettingsError` unless one of both is given.
        """
        self.activities.append(activity_of(name, signal, worker, value, transition))

    def upcast(self, fact: str) -> Callable[[U], U]:
        """Declare a function that makes of a value as it was once stored one that the fact's type reads.

        It is asked where what is stored does not fit the type any more, with the plain value. What is stored stays.
        """

        def declare(function: U) -> U:
            self.upcasts[fact] = function
            return function

        return declare

    def flag(self, fact: str) -> None:
        """Name a fact, written by a worker, that marks a case for somebody's attention: summaries name these cases."""
        self.flags.append(fact)

    def _declare(
        self, worker: Worker | None, when: Guard | None, on: On | Sequence[On], policy: PolicyOptions,
        namespace: Mapping[str, Any], each: Each | None = None,
    ) -> None:  # fmt: skip
        """Take a worker in, with a binding of its own unless it has a capability."""
        if worker is None:
            return
        if each is not None:
            try:
                options = of_the_whole(policy, capable=bool(worker.capability))
                worker, policy = self._split(worker, each, policy, namespace), options
            except WiringError as error:
                self._problem(f"worker {worker.name!r}", error)
                return
        self._collect(worker, when, on, policy, namespace)

    def _split(self, worker: Worker, each: Each, policy: PolicyOptions, namespace: Mapping[str, Any]) -> Worker:
        """The worker that starts a sub-case an element, each worked by this one. Raises `WiringError`."""
        part = CaseDefinition(f"{self.name}.{worker.name}", at_quiescence=True)
        starter = whole(worker, each, part.name)
        part.resources, part.returned, part.serializers = self.resources, self.returned, self.serializers
        part._declare(replace(worker, capability=""), None, (), of_an_element(worker, policy), namespace)
        self.sub_cases[part.name] = part
        return starter
