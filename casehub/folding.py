"""The fold: how each event changes the state of a case.

`apply` is total: it runs no user code, looks nothing up in the definition and never fails on a log that was written.
So replay only folds; reacting and selecting happen live, once, and leave their results in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from casehub.actions import ActionEvent, ActionPlanned
from casehub.activation import Activation, MilestoneState
from casehub.compensation import DEADLINE
from casehub.context import Fact, change
from casehub.envelope import subtypes
from casehub.events import (
    BudgetExhausted,
    CaseCompensating,
    CaseForked,
    CaseId,
    CaseStalled,
    CaseStarted,
    CaseStatusChanged,
    CaseUnfaulted,
    CompensationEnabled,
    CompensationStarted,
    ContextChanged,
    DeadLetterDiscarded,
    DeadLetterRetried,
    DefinitionAdopted,
    DeliberationCancelled,
    DeliberationFailed,
    DeliberationFinished,
    DeliberationStarted,
    DeliberationTimedOut,
    Event,
    GoalReached,
    LimitReached,
    MilestoneActivated,
    MilestoneReached,
    MilestoneSlaViolated,
    SelectionDropped,
    SignalReceived,
    TimerCancelled,
    TimerFired,
    TimerSet,
    WorkerExecutionCancelled,
    WorkerExecutionFinished,
    WorkerExecutionRerouted,
    WorkerExecutionStarted,
    WorkerQuarantined,
    WorkerReleased,
    WorkerScheduled,
)
from casehub.lifecycle import ActivationStatus, CaseStatus, MilestoneStatus, SlaStatus
from casehub.state import CaseState
from casehub.subcase_events import SubCaseEnded, SubCaseEvent, SubCaseStarted
from casehub.task_events import HumanTaskEvent


def apply(state: CaseState, event: Event) -> None:
    """Take one event in. Events come in the order of their versions."""
    state.version = event.version
    state.occurrences[event.name] = event.version
    envelope = event.envelope
    if state.turn != envelope.turn:
        state.turn = envelope.turn
        state.changed_at = envelope.at
        if envelope.at >= state.spending.midnight:
            state.spending.begin_day(envelope.at)
    change_of = _FOLDS.get(type(event))
    if change_of is not None:
        change_of(state, event)


def fold(case: CaseId, events: Iterable[Event], state: CaseState | None = None) -> CaseState:
    """The state that a log comes to; `state`: where to go on from."""
    result = state or CaseState(case)
    for event in events:
        apply(result, event)
    return result


def _started(state: CaseState, event: Any) -> None:
    envelope = event.envelope
    state.definition, state.tenant = envelope.definition, envelope.tenant
    state.structure = event.structure
    state.purpose = event.goal
    state.trace = event.trace
    state.deadline = event.deadline
    state.started_at = envelope.at
    state.status = event.after
    state.spending.inherited = event.budget


def _status_changed(state: CaseState, event: Any) -> None:
    state.status = event.after
    state.reason = event.reason
    if event.after is not CaseStatus.WAITING:
        state.stalled = ()
    if event.after.ended:
        state.ended_by = event.by
        state.put_away, state.timers = state.timers, {}
        state.compensations.ending = None


def _compensating(state: CaseState, event: Any) -> None:
    _status_changed(state, event)
    state.compensations.start(event)


def _compensation_enabled(state: CaseState, event: Any) -> None:
    if (activation := state.activations.get(event.activation)) is not None:
        state.compensations.enable(event, activation, state.facts)


def _compensation_started(state: CaseState, event: Any) -> None:
    state.compensations.begin(event)


def _forked(state: CaseState, event: Any) -> None:
    _status_changed(state, event)
    state.children.forget_all()  # they are the source's
    state.deadline = None  # and so is its parent


def _unfaulted(state: CaseState, event: Any) -> None:
    _status_changed(state, event)
    state.ended_by = ""
    for goal in event.goals:
        state.goals.pop(goal, None)
    state.children.forget_cancelled()
    for undone in state.compensations.goes_on():  # what was undone counts as not done
        firing = state.firing(undone.binding)
        if undone.activation.endswith(f"/{firing.count}"):
            firing.give_back()


def _context_changed(state: CaseState, event: Any) -> None:
    firing = state.firings.get(event.binding) if event.binding else None
    if firing is not None and (seen := firing.stamps):  # what a worker writes itself counts as seen by it
        written = (*event.facts, *event.deleted)
        own = {name: event.version for name in written if name in seen and seen[name] == state.stamp(name)}
        if own:
            firing.stamps = {**seen, **own}
    change(state.facts, event)
    state.stalled = ()
    if event.binding and state.compensations.undoable:
        state.compensations.wrote(event, state.facts)


def _signal(state: CaseState, event: Any) -> None:
    for signal in event.signals:
        state.occurrences[f"SIGNAL_RECEIVED:{signal}"] = event.version


def _scheduled(state: CaseState, event: Any) -> None:
    state.firing(event.binding).begin(event.activation, event.stamps, event.occurrence)
    facts: Mapping[str, Fact] = state.facts
    undone = state.compensations.under_way.get(event.activation)
    if undone is not None:
        seen = {name: fact for name, fact in undone.facts.items() if fact.stamp == event.stamps.get(name)}
        facts = {**facts, **seen}
    state.fired += 1
    state.stalled = ()
    state.activations[event.activation] = Activation(
        event.activation,
        event.binding,
        event.worker,
        {name: facts[name] for name in event.stamps if name in facts},
        event.version,
        due=event.due,
        undoes=None if undone is None else undone.activation,
    )


def _attempt_started(state: CaseState, event: Any) -> None:
    activation = state.activations.get(event.activation)
    if activation is not None:
        activation.attempt = event.attempt
        activation.worker = event.worker
        activation.status = ActivationStatus.RUNNING
        state.spending.call(event.binding)


def _attempt_finished(state: CaseState, event: Any) -> None:
    activation = state.activations.get(event.activation)
    if event.charges:
        state.spending.charge(event.binding, event.charges)
    if activation is None:
        return
    if state.children.known:
        state.children.forget(activation.id)
    firing = state.firing(event.binding)
    firing.outcome, firing.then = event.name, event.then
    if event.then == "reroute":
        to = event.to if isinstance(event, WorkerExecutionRerouted) else ""
        firing.excluded = (*(name for name in firing.excluded if name != to), event.worker)
    if not event.settled:
        activation.end_attempt(event)
        return
    del state.activations[event.activation]
    if state.compensations.under_way:
        state.compensations.settled(event)
    if event.then.startswith("fault"):
        state.occurrences[f"FAULTED:{event.binding}"] = event.version
    firing.end(getattr(event, "message", "") or getattr(event, "reason", ""))
    if isinstance(event, WorkerExecutionCancelled):
        firing.give_back()


def _letter_retried(state: CaseState, event: Any) -> None:
    firing = state.firing(event.binding)
    firing.give_back()
    firing.then, firing.wanted = "retry", event.worker
    state.compensations.again(event.activation)
    state.stalled = ()


def _letter_discarded(state: CaseState, event: Any) -> None:
    state.firing(event.binding).then = "discard"


def _task(state: CaseState, event: Any) -> None:
    task = state.tasks.apply(event, state.structure)
    activation = state.activations.get(event.activation)
    if activation is not None:
        if task is not None and task.status.ended:
            activation.answer(task)
        if activation.status is not ActivationStatus.PENDING:  # else its attempt is over, and its tasks are called off
            with_people = bool(state.tasks.of(event.activation))
            activation.status = ActivationStatus.DELEGATED if with_people else ActivationStatus.RUNNING


def _action(state: CaseState, event: Any) -> None:
    if (activation := state.activations.get(event.activation)) is not None:
        activation.take(event)
    if isinstance(event, ActionPlanned) and event.charges:
        state.spending.charge(event.binding, event.charges)


def _quarantined(state: CaseState, event: Any) -> None:
    state.quarantined[event.worker] = event.until


def _released(state: CaseState, event: Any) -> None:
    state.quarantined.pop(event.worker, None)
    state.stalled = ()


def _sub_case(state: CaseState, event: Any) -> None:
    activation = state.activations.get(event.activation)
    state.children.apply(event, counts=activation is not None)
    if isinstance(event, SubCaseStarted) and event.waited and activation is not None:
        activation.status = ActivationStatus.DELEGATED
    elif isinstance(event, SubCaseEnded) and event.charges:
        state.spending.charge(event.binding, event.charges)


def _goal_reached(state: CaseState, event: Any) -> None:
    state.goals[event.goal] = event.version


def _milestone_activated(state: CaseState, event: Any) -> None:
    state.milestones[event.milestone] = MilestoneState(MilestoneStatus.ACTIVE, SlaStatus.ON_TRACK)


def _milestone_reached(state: CaseState, event: Any) -> None:
    reached = state.milestones[event.milestone]
    reached.status, reached.at = MilestoneStatus.ACHIEVED, event.at


def _sla_violated(state: CaseState, event: Any) -> None:
    state.milestones[event.milestone].sla = SlaStatus.BREACHED


def _timer_set(state: CaseState, event: Any) -> None:
    state.timers[event.timer] = event.due
    if event.since is not None:
        state.anchors[event.timer] = event.since


def _timer_gone(state: CaseState, event: Any) -> None:
    state.timers.pop(event.timer, None)


def _timer_fired(state: CaseState, event: Any) -> None:
    state.timers.pop(event.timer, None)
    purpose, _, what = event.timer.partition(":")
    if purpose == "budget":  # a day's budget begins again
        scope, _, unit = what.rpartition(".")
        state.held.discard((scope, unit))
    elif event.timer == DEADLINE:
        state.compensations.overdue = True
    if event.due is not None:
        state.occurred[event.timer] = event.due
        if not event.skipped:
            state.occurrences[f"{event.name}:{event.timer}"] = event.version


def _stalled(state: CaseState, event: Any) -> None:
    state.stalled = event.reasons


def _adopted(state: CaseState, event: Any) -> None:
    state.structure = event.structure
    state.tasks.adopt(event.structure)


def _limit_reached(state: CaseState, event: Any) -> None:
    state.held.add((event.subject, event.limit))


def _budget_exhausted(state: CaseState, event: Any) -> None:
    state.held.add((event.scope, event.unit))


def _deliberation_started(state: CaseState, event: Any) -> None:
    state.deliberation = event.deliberation
    state.deliberating = True


def _deliberation_answered(state: CaseState, event: Any) -> None:
    state.deliberating = False
    state.failed_deliberations = 0


def _deliberation_failed(state: CaseState, event: Any) -> None:
    state.deliberating = False
    state.failed_deliberations += 1


def _deliberation_cancelled(state: CaseState, event: Any) -> None:
    state.deliberating = False


def _selection_dropped(state: CaseState, event: Any) -> None:
    state.firing(event.binding).drops += 1


_FOLDS: dict[type[Event], Callable[[CaseState, Any], None]] = {
    **dict.fromkeys(subtypes(CaseStatusChanged), _status_changed),
    **dict.fromkeys(subtypes(WorkerExecutionFinished), _attempt_finished),
    **dict.fromkeys(subtypes(HumanTaskEvent), _task),
    **dict.fromkeys(subtypes(SubCaseEvent), _sub_case),
    **dict.fromkeys(subtypes(ActionEvent), _action),
    CaseStarted: _started,
    CaseCompensating: _compensating,
    CompensationEnabled: _compensation_enabled,
    CompensationStarted: _compensation_started,
    CaseForked: _forked,
    CaseUnfaulted: _unfaulted,
    ContextChanged: _context_changed,
    SignalReceived: _signal,
    WorkerScheduled: _scheduled,
    WorkerExecutionStarted: _attempt_started,
    DeadLetterRetried: _letter_retried,
    DeadLetterDiscarded: _letter_discarded,
    WorkerQuarantined: _quarantined,
    WorkerReleased: _released,
    GoalReached: _goal_reached,
    MilestoneActivated: _milestone_activated,
    MilestoneReached: _milestone_reached,
    MilestoneSlaViolated: _sla_violated,
    TimerSet: _timer_set,
    TimerFired: _timer_fired,
    TimerCancelled: _timer_gone,
    CaseStalled: _stalled,
    DefinitionAdopted: _adopted,
    LimitReached: _limit_reached,
    BudgetExhausted: _budget_exhausted,
    DeliberationStarted: _deliberation_started,
    DeliberationFinished: _deliberation_answered,
    DeliberationTimedOut: _deliberation_failed,
    DeliberationFailed: _deliberation_failed,
    DeliberationCancelled: _deliberation_cancelled,
    SelectionDropped: _selection_dropped,
}
