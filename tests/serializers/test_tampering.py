"""Somebody has changed the database: the case whose log it is is parked, no other is touched, and nothing is called."""

from __future__ import annotations

import base64
import os
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from casehub import CaseDefinition, CaseHub, CaseHubError, Event

CANARY = "casehub-canary"


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (CANARY,)


PICKLE = pickle.dumps(Evil())


def note() -> CaseDefinition:
    d = CaseDefinition("note", goal="copy", signals={"text": Any, "go": bool})

    @d.worker(writes="copy")
    async def copy(text: Any, go: bool) -> Any:
        return text

    return d


@pytest.mark.parametrize(
    "body",
    [
        '{"facts": {"text": {"$serializer": "os.mkdir", "value": "casehub-canary"}}}',
        '{"facts": {"text": {"$serializer": "builtins.eval", "value": "1"}}}',
        '{"facts": {"text": {"$serializer": "json"}}}',
        '{"facts": {"text": {"$serializer": ["json"], "value": 1}}}',
        PICKLE,
        b"\x80\x04\xff\xfe",
        base64.b64encode(PICKLE).decode(),
        "",
        "{",
        "null",
        "[]",
        "5",
        '"os.mkdir"',
        '{"facts": 5}',
        '{"facts": ["text"]}',
        '{"facts": {"text": 1}, "deleted": 5}',
        '{"facts": {"text": 1}, "confidence": 5}',
        '{"facts": {"text": 1}, "hidden": ["nothing"]}',
        '{"facts": {"text": 1}, "envelope": "os.mkdir"}',
        '{"facts": {"text": 1}, "py/object": "os.mkdir"}',
    ],
    ids=lambda body: repr(body)[:40],
)
async def test_a_row_that_is_not_what_was_written_parks_its_case(
    body: str | bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = "sqlite:///cases.db"
    async with CaseHub(note(), store=url) as hub:
        for id in ("c1", "c2"):
            case = await hub.start("note", case_id=id)
            await case.signal(text="hello")
            await case.suspend()
            await case.resume()
    await tampered(tmp_path / "cases.db", "UPDATE events SET body = ? WHERE seq = (SELECT min(seq) FROM events WHERE body LIKE '%hello%')", body)  # fmt: skip
    hub = CaseHub(note(), store=url)
    heard: list[Event] = []

    @hub.on(Event, durable="reader")
    async def hear(event: Event) -> None:
        heard.append(event)

    async with hub:
        with pytest.raises(CaseHubError, match=r"case 'c1'"):
            await hub.case("c1").signal(go=True)
        assert "c1" in hub.parked
        await hub.case("c2").signal(go=True)
        assert (await hub.case("c2").completed())["copy"] == "hello"
    told = [event.name for event in heard if event.case == "c2"]
    assert (told[0], told[-1]) == ("CASE_STARTED", "CASE_COMPLETED")
    assert [event.seq for event in heard] == list(range(1, len(heard) + 1))  # whoever reads the log reads past it
    assert not (tmp_path / CANARY).exists()


async def tampered(path: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        assert database.execute(statement, values).rowcount > 0


async def test_the_pickle_would_have_made_the_canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(PICKLE)
    assert (tmp_path / CANARY).exists()


@pytest.mark.parametrize("name", ["os.mkdir", "CaseStarted", "__import__", "GOAL_REACHED", "CASE_COMPLETED"])
async def test_an_event_by_another_name_makes_nothing_of_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = "sqlite:///cases.db"
    async with CaseHub(note(), store=url) as hub:
        case = await hub.start("note", case_id="c1")
        await case.signal(text="hello")
        await (await hub.start("note", case_id="c2")).signal(text="hello")
    await tampered(tmp_path / "cases.db", "UPDATE kinds SET name = ? WHERE name = 'SIGNAL_RECEIVED'", name)
    async with CaseHub(note(), store=url) as hub:
        outcomes = []
        for id in ("c1", "c2"):
            try:
                outcomes.append((await hub.case(id).context())["text"])
            except CaseHubError:
                outcomes.append("parked")
    assert outcomes in (["hello", "hello"], ["parked", "parked"])
    assert not (tmp_path / CANARY).exists()


@pytest.mark.parametrize(
    "body",
    ['{"facts": {"text": {"$serializer": "os.mkdir", "value": "casehub-canary"}}}', '{"facts": 5}', "{", "gASVHQ=="],
)
async def test_it_is_so_on_a_server_too(
    body: str, postgres: str, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with CaseHub(note(), store=postgres_url) as hub:
        for id in ("c1", "c2"):
            await (await hub.start("note", case_id=id)).signal(text="hello")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {postgres_url.rpartition('schema=')[2]}".encode())
        changed = connection.execute(
            "UPDATE events SET body = %s WHERE seq = (SELECT min(seq) FROM events WHERE body LIKE '%%hello%%')", (body,)
        )
        assert changed.rowcount == 1
    async with CaseHub(note(), store=postgres_url) as hub:
        with pytest.raises(CaseHubError, match="case 'c1' is parked"):
            await hub.case("c1").signal(go=True)
        await hub.case("c2").signal(go=True)
        assert (await hub.case("c2").completed())["copy"] == "hello"
    assert not (tmp_path / CANARY).exists()
