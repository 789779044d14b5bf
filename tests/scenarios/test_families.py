"""Families of cases over crashes at every commit, hubs that lack a definition, full inboxes, stores that go away."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from casehub import (
    Budget,
    BudgetExhausted,
    CaseDefinition,
    CaseEndedError,
    CaseExistsError,
    CaseHub,
    CaseHubError,
    CaseStarted,
    CaseStatus,
    Event,
    EventQuery,
    HumanTask,
    LimitError,
    Limits,
    Permanent,
    Retry,
    StoreUnavailableError,
    SubCaseEnded,
    WorkerExecution,
)
from casehub.family import NAME
from casehub.spi import Turn
from casehub.testing import CaseTestKit
from tests.scenarios.test_sub_cases import loan, portfolio, seen, the_end, visits
from tests.staging import Kept, idle


def estate(**options: Any) -> CaseDefinition:
    """A case over a portfolio of visits and a visit of its own."""
    visit = visits()
    estate = CaseDefinition("estate", goal="deed")

    @estate.sub_case(portfolio(visit, **options), name="left", writes="left", takes="decision")
    def left(sites: list[str]) -> dict[str, list[str]]:
        return {"addresses": sites}

    @estate.sub_case(visit, name="right", writes="right", takes="report", timeout="1d")
    def right(sites: list[str]) -> dict[str, str]:
        return {"address": sites[0]}

    @estate.worker(writes="deed")
    async def sign(left: str, right: str) -> str:
        return f"{left}; {right}"

    return estate


class Crash:
    """The process ends before, or after, the `number`-th commit to a store: whatever comes later is never written."""

    def __init__(self, store: Kept, number: int, *, after: bool) -> None:
        self.gone = asyncio.Event()
        self._left = number
        if after:
            store.after = self._hit
        else:
            store.before = self._hit

    def _hit(self, turns: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            self.gone.set()
        return asyncio.sleep(3600) if self._left <= 0 else None


async def play(hub: CaseHub, *, cancel: bool) -> None:
    """Whoever acts on the cases does what is still to be done."""
    with contextlib.suppress(CaseExistsError):
        await hub.start("estate", sites=["A", "B", "C"], case_id="e")
    for _ in range(8):
        await idle()
        open = sorted(each.case for each in await hub.cases(definition="visit", status=CaseStatus.WAITING))
        if cancel and len(open) == 4:
            with contextlib.suppress(CaseEndedError):
                await hub.case("e").cancel()
            open = []
        for child in open:
            if not (cancel or child.endswith(".2")):
                await seen(hub, child, child)
                await idle()


async def played(crash: int, *, after: bool, cancel: bool, rest: str) -> tuple[bool, Mapping[str, Any]]:
    """Whether a crash came, and how each case stands after it, with what happened to its family."""
    store, definition = Kept(), estate(need=2, rest=rest)
    crashed = False
    if crash:
        end = Crash(store, crash, after=after)
        with contextlib.suppress(ZeroDivisionError):
            async with CaseHub(definition, store=store) as hub:
                acting = asyncio.ensure_future(play(hub, cancel=cancel))
                gone = asyncio.ensure_future(end.gone.wait())
                await asyncio.wait((acting, gone), return_when=asyncio.FIRST_COMPLETED)
                crashed = end.gone.is_set()
                for task in (acting, gone):
                    task.cancel()
                await asyncio.gather(acting, gone, return_exceptions=True)
                raise ZeroDivisionError
        store.before = store.after = None
    async with CaseHub(definition, store=store) as hub:
        await play(hub, cancel=cancel)
        await idle()
        shapes: dict[str, Any] = {}
        for each in await hub.cases():
            names = [event.name for event in await store.load(each.case)]
            shapes[each.case] = each.status, Counter(n for n in names if n.startswith(("SUB_CASE", "CASE_")))
        return crashed, shapes


@pytest.mark.parametrize("rest", ["cancel", "keep"])
@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("after", [False, True])
async def test_a_crash_at_any_commit_neither_loses_nor_doubles_a_sub_case_or_its_end(
    after: bool, cancel: bool, rest: str
) -> None:
    _, without = await played(0, after=after, cancel=cancel, rest=rest)
    assert len(without) == 6
    for number in range(1, 100):
        crashed, shapes = await played(number, after=after, cancel=cancel, rest=rest)
        if not crashed:
            break
        assert {case: shape[0] for case, shape in shapes.items()} == {c: s[0] for c, s in without.items()}, number
        if not cancel:
            assert shapes == without, number
    assert 15 < number < 99


async def test_a_time_limit_is_over_with_the_attempt_that_it_was_for() -> None:
    retry = Retry(3, wait="3d", maximum="3d", jitter=False)
    async with CaseTestKit(loan(visits(), timeout="2d", on_failed="retry", retry=retry)) as kit:
        case = await kit.start("loan", address="nowhere", case_id="l")
        await idle()
        assert list((await case.state()).timers) == ["retry:l/inspect/1"]
        await kit.advance("2d 12h")
        assert not [event for event in kit.events(case) if event.name == "WORKER_EXECUTION_EXPIRED"]


async def test_no_time_limit_is_left_when_all_of_several_have_completed() -> None:
    async with CaseTestKit(portfolio(visits(), timeout="2d")) as kit:
        case = await kit.start("portfolio", addresses=["A", "B"], case_id="p")
        await idle()
        for number in (1, 2):
            await seen(kit.hub, f"p/inspect/1.{number}", "x")
        await case.completed()
        assert "TIMER_CANCELLED" in [event.name for event in kit.events(case)]


def order() -> CaseDefinition:
    """Another application's, with sub-cases of its own."""
    parcel = CaseDefinition("parcel", goal="sent", signals={"sent": str})
    order = CaseDefinition("order", goal="sent", signals={"placed": str})

    @order.sub_case(parcel, writes="sent")
    def send(placed: str) -> dict[str, str]:
        return {}

    return order


