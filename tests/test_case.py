"""A case through its handle: signals in all forms, waiting, the facts and their history, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from casehub import (
    ABSENT,
    Case,
    CaseCancelledError,
    CaseContext,
    CaseDefinition,
    CaseEndedError,
    CaseFaultedError,
    CaseHub,
    CaseStalledError,
    CaseStatus,
    ContextChanged,
    Event,
    FactError,
    FactsChangedError,
    IllegalTransitionError,
    InputRefusedError,
    LimitError,
    Limits,
    Permanent,
    Retry,
    SettingsError,
    Signal,
    SignalReceived,
    UnknownNameError,
    WorkerExecutionCompleted,
    WorkerScheduled,
)
from casehub.testing import CaseTestKit
from tests.staging import idle


class Order(BaseModel):
    item: str
    count: int = 1


class RushOrder(Order):
    hours: int = 4


@dataclass
class Note:
    text: str


def desk() -> CaseDefinition:
    """Signals of all kinds, and a worker for two of them."""
    d = CaseDefinition(
        "desk",
        goal="closed",
        signals={"order": Order, "note": Note, "count": int, "closed": Any, "tick": Any},
        external={"price": float},
        protected=["order"],
    )

    @d.worker(writes="bill")
    async def bill(order: Order, price: float) -> float:
        return order.count * price

    @d.worker(writes="ticks", on=Signal("tick"))
    async def beat() -> int:
        return 1

    return d


async def opened(kit: CaseTestKit, **facts: Any) -> Case:
    return await kit.start("desk", **facts)


@pytest.fixture
def d() -> CaseDefinition:
    return desk()


# ---- signals


async def test_a_signal_by_name_brings_a_fact(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        context = await case.signal(count=5, by="user:ada", reason="by phone")
        assert context["count"] == 5
        received = kit.events(case, SignalReceived)[0]
        assert (received.signals, received.by, received.reason) == (("count",), "user:ada", "by phone")
        assert kit.events(case, ContextChanged)[0].by == "user:ada"


async def test_several_facts_are_one_change(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        await case.signal({"count": 5, "price": 2.0}, note=Note("x"))
        assert len(kit.events(case, ContextChanged)) == 1
        assert kit.events(case, SignalReceived)[0].signals == ("count", "price", "note")
        assert dict(await case.context()) == {"count": 5, "price": 2.0, "note": Note("x")}


async def test_an_object_is_the_signal_that_declares_its_type(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        context = await case.signal(Order(item="tea", count=3))
        assert context["order"] == Order(item="tea", count=3)
        assert context[Order].count == 3
        await case.signal(Note("x"))
        assert (await case.context())["note"] == Note("x")


async def test_a_bare_signal_occurs_and_brings_nothing(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        for _ in range(3):
            await case.signal("tick", wait="quiescent")
        assert len(kit.events(case, WorkerScheduled)) == 3
        assert "tick" not in await case.context()


async def test_a_signal_with_a_name_and_facts_is_all_of_them(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        await case.signal("tick", count=2)
        assert kit.events(case, SignalReceived)[0].signals == ("tick", "count")
        assert (await case.context())["count"] == 2


async def test_values_from_outside_are_converted_to_the_declared_type(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        await case.signal(order={"item": "tea", "count": "2"}, note={"text": "x"})
        assert (await case.context())["order"] == Order(item="tea", count=2)
        assert (await case.context())["note"] == Note("x")


@pytest.mark.parametrize(
    ("signal", "error", "complaint"),
    [
        (lambda case: case.signal(coutn=1), InputRefusedError, "takes no signal 'coutn'; did you mean 'count'?"),
        (lambda case: case.signal(bill=1.0), InputRefusedError, r"takes no signal 'bill'.*signals= or external="),
        (lambda case: case.signal("tock"), InputRefusedError, "takes no signal 'tock'; did you mean 'tick'?"),
        (lambda case: case.signal(object()), InputRefusedError, "takes no signal 'object'"),
        (lambda case: case.signal({"count": 1, "x": 2}), InputRefusedError, "takes no signal 'x'"),
        (lambda case: case.signal(), InputRefusedError, "a signal brings something"),
        (lambda case: case.signal(count="many"), InputRefusedError, "fact 'count'"),
        (lambda case: case.signal(order={"count": 1}), InputRefusedError, "fact 'order'.*item: Field required"),
        (lambda case: case.signal(closed=float("nan")), InputRefusedError, "fact 'closed': nan"),
    ],
)
async def test_what_a_case_does_not_take_is_refused_and_changes_nothing(
    d: CaseDefinition, signal: Any, error: type[Exception], complaint: str
) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        before = len(kit.events(case))
        with pytest.raises(error, match=complaint):
            await signal(case)
        assert len(kit.events(case)) == before


async def test_a_type_that_two_signals_declare_is_refused() -> None:
    d = CaseDefinition("two", signals={"one": Note, "other": Note})
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        with pytest.raises(InputRefusedError, match="takes no signal 'note'"):
            await case.signal(Note("x"))


async def test_a_repeated_key_changes_nothing_and_is_no_error(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        await case.signal(count=1, key="k1")
        await case.signal(count=2, key="k2")
        await case.signal(count=1, key="k1")
        assert (await case.context())["count"] == 2
        assert len(kit.events(case, SignalReceived)) == 2


async def test_a_repeated_key_gets_its_first_answer_even_when_the_case_has_ended_since(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        await case.signal(closed=1, key="k")
        assert (await case.signal(closed=1, key="k"))["closed"] == 1
        with pytest.raises(CaseEndedError):
            await case.signal(closed=1, key="another")


async def test_of_two_at_once_with_one_key_one_counts(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        await asyncio.gather(*(case.signal(count=n, key="k") for n in range(5)))
        assert len(kit.events(case, SignalReceived)) == 1


async def test_an_update_from_outside_changes_one_fact_alone_and_only_one_that_is_as_it_was_seen() -> None:
    """S012."""
    names = [f"k{n}" for n in range(20)]
    d = CaseDefinition("d", goal="closed", signals={**dict.fromkeys(names, int), "closed": Any})
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, dict.fromkeys(names, 0))
        for n in range(25):
            for name in names[:10]:
                await case.signal({name: n + 1})
        await case.suspend(by="user:ada")
        seen, before = await case.context(), list(kit.events(case))
        assert len(before) >= 500

        context = await case.signal(k3=-3, expected=seen.version, by="user:ada")
        assert dict(context) == {**seen, "k3": -3}
        assert kit.events(case)[: len(before)] == before
        assert [type(event) for event in kit.events(case)[len(before) :]] == [SignalReceived, ContextChanged]

        after = list(kit.events(case))
        with pytest.raises(
            FactsChangedError, match=rf"'k3' \(version {context.version}\) changed after version {seen.version}"
        ):
            await case.signal(k3=-4, k4=-4, expected=seen.version)
        assert await case.context() == context
        assert kit.events(case) == after

        await case.signal(k4=-4, expected=seen.version)  # what has changed since is another fact
        await case.resume()
        assert (await case.context())["k4"] == -4


async def test_a_deleted_fact_has_changed_and_one_that_never_was_has_not(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit, count=1)
        seen = (await case.context()).version
        await case.delete("count")
        with pytest.raises(FactsChangedError):
            await case.signal(count=2, expected=seen)
        assert (await case.signal(price=2.5, expected=0))["price"] == 2.5


async def test_an_expectation_that_can_mean_nothing_is_refused(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        events = list(kit.events(case))
        with pytest.raises(InputRefusedError, match="nobody has seen it at 99"):
            await case.signal(count=1, expected=99)
        with pytest.raises(InputRefusedError, match="brings no fact that expected= could be about"):
            await case.signal("tick", expected=1)
        assert kit.events(case) == events


async def test_of_many_who_count_on_from_what_they_saw_each_counts_once(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit, count=0)

        async def count_on() -> None:
            while True:
                seen = await case.context()
                await asyncio.sleep(0)
                try:
                    await case.signal(count=seen["count"] + 1, expected=seen.version)
                except FactsChangedError:
                    continue
                return

        await asyncio.gather(*(count_on() for _ in range(20)))
        assert (await case.context())["count"] == 20


async def test_a_repeated_key_is_answered_though_its_fact_has_changed_since(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit, count=0)
        seen = (await case.context()).version
        for _ in range(2):
            assert (await case.signal(count=1, key="k", expected=seen))["count"] == 1
        assert len(kit.events(case, SignalReceived)) == 1


async def test_an_inbox_that_is_full_refuses_more() -> None:
    d = CaseDefinition("d", signals=["n"], limits=Limits(inbox=3))
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        results = await asyncio.gather(*(case.signal(n=n) for n in range(10)), return_exceptions=True)
        refused = [each for each in results if isinstance(each, LimitError)]
        assert len(refused) == 7
        assert "the inbox of case 'd-1' holds 3 inputs; wait, or raise Limits(inbox=)" in str(refused[0])


# ---- what a signal waits for


def cascade() -> CaseDefinition:
    """a -> b -> c -> d, each taking a minute."""
    return CaseDefinition("cascade", signals=["a"])


def timed(kit_of: list[CaseTestKit]) -> CaseDefinition:
    definition = cascade()

    async def step(value: int) -> int:
        await kit_of[0].clock.sleep("1m")
        return value + 1

    @definition.worker(writes="b")
    async def one(a: int) -> int:
        return await step(a)

    @definition.worker(writes="c")
    async def two(b: int) -> int:
        return await step(b)

    @definition.worker(writes="d")
    async def three(c: int) -> int:
        return await step(c)

    return definition


@pytest.mark.parametrize(
    ("wait", "minutes", "facts"),
    [
        ("turn", 0, {"a": 1}),
        ("first_wave", 1, {"a": 1, "b": 2}),
        ("quiescent", 3, {"a": 1, "b": 2, "c": 3, "d": 4}),
    ],
)
async def test_a_signal_returns_when_what_it_waits_for_has_happened(wait: Any, minutes: int, facts: Any) -> None:
    kits: list[CaseTestKit] = []
    d = timed(kits)
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d)
        signalling = asyncio.create_task(case.signal(a=1, wait=wait))
        await kit.settle()
        for minute in range(4):
            assert signalling.done() is (minute >= minutes)
            if signalling.done():
                assert dict(signalling.result()) == facts
                break
            await kit.advance("1m")


async def test_quiescence_can_be_waited_for_again() -> None:
    kits: list[CaseTestKit] = []
    d = timed(kits)
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d)
        for a in (1, 10):
            await case.signal(a=a)
            waiting = asyncio.create_task(case.quiescent())
            await kit.advance("3m")
            assert (await waiting)["d"] == a + 3


@pytest.mark.parametrize("wait", ["turn", "first_wave", "quiescent"])
async def test_a_signal_that_starts_nothing_returns_at_once_with_the_new_facts(d: CaseDefinition, wait: Any) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        assert (await case.signal(count=5, wait=wait))["count"] == 5


async def test_a_wait_that_takes_too_long_ends_with_a_timeout_and_the_case_goes_on() -> None:
    kits: list[CaseTestKit] = []
    d = timed(kits)
    async with CaseTestKit(d) as kit:
        kits.append(kit)
        case = await kit.start(d)
        signalling = asyncio.create_task(case.signal(a=1, wait="quiescent", timeout="90s"))
        await kit.advance("89s")
        assert not signalling.done()
        await kit.advance("1s")
        with pytest.raises(TimeoutError, match="did not come to rest within 90s; it goes on, ask it why with explain"):
            await signalling
        await kit.advance("5m")
        assert (await case.context())["d"] == 4


async def test_a_way_to_wait_that_is_none_is_refused_before_anything_is_written() -> None:
    async with CaseTestKit(desk()) as kit:
        case = await kit.start("desk")
        before = len(kit.events(case, Event))
        with pytest.raises(SettingsError, match=r"wait='quiescence' .* did you mean 'quiescent'"):
            await case.signal(closed=True, wait="quiescence")  # type: ignore[arg-type]  # on purpose
        assert len(kit.events(case, Event)) == before


async def test_a_first_wave_counts_retries_as_part_of_it() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    async with CaseTestKit(d) as kit:
        kit.script(work, OSError("away"), 7)
        case = await kit.start(d)
        signalling = asyncio.create_task(case.signal(a=1, wait="first_wave"))
        await kit.settle()
        assert not signalling.done()
        await kit.advance("30s")
        assert (await signalling)["b"] == 7


# ---- completion


async def test_completed_gives_the_facts(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        waiting = asyncio.create_task(case.completed())
        await case.signal(closed="yes")
        context = await waiting
        assert isinstance(context, CaseContext)
        assert context["closed"] == "yes"
        assert (await case.completed())["closed"] == "yes"  # and again, long after


async def test_completed_raises_what_a_case_came_to_instead() -> None:
    d = CaseDefinition("d", goal="b", signals=["fatal"])
    d.goal("fatal", lambda fatal: fatal, failure=True)

    @d.worker(writes="b")
    async def work(a: int) -> int:
        raise Permanent("no such account")

    async with CaseTestKit(d) as kit:
        cancelled, faulted = await kit.start(d, a=1), await kit.start(d, a=1)
        await cancelled.cancel(by="user:ada", reason="mistake")
        with pytest.raises(CaseCancelledError, match="was cancelled by user:ada: mistake") as first:
            await cancelled.completed()
        assert (first.value.case, first.value.by, first.value.reason) == (cancelled.id, "user:ada", "mistake")
        await faulted.signal(fatal=True)
        with pytest.raises(CaseFaultedError, match="failure goal 'fatal'") as second:
            await faulted.completed()
        assert second.value.reason == "failure goal 'fatal' is reached"


def stuck() -> CaseDefinition:
    d = CaseDefinition("stuck", goal="c")

    @d.worker(writes="b", retry=Retry(1))
    async def fetch(a: int) -> int:
        raise OSError("away")

    @d.worker(writes="c")
    async def use(b: int) -> int:
        return b

    return d


async def test_completed_raises_on_a_stall_with_its_reasons() -> None:
    d = stuck()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        with pytest.raises(CaseStalledError, match="nothing is running, nothing is eligible") as caught:
            await case.completed()
        assert caught.value.reasons[1] == "use: MISSING_FACTS - needs 'b', which fetch would write"
        assert str(caught.value).count("\n  - ") == 3
        assert await case.status() is CaseStatus.RUNNING


async def test_completed_can_wait_through_a_stall() -> None:
    d = stuck()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        with pytest.raises(TimeoutError, match="did not complete within 1h"):
            await asyncio.gather(case.completed("1h", wait_through_stall=True), kit.advance("2h"))


async def test_many_waiters_are_all_told() -> None:
    d = stuck()
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        results = await asyncio.gather(*(case.completed() for _ in range(20)), return_exceptions=True)
        assert [type(result) for result in results] == [CaseStalledError] * 20


# ---- facts


async def test_get_or_put_is_atomic(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        values = await asyncio.gather(*(case.get_or_put("count", n) for n in range(20)))
        assert len(set(values)) == 1
        assert len(kit.events(case, ContextChanged)) == 1


async def test_facts_are_deleted_hidden_shown_and_cleared(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit, order=Order(item="tea"), count=1, note=Note("x"))
        await case.delete("count", by="user:ada", reason="wrong")
        assert "count" not in await case.context()
        await case.hide("note")
        assert list(await case.context()) == ["order"]
        await case.show("note")
        assert set(await case.context()) == {"order", "note"}
        await case.clear()
        assert list(await case.context()) == ["order"]  # it is protected
        assert kit.events(case, ContextChanged)[1].by == "user:ada"


@pytest.mark.parametrize("verb", ["delete", "hide", "show"])
async def test_a_fact_that_nobody_knows_is_refused_and_the_nearest_named(d: CaseDefinition, verb: str) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        with pytest.raises(InputRefusedError, match="knows no fact 'coutn'; did you mean 'count'"):
            await getattr(case, verb)("coutn")


async def test_a_context_is_of_one_version_and_does_not_change(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit, count=1)
        context = await case.context()
        await case.signal(count=2)
        assert context["count"] == 1
        assert (await case.context()).version > context.version


async def test_a_fact_has_a_history_with_authors_and_deletions(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit, count=1)
        await case.signal(count=2, by="user:bob")
        await case.delete("count", by="user:ada")
        await case.signal(count=3)
        history = await case.facts("count").history()
        assert [(fact.value, fact.by) for fact in history] == [
            (1, "user"),
            (2, "user:bob"),
            (ABSENT, "user:ada"),
            (3, "user"),
        ]
        assert await case.facts("count").value() == 3


async def test_why_is_the_chain_of_causes_to_the_sources() -> None:
    d = CaseDefinition("d", goal="final")

    @d.worker(writes="facts")
    async def research(question: str) -> list[str]:
        return [question]

    @d.worker(writes="weather")
    async def look(question: str) -> str:
        return "fine"

    @d.worker(writes="final")
    async def write(facts: list[str]) -> str:
        return facts[0]

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, by="user:ada", question="why?")
        await case.completed()
        chain = await case.facts("final").why()
        assert chain[0].name == "CONTEXT_CHANGED"
        assert chain[0].by == "user:ada"
        assert chain[-1].version == (await case.context()).fact("final").stamp
        bindings = [event.binding for event in chain if isinstance(event, WorkerExecutionCompleted)]
        assert bindings == ["research", "write"]  # the weather has nothing to do with it


async def test_why_a_fact_that_a_later_run_wrote_leads_to_what_that_run_read() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    async with CaseTestKit(d) as kit:
        case = await kit.start(d, a=1)
        await case.quiescent()
        await case.signal(a=2, by="user:bob", wait="quiescent")
        chain = await case.facts("b").why()
        assert {event.by for event in chain if isinstance(event, ContextChanged)} == {"user:bob", "worker:work"}


async def test_why_a_fact_that_was_made_of_two_leads_to_both() -> None:
    d = CaseDefinition("d", signals=["a", "b"])

    @d.worker(writes="c")
    async def join(a: int, b: int) -> int:
        return a + b

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(a=1, by="user:ada")
        await case.signal(b=2, by="user:bob", wait="quiescent")
        sources = {event.by for event in await case.facts("c").why() if isinstance(event, SignalReceived)}
        assert sources == {"user:ada", "user:bob"}


async def test_why_a_fact_says_what_it_was_made_of_and_not_what_its_next_run_has_begun_with() -> None:
    d = CaseDefinition("d", signals=["a"])
    gate = asyncio.Event()

    @d.worker(writes="b")
    async def work(a: int) -> int:
        if a > 1:
            await gate.wait()
        return a

    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(a=1, by="user:ada", wait="quiescent")
        await case.signal(a=2, by="user:bob")
        await kit.settle()
        sources = {event.by for event in await case.facts("b").why() if isinstance(event, SignalReceived)}
        assert sources == {"user:ada"}
        gate.set()
        await kit.settle()


async def test_why_of_a_fact_that_never_was(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        with pytest.raises(FactError, match="never had a fact 'bill'"):
            await case.facts("bill").why()


# ---- suspend, resume, cancel


async def test_suspend_resume_and_cancel_with_their_authors_and_reasons(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        await case.suspend(by="user:ada", reason="holiday")
        assert await case.status() is CaseStatus.SUSPENDED
        with pytest.raises(IllegalTransitionError, match="RUNNING or WAITING"):
            await case.suspend()
        await case.resume(by="user:ada")
        with pytest.raises(IllegalTransitionError, match="SUSPENDED"):
            await case.resume()
        await case.cancel(by="user:ada", reason="sold")
        for verb in (case.cancel, case.kill, case.suspend, case.resume):
            with pytest.raises(CaseEndedError, match="terminal"):
                await verb()
        with pytest.raises(CaseEndedError, match="terminal"):
            await case.signal(count=1)
        changes = [(event.name, event.by) for event in kit.events(case) if event.name.startswith("CASE_")]
        assert changes[-1] == ("CASE_CANCELLED", "user:ada")


async def test_explain_through_the_handle(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit, order=Order(item="tea"))
        assert [str(said) for said in await case.explain("bill")] == [
            "bill: MISSING_FACTS - needs 'price', which a signal would bring"
        ]
        assert [said.binding for said in await case.explain()] == ["bill", "beat"]
        with pytest.raises(UnknownNameError, match="has no binding 'bil'; did you mean 'bill'"):
            await case.explain("bil")


async def test_handles_are_equal_by_id_and_good_after_the_end(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        again = kit.hub.case(case.id)
        assert case == again
        assert len({case, again}) == 1
        assert repr(case) == "Case('desk-1')"
        await case.signal(closed=1)
        for _ in range(100):
            other = await opened(kit)
            await other.signal(closed=1)
        assert await again.status() is CaseStatus.COMPLETED
        assert (await again.context())["closed"] == 1


# ---- the log of a case


async def test_the_log_of_a_case_is_asked_by_class(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case, other = await opened(kit), await opened(kit)
        await case.signal(count=1)
        await other.signal(count=1)
        await case.signal(count=2, by="user:ada")
        assert [e.signals for e in await case.log.query(SignalReceived)] == [("count",), ("count",)]
        assert len(await case.log.query(SignalReceived, by="user:ada")) == 1
        assert await case.log.count(SignalReceived) == {"SIGNAL_RECEIVED": 2}
        assert len(await case.log.query(Event)) == len(kit.events(case))


async def test_a_handles_log_reaches_all_cases_and_says_that_it_does_not_know_its_definition(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case, other = await opened(kit), await opened(kit)
        await case.signal(count=1)
        await other.signal(count=1)
        assert await case.log.count(SignalReceived, by="case", across="all") == {case.id: 1, other.id: 1}
        with pytest.raises(SettingsError, match=r"ask hub.log with definition=, or say across='all'"):
            await case.log.count(SignalReceived, across="definition")
        with pytest.raises(SettingsError, match=r"ask hub.log with definition="):
            await case.log.cases()


async def test_the_cases_of_a_hub_are_listed_latest_first(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        cases = [await opened(kit) for _ in range(3)]
        await cases[1].signal(closed=1)
        await cases[2].suspend()
        listed = await kit.hub.cases()
        assert [summary.case for summary in listed] == [case.id for case in reversed(cases)]
        assert [s.case for s in await kit.hub.cases(status=CaseStatus.COMPLETED)] == [cases[1].id]
        assert [s.case for s in await kit.hub.cases(status=[CaseStatus.WAITING, CaseStatus.SUSPENDED], limit=1)] == [
            cases[2].id
        ]
        assert [s.case for s in await kit.hub.cases(after=cases[1].id)] == [cases[0].id]
        assert await kit.hub.cases(definition="other") == []


async def test_counting_cases_across_one_case_is_refused(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        with pytest.raises(SettingsError, match="cases= counts cases, and across='case' is one"):
            await case.log.query(Event, cases=5)


async def test_one_evaluation_a_change_whoever_asks_at_once(d: CaseDefinition) -> None:
    async with CaseTestKit(d) as kit:
        case = await opened(kit)
        await asyncio.gather(*(case.signal(count=n) for n in range(50)))
        await idle()
        assert len(kit.events(case, ContextChanged)) == 50
        assert [event.turn for event in kit.events(case, ContextChanged)] == sorted(
            event.turn for event in kit.events(case, ContextChanged)
        )


async def test_a_log_is_tailed_in_order_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.query.PAGE", 3)
    d = CaseDefinition("d", goal="end", signals=["n", "end"])
    async with CaseHub(d) as hub:
        case, other = await hub.start(d), await hub.start(d)
        for number in range(8):
            await case.signal(n=number)
            await other.signal(n=-number - 1)
        changes = [event async for event in case.log.tail(ContextChanged)]
        assert [event.facts["n"] for event in changes] == list(range(8))
        behind = [event.facts["n"] async for event in case.log.tail(ContextChanged, after=changes[4].seq)]
        assert behind == [5, 6, 7]
        assert len([event async for event in case.log.tail(ContextChanged, across="all")]) == 16
        await case.kill()
        await other.kill()
