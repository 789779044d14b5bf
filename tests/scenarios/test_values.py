"""The same answer to every value, at every door and on every store: accepted and read back, or refused with the path to it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from casehub import CaseDefinition, CaseHub, CaseHubError, HumanTask, WorkerExecutionFailed
from casehub.cli.words import data_of, facts_of
from casehub.control import MAX_LINE, ControlClient, connect
from casehub.control_server import listening
from casehub.jsontext import read_json
from casehub.lookup import store_of
from casehub.values import same
from tests.scenarios.values import ACCEPTED, BAD_TEXTS, REFUSED, SAME, TEXTS
from tests.staging import Kept

VALUES = [value for value, _ in (*ACCEPTED, *REFUSED)]
_WHERE = re.compile(r"fact 'given'|fact 'made' of worker 'make'|the answer to task '[^']*'|--fact given|input 'given'")


def said(error: object) -> str:
    """What is said of a value, without which value it is."""
    text = str(error)
    found = _WHERE.search(text)
    return text if found is None else "V" + text[found.end() :]


def doors() -> CaseDefinition:
    d = CaseDefinition("doors", signals={"given": Any, "work": int, "ask": int})

    @d.worker(writes=("made", "spare"), on_failed="ignore")
    async def make(work: int) -> dict[str, Any]:
        return {"made": VALUES[work]}

    @d.human_task(writes="answer")
    def ask(ask: int) -> HumanTask[Any]:
        return HumanTask("What?", Any)

    return d


def of_fields(refused: Any) -> str:
    ((path, why),) = refused.fields.items()
    return f"V{'.' if path and path[0] != '[' else ''}{path}: {why}"


async def through(hub: CaseHub, number: int, door: str) -> tuple[str, Any]:
    """The case that a value went into, and what it was read back as there, or what was said of it."""
    value = VALUES[number]
    try:
        if door == "start":
            case = await hub.start("doors", given=value)
            return case.id, (await case.context())["given"]
        case = await hub.start("doors")
        if door == "signal":
            await case.signal(given=value)
            return case.id, (await case.context())["given"]
        if door == "worker":
            await case.signal(work=number)
            context = await case.quiescent()
            failures = await case.log.query(WorkerExecutionFailed)
            return case.id, said(failures[0].message) if failures else context["made"]
        await case.signal(ask=number)
        (task,) = [each for each in await hub.tasks.list() if each.case == case.id]
        await hub.tasks.complete(task.id, value, by="user:ada")
        return case.id, (await case.context()).get("answer")  # of None nothing is written
    except CaseHubError as error:
        return "", of_fields(error) if hasattr(error, "fields") else said(error)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Any]:
    """What makes the same store again."""
    if request.param == "memory":
        kept = Kept()
        return lambda: kept
    url = f"sqlite:///{tmp_path / 'cases.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return lambda: store_of(url)


@pytest.mark.parametrize("door", ["start", "signal", "worker", "answer"])
async def test_a_value_is_read_back_equal_now_and_after_a_restart_or_refused(
    opened: Callable[[], Any], door: str
) -> None:
    found: list[tuple[str, Any]] = []
    async with CaseHub(doors(), store=opened(), resume=False) as hub:
        for number in range(len(VALUES)):
            found.append(await through(hub, number, door))  # noqa: PERF401 - one after the other
    for (value, expected), (_, answer) in zip(ACCEPTED, found, strict=False):
        wanted = value if expected is SAME else expected
        assert same(answer, wanted), (str(value)[:80], str(answer)[:300])
    for (value, beginning), (_, answer) in zip(REFUSED, found[len(ACCEPTED) :], strict=True):
        assert isinstance(answer, str), (repr(value)[:80], answer)
        assert answer.startswith(beginning), (beginning[-80:], answer[:400])
        assert ";" in answer  # with the remedy
    name = {"start": "given", "signal": "given", "worker": "made", "answer": "answer"}[door]
    async with CaseHub(doors(), store=opened(), resume=False) as hub:
        for (case, answer), (_, _) in zip(found, ACCEPTED, strict=False):
            assert same((await hub.case(case).context()).get(name), answer)


# ---- JSON that is text


def test_json_text_says_what_it_says() -> None:
    for text, value in TEXTS:
        assert same(read_json(text), value)
        assert same(read_json(text.encode()), value)
        assert same(facts_of([f"given={text}"], "--fact")["given"], value)


@pytest.mark.parametrize(("text", "wanted"), BAD_TEXTS, ids=[text[:20] for text, _ in BAD_TEXTS])
def test_bad_json_text_is_refused_at_the_command_line_with_the_path(text: str, wanted: str, tmp_path: Path) -> None:
    with pytest.raises(CaseHubError) as caught:
        facts_of([f"given={text}"], "--fact")
    assert wanted.lstrip("V") in said(caught.value)
    file = tmp_path / "facts.json"
    file.write_text(f'{{"given": {text}}}')
    with pytest.raises(CaseHubError, match=re.escape(wanted.rpartition(": ")[2])) as caught:
        data_of(str(file))
    if wanted.startswith(("V.", "V:")):
        assert f".given{wanted[1:]}" in str(caught.value)


@contextlib.asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[CaseHub, ControlClient]]:
    async with CaseHub(doors()) as hub:
        path = folder / "db.sock"
        async with listening(hub, path), connect(path) as client:
            yield hub, client


async def test_the_control_socket_gives_the_same_answers(tmp_path: Path) -> None:
    async with served(tmp_path) as (hub, client):
        for text, value in TEXTS:
            case = await hub.start("doors")
            assert same(await sent(client, case.id, text), None)
            assert same((await case.context())["given"], value)
            await case.cancel()
        case = await hub.start("doors")
        for text, wanted in BAD_TEXTS:
            if len(text) < MAX_LINE:
                assert wanted in said(await sent(client, case.id, text)), text[:80]
        assert "given" not in await case.context()
        await case.cancel()


async def sent(client: ControlClient, case: str, text: str) -> Any:
    """What the socket says to a signal whose value is this text."""
    request = json.dumps({"id": 1, "verb": "signal", "arguments": {"case": case, "facts": {"given": "HERE"}}})
    await client._lines.send(request.replace('"HERE"', text).encode())
    answer = await client._lines.receive()
    return answer["error"]["message"] if "error" in answer else answer["result"]
