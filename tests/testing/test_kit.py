"""The test kit: scripts, time, steps, and what it finds out at the end."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from casehub import (
    ABSENT,
    CaseCompleted,
    CaseDefinition,
    CaseExistsError,
    CaseNotFoundError,
    CaseStalledError,
    CaseStatus,
    CaseView,
    ChoreographyLoopControl,
    ContextChanged,
    Event,
    HubClosedError,
    InputRefusedError,
    Limits,
    MilestoneSlaViolated,
    Retry,
    Selection,
    SettingsError,
    TimerFired,
    WorkerEvent,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
    WorkerExecutionStarted,
    WorkerScheduled,
    absent,
    present,
)
from casehub.binding import Binding
from casehub.spi import Answer
from casehub.testing import CaseTestKit, VirtualClock, repeat
from casehub.testing.evidence import differences

START = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class Risk:
    value: float


def scoring(**policy: Any) -> CaseDefinition:
    """One worker, `score`, that reads the applicant and writes the risk."""
    loan = CaseDefinition("loan", goal="risk")

    @loan.worker(writes="risk", **policy)
    async def score(applicant: str) -> Risk:
        return Risk(0.9)

    return loan


def chain() -> CaseDefinition:
    """Three workers, one after the other."""
    claim = CaseDefinition("claim", goal="decision")

    @claim.worker(writes="entities")
    async def extract(document: str) -> list[str]:
        return document.split()

    @claim.worker(writes="risk")
    async def assess(entities: list[str]) -> int:
        return len(entities)

    @claim.worker(writes="decision")
    async def decide(risk: int) -> str:
        return "approve" if risk < 3 else "refer"

    return claim


# ---- starting and leaving


async def test_facts_are_started_with_by_keyword_or_in_a_mapping() -> None:
    letter = CaseDefinition("letter", signals={"sent": bool})

    @letter.worker(writes="filed")
    async def file(by: str, given: int, sent: bool) -> None: ...

    async with CaseTestKit(letter) as kit:
        for step in (False, True):
            case = await kit.start(letter, {"by": "Ada", "given": 1}, given=2, step=step)
            assert dict(await case.context()) == {"by": "Ada", "given": 2}


async def test_a_kit_starts_in_less_than_50_ms_of_processor_time() -> None:
    taken = []
    for _ in range(5):
        began = time.process_time()
        async with CaseTestKit(chain()):
            taken.append(time.process_time() - began)
    assert min(taken) < 0.05


async def test_a_kit_needs_no_process_no_port_and_no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*arguments: object, **options: object) -> Any:
        raise AssertionError("a test kit does this")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
    monkeypatch.setattr(os, "fork", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    async with CaseTestKit(chain()) as kit:
        case = await kit.start("claim", document="a b")
        await kit.settle()
        assert await case.status() is CaseStatus.COMPLETED
    assert os.listdir(tmp_path) == []


async def test_a_started_case_is_in_the_log() -> None:
    claim = chain()
    async with CaseTestKit(claim) as kit:
        case = await kit.start(claim, document="a b", by="user:ada")
        started, changed = kit.events(case)[:2]
        assert (started.name, started.by, started.at) == ("CASE_STARTED", "user:ada", START)
        assert isinstance(changed, ContextChanged)
        assert changed.facts == {"document": "a b"}


async def test_cases_are_called_after_their_definition_unless_they_are_given_an_id() -> None:
    claim = chain()
    async with CaseTestKit(claim) as kit:
        assert [(await kit.start(claim, document="a")).id for _ in range(2)] == ["claim-1", "claim-2"]
        assert (await kit.start(claim, case_id="mine", document="a")).id == "mine"
        with pytest.raises(CaseExistsError):
            await kit.start(claim, case_id="mine", document="a")


async def test_an_input_that_a_case_does_not_take_is_refused_as_by_the_hub() -> None:
    async with CaseTestKit(chain()) as kit:
        with pytest.raises(InputRefusedError, match="did you mean 'document'"):
            await kit.start("claim", documant="a")


async def test_cases_may_be_left_open() -> None:
    async with CaseTestKit(scoring(when=absent("applicant"))) as kit:
        case = await kit.start("loan", applicant="Ada")
        await kit.settle()
        assert not (await case.status()).ended


async def test_two_kits_with_one_seed_write_the_same_log() -> None:
    async def logged(seed: int) -> list[tuple[str, datetime, str]]:
        async with CaseTestKit(scoring(retry=Retry(5, wait="10s")), seed=seed) as kit:
            kit.script("score", OSError(), OSError(), OSError(), Risk(0.1))
            case = await kit.start("loan", applicant="Ada")
            await kit.advance("5m")
            return [(event.name, event.at, event.id) for event in kit.events(case)]

    assert await logged(1) == await logged(1)
    assert await logged(1) != await logged(2)


# ---- scripts


async def test_a_script_gives_its_results_a_call_at_a_time() -> None:
    seen: list[str] = []

    def risky(applicant: str) -> Risk:
        seen.append(applicant)
        return Risk(0.3)

    async def riskier(applicant: str) -> Risk:
        seen.append(applicant)
        return Risk(0.4)

    loan = scoring(retry=Retry(1))
    async with CaseTestKit(loan) as kit:
        kit.script("score", Risk(0.2), risky, riskier, TimeoutError("slow"), KeyError)
        for name in ("Ada", "Grace", "Mary", "Joan", "Anne"):
            await kit.start(loan, applicant=name)
            await kit.settle()
        written = [event.facts["risk"] for event in kit.events(None, ContextChanged) if "risk" in event.facts]
        assert written == [{"value": 0.2}, {"value": 0.3}, {"value": 0.4}]
        assert seen == ["Grace", "Mary"]
        failed = kit.events(None, WorkerExecutionFailed)
        assert [(event.error, event.case) for event in failed] == [("TimeoutError", "loan-4"), ("KeyError", "loan-5")]


async def test_workers_are_scripted_by_function_too_and_others_run_as_they_are() -> None:
    claim = CaseDefinition("claim", goal="decision")

    @claim.worker(writes="risk")
    def assess(document: str) -> int:
        raise AssertionError("it is scripted")

    @claim.worker(writes="decision")
    def decide(risk: int) -> str:
        return f"risk {risk}"

    async with CaseTestKit(claim) as kit:
        kit.script(assess, 7)
        case = await kit.start(claim, document="a")
        await kit.settle()
        assert (await case.context())["decision"] == "risk 7"


async def test_a_script_that_ran_out_is_an_error_when_things_settle() -> None:
    async with CaseTestKit(scoring(retry=Retry(3, jitter=False))) as kit:
        kit.script("score", OSError())
        await kit.start("loan", applicant="Ada")
        await kit.settle()
        with pytest.raises(AssertionError, match=r"'score' was called 2 times and its script has 1 results"):
            await kit.advance("1m")
        await kit.advance("1h")
        assert len(kit.events(None, WorkerExecutionFailed)) == 2  # what ran out is not retried


async def test_a_script_that_ran_out_at_the_end_is_an_error_of_the_kit() -> None:
    async def told() -> None:
        async with CaseTestKit(scoring()) as kit:
            kit.script("score")
            case = await kit.start("loan", applicant="Ada")
            with pytest.raises(CaseStalledError):
                await case.completed()

    with pytest.raises(AssertionError, match=r"'score' was called 1 times and its script has 0 results"):
        await told()


async def test_the_last_result_goes_on_if_it_says_so() -> None:
    loan = scoring()
    async with CaseTestKit(loan) as kit:
        kit.script("score", Risk(0.1), repeat(Risk(0.2)))
        cases = [await kit.start(loan, applicant="Ada") for _ in range(4)]
        await kit.settle()
        assert [(await case.context())["risk"].value for case in cases] == [0.1, 0.2, 0.2, 0.2]


async def test_a_later_script_replaces_an_earlier_one() -> None:
    loan = scoring()
    async with CaseTestKit(loan) as kit:
        kit.script("score", Risk(0.1), Risk(0.2))
        kit.script("score", Risk(0.3))
        case = await kit.start(loan, applicant="Ada")
        await kit.settle()
        assert (await case.context())["risk"].value == 0.3


async def test_a_script_that_goes_on_after_repeat_is_refused() -> None:
    async with CaseTestKit(scoring()) as kit:
        with pytest.raises(SettingsError, match="put that last"):
            kit.script("score", repeat(Risk(0.1)), Risk(0.2))


async def test_a_script_for_an_unknown_worker_is_refused_with_the_nearest_name() -> None:
    async def scores(applicant: str) -> Risk:
        return Risk(0.0)

    async with CaseTestKit(scoring()) as kit:
        with pytest.raises(SettingsError, match="no worker 'scor'; did you mean 'score'"):
            kit.script("scor", Risk(0.1))
        with pytest.raises(SettingsError, match="'scores' is no worker of these definitions; did you mean 'score'"):
            kit.script(scores, Risk(0.1))


async def test_a_name_that_means_two_functions_is_refused() -> None:
    other = CaseDefinition("other", goal="rank")

    @other.worker(name="score", writes="rank")
    async def rank(applicant: str) -> int:
        return 1

    async with CaseTestKit(scoring(), other) as kit:
        with pytest.raises(SettingsError, match="script the function itself"):
            kit.script("score", 2)
        kit.script(rank, 2)
        case = await kit.start(other, applicant="Ada")
        await kit.settle()
        assert (await case.context())["rank"] == 2


async def test_a_scripted_worker_can_take_its_time() -> None:
    loan = scoring(timeout="1h")
    async with CaseTestKit(loan) as kit:

        async def slow(applicant: str) -> Risk:
            await kit.clock.sleep("59m")
            return Risk(0.5)

        kit.script("score", slow)
        case = await kit.start(loan, applicant="Ada")
        await kit.advance("58m59s")
        assert "risk" not in await case.context()
        await kit.advance("1s")
        assert (await case.context())["risk"] == Risk(0.5)


# ---- settling


async def test_settling_goes_on_until_nothing_moves() -> None:
    claim = chain()
    async with CaseTestKit(claim) as kit:
        case = await kit.start(claim, document="a b c d")
        await kit.settle()
        assert (await case.context())["decision"] == "refer"
        assert kit.clock.now() == START


async def test_settling_goes_on_through_many_passes_of_the_event_loop() -> None:
    loan = scoring()

    async def patient(applicant: str) -> Risk:
        for _ in range(1_000):
            await asyncio.sleep(0)
        return Risk(0.0)

    async with CaseTestKit(loan) as kit:
        kit.script("score", patient)
        case = await kit.start(loan, applicant="Ada")
        await kit.settle()
        assert await case.status() is CaseStatus.COMPLETED


async def test_settling_waits_for_sync_workers_in_their_threads() -> None:
    loan = CaseDefinition("loan", goal="risk")

    @loan.worker(writes="risk")
    def score(applicant: str) -> float:
        return sum(range(1_000_000)) * 0.0

    async with CaseTestKit(loan) as kit:
        cases = [await kit.start(loan, applicant="Ada") for _ in range(3)]
        await kit.settle()
        assert [await case.status() for case in cases] == [CaseStatus.COMPLETED] * 3


async def test_settling_does_not_wait_for_time_to_pass() -> None:
    loan = scoring(retry=Retry(2, wait="1h", maximum="1h", jitter=False))
    async with CaseTestKit(loan) as kit:
        kit.script("score", OSError(), Risk(0.1))
        case = await kit.start(loan, applicant="Ada")
        await kit.settle()
        assert not (await case.status()).ended
        assert len(kit.events(case, WorkerExecutionStarted)) == 1


async def test_what_never_comes_to_rest_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.testing.kit.PASSES", 1_000)

    async def restless(applicant: str) -> Risk:
        for _ in range(1_000_000):
            await asyncio.sleep(0)
        return Risk(0.0)

    async with CaseTestKit(scoring()) as kit:
        kit.script("score", restless)
        await kit.start("loan", applicant="Ada")
        with pytest.raises(AssertionError, match="moves without end"):
            await kit.settle()


async def test_a_sync_worker_that_waits_for_the_test_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.testing.kit.PATIENCE", 0.01)
    loan = CaseDefinition("loan", goal="risk")
    released = threading.Event()

    @loan.worker(writes="risk")
    def score(applicant: str) -> float:
        released.wait()
        return 0.5

    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, applicant="Ada")
        with pytest.raises(AssertionError, match=r"sync workers still run after 0\.01 s: score"):
            await kit.settle()
        released.set()
        assert await case.completed()


async def test_subscribers_have_heard_everything_when_the_kit_has_settled() -> None:
    claim = chain()
    heard: list[str] = []
    async with CaseTestKit(claim) as kit:

        @kit.hub.on(CaseCompleted)
        async def note(event: CaseCompleted) -> None:
            heard.append(event.case)

        await kit.start(claim, document="a")
        await kit.settle()
        assert heard == ["claim-1"]


# ---- time


async def test_every_timer_on_the_way_gets_its_exact_time() -> None:
    loan = scoring(retry=Retry(4, wait="0.1s", factor=3, maximum="1h", jitter=False))
    async with CaseTestKit(loan, start=datetime(2026, 2, 28, 23, 59, 59, 900_000, UTC)) as kit:
        kit.script("score", OSError(), OSError(), OSError(), Risk(0.1))
        case = await kit.start(loan, applicant="Ada")
        await kit.advance("2h")
        started = [event.at for event in kit.events(case, WorkerExecutionStarted)]
        spans = [(later - earlier).total_seconds() for earlier, later in pairwise(started)]
        assert spans == [0.1, 0.3, 0.9]
        assert kit.clock.now() == datetime(2026, 3, 1, 1, 59, 59, 900_000, UTC)


async def test_service_levels_are_breached_at_their_time() -> None:
    loan = scoring(when=absent("applicant"))
    loan.milestone("scored", present("risk"), sla="36h")
    async with CaseTestKit(loan) as kit:
        case = await kit.start(loan, applicant="Ada")
        await kit.advance("3d")
        (late,) = kit.events(case, MilestoneSlaViolated)
        assert late.at == START + timedelta(hours=36)


async def test_time_limits_of_workers_end_them_at_their_time() -> None:
    loan = scoring(timeout="0.3s", retry=Retry(2, wait="0.1s", jitter=False))
    async with CaseTestKit(loan) as kit:
        kit.script("score", repeat(lambda applicant: kit.clock.sleep("1h")))
        case = await kit.start(loan, applicant="Ada")
        await kit.advance("1s")
        expired = [(event.at - START).total_seconds() for event in kit.events(case, WorkerExecutionExpired)]
        assert expired == [0.3, 0.7]


async def test_sleepers_wake_at_their_exact_time_and_in_their_order() -> None:
    loan = scoring()
    woken: list[tuple[str, float]] = []
    async with CaseTestKit(loan) as kit:

        async def sleepy(applicant: str) -> Risk:
            for _ in range(3):
                await kit.clock.sleep(applicant)
                woken.append((applicant, kit.clock.monotonic()))
            return Risk(0.0)

        kit.script("score", repeat(sleepy))
        for span in ("0.7s", "0.5s"):
            await kit.start(loan, applicant=span)
        await kit.advance("10m")
        assert woken == [
            ("0.5s", 0.5),
            ("0.7s", 0.7),
            ("0.5s", 1.0),
            ("0.7s", 1.4),
            ("0.5s", 1.5),
            ("0.7s", pytest.approx(2.1)),
        ]


async def test_what_happens_on_the_way_has_settled_before_time_passes_on() -> None:
    claim = chain()
    async with CaseTestKit(claim) as kit:

        async def after_a_minute(**facts: Any) -> int:
            await kit.clock.sleep("1m")
            return 1

        kit.script("assess", after_a_minute)
        case = await kit.start(claim, document="a")
        await kit.advance("1h")
        (completed,) = kit.events(case, CaseCompleted)
        assert completed.at == START + timedelta(minutes=1)


async def test_time_passes_up_to_the_span_and_no_further() -> None:
    loan = scoring(retry=Retry(2, wait="1h", maximum="1h", jitter=False))
    async with CaseTestKit(loan) as kit:
        kit.script("score", OSError(), Risk(0.1))
        case = await kit.start(loan, applicant="Ada")
        await kit.advance(timedelta(hours=1) - timedelta(microseconds=1))
        assert kit.events(case, TimerFired) == []
        await kit.advance(timedelta(microseconds=1))
        assert await case.status() is CaseStatus.COMPLETED


async def test_years_pass_without_a_stop_for_each_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[float] = []
    move_until = VirtualClock.move_until

    def counted(clock: VirtualClock, monotonic: float) -> None:
        moves.append(monotonic)
        move_until(clock, monotonic)

    monkeypatch.setattr(VirtualClock, "move_until", counted)
    loan = scoring(retry=Retry(2, wait="1000d", maximum="1000d", jitter=False))
    async with CaseTestKit(loan) as kit:
        kit.script("score", OSError(), Risk(0.1))
        case = await kit.start(loan, applicant="Ada")
        await kit.advance("3650d")
        assert await case.status() is CaseStatus.COMPLETED
    assert len(moves) <= 3


async def test_a_wall_clock_that_was_set_forward_is_noticed() -> None:
    loan = scoring(retry=Retry(2, wait="2h", maximum="2h", jitter=False))
    async with CaseTestKit(loan) as kit:
        kit.script("score", OSError(), Risk(0.1))
        case = await kit.start(loan, applicant="Ada")
        await kit.settle()
        kit.clock.step(timedelta(hours=2))
        await kit.advance("1m")
        (noticed,) = kit.events(case, TimerFired)
        assert noticed.at == START + timedelta(hours=2, seconds=30)  # the wheel's longest nap


async def test_a_cancelled_sleeper_leaves_nothing_on_the_clock() -> None:
    clock = VirtualClock()
    tasks = [asyncio.create_task(clock.sleep(span)) for span in ("1s", "2s", "3s")]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.gather(*tasks[:1], return_exceptions=True)
    assert clock.sleepers == [2.0, 3.0]
    clock.move("3s")
    await asyncio.gather(*tasks[1:])
    assert clock.sleepers == []


# ---- the log so far


async def test_events_are_given_by_case_and_by_class() -> None:
    claim = chain()
    async with CaseTestKit(claim) as kit:
        one, two = [await kit.start(claim, document="a") for _ in range(2)]
        await kit.settle()
        assert {event.case for event in kit.events()} == {one.id, two.id}
        assert {event.case for event in kit.events(two)} == {two.id}
        assert kit.events(two.id) == kit.events(two)
        assert [event.binding for event in kit.events(one, WorkerScheduled)] == ["extract", "assess", "decide"]
        assert len(kit.events(one, WorkerEvent)) == 9
        assert [event.seq for event in kit.events()] == list(range(1, len(kit.events()) + 1))
        with pytest.raises(CaseNotFoundError, match="claim-1, claim-2"):
            kit.events("claim-3")


# ---- steps


async def test_a_stepped_case_shows_one_decision_at_a_time() -> None:
    claim = chain()
    async with CaseTestKit(claim) as kit:
        case = await kit.start(claim, document="a b", step=True)
        await kit.advance("10d")
        assert kit.events(case, WorkerScheduled) == []
        assert kit.pending(case) == ("extract",)
        first = await kit.step(case)
        assert (first.eligible, first.chosen, first.fired) == (("extract",),) * 3
        assert first.written == {"entities": ["a", "b"]}
        assert [event.name for event in first.events] == [
            "DELIBERATION_FINISHED",
            "WORKER_SCHEDULED",
            "WORKER_EXECUTION_STARTED",
            "WORKER_EXECUTION_COMPLETED",
            "CONTEXT_CHANGED",
            "DELIBERATION_STARTED",
        ]
        second = await kit.step(case)
        assert (second.chosen, second.written) == (("assess",), {"risk": 2})
        third = await kit.step(case)
        assert third.written == {"decision": "approve"}
        assert third.events[-1].name == "CASE_COMPLETED"
        with pytest.raises(AssertionError, match=r"claim-1.*COMPLETED.*no decision"):
            await kit.step(case)


async def test_a_step_shows_what_the_loop_control_chose_among_what_was_eligible() -> None:
    class Last(ChoreographyLoopControl):
        async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
            return Selection(eligible[-1:], rationale="the last one will be the first")

    pair = CaseDefinition("pair", goal="b")

    @pair.worker(writes="a")
    async def first(start: int) -> int:
        return start

    @pair.worker(writes="b")
    async def second(start: int) -> int:
        return start

    async with CaseTestKit(pair, loop=Last(), step=True) as kit:
        case = await kit.start(pair, start=1)
        step = await kit.step(case)
        assert (step.eligible, step.chosen) == (("first", "second"), ("second",))
        assert step.rationale == "the last one will be the first"


async def test_a_step_shows_what_was_deleted_and_what_was_dropped() -> None:
    draft = CaseDefinition("draft", done_when=absent("text"), signals={"text": str})

    @draft.worker(writes=["text"])
    async def discard(text: str) -> dict[str, Any]:
        return {"text": ABSENT}

    async with CaseTestKit(draft) as kit:
        case = await kit.start(draft, text="one", step=True)
        await kit.settle()
        await case.signal(text="two")
        stale = await kit.step(case)
        assert (stale.chosen, stale.dropped, stale.fired, stale.written) == (("discard",), ("discard",), (), {})
        assert (await kit.step(case)).written == {"text": ABSENT}


async def test_only_the_cases_that_are_stepped_are_held() -> None:
    claim = chain()
    async with CaseTestKit(claim) as kit:
        held = await kit.start(claim, document="a", step=True)
        free = await kit.start(claim, document="a")
        await kit.settle()
        assert await free.status() is CaseStatus.COMPLETED
        assert (await held.status(), kit.pending(held)) == (CaseStatus.RUNNING, ("extract",))
        with pytest.raises(AssertionError, match="'claim-2' is not stepped"):
            await kit.step(free)
    async with CaseTestKit(claim, step=True) as kit:
        held = await kit.start(claim, document="a")
        free = await kit.start(claim, document="a", step=False)
        await kit.settle()
        assert (await held.status(), await free.status()) == (CaseStatus.RUNNING, CaseStatus.COMPLETED)


async def test_a_step_ends_where_time_has_to_pass() -> None:
    claim = chain()
    async with CaseTestKit(claim) as kit:

        async def after_an_hour(**facts: Any) -> list[str]:
            await kit.clock.sleep("1h")
            return ["a"]

        kit.script("extract", after_an_hour)
        case = await kit.start(claim, document="a", step=True)
        assert (await kit.step(case)).written == {}
        with pytest.raises(AssertionError, match="extract: IN_FLIGHT"):
            await kit.step(case)
        await kit.advance("1h")
        assert kit.pending(case) == ("assess",)


# ---- resources


class Model:
    def __init__(self, answer: str) -> None:
        self.answer = answer


def asking(log: list[str]) -> tuple[CaseDefinition, Any]:
    """A definition whose worker asks a model, and the opener of that model."""
    study = CaseDefinition("study", goal="reply")

    @study.resource
    async def model() -> AsyncIterator[Model]:
        log.append("opened")
        yield Model("real")
        log.append("closed")

    @study.worker(writes="reply", retry=Retry(1))
    async def ask(question: str, model: Model) -> str:
        return model.answer

    return study, model


async def test_a_replaced_resource_is_not_opened() -> None:
    log: list[str] = []
    study, model = asking(log)
    async with CaseTestKit(study) as kit:
        kit.replace(model, Model("scripted"))
        case = await kit.start(study, question="why?")
        await kit.settle()
        assert (await case.context())["reply"] == "scripted"
        kit.replace(model, Model("other"))
        case = await kit.start(study, question="why?")
        await kit.settle()
        assert (await case.context())["reply"] == "other"
    assert log == []


async def test_another_resource_is_opened_when_a_worker_first_needs_it_and_closed_at_the_end() -> None:
    log: list[str] = []
    study, _ = asking(log)
    async with CaseTestKit(study) as kit:
        assert log == []
        for _ in range(2):
            case = await kit.start(study, question="why?")
            await kit.settle()
            assert (await case.context())["reply"] == "real"
        assert log == ["opened"]
    assert log == ["opened", "closed"]


async def test_a_scripted_worker_needs_no_resource_unless_it_is_called_with_one() -> None:
    log: list[str] = []
    study, _ = asking(log)
    async with CaseTestKit(study) as kit:
        kit.script("ask", "scripted", lambda question, model: model.answer.upper())
        await kit.start(study, question="why?")
        await kit.settle()
        assert log == []
        case = await kit.start(study, question="why?")
        await kit.settle()
        assert (await case.context())["reply"] == "REAL"


async def test_a_resource_that_cannot_be_opened_fails_the_test() -> None:
    study = CaseDefinition("study", goal="reply")

    @study.resource
    async def model() -> AsyncIterator[Model]:
        if study.name == "study":
            raise OSError("no such model")
        yield Model("")

    @study.worker(writes="reply", retry=Retry(1))
    async def ask(question: str, model: Model) -> str:
        return model.answer

    async def told() -> None:
        async with CaseTestKit(study) as kit:
            await kit.start(study, question="why?")
            await kit.settle()

    with pytest.raises(AssertionError, match="resource 'model' could not be opened: OSError: no such model"):
        await told()


async def test_a_resource_that_is_none_is_refused() -> None:
    async def modell() -> AsyncIterator[Model]:
        yield Model("")

    study, _ = asking([])
    async with CaseTestKit(study) as kit:
        with pytest.raises(SettingsError, match=r"'modell' is no resource .* did you mean 'model'"):
            kit.replace(modell, Model(""))


# ---- what it finds


async def test_a_changed_event_fails_the_test() -> None:
    claim = chain()

    async def told() -> None:
        async with CaseTestKit(claim) as kit:

            @kit.hub.on(ContextChanged)
            async def meddle(event: Any) -> None:
                if "document" in event.facts:
                    event.facts["document"] = "b"

            await kit.start(claim, document="a")
            await kit.settle()

    with pytest.raises(AssertionError, match=r"CONTEXT_CHANGED claim-1@2 was changed: body.facts.document .* is 'b'"):
        await told()


async def test_a_changed_fact_fails_the_test() -> None:
    claim = chain()

    async def told() -> None:
        async with CaseTestKit(claim) as kit:
            case = await kit.start(claim, document="a")
            await kit.settle()
            value: Any = (await case.context()).fact("entities").value
            value.append("b")

    with pytest.raises(AssertionError, match=r"not what its log folds to: facts\.entities\.value was \['a'\]"):
        await told()


async def test_a_changed_envelope_fails_the_test() -> None:
    claim = chain()

    async def told() -> None:
        async with CaseTestKit(claim) as kit:
            case = await kit.start(claim, document="a")
            await kit.settle()
            kit.events(case)[0].envelope.at += timedelta(seconds=1)

    with pytest.raises(AssertionError, match="CASE_STARTED claim-1@1 was changed: at was "):
        await told()


class Counting(ChoreographyLoopControl):
    """A loop control that counts scheduled workers: in its control state, or wrongly in itself."""

    handles: frozenset[type[Event]] = frozenset({WorkerScheduled})

    def __init__(self, *, wrongly: bool) -> None:
        self.wrongly = wrongly
        self.count = 0

    def initial(self) -> dict[str, int]:
        return {"count": 0}

    def apply(self, control: dict[str, int], event: Event) -> dict[str, int]:
        self.count += 1
        return {"count": self.count if self.wrongly else control["count"] + 1}


async def test_a_loop_control_whose_state_is_not_what_the_log_folds_to_fails_the_test() -> None:
    claim = chain()

    async def told() -> None:
        async with CaseTestKit(claim, loop=Counting(wrongly=True)) as kit:
            await kit.start(claim, document="a")
            await kit.settle()

    with pytest.raises(AssertionError, match=r"'claim-1' is not what its log folds to: control.count was 6, is 3"):
        await told()
    async with CaseTestKit(claim, loop=Counting(wrongly=False)) as kit:
        await kit.start(claim, document="a")
        await kit.settle()


class Reasoning(ChoreographyLoopControl):
    """A loop control that writes down what it thinks."""

    def __init__(self, thought: object) -> None:
        self.thought = thought

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Answer:
        thought: Any = self.thought
        return Selection(eligible, writes=[ContextChanged(facts={"thought": thought})])


async def test_an_event_that_no_durable_store_could_write_fails_the_test() -> None:
    claim = chain()

    async def told() -> None:
        async with CaseTestKit(claim, loop=Reasoning(object())) as kit:
            await kit.start(claim, document="a")
            await kit.settle()

    with pytest.raises(AssertionError, match="cannot be written"):
        await told()


async def test_an_event_that_reads_back_as_another_value_fails_the_test() -> None:
    claim = chain()

    async def told() -> None:
        async with CaseTestKit(claim, loop=Reasoning((1,))) as kit:
            await kit.start(claim, document="a")
            await kit.settle()

    with pytest.raises(AssertionError, match=r"folds to: facts\.thought\.value was \[1\], is \(1,\)"):
        await told()


async def test_an_error_in_the_block_keeps_its_place_and_gets_what_was_found_as_a_note() -> None:
    claim = chain()

    async def told() -> None:
        async with CaseTestKit(claim) as kit:
            case = await kit.start(claim, document="a")
            await kit.settle()
            value: Any = (await case.context()).fact("entities").value
            value.append("b")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        await told()
    assert ["folds to" in note for note in raised.value.__notes__] == [True]


async def test_a_cancelled_test_leaves_the_kit() -> None:
    claim = chain()
    entered = asyncio.Event()

    async def body() -> None:
        async with CaseTestKit(claim) as kit:
            await kit.start(claim, document="a", step=True)
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_hub_that_is_stopped_from_within_fails_the_test() -> None:
    async def told() -> None:
        async with CaseTestKit(chain()) as kit:

            async def give_up(scope: object) -> None:
                raise asyncio.CancelledError

            kit.hub.runtime.spawn(give_up)
            await kit.settle()
            raise AssertionError("the block goes on")

    with pytest.raises(HubClosedError, match="stopped from within"):
        await told()


async def test_a_subscriber_whose_own_task_was_cancelled_does_not_stop_the_hub() -> None:
    claim = chain()
    heard: list[str] = []
    async with CaseTestKit(claim) as kit:

        @kit.hub.on(CaseCompleted)
        async def note(event: CaseCompleted) -> None:
            heard.append(event.case)
            raise asyncio.CancelledError

        for _ in range(2):
            await kit.start(claim, document="a")
        await kit.settle()
        assert heard == ["claim-1"] * 3 + ["claim-2"] * 3


async def test_a_kit_that_is_cancelled_while_it_is_left_leaves_nothing_behind() -> None:
    claim = chain()
    hearing, leaving = asyncio.Event(), asyncio.Event()

    async def body() -> None:
        async with CaseTestKit(claim) as kit:

            @kit.hub.on(CaseCompleted)
            async def note(event: CaseCompleted) -> None:
                hearing.set()
                await asyncio.Event().wait()

            await kit.start(claim, document="a")
            await hearing.wait()
            leaving.set()

    task = asyncio.create_task(body())
    await leaving.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "run",
    [
        {"goal": "risk", "milestone": True},
        {"goal": "risk", "limits": Limits(firings=1)},
        {"goal": "never", "signals": {"never": int}},
    ],
)
async def test_nothing_is_found_where_nothing_is_wrong(run: dict[str, Any]) -> None:
    milestone = run.pop("milestone", False)
    loan = CaseDefinition("loan", **run)
    if milestone:
        loan.milestone("scored", present("risk"), entry=absent("applicant"), sla="1h")

    @loan.worker(writes="risk", retry=Retry(2))
    async def score(applicant: str) -> float:
        return 0.5

    async with CaseTestKit(loan) as kit:
        kit.script("score", OSError(), 0.5)
        case = await kit.start(loan, applicant="Ada")
        await kit.advance("2h")
        await case.suspend() if not (await case.status()).ended else None
        await kit.settle()


def test_differences_are_named_by_their_place() -> None:
    def found(before: object, now: object) -> Iterable[str]:
        return list(differences(before, now))

    assert found({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) == []
    assert found({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == ["a[1].b was 2, is 3"]
    assert found({"a": 1}, {"a": 1.0}) == ["a was 1, is 1.0"]
    assert found({"a": 1}, {"b": 1}) == ["a was 1, is gone", "b was not there, is 1"]
    assert found([1], [1, 2]) == ["it was [1], is [1, 2]"]
    assert found(Model("x"), Model("x")) == []
    assert found(Model("x"), Model("y")) == ["answer was 'x', is 'y'"]
    assert found(Risk(1.0), Risk(2.0)) == ["value was 1.0, is 2.0"]
    assert found({1}, {1}) == []
    assert found({1}, {2}) == ["it was {1}, is {2}"]
