"""A definition changes while its cases are open: releases follow one another over one database.

Each `async with CaseHub(...)` is a process of its own: it ends, and the next one opens the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from blackboard_ext import CasePlanModel, PlanningStrategyLoopControl, StageActivated
from blackboard_ext.strategies import EverythingEligible
from casehub import (
    Binding,
    Case,
    CaseDefinition,
    CaseFaultedError,
    CaseHub,
    CaseId,
    CaseStarted,
    CaseStatus,
    CaseView,
    DefinitionAdopted,
    DeliberationCancelled,
    Event,
    EventQuery,
    GoalReached,
    HumanTask,
    InputRefusedError,
    MilestoneReached,
    MilestoneSlaViolated,
    Retry,
    SettingsError,
    SubCaseStarted,
    WorkerExecutionCompleted,
    WorkerExecutionStarted,
    every,
    present,
)
from casehub.goals import as_expression
from casehub.testing import CaseTestKit
from tests.staging import eventually

E = TypeVar("E", bound=Event)


@dataclass
class Rates:
    """A resource."""

    rate: float


def claim_1() -> CaseDefinition:
    """A clerk says how much, and that is paid."""
    d = CaseDefinition("claim", goal="letter")

    @d.human_task(writes="amount")
    def assess(document: str) -> HumanTask[int]:
        return HumanTask(f"How much for {document}?", int, users=["ada"])

    @d.worker(writes="letter")
    async def write(amount: int) -> str:
        return f"we pay {amount}"

    return d


def claim_2(*, in_words: bool = False) -> CaseDefinition:
    """Something looks at what the clerk said before the letter is written."""
    d = CaseDefinition("claim", goal="letter")

    @d.worker(writes="limit")
    async def look_up(document: str) -> int:
        return 100

    if in_words:

        @d.human_task(name="assess", writes="amount")
        def assess_in_words(document: str) -> HumanTask[str]:
            return HumanTask(f"How much for {document}?", str, users=["ada"])

    else:

        @d.human_task(writes="amount")
        def assess(document: str) -> HumanTask[int]:
            return HumanTask(f"How much for {document}?", int, users=["ada"])

    @d.worker(writes="letter")
    async def write(amount: Any, limit: int) -> str:
        return f"we pay {min(int(amount), limit)} of {limit}"

    return d


def claim_3() -> CaseDefinition:
    """No clerk any more."""
    d = CaseDefinition("claim", goal="letter")

    @d.worker(writes="letter")
    async def answer(document: str) -> str:
        return f"we have {document}"

    return d


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'cases.db'}"


async def answer(hub: CaseHub, case: Case | str, value: object) -> None:
    """Ada does the one task that a case has."""
    id = case if isinstance(case, str) else case.id

    async def there() -> Sequence[object]:
        return await hub.tasks.list(case=id)

    await eventually(there)
    (task,) = await hub.tasks.list(case=id)
    await hub.tasks.complete(task.id, value, by="user:ada")


async def logged(hub: CaseHub, kind: type[E]) -> list[E]:
    """The events of a class, of all cases."""
    found = await hub.log.query(EventQuery(types=(kind.name,)))
    return [event for event in found if isinstance(event, kind)]


async def version(hub: CaseHub, case: str) -> str:
    return (await hub.case(case).state()).structure


async def test_an_open_case_goes_on_with_its_version_beside_new_ones_of_the_next(url: str) -> None:
    first = claim_1()
    async with CaseHub(first, store=url) as hub:
        await hub.start("claim", case_id="old", document="a roof")
        one = hub.structures["claim"].hash
    second, first = claim_2(), claim_1()  # the same version again: another process has made it
    async with CaseHub(second, kept=[first], store=url) as hub:
        await hub.start("claim", case_id="new", document="a car")
        two = hub.structures["claim"].hash
        assert (await version(hub, "old"), await version(hub, "new")) == (one, two)
        assert one != two
        for case in ("old", "new"):
            await answer(hub, case, 700)
        assert (await hub.case("old").completed())["letter"] == "we pay 700"
        assert (await hub.case("new").completed())["letter"] == "we pay 100 of 100"
        assert not await logged(hub, DefinitionAdopted)


@pytest.mark.parametrize("snapshots", [False, True])
async def test_it_does_so_over_two_restarts_and_adopts_the_current_one_when_its_own_is_gone(
    url: str, *, snapshots: bool
) -> None:
    where = url if snapshots else None
    async with CaseHub(claim_1(), store=url, snapshots=where) as hub:
        for case in ("a", "b"):
            await hub.start("claim", case_id=case, document="a roof")
        one = hub.structures["claim"].hash
    for _ in range(2):
        async with CaseHub(claim_2(), kept=[claim_1()], store=url, snapshots=where) as hub:
            assert {await version(hub, "a"), await version(hub, "b")} == {one}
    async with CaseHub(claim_2(), kept=[claim_1()], store=url, snapshots=where) as hub:
        await answer(hub, "a", 7)
        assert (await hub.case("a").completed())["letter"] == "we pay 7"
    async with CaseHub(claim_2(), store=url, snapshots=where) as hub:
        await answer(hub, "b", 7)
        assert (await hub.case("b").completed())["letter"] == "we pay 7 of 100"
        assert await version(hub, "b") == hub.structures["claim"].hash != one
        assert [each.case for each in await logged(hub, DefinitionAdopted)] == ["b"]


async def test_it_is_parked_with_the_reason_where_the_current_one_lacks_what_it_waits_for(url: str) -> None:
    async with CaseHub(claim_1(), store=url) as hub:
        await hub.start("claim", case_id="c", document="a roof")
        one = hub.structures["claim"].hash
    async with CaseHub(claim_3(), store=url) as hub:
        with pytest.raises(
            InputRefusedError, match=f"lacks assess, which is in flight; .* keep .* it has, {one}, beside"
        ):
            await hub.case("c").status()
        assert "lacks assess" in hub.parked[CaseId("c")]
    async with CaseHub(claim_3(), kept=[claim_1()], store=url) as hub:  # the remedy
        await answer(hub, "c", 7)
        assert (await hub.case("c").completed())["letter"] == "we pay 7"
        assert not hub.parked


async def test_an_item_more_leaves_the_result_that_is_awaited_with_the_item_that_it_is_of(url: str) -> None:
    """S119: ids that are running numbers would give it to `look_up`, which the next release has first."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    def release(*, more: bool) -> CaseDefinition:
        d = CaseDefinition("claim", goal="amount", signals={"limit": int})
        if more:

            @d.worker(writes="limit")
            async def look_up(document: str) -> int:
                return 100

        @d.worker(writes="amount")
        async def assess(document: str) -> int:
            begun.set()
            await go_on.wait()
            return 7

        return d

    async with CaseHub(release(more=False), store=url) as hub:
        await hub.start("claim", case_id="c", document="a roof")
        await begun.wait()
    async with CaseHub(release(more=True), store=url) as hub:
        await eventually(lambda: hub.runtime.working)
        go_on.set()
        found = await hub.case("c").completed()
        assert found["amount"] == 7
        done = {str(each.activation): each.binding for each in await logged(hub, WorkerExecutionCompleted)}
        assert done["c/assess/1"] == "assess"


