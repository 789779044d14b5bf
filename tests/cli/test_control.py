"""The control socket: one protocol, one client with the hub's own verbs, and nothing that can hurt the hub."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from casehub import (
    CaseCompleted,
    CaseDefinition,
    CaseEndedError,
    CaseExistsError,
    CaseHub,
    CaseHubError,
    CaseNotFoundError,
    CaseStalledError,
    CaseStarted,
    ContextChanged,
    HubClosedError,
    InputRefusedError,
    LimitError,
    SettingsError,
)
from casehub.case import Case
from casehub.control import MAX_LINE, MAX_PATH, connect, error_as_dict, error_from_dict, listens, socket_of
from casehub.control_cases import RemoteCase
from casehub.control_server import listening
from casehub.errors import NotReachableError, UnknownNameError
from tests.cli.conftest import short_folder


def definition() -> CaseDefinition:
    payment = CaseDefinition("payment", goal="paid", signals={"approved": bool, "amount": float})

    @payment.worker(writes="paid")
    async def pay(amount: float, approved: bool) -> str:
        return f"{amount:.2f}"

    return payment


@asynccontextmanager
async def served(*definitions: CaseDefinition) -> AsyncIterator[tuple[CaseHub, Path]]:
    """A hub behind a socket; its open cases are cancelled at the end."""
    with short_folder() as folder:
        path = folder / "hub.sock"
        async with CaseHub(*definitions) as hub:
            try:
                async with listening(hub, path):
                    yield hub, path
            finally:
                for case in await hub.cases():
                    if not case.status.ended:
                        await hub.case(case.case).cancel()
        assert not path.exists()


async def raw(path: Path, *lines: bytes) -> list[Any]:
    """What the socket says to these bytes, until it ends the connection or has answered each line."""
    reader, writer = await asyncio.open_unix_connection(path, limit=2 * MAX_LINE)
    try:
        answers = [json.loads(await reader.readline())]
        for line in lines:
            writer.write(line)
            answers.append(json.loads(await reader.readline()))
        return answers
    finally:
        writer.close()
        await writer.wait_closed()


async def test_the_client_has_the_verbs_of_the_hub() -> None:
    async with served(definition()) as (hub, path), connect(path) as client:
        assert client.greeting.definitions["payment"].signals == ["approved", "amount"]
        case = await client.start("payment", case_id="p", by="user:ada", amount=12.5)
        assert await case.status() == "WAITING"
        assert await case.context() == {"amount": 12.5}
        assert [str(each) for each in await case.explain("pay")] == [str(e) for e in await hub.case("p").explain("pay")]
        await case.suspend(reason="wait")
        await case.resume()
        await case.signal({"approved": True}, wait="quiescent", key="once")
        await case.completed("5s")
        assert await case.context() == {"amount": 12.5, "approved": True, "paid": "12.50"}
        assert (await client.info())["parked"] == {}


def test_a_remote_case_has_the_verbs_of_a_case() -> None:
    verbs = ("status", "context", "explain", "completed", "quiescent", "signal", "suspend", "resume", "cancel", "kill")
    assert all(callable(getattr(Case, verb)) and callable(getattr(RemoteCase, verb)) for verb in verbs)


async def test_errors_come_back_as_what_they_are() -> None:
    stuck = CaseDefinition("stuck", goal="answer")

    @stuck.worker(writes="answer")
    async def answer(question: str, notes: str = "") -> str | None:
        return None

    async with served(definition(), stuck) as (_, path), connect(path) as client:
        with pytest.raises(CaseNotFoundError, match="nobody"):
            await client.case("nobody").status()
        with pytest.raises(UnknownNameError, match="did you mean 'payment'"):
            await client.start("paiment")
        with pytest.raises(InputRefusedError, match="did you mean 'amount'"):
            await client.start("payment", amout=1.0)
        case = await client.start("payment", case_id="p")
        with pytest.raises(CaseExistsError):
            await client.start("payment", case_id="p")
        with pytest.raises(TimeoutError, match="did not complete"):
            await case.completed("50ms")
        with pytest.raises(SettingsError, match="write numbers with units"):
            await case.completed("soon")
        await case.cancel()
        with pytest.raises(CaseEndedError):
            await case.kill()
        lost = await client.start("stuck", question="why")
        with pytest.raises(CaseStalledError) as stalled:
            await lost.completed()
        assert (stalled.value.case, len(stalled.value.reasons)) == (lost.id, 1)
        assert str(stalled.value).startswith(f"case {lost.id!r} has stalled")


def test_an_error_of_another_class_is_told_and_not_made() -> None:
    for name in ("SystemExit", "OSError", "Nonsense", "annotations", ""):
        told = error_from_dict({"class": name, "message": "made up"})
        assert type(told) is CaseHubError
        assert str(told) == f"{name}: made up"
    assert error_as_dict(LimitError("full")) == {"class": "LimitError", "message": "full"}


async def test_a_watcher_hears_what_was_and_what_comes() -> None:
    async with served(definition()) as (_, path), connect(path) as watching, connect(path) as acting:
        case = await acting.start("payment", amount=1.0)
        events = watching.watch("CONTEXT_CHANGED", "CASE_ENDED", case=case.id, after=0)
        first = await anext(events)
        assert (type(first), first.seq, first.case) == (ContextChanged, 2, case.id)
        await acting.start("payment")  # of another case: not heard
        await case.signal(approved=True)
        kinds = [type(await anext(events)) for _ in range(3)]
        assert kinds == [ContextChanged, ContextChanged, CaseCompleted]
        await events.aclose()  # type: ignore[attr-defined]  # an async generator
        with pytest.raises(UnknownNameError, match="did you mean 'CASE_ENDED'"):
            await anext(watching.watch("CASE_ENDDED"))


async def until(test: Callable[[], object]) -> None:
    """Let the loop go round until something is so."""
    while not test():  # noqa: ASYNC110 - what is looked at says nothing by itself
        await asyncio.sleep(0)


async def test_who_waits_is_told_when_the_socket_closes() -> None:
    async with AsyncExitStack() as serving, CaseHub(definition()) as hub:
        path = serving.enter_context(short_folder()) / "hub.sock"
        case = await hub.start("payment")
        pump = await hub.pump(case.id)
        async with AsyncExitStack() as clients:
            async with listening(hub, path):
                waiting = await clients.enter_async_context(connect(path))
                watching = await clients.enter_async_context(connect(path))
                asked = asyncio.ensure_future(waiting.case(case.id).completed())
                watched = asyncio.ensure_future(anext(watching.watch("CASE_ENDED")))
                await until(lambda: pump.visitors and hub.runtime.bus.subscribers)
            for future in (asked, watched):
                with pytest.raises(HubClosedError, match="stopping"):
                    await future
        await case.cancel()


async def test_a_client_that_goes_away_abandons_its_wait_and_nothing_else() -> None:
    async with served(definition()) as (hub, path):
        case = await hub.start("payment", amount=1.0)
        pump = await hub.pump(case.id)
        async with connect(path) as client:
            asked = asyncio.ensure_future(client.case(case.id).completed())
            await until(lambda: pump.visitors)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        await until(lambda: not pump.visitors)
        assert await case.status() == "WAITING"


async def test_a_stepped_case_runs_on_when_its_client_goes_away() -> None:
    async with served(definition()) as (hub, path):
        async with connect(path) as client:
            case = await client.start_stepped("payment", amount=1.0, approved=True)
            assert (await hub.case(case.id).state()).deliberating
        assert (await hub.case(case.id).completed("5s"))["paid"] == "1.00"


async def test_what_is_no_request_is_answered_and_harms_nobody() -> None:
    async with served(definition()) as (hub, path):
        answers = await raw(
            path,
            b"nonsense\n",
            b"[1]\n",
            b'{"id": 1}\n',
            b'{"id": 2, "verb": "strt"}\n',
            b'{"id": 3, "verb": "start", "arguments": [1]}\n',
            b'{"id": 4, "verb": "start", "arguments": {"definition": "payment", "facts": {}, "colour": 1}}\n',
            b'{"id": 5, "verb": "signal", "arguments": {"case": "x", "facts": {}, "wait": "for ever"}}\n',
            b'{"id": 6, "verb": "start", "arguments": {"definition": "payment", "facts": {"by": "me"}}}\n',
            b'{"id": 7, "verb": "info"}\n',
        )
        assert answers[0]["protocol"] == 1
        said = [(answer["id"], answer["error"]["class"], answer["error"]["message"]) for answer in answers[1:-1]]
        assert [(number, name) for number, name, _ in said] == [
            (None, "InputRefusedError"),
            (None, "InputRefusedError"),
            (1, "InputRefusedError"),
            (2, "UnknownNameError"),
            (3, "InputRefusedError"),
            (4, "InputRefusedError"),
            (5, "InputRefusedError"),
            (6, "InputRefusedError"),
        ]
        for place, expected in ((3, "did you mean 'start'?"), (5, "colour"), (6, "wait"), (7, "'by'")):
            assert expected in said[place][2]
        assert answers[-1]["result"]["working"] == 0
        assert await hub.cases() == []


async def test_a_fact_may_be_called_like_a_parameter_of_start() -> None:
    letter = CaseDefinition("letter", signals={"sent": bool})

    @letter.worker(writes="filed")
    async def file(by: str, case_id: int, given: int, sent: bool) -> None: ...

    async with served(letter) as (hub, path), connect(path) as client:
        facts = {"by": "Ada", "case_id": 7}
        case = await client.start("letter", facts, case_id="a", by="user:grace", given=1)
        assert await case.context() == {"by": "Ada", "case_id": 7, "given": 1}
        (started,) = await hub.case("a").log.query(CaseStarted)
        assert started.by == "user:grace"
        stepped = await client.start_stepped("letter", facts, case_id="b", given=2)
        assert (await stepped.context())["by"] == "Ada"


async def test_a_line_without_an_end_is_refused_and_the_connection_closed() -> None:
    async with served(definition()) as (hub, path):
        reader, writer = await asyncio.open_unix_connection(path)
        await reader.readline()
        writer.write(b"x" * (MAX_LINE + 1_000))
        told = json.loads(await reader.readline())
        assert told["error"]["class"] == "LimitError"
        assert await reader.read() == b""
        writer.close()
        assert await hub.cases() == []


async def test_the_socket_is_made_for_its_owner_and_takes_the_place_of_a_stale_one() -> None:
    with short_folder() as folder:
        path = folder / "hub.sock"
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(str(path))
        stale.close()  # as a killed process leaves it
        assert not await listens(path)
        with pytest.raises(NotReachableError, match="nobody listens there"):
            async with connect(path):
                pass
        async with CaseHub(definition()) as hub, listening(hub, path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert await listens(path)


async def test_a_file_in_its_place_is_left_alone() -> None:
    with short_folder() as folder:
        path = folder / "hub.sock"
        path.write_text("precious")
        async with CaseHub(definition()) as hub:
            with pytest.raises(CaseHubError, match="something else is in its place"):
                async with listening(hub, path):
                    pass
        assert path.read_text() == "precious"


def test_a_path_that_is_too_long_says_what_to_do() -> None:
    fits = Path("x" * (MAX_PATH - len(".sock")))
    assert socket_of(fits).name.endswith(".sock")
    with pytest.raises(SettingsError, match=f"a Unix socket takes {MAX_PATH}"):
        socket_of(Path(f"{fits}x"))


async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    with short_folder() as folder:
        async with CaseHub(definition()) as hub:
            with pytest.raises(CaseNotFoundError):
                async with listening(hub, folder / "hub.sock"):
                    await hub.case("nobody").status()


async def test_one_connection_too_many_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.control_server.MAX_CONNECTIONS", 1)
    async with served(definition()) as (_, path), connect(path) as first:
        with pytest.raises(LimitError, match="close one"):
            async with connect(path):
                pass
        assert await first.info()


async def test_an_answer_that_is_too_long_is_an_error_and_no_end() -> None:
    notes = CaseDefinition("notes", external={f"note{number}": str for number in range(5)})
    async with served(notes) as (_, path), connect(path) as client:
        case = await client.start("notes")
        for number in range(5):
            await case.signal({f"note{number}": "x" * 1_000_000})
        with pytest.raises(LimitError, match="more than the control socket takes"):
            await case.context()
        with pytest.raises(LimitError):
            await case.signal({f"note{number}": "y" * 1_000_000 for number in range(5)})
        assert await case.status() == "WAITING"


async def test_many_requests_of_one_connection_are_under_way_at_once() -> None:
    async with served(definition()) as (hub, path):
        case = await hub.start("payment", amount=1.0)
        reader, writer = await asyncio.open_unix_connection(path)
        await reader.readline()
        asked = {"verb": "completed", "arguments": {"case": case.id}}
        signal = {"id": 9, "verb": "signal", "arguments": {"case": case.id, "facts": {"approved": True}}}
        for number in range(3):
            writer.write(json.dumps({"id": number, **asked}).encode() + b"\n")
        writer.write(json.dumps(signal).encode() + b"\n")
        answers = [json.loads(await reader.readline()) for _ in range(4)]
        assert {answer["id"] for answer in answers} == {0, 1, 2, 9}
        assert all(answer["result"] is None for answer in answers)
        writer.close()
