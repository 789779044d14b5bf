"""One case without I/O: inputs go in, turns come out, time passes by hand.

After every turn the log is folded again and compared with the state, so each test here is a test of replay too.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from casehub.activation import Activation
from casehub.adapters.memory import MemoryStore
from casehub.definition import CaseDefinition
from casehub.durations import Duration, duration
from casehub.engine.choreography import ChoreographyLoopControl
from casehub.engine.live import LiveCase
from casehub.engine.recovery import restore
from casehub.events import CaseId, Event
from casehub.explanation import Explanation
from casehub.inputs import Cancel, Deliberated, Input, Recover, Resume, Returned, Start, Suspend, TimerDue, Write
from casehub.lifecycle import ActivationStatus, CaseStatus
from casehub.spi import LoopControl, Turn
from casehub.state import CaseState
from casehub.structure import started_with
from casehub.validation import build
from casehub.values import ABSENT
from casehub.wiring import Source

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
REPLAYED = 300
"""Events up to which the log is folded again after every turn."""


class Core:
    """A `LiveCase` with its log and its time. `turn`: the last one; `worked`: the bindings whose workers ran, in order."""

    def __init__(self, definition: CaseDefinition, *, loop: LoopControl | None = None, seed: int = 1) -> None:
        self.structure = build(definition)
        self.loop = loop or ChoreographyLoopControl()
        self.chance = random.Random(seed)
        self.history = MemoryStore()
        state = CaseState(CaseId("c"), definition=definition.name, control=self.loop.initial())
        self.live = LiveCase(state, self.structure, self.loop, self.history, self.chance)
        self.now = NOON
        self.log: list[Event] = []
        self.worked: list[str] = []
        self.turn: Turn | None = None

    # ---- inputs

    def take(self, input: Input) -> list[Event]:
        """The events of the turn that an input leads to."""
        input.at = self.now
        self.turn = self.live.take(input)
        self.log += self.turn.events
        if len(self.log) <= REPLAYED:
            self.replayed()
        return self.turn.events

    def start(self, *, by: str = "user:ada", **facts: Any) -> list[Event]:
        return self.take(Start(facts=started_with(self.structure, facts, self.state), by=by))

    def signal(self, *, by: str = "user:ada", **facts: Any) -> list[Event]:
        return self.take(Write(signals=tuple(facts), facts=facts, by=by))

    def occur(self, signal: str) -> list[Event]:
        """A signal that brings nothing."""
        return self.take(Write(signals=(signal,)))

    def write(self, **options: Any) -> list[Event]:
        return self.take(Write(**options))

    def delete(self, *names: str) -> list[Event]:
        return self.take(Write(delete=names))

    def returns(self, binding: str, value: object = None, charges: Mapping[str, float] | None = None) -> list[Event]:
        """The worker of a binding that runs comes back with a value."""
        return self.take(self._result(binding, value=value, charges=charges))

    def raises(self, binding: str, error: BaseException) -> list[Event]:
        return self.take(self._result(binding, error=error))

    def expires(self, binding: str, limit: float = 1.0) -> list[Event]:
        return self.take(self._result(binding, expired=limit))

    def suspend(self) -> list[Event]:
        return self.take(Suspend(by="user:ada"))

    def resume(self) -> list[Event]:
        return self.take(Resume(by="user:ada"))

    def cancel(self, reason: str = "") -> list[Event]:
        return self.take(Cancel(by="user:ada", reason=reason))

    def answer(
        self, *chosen: str, stamps: Mapping[str, Mapping[str, int]] | None = None, **options: Any
    ) -> list[Event]:
        """The loop control answers the deliberation under way, having seen what the case is now."""
        number = options.pop("number", self.state.deliberation)
        seen = stamps if stamps is not None else self.seen()
        return self.take(Deliberated(number=number, chosen=chosen, stamps=seen, **options))

    def seen(self) -> dict[str, dict[str, int]]:
        """What a loop control that is asked now sees of each binding."""
        bindings = self.structure.bindings.values()
        return {b.name: {name: self.state.stamp(name) for name in b.reads} for b in bindings}

    # ---- work and time

    def run(self, limit: int = 100) -> list[str]:
        """Run workers, oldest activation first, until none is left to run; the bindings they belong to."""
        ran: list[str] = []
        while self.running and len(ran) < limit:
            binding = self.running[0]
            ran.append(binding)
            activation = self.activation(binding)
            worker = self.structure.bindings[binding].worker_named(activation.worker)
            given = {}
            for parameter in worker.parameters:
                fact = activation.facts.get(parameter.target)
                if parameter.source is Source.FACT and fact is not None and fact.value is not ABSENT:
                    given[parameter.name] = parameter.type.restore(fact.value, fact.name)
            try:
                value = _finished(worker.function(**given))
            except Exception as error:
                self.raises(binding, error)
            else:
                self.returns(binding, value)
        self.worked += ran
        return ran

    def pass_time(self, span: Duration) -> list[Event]:
        """Let time pass; timers fire when they are due. The events of all their turns."""
        end = self.now + duration(span)
        events: list[Event] = []
        while due := sorted((due, timer) for timer, due in self.state.timers.items() if due <= end):
            self.now = max(self.now, due[0][0])
            events += self.take(TimerDue(timer=due[0][1]))
        self.now = end
        return events

    def crash(self) -> list[Event]:
        """The process ends; another one folds the log and takes the case up again."""
        self.reload()
        return self.take(Recover())

    def reload(self) -> None:
        """Another process folds the log."""
        self.live = self.replayed()

    def replayed(self) -> LiveCase:
        """The case folded from its log, which must be the case as it is."""
        again = restore(self.state.id, self.log, self.structure, self.loop, self.history, self.chance)
        again.state.definition = again.state.definition or self.state.definition
        assert again.state == self.state, "the log folds to another state"
        return again

    # ---- looking

    @property
    def state(self) -> CaseState:
        return self.live.state

    @property
    def status(self) -> CaseStatus:
        return self.live.state.status

    @property
    def running(self) -> list[str]:
        """Bindings whose workers run now."""
        return [a.binding for a in self.state.activations.values() if a.status is ActivationStatus.RUNNING]

    def activation(self, binding: str) -> Activation:
        found = [a for a in self.state.activations.values() if a.binding == binding]
        assert found, f"{binding} is not in flight; {self.running} are"
        return found[0]

    @property
    def facts(self) -> dict[str, Any]:
        """The visible facts."""
        return {name: fact.value for name, fact in self.state.facts.items() if fact.visible}

    def why(self, binding: str) -> Explanation:
        return self.live.explain(binding)[0]

    def count(self, kind: type[Event], **fields: object) -> int:
        """How many events of a class the log has, with these values in their fields."""
        return len(of(self.log, kind, **fields))

    def _result(self, binding: str, **how: Any) -> Returned:
        activation = self.activation(binding)
        assert activation.status is ActivationStatus.RUNNING, f"no attempt of {binding} runs"
        return Returned(activation=activation.id, attempt=activation.attempt, **how)


def names(events: Sequence[Event]) -> list[str]:
    return [event.name for event in events]


def of(events: Sequence[Event], kind: type[Event], **fields: object) -> list[Any]:
    """The events of a class with these values in their fields."""
    found = [event for event in events if isinstance(event, kind)]
    return [e for e in found if all(getattr(e, name) == value for name, value in fields.items())]


def _finished(result: Any) -> Any:
    """What a worker returned; an async one must not suspend."""
    if not hasattr(result, "send"):
        return result
    try:
        result.send(None)
    except StopIteration as answered:
        return answered.value
    raise AssertionError("a worker of the pure core suspended")
