"""Facts that a serializer has stored come along where a case is copied, also where they are bound to their place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from casehub import CaseDefinition, CaseHub, FactError, FactSerializer, transcript
from casehub.adapters.codec import as_json
from casehub.adapters.memory import MemoryStore
from casehub.encryption import Encryption, KeyRing, new_key
from casehub.events import Event
from casehub.imports import Import, import_into

KEYS = KeyRing({"one": new_key()})
visit = CaseDefinition("visit", goal="advice", signals={"go": bool})


@visit.worker(writes="advice")
async def advise(diagnosis: str, go: bool) -> str:
    return f"rest, for {diagnosis}"


def hub(**options: object) -> CaseHub:
    serializers: Sequence[FactSerializer] = [Encryption(KEYS, "diagnosis", "advice")]
    return CaseHub(visit, serializers=serializers, retention=None, **options)  # type: ignore[arg-type]  # handed on


def text(events: Sequence[Event]) -> bytes:
    return b"".join(map(as_json, events))


async def test_a_fork_has_its_own_encrypted_facts() -> None:
    async with hub() as one:
        case = await one.start(visit, diagnosis="flu")
        await case.quiescent()
        other = await one.fork(case.id, None, {"diagnosis": "gout"}, fork_id="f")
        again = await one.fork(case.id, fork_id="g")
        await other.signal(go=True)
        await again.signal(go=True)
        assert (await other.completed())["advice"] == "rest, for gout"
        assert (await again.completed())["advice"] == "rest, for flu"
        for id in (case.id, "f", "g"):
            log = text(await one.store.load(one.case(id).id))
            assert b"flu" not in log
            assert b"gout" not in log
        await case.kill()


async def test_encrypted_facts_stay_encrypted_in_a_file_and_go_to_another_place_through_a_hub(tmp_path: Path) -> None:
    path = tmp_path / "v.ndjson"
    async with hub() as one:
        case = await one.start(visit, case_id="v", diagnosis="flu")
        await case.quiescent()
        transcript.write(path, await transcript.tell(one.store, "v"))
        await case.kill()
    found = transcript.read(path)
    assert b"flu" not in path.read_bytes()
    async with hub() as same:
        await same.bring_in(found)
        await same.case("v").signal(go=True)
        assert (await same.case("v").completed())["advice"] == "rest, for flu"
    async with hub(tenant="acme") as moved:
        await moved.bring_in(found, case_id="w")
        await moved.case("w").signal(go=True)
        assert (await moved.case("w").completed())["advice"] == "rest, for flu"


async def test_without_a_hub_encrypted_facts_stay_in_their_place(tmp_path: Path) -> None:
    async with hub() as one:
        case = await one.start(visit, case_id="v", diagnosis="flu")
        await case.quiescent()
        found = await transcript.tell(one.store, "v")
        await case.kill()
    store = MemoryStore()
    await store.open(lambda turns: None)
    with pytest.raises(FactError, match="fact 'diagnosis' of case 'v' was stored by a serializer"):
        await import_into(store, Import(found, case_id="w"))
    assert await store.position() == 0
    assert list((await import_into(store, Import(found))).cases) == ["v"]
    await store.close()