@pytest.mark.parametrize("stop", ["l/inspect/1", "l"])
async def test_what_a_hub_without_the_definition_leaves_undone_is_done_by_the_next_that_has_it(stop: str) -> None:
    store, definition = Kept(), loan(visits())
    gone = asyncio.Event()

    def crash(turns: Sequence[Turn]) -> Any:
        if any(turn.envelope.case == stop and (stop != "l" or turn.envelope.turn > 1) for turn in turns):
            gone.set()
            return asyncio.sleep(3600)
        return None

    store.before = crash
    with contextlib.suppress(ZeroDivisionError):
        async with CaseHub(definition, store=store) as hub:
            await hub.start("loan", address="A", case_id="l")
            if stop == "l":
                await idle()
                await seen(hub, "l/inspect/1", "a house")
            await gone.wait()
            raise ZeroDivisionError
    store.before = None
    for _ in range(2):
        async with CaseHub(order(), store=store) as hub:
            await idle()
            assert not any(each.failures for each in hub.subscribers)
    async with CaseHub(definition, store=store) as hub:
        await idle()
        if stop != "l":
            await seen(hub, "l/inspect/1", "a house")
            await idle()
        (found,) = await hub.cases(definition="loan")
        assert found.status is CaseStatus.COMPLETED


async def test_a_parent_that_was_parked_when_its_sub_case_ended_goes_on_by_itself_once_it_can() -> None:
    store, visit = Kept(), visits()
    definition = loan(visit)
    async with CaseHub(definition, store=store) as hub:
        await hub.start("loan", address="A", case_id="l")
        await idle()
    lacking = CaseDefinition("loan", goal="decision", inputs=None, signals={"decision": str})

    @lacking.sub_case(visit, name="another", writes="report")
    def another(place: str) -> dict[str, str]:
        return {"address": place}

    async with CaseHub(lacking, store=store) as hub:
        await seen(hub, "l/inspect/1", "a house")
        await idle()
    async with CaseHub(definition, store=store) as hub:
        await idle()
        (found,) = await hub.cases(definition="loan")  # nobody asks for the case itself
        assert found.status is CaseStatus.COMPLETED


@pytest.mark.parametrize("people", [False, True])
async def test_a_case_is_parked_when_what_does_its_work_in_flight_has_become_a_worker(people: bool) -> None:
    store, visit = Kept(), visits()
    definition = loan(visit)
    if people:
        definition = CaseDefinition("loan", goal="report")

        @definition.human_task(writes="report")
        def inspect(address: str) -> HumanTask[str]:
            return HumanTask("Look", str)

    async with CaseHub(definition, store=store) as hub:
        await hub.start("loan", address="A", case_id="l")
        await idle()
    changed = CaseDefinition("loan", goal="report")

    @changed.worker(name="inspect", writes="report")
    async def look(address: str) -> str:
        return "seen by a worker"

    async with CaseHub(changed, visit, store=store) as hub:
        with pytest.raises(CaseHubError, match=f"lacks inspect as {'a human task' if people else 'sub-cases'}"):
            await hub.case("l").status()
    async with CaseHub(definition, store=store) as hub:
        if people:
            (task,) = await hub.tasks.list()
            await hub.tasks.complete(task.id, "a house", by="user:ada")
        else:
            await seen(hub, "l/inspect/1", "a house")
        assert await the_end(hub.case("l")) is CaseStatus.COMPLETED


