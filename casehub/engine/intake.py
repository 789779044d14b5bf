"""What inputs say: from the state and an input to the first events of its turn.

What people do, what sub-cases come to and what gates hold has modules of its own; `casehub.engine.takes` has the whole table.

An input that the case does not take raises `InputRefusedError` before anything is recorded. One that changes nothing
(an equal value, a late answer) leads to no events.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from casehub.activation import Activation
from casehub.engine.attempts import start_pending
from casehub.engine.compensating import by_hand
from casehub.engine.completions import completed, equal, visible
from casehub.engine.failures import failed
from casehub.engine.letters import discarded, retried
from casehub.engine.quarantine import held, quarantined, released
from casehub.engine.timekeeping import strike
from casehub.errors import CaseEndedError, FactsChangedError, InputRefusedError
from casehub.events import (
    CaseStarted,
    CaseStatusChanged,
    ContextChanged,
    DefinitionAdopted,
    DeliberationCancelled,
    Event,
    SignalReceived,
    TimerCancelled,
    TimerId,
    TimerSet,
    WorkerExecutionInterrupted,
    WorkerResultDropped,
)
from casehub.inputs import (
    Adopt,
    Compensate,
    DiscardLetter,
    HoldWorkers,
    Leave,
    Recover,
    ReleaseWorker,
    Resume,
    RetryLetter,
    Returned,
    Start,
    SteerStage,
    Suspend,
    TimerDue,
    Write,
)
from casehub.lifecycle import ActivationStatus, CaseStatus, check_case
from casehub.policies import OnOutcome
from casehub.spi import LoopControl, WorksStages
from casehub.state import CaseState
from casehub.structure import Structure
from casehub.values import ABSENT, Plain

AT_ONCE: Final = 2
"""Crashes under an activation after which its next attempt comes at once; later ones wait, so that others get on."""


@dataclass(slots=True)
class Intake:
    """Takes the inputs of one case. `chance` draws the jitter of retries."""

    state: CaseState
    structure: Structure
    loop: LoopControl
    chance: random.Random

    def start(self, input: Start) -> Iterator[Event]:
        if self.state.version:
            raise InputRefusedError(f"case {self.state.id!r} has been started; give another case_id")
        yield CaseStarted(
            structure=self.structure.hash,
            budget=input.budget,
            goal=input.goal,
            trace=input.trace,
            deadline=input.deadline,
            by=input.by,
        )
        yield from quarantined(self.state, input.quarantined)
        if input.facts:
            yield ContextChanged(facts=input.facts, confidence=input.confidence or None, by=input.by)
        if input.held:
            yield CaseStatusChanged(
                before=CaseStatus.RUNNING, after=CaseStatus.SUSPENDED, reason=input.held, by=input.by
            )

    def write(self, input: Write) -> Iterator[Event]:
        state = self.state
        self.check_open("take facts")
        facts: Mapping[str, Plain] = input.facts
        if input.expected is not None:
            self._check_expected(input.expected, facts)
        if input.absent_only:
            facts = {name: value for name, value in facts.items() if not visible(self.state, name)}
        deleted = [name for name in input.delete if name in state.facts and state.facts[name].value is not ABSENT]
        if input.clear:
            kept = self.structure.definition.protected
            deleted += [
                n for n, fact in state.facts.items() if fact.value is not ABSENT and n not in kept and n not in deleted
            ]
        hidden = tuple(name for name in input.hide if name in state.facts and not state.facts[name].hidden)
        shown = tuple(name for name in input.show if name in state.facts and state.facts[name].hidden)
        sure = input.confidence
        changed = {n: v for n, v in facts.items() if not equal(state, self.structure, n, v, sure.get(n))}
        deleted = [name for name in deleted if name not in facts]
        change = changed or deleted or hidden or shown
        heard = any(signal in self.structure.triggered_by_signal or signal not in facts for signal in input.signals)
        yield from input.notes
        if input.signals and (change or heard):
            yield SignalReceived(signals=input.signals, reason=input.reason, by=input.by)
        if change:
            cause = state.version if input.signals else 0
            gone = tuple(deleted)
            yield ContextChanged(
                facts=changed,
                deleted=gone,
                hidden=hidden,
                shown=shown,
                confidence={name: sure[name] for name in changed if name in sure} or None,
                by=input.by,
                cause=cause,
            )

    def _check_expected(self, expected: int, facts: Iterable[str]) -> None:
        state = self.state
        if expected > state.version:
            raise InputRefusedError(
                f"case {state.id!r} is at version {state.version}, and nobody has seen it at {expected}; give "
                "context.version of this case"
            )
        newer = [f"{name!r} (version {state.stamp(name)})" for name in facts if state.stamp(name) > expected]
        if newer:
            raise FactsChangedError(
                f"case {state.id!r}: {', '.join(newer)} changed after version {expected}; read the case again and decide anew"
            )

    def returned(self, input: Returned) -> Iterable[Event]:
        activation = self.state.activations.get(input.activation)
        if activation is None or activation.attempt != input.attempt or activation.status is ActivationStatus.PENDING:
            return () if self.state.status.ended else (self._dropped(input, activation),)
        binding = self.structure.bindings[activation.binding]
        if input.error is None and input.expired is None:
            return completed(self.state, self.structure, self.chance, binding, activation, input)
        return failed(self.state, self.chance, binding, activation, input, input.error)

    def timer_due(self, input: TimerDue) -> Iterator[Event]:
        due = self.state.timers.get(input.timer)
        if due is not None and (input.due is None or due <= input.due):  # it may have been set anew since it came due
            yield strike(self.state, self.structure, input.timer, input.at)

    def retry_letter(self, input: RetryLetter) -> Iterator[Event]:
        return retried(self.state, self.structure, input)

    def discard_letter(self, input: DiscardLetter) -> Iterator[Event]:
        return discarded(self.state, input)

    def compensate(self, input: Compensate) -> Iterator[Event]:
        return by_hand(self.state, self.structure, input)

    def hold_workers(self, input: HoldWorkers) -> Iterator[Event]:
        return held(self.state, input)

    def release_worker(self, input: ReleaseWorker) -> Iterator[Event]:
        return released(self.state, input)

    def adopt(self, input: Adopt) -> Iterator[Event]:
        state = self.state
        if state.structure != self.structure.hash:
            yield DefinitionAdopted(structure=self.structure.hash)
            for timer in list(state.timers):
                purpose, _, name = timer.partition(":")
                if purpose == "sla" and name not in self.structure.milestones:
                    yield TimerCancelled(timer=timer)
            if state.deliberating:  # what is asked is about the version that was
                yield DeliberationCancelled(deliberation=state.deliberation)

    def suspend(self, input: Suspend) -> Iterator[Event]:
        check_case(self.state.id, "be suspended", self.state.status, CaseStatus.SUSPENDED)
        yield CaseStatusChanged(before=self.state.status, after=CaseStatus.SUSPENDED, reason=input.reason, by=input.by)

    def steer_stage(self, input: SteerStage) -> Iterable[Event]:
        self.check_open(f"{input.verb} a stage")
        if not isinstance(self.loop, WorksStages):
            raise InputRefusedError(
                f"case {self.state.id!r} has no stage {input.stage!r}: its loop control, {type(self.loop).__name__}, works "
                "none; declare stages and give CaseHub a PlanningStrategyLoopControl as loop="
            )
        return self.loop.direct(self.state, input)

    def recover(self, input: Recover) -> Iterator[Event]:
        state, only = self.state, input.activation
        if state.deliberating and only is None:
            yield DeliberationCancelled(deliberation=state.deliberation)
        for activation in list(state.activations.values()):
            if activation.status is ActivationStatus.RUNNING and only in (None, activation.id):
                policy = self.structure.bindings[activation.binding].policy
                crashes = 0 if only is not None else activation.interruptions - activation.parks + 1
                lost = crashes >= policy.retry.crashes
                yield interrupted(activation, policy.outcomes.exhausted if lost else None, parked=only is not None)
                if crashes > AT_ONCE and not lost:
                    due = input.at + policy.retry.delay(crashes - AT_ONCE, self.chance)
                    yield TimerSet(timer=TimerId(f"retry:{activation.id}"), due=due)
        if state.status.working:
            yield from start_pending(state, self.structure)

    def leave(self, input: Leave) -> Iterator[Event]:
        for activation in list(self.state.activations.values()):
            if activation.status is ActivationStatus.RUNNING:
                yield interrupted(activation, left=True)

    def resume(self, input: Resume) -> Iterator[Event]:
        state = self.state
        after = CaseStatus.RUNNING if state.compensations.ending is None else CaseStatus.COMPENSATING
        check_case(state.id, "be resumed", state.status, after, (CaseStatus.SUSPENDED,))
        yield CaseStatusChanged(before=CaseStatus.SUSPENDED, after=after, reason=input.reason, by=input.by)
        yield from start_pending(state, self.structure)

    # ---- what is there already

    def _dropped(self, input: Returned, activation: Activation | None) -> Event:
        binding = str(input.activation).rsplit("/", 2)[1]
        if activation is None:
            why = "its activation had ended"
        elif activation.attempt == input.attempt:
            why = f"attempt {input.attempt} had ended, and another one follows"
        else:
            why = f"attempt {activation.attempt} is the current one"
        worker = binding if activation is None else activation.worker
        return WorkerResultDropped(
            binding=binding, activation=input.activation, worker=worker, attempt=input.attempt, reason=why
        )

    def check_open(self, verb: str) -> None:
        """Raise `CaseEndedError` for a case that has ended."""
        status = self.state.status
        if status.ended:
            raise CaseEndedError(
                f"case {self.state.id!r} cannot {verb}: it is {status}, a terminal status; start a new case instead"
            )


def interrupted(
    activation: Activation, then: OnOutcome | None = None, *, parked: bool = False, left: bool = False
) -> WorkerExecutionInterrupted:
    """Its process has ended, or does; `then`: what follows, where it is over."""
    return WorkerExecutionInterrupted(
        binding=activation.binding,
        activation=activation.id,
        worker=activation.worker,
        attempt=activation.attempt,
        settled=then is not None,
        then=(then or OnOutcome.RETRY).value,
        parked=parked,
        left=left,
    )
