"""Stores that fail in every way that a store can, and servers that are cut off: nothing is lost, nothing is done twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
import structlog

from casehub import CaseDefinition, CaseExistsError, CaseHub, CaseStarted, Event
from casehub.adapters.memory import MemoryStore
from casehub.adapters.sqlite import SQLiteStore
from casehub.errors import StoreUnavailableError
from casehub.events import CaseId
from casehub.testing.event_logs import Writing
from tests.chaos import load
from tests.chaos.checker import check
from tests.chaos.faulty import PROGRAMME, FaultyStore
from tests.chaos.lives import Life, Place
from tests.chaos.program import seed
from tests.chaos.proxy import Harm, Proxy
from tests.staging import Kept


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    load.world.ledger = None


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_store_that_fails_in_every_way_loses_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, f"sqlite:///{tmp_path}/cases.db")
    of_run = seed()
    chance = random.Random(of_run)
    expected = {(method, fault) for method, faults in PROGRAMME.items() for fault in faults}
    store = FaultyStore(MemoryStore(), chance, 0.0)
    for number in range(40):
        store.store, store.rate = SQLiteStore(tmp_path / "cases.db"), 0.0
        asyncio.run(
            Life.of(place, store).leaving(
                f"f{number}", chance.getrandbits(32), place.journal().deeds(), 0.4, lambda: setattr(store, "rate", 0.15)
            )
        )
        if number >= 3 and set(store.fired) >= expected:
            break
    assert set(store.fired) >= expected, f"never happened: {expected - set(store.fired)}"
    found, _ = Life.of(place).last(place.journal().deeds())
    assert check(found) == {}, f"CASEHUB_CHAOS_SEED={of_run}"
    assert any(deed.answer == "acked" for deed in found.deeds)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_server_that_is_cut_off_in_every_way_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    place = Place(tmp_path, postgres_url)
    parts = urlsplit(postgres_url)
    of_run = seed()
    chance = random.Random(of_run)
    proxy = Proxy((parts.hostname or "", parts.port or 5432), chance)

    async def live(number: int) -> None:
        async with proxy.running():
            near = parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}")
            life = Life.of(Place(tmp_path, urlunsplit(near)))
            await life.leaving(f"x{number}", chance.getrandbits(32), place.journal().deeds(), 1.5, lambda: None)

    for number in range(30):
        with suppress(StoreUnavailableError):  # at its opening; whoever opens it tries again
            asyncio.run(live(number))
        if number >= 2 and set(proxy.done) == set(Harm):
            break
    assert set(proxy.done) == set(Harm), f"only {proxy.done} happened"
    found, _ = Life.of(place).last(place.journal().deeds())
    assert check(found) == {}, f"CASEHUB_CHAOS_SEED={of_run}"
    assert any(deed.answer == "acked" for deed in found.deeds)


class Overtaken(Kept):
    """A store in which somebody starts a case right after it was looked for."""

    async def load(self, case: CaseId, tenant: str = "default") -> Sequence[Event]:
        found = await super().load(case, tenant)
        if not found:
            await self.store.commit([Writing(case, definition="d").turn(CaseStarted())])
        return found


async def test_a_case_that_somebody_else_starts_at_the_same_time_is_there_already() -> None:
    definition = CaseDefinition("d", goal="b", signals=["b"])
    async with CaseHub(definition, store=Overtaken()) as hub:
        with pytest.raises(CaseExistsError, match="'c' is there already"):
            await hub.start(definition, case_id="c")


async def test_a_store_that_goes_away_at_any_moment_of_its_opening_is_said_to_be_away() -> None:
    seen = 0
    while True:
        store = FaultyStore(MemoryStore(), random.Random(0), 0.0)
        store.fail_after = seen
        hub = CaseHub(*load.DEFINITIONS, loop=load.LOOP, store=store)
        try:
            async with hub:
                break
        except StoreUnavailableError:
            seen += 1
    assert seen >= 3