async def test_migrating_moves_a_case_that_waits_from_the_version_that_is_kept(url: str) -> None:
    async with CaseHub(claim_1(), store=url) as hub:
        await hub.start("claim", case_id="c", document="a roof")
    second = claim_2(in_words=True)
    second.milestone("known", present("document"))
    second.goal("short", lambda document: len(document) < 10)
    async with CaseHub(second, kept=[claim_1()], store=url) as hub:
        waiting = asyncio.ensure_future(hub.case("c").completed())  # whoever waits for it goes on waiting
        (task,) = await hub.tasks.list()
        assert task.form == {"type": "integer"}
        (would,) = await hub.migrate("claim", dry_run=True)
        assert (would.case, would.before, would.after, would.refused) == (
            "c", await version(hub, "c"), hub.structures["claim"].hash, "",
        )  # fmt: skip
        assert not await logged(hub, DefinitionAdopted)
        assert [each.refused for each in await hub.migrate("claim")] == [""]
        (adopted,) = await logged(hub, DefinitionAdopted)
        follows = [*await logged(hub, MilestoneReached), *await logged(hub, GoalReached)]
        assert {event.envelope.turn for event in follows} == {adopted.envelope.turn}
        (task,) = await hub.tasks.list()
        assert task.form == {"type": "string"}
        await answer(hub, "c", "12")
        assert (await waiting)["letter"] == "we pay 12 of 100"
        assert await hub.migrate("claim") == []
    async with CaseHub(second, kept=[claim_1()], store=url) as hub:
        assert await version(hub, "c") == hub.structures["claim"].hash


