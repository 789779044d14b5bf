"""The checker finds nothing in an honest store, and each thing that can be wrong with one that was doctored."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import structlog

from casehub import CaseCompleted, CaseEnded, CaseStatus, ContextChanged, Event, SignalReceived, TimerFired
from casehub.events import (
    ActivationId,
    CaseId,
    CaseStarted,
    TimerId,
    WorkerExecutionCompleted,
    WorkerExecutionStarted,
    WorkerScheduled,
)
from casehub.spi import DueTimer
from casehub.subcase_events import SubCaseEnded, SubCaseStarted
from tests.chaos import load
from tests.chaos.checker import INVARIANTS, Evidence, check
from tests.chaos.lives import Life, Place
from tests.chaos.records import Deed, Effect

Doctor = Callable[[Evidence], object]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evidence]:
    """What a hub leaves that was used for a moment and left, and another that let everything come to its end."""
    folder = tmp_path_factory.mktemp("honest")
    place = Place(folder, f"sqlite:///{folder}/cases.db")
    try:
        while True:
            Life.of(place).and_leave(f"h{random.random()}", random.getrandbits(32), place.journal().deeds())
            deeds = place.journal().deeds()
            if {"start", "signal", "complete", "cancel"} <= {
                each.verb for each in deeds if each.answer == "acked"
            } and ({"family", "poison", "bell", "desk"} <= {each.subject for each in deeds if each.verb == "start"}):
                break
        found, _ = Life.of(place).last(deeds)
        yield found
    finally:
        structlog.reset_defaults()
        load.world.ledger = None


def test_an_honest_store_has_nothing_wrong_with_it(honest: Evidence) -> None:
    assert check(honest) == {}
    assert {type(event) for event in honest.events} >= {SubCaseEnded, TimerFired, WorkerExecutionCompleted}
    assert honest.live
    assert honest.hearings
    assert honest.letters


def first(found: Evidence, kind: type[Event], nth: int = 0) -> Any:
    return [event for event in found.events if isinstance(event, kind)][nth]


def lose(kind: type[Event], *, but: Callable[[Any], bool] = lambda event: True) -> Doctor:
    """Take one event of a kind out of the log."""

    def doctor(found: Evidence) -> None:
        gone = next(event for event in found.events if isinstance(event, kind) and but(event))
        found.events.remove(gone)

    return doctor


def again(kind: type[Event], *, but: Callable[[Any], bool] = lambda event: True) -> Doctor:
    """Put one event of a kind into the log twice."""

    def doctor(found: Evidence) -> None:
        one = next(event for event in found.events if isinstance(event, kind) and but(event))
        found.events.insert(found.events.index(one), one)

    return doctor


def alter(what: str, **changes: Any) -> Doctor:
    """Change a record of a list."""

    def doctor(found: Evidence) -> None:
        getattr(found, what)[0] = replace(getattr(found, what)[0], **changes)

    return doctor


def made_up_fact(found: Evidence) -> None:
    state = next(state for state in found.live if state.facts)
    name = next(iter(state.facts))
    state.facts[name] = replace(state.facts[name], value="made up")


def another_value(found: Evidence) -> None:
    signal = first(found, SignalReceived)
    log = found.logs[signal.case]
    brought = next(event for event in log if isinstance(event, ContextChanged) and event.cause == signal.version)
    brought.facts = {"pulse": -1}


def back_to_the_first(found: Evidence) -> None:
    case = found.effects[0].key.rsplit("/", 2)[0]
    ours = [effect for effect in found.effects if effect.key.startswith(f"{case}/")]
    found.effects += [replace(ours[0], pid=1), replace(ours[0], pid=2), replace(ours[0], pid=1)]


def called_by_two(found: Evidence) -> None:
    found.beside = 1
    found.effects.append(replace(found.effects[0], pid=1))


def another_parent(found: Evidence) -> None:
    child = first(found, SubCaseStarted)
    found.events.remove(child)


def forgotten(verb: str) -> Doctor:
    def doctor(found: Evidence) -> None:
        found.deeds.remove(next(deed for deed in found.deeds if deed.verb == verb and deed.answer == "acked"))

    return doctor


def swapped(found: Evidence) -> None:
    found.hearings[0], found.hearings[1] = found.hearings[1], found.hearings[0]


def run_again(found: Evidence) -> None:
    """Let a step that has completed run once more, with all that it leaves: in the log, in the world, at who listens."""
    done = first(found, WorkerExecutionCompleted)
    log = found.logs[done.case]
    steps = [
        event
        for event in log
        if isinstance(event, WorkerScheduled | WorkerExecutionStarted | WorkerExecutionCompleted)
        and event.activation == done.activation
    ]
    number = 1 + sum(isinstance(event, WorkerScheduled) and event.binding == done.binding for event in log)
    key = ActivationId(f"{done.case}/{done.binding}/{number}")
    envelope = replace(log[-1].envelope, turn=log[-1].turn + 1, version=len(log) + 1, seq=found.events[-1].seq + 1)
    for version, step in enumerate(steps, envelope.version):
        found.events.append(replace(step, activation=key, envelope=envelope, version=version))
    effect = next(effect for effect in found.effects if effect.key == done.activation)
    found.effects.append(replace(effect, key=key, attempt=done.attempt))
    found.hearings.append(found.events[-1].seq)
    found.cases = [replace(row, version=version) if row.case == done.case else row for row in found.cases]
    found.live = [state for state in found.live if state.id != done.case]
    found.kept = [state for state in found.kept if state.id != done.case]


def resources(**more: int) -> Doctor:
    def doctor(found: Evidence) -> None:
        found.after = replace(found.after, **{name: getattr(found.before, name) + n for name, n in more.items()})

    return doctor


DOCTORED: list[tuple[str, str, Doctor]] = [
    ("I1", "an acknowledged signal is not there", lambda found: found.deeds.append(Deed("signal", "c", "user:x", answer="acked"))),
    ("I1", "an acknowledged start is not there", lose(CaseStarted, but=lambda event: event.by.startswith("user"))),
    ("I1", "the signal is there, of somebody else", lambda found: setattr(first(found, SignalReceived), "by", "user:x")),
    ("I2", "an event is gone", lose(WorkerScheduled)),
    ("I2", "an event is there twice", again(WorkerScheduled)),
    ("I2", "a row has another version", alter("cases", version=99)),
    ("I2", "a row of a case is gone", lambda found: found.cases.pop()),
    ("I3", "a fact in memory is not that of the log", made_up_fact),
    ("I3", "a snapshot is not what the log comes to", lambda found: setattr(found.kept[0], "reason", "made up")),
    ("I3", "a row has another status", alter("cases", status=CaseStatus.SUSPENDED)),
    ("I3", "a row says that it stalls", lambda found: alter("cases", stalled=not found.cases[0].stalled)(found)),
    ("I3", "a timer is set that the log does not know", lambda found: found.timers.append(DueTimer("default", CaseId("c"), TimerId("t"), first(found, Event).at))),
    ("I4", "an activation is settled twice", again(WorkerExecutionCompleted)),
    ("I4", "a result is written twice", again(ContextChanged, but=lambda event: event.binding == "first")),
    ("I4", "a result is never written", lose(ContextChanged, but=lambda event: event.binding == "first")),
    ("I4", "a signal is taken twice", again(SignalReceived)),
    ("I4", "a timer fires twice", again(TimerFired, but=lambda event: event.due)),
    ("I4", "the end of a sub-case is heard twice", again(SubCaseEnded)),
    ("I5", "a result without an effect", lambda found: found.effects.clear()),
    ("I5", "an effect of an attempt that never began", alter("effects", attempt=99)),
    ("I5", "an effect under another key", alter("effects", key="case/binding/1")),
    ("I5", "one key for two activations", again(WorkerScheduled)),
    ("I5", "a step that has completed runs again", run_again),
    ("I6", "a process works a case that another has taken over", back_to_the_first),
    ("I6", "hubs beside each other make one attempt both", called_by_two),
    ("I7", "a case never ends", lose(CaseEnded)),
    ("I9", "an event is not heard", lambda found: found.hearings.pop(len(found.hearings) // 2)),
    ("I9", "events are heard in another order", swapped),
    ("I9", "something is heard that is not there", lambda found: found.hearings.append(10**9)),
    ("I10", "a dead letter is gone", lambda found: found.letters.clear()),
    ("I10", "a dead letter of nothing", lambda found: found.letters.append("case/binding/1")),
    ("I10", "two dead letters of one poison", lambda found: found.letters.append(found.letters[0])),
    ("I11", "a case that nobody started", forgotten("start")),
    ("I11", "a signal that nobody sent", forgotten("signal")),
    ("I11", "an answer that nobody gave", forgotten("complete")),
    ("I11", "a signal with another value", another_value),
    ("I11", "a sub-case that its parent does not know", another_parent),
    ("I11", "a turn with two times", lambda found: setattr(found, "events", shifted(found.events))),
    ("I12", "a task is left", resources(tasks=1)),
    ("I12", "a thread is left", resources(threads=1)),
    ("I12", "a file is open", resources(files=1)),
]  # fmt: skip


def shifted(events: list[Event]) -> list[Event]:
    late = next(event for event in events if isinstance(event, CaseCompleted) and event.version > 1)
    late.envelope = replace(late.envelope, at=late.at + timedelta(hours=1))
    return events


@pytest.mark.parametrize(("invariant", "what", "doctor"), DOCTORED, ids=[f"{i} {what}" for i, what, _ in DOCTORED])
def test_a_doctored_store_is_found_out(honest: Evidence, invariant: str, what: str, doctor: Doctor) -> None:
    found = deepcopy(honest)
    doctor(found)
    found.read()
    assert invariant in check(found), check(found)


def test_a_step_that_runs_again_is_found_out_by_that_alone(honest: Evidence) -> None:
    found = deepcopy(honest)
    run_again(found)
    found.read()
    assert [line.partition(" repeats ")[1] for line in check(found)["I5"]] == [" repeats "]
    assert set(check(found)) == {"I5"}


def test_each_invariant_is_shown_to_fail() -> None:
    assert {invariant for invariant, _, _ in DOCTORED} == set(INVARIANTS)


def test_effects_of_one_process_after_another_are_no_overlap(honest: Evidence) -> None:
    found = deepcopy(honest)
    key = found.effects[0].key
    found.effects += [Effect(key, 11, 1), Effect(key, 12, 1), Effect(key, 13, 2)]
    assert "I6" not in check(found)
