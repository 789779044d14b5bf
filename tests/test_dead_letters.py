"""Dead letters of a hub: found in the log, shown with what they ran on, retried and discarded."""

from __future__ import annotations

from pathlib import Path

import pytest

from casehub import (
    CaseDefinition,
    CaseHub,
    CaseNotFoundError,
    CaseStatus,
    DeadLetterRetried,
    FactError,
    InputRefusedError,
    Limits,
    Retry,
    SettingsError,
    UnknownNameError,
    deadletters,
)
from tests.staging import Kept

broken: set[int] = set()


def claim(name: str = "claim") -> CaseDefinition:
    d = CaseDefinition(name, goal="decision", signals={"note": str}, limits=Limits())

    @d.worker(writes="risk", retry=Retry(2, wait="1ms"))
    async def assess(amount: int) -> int:
        if amount in broken:
            raise OSError(f"no answer for {amount}")
        return amount

    @d.worker(writes="decision")
    async def decide(risk: int, note: str = "") -> str:
        return f"{risk}{note}"

    return d


@pytest.fixture(params=["memory", "sqlite"])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> CaseHub:
    store = Kept() if request.param == "memory" else f"sqlite:///{tmp_path / 'cases.db'}"
    broken.clear()
    broken.update((1, 2, 3))
    return CaseHub(claim(), claim("other"), store=store)


async def failed(hub: CaseHub, amount: int, definition: str = "claim") -> str:
    """The id of the dead letter of a new case."""
    case = await hub.start(definition, case_id=f"{definition}-{amount}", amount=amount)
    await case.quiescent()
    return f"{case.id}/assess/1"


async def test_they_are_listed_newest_first_and_chosen_by_definition_binding_and_worker(hub: CaseHub) -> None:
    async with hub:
        one, two, three = await failed(hub, 1), await failed(hub, 2), await failed(hub, 3, "other")
        await (await hub.start("claim", amount=9)).completed()
        found = await hub.dead_letters.list()
        assert [letter.id for letter in found] == [three, two, one]
        last = found[-1]
        assert (last.case, last.definition, last.binding, last.worker) == ("claim-1", "claim", "assess", "assess")
        assert (last.outcome, last.message, last.attempts) == ("WORKER_EXECUTION_FAILED", "OSError: no answer for 1", 2)
        assert [letter.id for letter in await hub.dead_letters.list(definition="claim")] == [two, one]
        assert await hub.dead_letters.list(binding="decide") == []
        assert len(await hub.dead_letters.list(worker="assess", limit=1)) == 1
        with pytest.raises(SettingsError, match="limit=0: at least 1"):
            await hub.dead_letters.list(limit=0)


async def test_one_is_shown_with_what_it_ran_on_and_not_with_what_is_there_now(hub: CaseHub) -> None:
    async with hub:
        letter = await failed(hub, 1)
        await hub.case("claim-1").signal(note="!")
        shown = await hub.dead_letters.show(letter)
        assert (shown.inputs, shown.message) == ({"amount": 1}, "OSError: no answer for 1")


async def test_one_that_is_retried_or_discarded_is_listed_no_more(hub: CaseHub) -> None:
    async with hub:
        one, two = await failed(hub, 1), await failed(hub, 2)
        await hub.dead_letters.discard(one, by="user:ada", reason="by hand")
        assert [letter.id for letter in await hub.dead_letters.list()] == [two]
        await hub.dead_letters.retry(two, {"amount": 7}, by="user:ada")
        assert (await hub.case("claim-2").completed())["decision"] == "7"
        assert await hub.dead_letters.list() == []
        with pytest.raises(InputRefusedError, match="it has been discarded"):
            await hub.dead_letters.show(one)


async def test_one_whose_retry_fails_is_listed_under_its_new_number(hub: CaseHub) -> None:
    async with hub:
        await hub.dead_letters.retry(await failed(hub, 1))
        await hub.case("claim-1").quiescent()
        assert [letter.id for letter in await hub.dead_letters.list()] == ["claim-1/assess/2"]
        assert len(await hub.case("claim-1").log.query(DeadLetterRetried)) == 1


async def test_cases_that_have_ended_have_none(hub: CaseHub) -> None:
    async with hub:
        await failed(hub, 1)
        await hub.case("claim-1").kill()
        assert await hub.dead_letters.list() == []
        assert await hub.case("claim-1").status() is CaseStatus.CANCELLED


async def test_edited_input_has_to_fit(hub: CaseHub) -> None:
    async with hub:
        letter = await failed(hub, 1)
        with pytest.raises(FactError, match="the fact's type is int"):
            await hub.dead_letters.retry(letter, {"amount": "much"})
        with pytest.raises(InputRefusedError, match="reads no such fact; did you mean 'amount'"):
            await hub.dead_letters.retry(letter, {"amont": 3})
        assert len(await hub.dead_letters.list()) == 1


async def test_what_is_no_dead_letter_is_refused_by_name(hub: CaseHub) -> None:
    async with hub:
        for wrong in (hub.dead_letters.show, hub.dead_letters.retry, hub.dead_letters.discard):
            with pytest.raises(
                UnknownNameError, match="'claim-1' is no dead letter's id: they are CASE/BINDING/NUMBER"
            ):
                await wrong("claim-1")
            with pytest.raises(CaseNotFoundError):
                await wrong("nothing/assess/1")


async def test_they_are_found_however_many_failures_lie_above_them(
    hub: CaseHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadletters, "PAGE", 2)
    async with hub:
        first = await failed(hub, 1)
        for number in (2, 3):
            await failed(hub, number)
            await hub.case(f"claim-{number}").kill()
        assert [letter.id for letter in await hub.dead_letters.list()] == [first]