async def test_a_worker_that_runs_meanwhile_runs_on_and_its_result_is_taken_under_the_next_version() -> None:
    go_on = asyncio.Event()
    runs = 0

    def release(*, gives: str) -> CaseDefinition:
        d = CaseDefinition("claim", goal="letter")

        @d.worker(writes="amount")
        async def assess(document: str) -> int:
            nonlocal runs
            runs += 1
            await go_on.wait()
            return 7

        @d.worker(name=gives, writes="letter")
        async def write(amount: int) -> str:
            return f"{gives} {amount}"

        return d

    old, new = release(gives="pay"), release(gives="grant")
    async with CaseHub(new, kept=[old]) as hub:
        case = await hub.start(old, document="a roof")  # who passes the definition itself means that version
        await eventually(lambda: runs)
        assert [each.refused for each in await hub.migrate("claim")] == [""]
        go_on.set()
        assert (await case.completed())["letter"] == "grant 7"
        assert runs == 1
        assert len(await case.log.query(WorkerExecutionStarted)) == 2


async def test_what_is_in_flight_and_has_no_place_keeps_a_case_with_its_own_version() -> None:
    new, old = claim_3(), claim_1()
    async with CaseHub(new, kept=[old]) as hub:
        case = await hub.start(old, document="a roof")
        for dry in (True, False):
            (refused,) = await hub.migrate("claim", dry_run=dry)
            assert refused.refused == (
                "that version lacks assess, which is in flight; until that is over the case goes on with its own"
            )
        with pytest.raises(InputRefusedError, match="that version lacks assess"):  # it may begin while others are moved
            await hub.move(case.id, hub.structures["claim"])
        await answer(hub, case, 7)
        assert (await case.completed())["letter"] == "we pay 7"
        with pytest.raises(InputRefusedError, match="is COMPLETED; it has no use for another version"):
            await hub.move(case.id, hub.structures["claim"])
        assert not hub.parked


async def test_a_case_that_the_next_version_completes_at_once_is_moved_all_the_same(url: str) -> None:
    async with CaseHub(claim_1(), store=url) as hub:
        await hub.start("claim", case_id="c", document="a roof")
    done = claim_1()
    done.goal("known", present("document"))
    done.completion = as_expression("known")
    async with CaseHub(done, store=url, resume=False) as hub:
        assert [each.refused for each in await hub.migrate("claim")] == [""]
        assert await hub.case("c").status() is CaseStatus.COMPLETED


async def test_the_stages_of_the_next_version_begin_in_the_turn_of_the_migration_and_a_decision_is_taken_anew() -> None:
    asked: list[str] = []
    go_on = asyncio.Event()

    class Slow(EverythingEligible):
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
            asked.append(",".join(binding.name for binding in eligible))
            await go_on.wait()
            return list(eligible)

    old, new = claim_3(), claim_3()
    new.stage("answering", "answer", entry=present("document"))
    async with CaseHub(new, kept=[old], loop=PlanningStrategyLoopControl(Slow())) as hub:
        case = await hub.start(old, document="a roof")
        await eventually(lambda: asked)
        assert [each.refused for each in await hub.migrate("claim")] == [""]
        await eventually(lambda: len(asked) == 2)
        go_on.set()
        assert (await case.completed())["letter"] == "we have a roof"
        (adopted,) = await case.log.query(DefinitionAdopted)
        follows = [*await case.log.query(StageActivated), *await case.log.query(DeliberationCancelled)]
        assert [event.envelope.turn for event in follows] == [adopted.envelope.turn] * 2