async def test_a_parent_hears_of_its_sub_case_over_a_full_inbox() -> None:
    store, definition = Kept(), loan(visits())
    definition.limits = Limits(inbox=3)
    async with CaseHub(definition, store=store) as hub:
        await hub.start("loan", address="A", case_id="l")
        await idle()
        hold = asyncio.Event()
        store.before = lambda turns: hold.wait() if turns[0].envelope.case == "l" else None
        posts: list[asyncio.Future[Any]] = []
        for number in range(5):
            posts.append(asyncio.ensure_future(hub.case("l").signal(note=str(number))))
            await idle()
        await seen(hub, "l/inspect/1", "a house")
        await idle()
        store.before = None
        hold.set()
        answers = await asyncio.gather(*posts, return_exceptions=True)
        assert [type(each) for each in answers if isinstance(each, Exception)] == [LimitError]
        assert await the_end(hub.case("l")) is CaseStatus.COMPLETED


class Reads:
    """The read side of a store that is away when it is first asked."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def query(self, query: EventQuery) -> Sequence[Event]:
        self.asked += 1
        if self.asked == 1:
            raise StoreUnavailableError("the store is away")
        found: Sequence[Event] = await self._log.query(query)
        return found


class Read(Kept):
    """A store whose read side may be replaced."""

    reads: Any = None

    @property
    def log(self) -> Any:
        return self.reads or self.store.log


async def test_a_hub_that_works_only_what_it_is_asked_for_finds_what_a_crash_left_undone() -> None:
    store, definition = Read(), loan(visits())
    gone = asyncio.Event()

    def crash(turns: Sequence[Turn]) -> Any:
        if turns[0].envelope.case == "l" and turns[0].envelope.turn > 1:
            gone.set()
            return asyncio.sleep(3600)
        return None

    store.before = crash
    with contextlib.suppress(ZeroDivisionError):
        async with CaseHub(definition, store=store) as hub:
            await hub.start("loan", address="A", case_id="l")
            await idle()
            await seen(hub, "l/inspect/1", "a house")
            await gone.wait()
            raise ZeroDivisionError
    store.before = None
    async with CaseTestKit(definition) as kit:  # whose clock lets no second pass
        clock = kit.clock
    async with CaseHub(definition, store=store, resume=False, clock=clock) as hub:
        await idle()
        store.reads = Reads(store.store.log)
        await hub.case("l").status()
        await idle()
        assert store.reads.asked == 1
        clock.move("1s")
        assert await the_end(hub.case("l")) is CaseStatus.COMPLETED
        assert len(await hub.case("l").log.query(SubCaseEnded)) == 1


async def test_a_long_log_without_sub_cases_is_not_read_to_start_the_first() -> None:
    store, visit = Read(), visits()
    async with CaseHub(visit, store=store) as hub:
        await hub.start("visit", address="A")
        await idle()
    position = await store.log.position()
    async with CaseHub(loan(visit), store=store) as hub:
        assert await store.bookmark(NAME) == position
        await hub.start("loan", address="A", case_id="l")
        await idle()
        await seen(hub, "l/inspect/1", "a house")
        assert await the_end(hub.case("l")) is CaseStatus.COMPLETED


async def test_a_case_says_which_sub_case_of_its_sub_cases_is_stalled_and_why() -> None:
    stuck = CaseDefinition("stuck", goal="report", signals={"hint": str})

    @stuck.worker(writes="report")
    async def look(address: str, key: str) -> str:
        return f"{address} {key}"

    @stuck.worker(writes="key")
    async def find_key(address: str) -> str:
        raise Permanent("it is lost")

    stuck.signals.clear()
    middle = CaseDefinition("middle", goal="report")

    @middle.sub_case(stuck, writes="report")
    def go(address: str) -> dict[str, str]:
        return {"address": address}

    async with CaseTestKit(loan(middle)) as kit:
        case = await kit.start("loan", address="A", case_id="l")
        await idle()
        (said,) = await case.explain("inspect")
        assert said.text.startswith(
            "waits for sub-case l/inspect/1, which waits for sub-case l/inspect/1/go/1, which is stalled: look: "
        )
        assert "it is lost" in said.text
        await kit.hub.case("l/inspect/1/go/1").cancel(reason="no key")
        await idle()
        (said,) = await case.explain("inspect")
        assert said.text.startswith("waits for sub-case l/inspect/1, which is stalled: go: ")


async def test_a_case_comes_to_rest_when_the_sub_cases_that_it_waits_for_have() -> None:
    async with CaseHub(estate(need=2, rest="cancel")) as hub:
        case = await hub.start("estate", sites=["A", "B", "C"], case_id="e")
        await case.quiescent("5s")
        visits = await hub.cases(definition="visit", status=CaseStatus.WAITING)
        assert [each.case for each in visits] == [
            "e/left/1/inspect/1.3",
            "e/left/1/inspect/1.2",
            "e/left/1/inspect/1.1",
            "e/right/1",
        ]
        for child in ("e/left/1/inspect/1.1", "e/right/1", "e/left/1/inspect/1.3"):
            await seen(hub, child, "x")
        await case.quiescent("5s")
        assert await case.status() is CaseStatus.COMPLETED


async def test_a_sub_case_at_work_is_waited_for_no_longer_than_the_limit() -> None:
    slow = CaseDefinition("visit", goal="report")

    @slow.worker(writes="report")
    async def report(address: str) -> str:
        await asyncio.Event().wait()
        return address

    async with CaseTestKit(loan(slow)) as kit:
        case = await kit.start("loan", address="A")
        resting = asyncio.ensure_future(case.quiescent("5s"))
        await idle()
        assert not resting.done()
        kit.clock.move("5s")
        with pytest.raises(TimeoutError, match="did not come to rest within 5s"):
            await resting


def study(*, calls: int | None = None, per: str | None = None) -> CaseDefinition:
    """Questions that sub-cases of sub-cases think about, for 30 tokens each."""
    thought = CaseDefinition("thought", goal="enough", signals={"more": str})

    @thought.worker(writes="idea")
    async def think(question: str, more: str, execution: WorkerExecution) -> str:
        execution.charge(tokens=30)
        return f"{question} {more}"

    thought.goal("enough", lambda idea: idea.endswith("enough"))
    chapter = CaseDefinition("chapter", goal="idea", budget=Budget(tokens=500))

    @chapter.sub_case(thought, writes="idea")
    def ponder(question: str) -> dict[str, str]:
        return {"question": question}

    budget = Budget(tokens=100, calls=calls, per=per)
    study = CaseDefinition("study", goal="never", signals={"question": str, "never": str}, budget=budget)

    @study.sub_case(chapter, name="chapter", writes="idea")
    def begin(question: str) -> dict[str, str]:
        return {"question": question}

    return study


async def test_a_sub_case_may_spend_what_is_left_of_the_budgets_around_it_and_says_when_that_is_spent() -> None:
    async with CaseTestKit(study(calls=9)) as kit:
        case = await kit.start("study", question="why", case_id="s")
        await idle()
        first = kit.hub.case("s/chapter/1/ponder/1")
        for more in ("a", "enough"):
            await first.signal(more=more)
            await idle()
        spent = (await case.state()).spending
        assert (spent.spent("case", "tokens"), spent.spent("case", "calls")) == (60, 4)  # two, and one in each around
        await case.signal(question="how")
        await idle()
        second = kit.hub.case("s/chapter/2/ponder/1")
        (started,) = await second.log.query(CaseStarted)
        assert started.budget == {"tokens": 40, "calls": 3}
        for more in ("a", "b", "c"):
            await second.signal(more=more)
            await idle()
        (exhausted,) = await second.log.query(BudgetExhausted)
        assert (exhausted.scope, exhausted.unit, exhausted.limit) == ("family", "tokens", 40)
        await kit.restart()
        second = kit.hub.case("s/chapter/2/ponder/1")
        assert [each.text for each in await second.explain("think")] == ["held back by family.tokens (40)"]


async def test_the_budget_of_a_day_bounds_no_sub_case_as_that_may_live_longer() -> None:
    async with CaseTestKit(study(per="day")) as kit:
        await kit.start("study", question="why", case_id="s")
        await idle()
        (chapter,) = await kit.hub.case("s/chapter/1").log.query(CaseStarted)
        (thought,) = await kit.hub.case("s/chapter/1/ponder/1").log.query(CaseStarted)
        assert (chapter.budget, thought.budget) == (None, {"tokens": 500})