async def test_the_stages_of_the_next_version_are_a_reason_to_ask_the_strategy_again() -> None:
    asked = 0

    class Reluctant(EverythingEligible):
        async def select(self, plan: CasePlanModel, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
            nonlocal asked
            asked += 1
            return []

    def release() -> CaseDefinition:
        d = CaseDefinition("claim", goal="letter", signals={"go": bool})

        @d.worker(writes="letter")
        async def write(document: str) -> str:
            return document

        return d

    old, new = release(), release()
    new.milestone("gone", present("gone"))
    new.external["gone"] = bool
    new.stage("going", "gone", entry=present("go"))
    async with CaseTestKit(new, kept=[old], loop=PlanningStrategyLoopControl(Reluctant())) as kit:
        case = await kit.start(old, document="a roof")
        await kit.settle()
        await kit.hub.migrate("claim")
        await kit.settle()
        before = asked
        await case.signal(go=True)
        await kit.settle()
        assert kit.events(case, StageActivated)
        assert asked == before + 1


async def test_past_decisions_are_put_to_another_strategy_with_the_version_that_they_were_about() -> None:
    def release(first: str) -> CaseDefinition:
        d = CaseDefinition("claim", goal="letter", signals={"go": bool})

        @d.worker(name=first, writes="amount")
        async def assess(document: str) -> int:
            return 7

        @d.worker(writes="letter")
        async def write(amount: int, go: bool) -> str:
            return f"we pay {amount}"

        return d

    new, old = release("measure"), release("guess")
    async with CaseHub(new, kept=[old], loop=PlanningStrategyLoopControl(EverythingEligible())) as hub:
        case = await hub.start(old, document="a roof")
        await case.quiescent()
        await hub.migrate("claim")
        await case.signal(go=True)
        await case.completed()
        found = await case.replay_decisions(PlanningStrategyLoopControl(EverythingEligible()))
        assert (found.agrees, found.compared) == (True, 3)  # after the migration it is asked anew


async def test_a_sub_case_is_of_the_version_that_its_parent_names_and_keeps_it(url: str) -> None:
    def visit(kind: str) -> CaseDefinition:
        d = CaseDefinition("visit", goal="report")

        @d.human_task(writes="seen")
        def look(site: str) -> HumanTask[str]:
            return HumanTask(f"Look at {site}", str, users=["ada"])

        @d.worker(name=kind, writes="report")
        async def report(seen: str) -> str:
            return f"{kind}: {seen}"

        return d

    def loan(child: CaseDefinition, name: str) -> CaseDefinition:
        d = CaseDefinition("loan", goal="letter", signals={"go": bool})

        @d.sub_case(child, name="inspect", writes="report")
        def inspect(site: str, go: bool) -> dict[str, str]:
            return {"site": site}

        @d.worker(name=name, writes="letter")
        async def write(report: str) -> str:
            return f"{name}: {report}"

        return d

    def first() -> CaseDefinition:
        return loan(visit("short"), "say")

    def second() -> CaseDefinition:
        return loan(visit("long"), "write")

    async with CaseHub(first(), store=url) as hub:
        for case in ("begun", "waits"):
            await hub.start("loan", case_id=case, site="the mill")
        await hub.case("begun").signal(go=True)
        one = (hub.structures["loan"].hash, hub.structures["visit"].hash)
    for _ in range(2):
        async with CaseHub(second(), kept=[first()], store=url) as hub:
            assert (await hub.case("waits").state()).structure == one[0]
    async with CaseHub(second(), kept=[first()], store=url) as hub:
        await hub.case("waits").signal(go=True)
        new = await hub.start("loan", case_id="new", site="the mill")
        await new.signal(go=True)
        started = {str(each.case): each for each in await logged(hub, SubCaseStarted)}
        two = hub.structures["visit"].hash
        assert {case: each.child_structure for case, each in started.items()} == {
            "begun": one[1], "waits": one[1], "new": two,
        }  # fmt: skip
        for each in started.values():
            await answer(hub, each.child, "wheel")
        assert (await hub.case("begun").completed())["letter"] == "say: short: wheel"
        assert (await hub.case("waits").completed())["letter"] == "say: short: wheel"
        assert (await new.completed())["letter"] == "write: long: wheel"
        own = {each.case: each.structure for each in await logged(hub, CaseStarted)}
        assert [own[started[case].child] for case in ("begun", "waits", "new")] == [one[1], one[1], two]


async def test_the_elements_of_a_list_are_worked_by_the_version_that_their_case_has() -> None:
    def release(sign: str, *, gives: str = "seen") -> CaseDefinition:
        d = CaseDefinition("claim", goal="letter")

        @d.worker(name="look", writes="seen", each="pages")
        async def look(page: str) -> str:
            return f"{page}{sign}"

        @d.worker(name=gives, writes="letter")
        async def write(seen: list[str]) -> str:
            return " ".join(seen)

        return d

    old, new = release("?"), release("!", gives="write")
    async with CaseHub(new, kept=[old]) as hub:
        assert [each.name for each in hub.registry.others] == ["claim"]  # what works an element has one structure
        for definition in (old, new):
            case = await hub.start(definition, pages=["a", "b"])
            assert (await case.completed())["letter"] == "a! b!"


async def test_cases_can_be_moved_back_to_a_version_that_is_kept() -> None:
    new, old = claim_2(), claim_1()
    async with CaseHub(new, kept=[old]) as hub:
        case = await hub.start("claim", document="a roof")
        await case.quiescent()
        (moved,) = await hub.migrate(old)
        assert (moved.before, moved.after) == (hub.structures["claim"].hash, hub.registry.others[0].hash)
        await answer(hub, case, 700)
        assert (await case.completed())["letter"] == "we pay 700"


async def test_a_definition_that_is_only_kept_takes_no_new_cases_and_works_its_open_ones(url: str) -> None:
    async with CaseHub(claim_1(), store=url) as hub:
        await hub.start("claim", case_id="c", document="a roof")
    other = CaseDefinition("other", at_quiescence=True)
    async with CaseHub(other, kept=[claim_1()], store=url) as hub:
        with pytest.raises(SettingsError, match="'claim' is only kept for its open cases; give CaseHub the version"):
            await hub.start("claim", document="x")
        with pytest.raises(SettingsError, match="only kept for its open cases"):
            await hub.migrate("claim")
        await hub.brake.pull("claim")
        await hub.brake.release("claim")
        await answer(hub, "c", 7)
        assert (await hub.case("c").completed())["letter"] == "we pay 7"
    async with CaseHub(other, kept=[claim_2()], store=url) as hub:
        await hub.start(hub.registry.others[0].definition, case_id="d", document="a car")
    async with CaseHub(other, kept=[claim_1()], store=url) as hub:
        with pytest.raises(InputRefusedError, match="of definition 'claim', of which this hub keeps only others; keep"):
            await hub.case("d").status()


def test_two_versions_of_one_name_have_to_be_told_apart() -> None:
    one, two = claim_1(), claim_2()
    with pytest.raises(
        SettingsError, match=r"two definitions have the name 'claim'; rename .* CaseHub\(new, kept=\[old\]"
    ):
        CaseHub(one, two)
    with pytest.raises(
        SettingsError, match=r"'claim' was given twice as version [0-9a-f]{16}: the bodies of functions"
    ):
        CaseHub(one, kept=[claim_1()])
    with pytest.raises(SettingsError, match="'claim' was given twice as version"):
        CaseHub(one, kept=[two, claim_2()])
    with pytest.raises(SettingsError, match="'claim' is a current one, and kept= has it too"):
        CaseHub(one, kept=[one])
    with pytest.raises(SettingsError, match="kept= has a definition twice"):
        CaseHub(one, kept=[two, two])
    with pytest.raises(SettingsError, match="no definition 'clam'; did you mean 'claim'"):
        CaseHub(one, kept=[two]).registry.meant("clam")
    hub = CaseHub(one, kept=[two])
    assert (list(hub.definitions), [each.definition for each in hub.registry.others]) == (["claim"], [two])


async def test_a_release_after_the_other_can_be_played_in_a_test() -> None:
    async with CaseTestKit(claim_1()) as kit:
        old = await kit.start("claim", document="a roof")
        await kit.settle()
        await kit.restart(claim_2(), kept=[claim_1()])
        third = await kit.start(kit.hub.registry.others[0].definition, document="a boat")
        await kit.advance("3d")
        await kit.hub.move(third.id, kit.hub.structures["claim"])
        assert [each.at for each in kit.events(third, DefinitionAdopted)] == [kit.clock.now()]
        new = await kit.start("claim", document="a car")
        for case in (old, new):
            await answer(kit.hub, case, 7)
        assert [(await case.completed())["letter"] for case in (old, new)] == ["we pay 7", "we pay 7 of 100"]
        await kit.restart()
        assert len(kit.hub.registry.versions) == 2


async def test_workers_get_the_resources_of_the_version_that_their_case_has() -> None:
    def release(rate: float, gives: str) -> CaseDefinition:
        d = CaseDefinition("claim", goal=gives)

        @d.resource
        async def rates() -> AsyncIterator[Rates]:
            yield Rates(rate)

        @d.worker(name=gives, writes=gives)
        async def assess(document: str, rates: Rates) -> float:
            return rates.rate

        return d

    old, new = release(1.5, "before"), release(2.5, "now")
    async with CaseHub(new, kept=[old]) as hub:
        assert (await (await hub.start(old, document="x")).completed())["before"] == 1.5
        assert (await (await hub.start(new, document="x")).completed())["now"] == 2.5


async def test_a_worker_that_only_a_kept_version_has_is_suspended_too() -> None:
    old, new = claim_1(), claim_3()
    async with CaseHub(new, kept=[old]) as hub:
        case = await hub.start(old, document="a roof")
        await hub.brake.pull(worker="write")
        await answer(hub, case, 7)
        await case.quiescent()
        assert "write" in (await case.state()).quarantined
        assert await hub.brake.release(worker="write") == 1
        assert (await case.completed())["letter"] == "we pay 7"


async def test_a_case_of_a_kept_version_is_stepped_with_its_own_stages() -> None:
    def release(stage: str) -> CaseDefinition:
        d = claim_3()
        d.stage(stage, "answer", entry=present("document"))
        return d

    loop = PlanningStrategyLoopControl(EverythingEligible())
    async with CaseTestKit(release("early"), loop=loop) as kit:
        case = await kit.start("claim", document="a roof", step=True)
        await kit.settle()
        await kit.restart(release("late"), kept=[release("early")])
        assert (await kit.step(case)).fired == ("answer",)
        plan = await case.plan()
        assert plan is not None
        assert list(plan.stages) == ["early"]


async def test_what_is_in_a_stage_that_the_next_version_lacks_goes_on_outside_of_it() -> None:
    old, new = claim_1(), claim_2()
    old.stage("assessing", "assess", entry=present("document"))
    async with CaseHub(new, kept=[old], loop=PlanningStrategyLoopControl(EverythingEligible())) as hub:
        case = await hub.start(old, document="a roof")
        await case.quiescent()
        assert [each.refused for each in await hub.migrate("claim")] == [""]
        await answer(hub, case, 7)
        assert (await case.completed())["letter"] == "we pay 7 of 100"


async def test_what_the_next_version_has_no_more_is_not_waited_for() -> None:
    def release(*, more: bool) -> CaseDefinition:
        d = CaseDefinition("claim", goal="letter", signals={"go": bool})
        if more:
            d.milestone("heard", present("go"), sla="1d")

            @d.worker(writes="seen", on=every("12h"))
            async def look(document: str) -> int:
                return 1

        @d.worker(writes="letter")
        async def write(go: bool) -> str:
            return "we go"

        return d

    async with CaseTestKit(release(more=False), kept=[old := release(more=True)]) as kit:
        case = await kit.start(old, document="a roof")
        await kit.advance("1h")
        assert len((await case.state()).timers) == 2
        assert [each.refused for each in await kit.hub.migrate("claim")] == [""]
        assert not (await case.state()).timers
        await kit.advance("3d")
        assert not kit.events(case, MilestoneSlaViolated)


async def test_a_case_that_undoes_what_it_did_tests_nothing_of_the_next_version() -> None:
    def release(*, more: bool) -> CaseDefinition:
        d = CaseDefinition("claim", goal="letter")

        @d.worker(writes="booking")
        async def book(document: str) -> str:
            return "b1"

        @d.human_task(compensates="book")
        def unbook(booking: str) -> HumanTask[bool]:
            return HumanTask(f"Is {booking} called off?", bool)

        @d.worker(writes="letter", retry=Retry(1), on_exhausted="fault_case")
        async def write(booking: str) -> str:
            raise ValueError("no paper")

        if more:
            d.milestone("booked", present("booking"))
        return d

    async with CaseHub(release(more=True), kept=[old := release(more=False)]) as hub:
        case = await hub.start(old, document="a roof")
        await case.quiescent()
        assert [each.refused for each in await hub.migrate("claim")] == [""]
        assert not await logged(hub, MilestoneReached)
        await answer(hub, case, True)
        with pytest.raises(CaseFaultedError, match="no paper"):
            await case.completed()
