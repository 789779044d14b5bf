"""The control socket: how other processes of this machine give verbs to the hub of a worker process.

A Unix socket beside the database (`casehub.db.sock`, for its owner alone), JSON a line. Who connects is greeted; then
a request is `{"id": 1, "verb": "signal", "arguments": {"case": "c1", "facts": {"approved": true}}}`, and what comes
back carries its id: any number of `{"id": 1, "item": ...}`, then `{"id": 1, "result": ...}` or `{"id": 1, "error":
{"class": "CaseEndedError", "message": "..."}}`. Several requests may be under way at once. Closing the connection
abandons what is waited for and nothing else. `casehub.control_server` is the other end.
"""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from casehub import errors
from casehub.adapters.codec import from_json as event_from_json
from casehub.control_cases import RemoteCase
from casehub.control_tasks import RemoteWorklist
from casehub.errors import CaseHubError, FactError, LimitError, NotReachableError, SettingsError
from casehub.events import CaseId, Event
from casehub.structure import Structure

PROTOCOL: Final = 1
"""The version of the protocol; it rises when an older end would misunderstand a newer one."""
MAX_LINE: Final = 4_194_304
"""Longest line in either direction, in bytes."""
MAX_PATH: Final = 107 if sys.platform == "linux" else 103
"""Longest path of a Unix socket, in bytes; the BSDs and macOS take four fewer than Linux."""

# What errors carry besides their message.
_CARRIED: Final = ("case", "reason", "reasons", "by", "definition", "fields", "answer")


def socket_of(database: Path) -> Path:
    """The socket of the process that owns a database. Raises `SettingsError` where its path would be too long."""
    path = database.with_name(f"{database.name}.sock")
    size = len(bytes(path))
    if size > MAX_PATH:
        raise SettingsError(
            f"control socket {path}: its path has {size} bytes, and a Unix socket takes {MAX_PATH}; "
            "put the database into a folder with a shorter path, or start in its folder and give a relative one"
        )
    return path


@dataclass(frozen=True, slots=True)
class DefinitionNote:
    """What a client is told of a definition. `inputs`: of `start`, True where required; `structure`: its current version."""

    inputs: Mapping[str, bool] = field(default_factory=dict)
    signals: Sequence[str] = ()
    bindings: Sequence[str] = ()
    structure: str = ""


def note_of(structure: Structure) -> DefinitionNote:
    """What a client is told of the definition of this structure."""
    return DefinitionNote(structure.inputs, list(structure.brought), list(structure.bindings), structure.hash)


@dataclass(frozen=True, slots=True)
class Greeting:
    """What the process behind the socket says of itself. `kept`: names of definitions of which it keeps versions."""

    casehub: str
    protocol: int
    pid: int
    tenant: str
    database: str
    definitions: Mapping[str, DefinitionNote]
    kept: Sequence[str] = ()


class Lines:
    """A connection that carries JSON values, one a line. `ConnectionError` when the other end is gone.

    `read`: what makes a value of a line.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, read: Callable[[bytes], Any] = from_json
    ) -> None:
        self._read = read
        self._reader = reader
        self._writer = writer

    async def send(self, line: bytes) -> None:
        """Send one value, already JSON. Raises `LimitError` for one that is too long, with nothing sent."""
        if len(line) >= MAX_LINE:
            raise LimitError(f"{len(line):,} bytes are more than the control socket takes ({MAX_LINE:,})")
        self._writer.write(line + b"\n")
        await self._writer.drain()

    async def receive(self) -> Any:
        """The next value. Raises `LimitError` for a line that is too long, `ValueError` for no JSON."""
        try:
            line = await self._reader.readuntil()
        except asyncio.LimitOverrunError:
            raise LimitError(f"a line is longer than the {MAX_LINE:,} bytes that the control socket takes") from None
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the other end has closed the connection") from None
        return self._read(line)

    def close(self) -> None:
        self._writer.close()


def error_as_dict(error: BaseException) -> dict[str, Any]:
    """An error as the other end gets it: class, message, and what it carries."""
    told = {name: getattr(error, name, None) for name in _CARRIED}
    carried = {name: value for name, value in told.items() if isinstance(value, str | tuple | dict)}
    return {"class": type(error).__name__, "message": str(error) or type(error).__name__, **carried}


def error_from_dict(told: Mapping[str, Any]) -> Exception:
    """The error that the other end raised; a `CaseHubError` where its class is none that may come by this way."""
    name, message = str(told.get("class", "")), str(told.get("message", ""))
    kind = getattr(errors, name, None) or getattr(builtins, name, None)
    if kind not in (TimeoutError, PermissionError) and not (isinstance(kind, type) and issubclass(kind, CaseHubError)):
        return CaseHubError(f"{name}: {message}")
    error: Exception = kind.__new__(kind, message)  # their constructors make messages; this one is made
    error.args = (message,)
    for key in _CARRIED:
        if key in told:
            setattr(error, key, tuple(told[key]) if isinstance(told[key], list) else told[key])
    return error


class ControlClient:
    """The hub of another process: the same verbs. One at a time; `greeting` says who is there."""

    def __init__(self, lines: Lines, greeting: Greeting) -> None:
        self.greeting = greeting
        self._lines = lines
        self._requests = 0
        self.tasks = RemoteWorklist(self._ask)

    async def start(
        self,
        definition: str,
        given: Mapping[str, Any] | None = None,
        /,
        *,
        case_id: str | None = None,
        goal: str | None = None,
        by: str = "user",
        **facts: Any,
    ) -> RemoteCase:
        """Start a case with its facts, as `CaseHub.start` does."""
        brought = {**(given or {}), **facts}
        return self.case(
            await self._ask("start", definition=definition, case_id=case_id, goal=goal, by=by, facts=brought)
        )

    async def start_stepped(
        self,
        definition: str,
        given: Mapping[str, Any] | None = None,
        /,
        *,
        case_id: str | None = None,
        goal: str | None = None,
        by: str = "user",
        **facts: Any,
    ) -> RemoteCase:
        """Start a case that holds each decision until `step` lets it through, or until this connection ends."""
        brought = {**(given or {}), **facts}
        return self.case(
            await self._ask("start", definition=definition, case_id=case_id, goal=goal, by=by, facts=brought, step=True)
        )

    def case(self, case_id: str) -> RemoteCase:
        """The handle of a case. Whether there is one shows when it is asked."""
        return RemoteCase(CaseId(case_id), self._ask)

    async def retry_letter(
        self, id: str, facts: Mapping[str, Any] | None = None, *, by: str = "user", reason: str = ""
    ) -> None:
        """Let the binding of a dead letter fire again, as `hub.dead_letters.retry` does."""
        await self._ask("retry_letter", letter=id, facts=facts or {}, by=by, reason=reason)

    async def discard_letter(self, id: str, *, by: str = "user", reason: str = "") -> None:
        """Settle the failure of a dead letter, as `hub.dead_letters.discard` does."""
        await self._ask("discard_letter", letter=id, by=by, reason=reason)

    async def pull_brake(
        self, definition: str | None, *, worker: str | None = None, by: str = "user", reason: str = ""
    ) -> int:
        """Hold the cases of a definition, or all, or a worker, as `hub.brake.pull` does."""
        return int(await self._ask("pull_brake", definition=definition, worker=worker, by=by, reason=reason))

    async def release_brake(
        self, definition: str | None, *, worker: str | None = None, by: str = "user", reason: str = ""
    ) -> int:
        """Let them go on, as `hub.brake.release` does."""
        return int(await self._ask("release_brake", definition=definition, worker=worker, by=by, reason=reason))

    async def release_worker(self, definition: str, worker: str, *, by: str = "user", reason: str = "") -> None:
        """End a quarantine, as `hub.quarantine.release` does."""
        await self._ask("release_worker", definition=definition, worker=worker, by=by, reason=reason)

    async def migrate(self, definition: str) -> Sequence[Mapping[str, Any]]:
        """Let open cases adopt the definition, as `hub.migrate` does."""
        found: Sequence[Mapping[str, Any]] = await self._ask("migrate", definition=definition)
        return found

    async def fork(
        self, case: str, at: str | None, facts: Mapping[str, Any], *, fork_id: str | None, by: str, reason: str
    ) -> RemoteCase:
        """Start a case that goes on from where another one was, as `hub.fork` does."""
        made = await self._ask("fork", case=case, at=at, facts=facts, fork_id=fork_id, by=by, reason=reason)
        return self.case(made)

    async def bring_in(self, path: str, *, case_id: str | None, dry_run: bool) -> Mapping[str, Any]:
        """Import the cases of a file, by its whole path, as `hub.bring_in` does."""
        found: Mapping[str, Any] = await self._ask("bring_in", path=path, case_id=case_id, dry_run=dry_run)
        return found

    async def retire(self, after: str, archive: str | None) -> Mapping[str, Any]:
        """Retire what is due, as `hub.retention.run` does. `archive`: the whole path of a folder."""
        found: Mapping[str, Any] = await self._ask("retire", after=after, archive=archive)
        return found

    async def info(self) -> Mapping[str, Any]:
        """What the process is doing: `working`, `parked` (case to reason), `draining`, `store` (why it does not
        write, if it does not) and how many cases are `waiting` for that."""
        found: Mapping[str, Any] = await self._ask("info")
        return found

    async def watch(self, *names: str, case: str | None = None, after: int | None = None) -> AsyncIterator[Event]:
        """Events by name in the log, their subtypes included (none: all), as `CaseHub.watch` gives them.

        Ends when the hub is left.
        """
        async with aclosing(self._items("watch", names=names, case=case, after=after)) as items:
            async for item in items:
                yield event_from_json(to_json(item))

    async def _ask(self, verb: str, **arguments: Any) -> Any:
        """The result of a verb that streams nothing."""
        await self._request(verb, arguments)
        return (await self._answer())["result"]

    async def _items(self, verb: str, **arguments: Any) -> AsyncGenerator[Any, None]:
        await self._request(verb, arguments)
        while "item" in (answer := await self._answer()):
            yield answer["item"]

    async def _request(self, verb: str, arguments: Mapping[str, Any]) -> None:
        self._requests += 1
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            await self._lines.send(to_json({"id": self._requests, "verb": verb, "arguments": given}))
        except PydanticSerializationError as error:
            raise FactError(f"verb {verb!r}: {error}; give JSON values") from None
        except ConnectionError:
            raise self._gone() from None

    async def _answer(self) -> dict[str, Any]:
        """The next answer to the last request; those to requests that were given up are passed over."""
        while True:
            try:
                answer = await self._lines.receive()
            except ConnectionError:
                raise self._gone() from None
            if answer.get("id") not in (None, self._requests):
                continue
            if "error" in answer:
                raise error_from_dict(answer["error"])
            return dict(answer)

    def _gone(self) -> NotReachableError:
        return NotReachableError(
            f"the worker process {self.greeting.pid} went away before it answered; what it had committed is in "
            f"{self.greeting.database}: look with 'casehub case show', and start it again with 'casehub up'"
        )


@asynccontextmanager
async def connect(path: Path) -> AsyncIterator[ControlClient]:
    """The hub behind a control socket.

    Raises `NotReachableError` when nobody listens there or somebody who speaks another protocol,
    `PermissionError` when it belongs to another user.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE)
    except PermissionError:
        raise PermissionError(
            f"control socket {path}: it belongs to another user; act as the one who runs 'casehub up'"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise NotReachableError(f"control socket {path}: nobody listens there ({reason}); start 'casehub up'") from None
    lines = Lines(reader, writer)
    try:
        yield ControlClient(lines, await _greeted(lines, path))
    finally:
        lines.close()


async def _greeted(lines: Lines, path: Path) -> Greeting:
    try:
        told = await lines.receive()
        notes = {name: DefinitionNote(**note) for name, note in told.pop("definitions", {}).items()}
    except (ConnectionError, ValueError, TypeError, AttributeError, CaseHubError):
        raise NotReachableError(f"control socket {path}: who listens there is no CaseHub") from None
    if "error" in told:
        raise error_from_dict(told["error"])
    if told.get("protocol") != PROTOCOL:
        raise NotReachableError(
            f"control socket {path}: the worker process is CaseHub {told.get('casehub')} and speaks protocol "
            f"{told.get('protocol')}, this command speaks {PROTOCOL}; use the command of the same release"
        )
    return Greeting(**told, definitions=notes)


async def listens(path: Path) -> bool:
    """Whether somebody listens there. A process that was killed leaves its socket behind."""
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    except OSError:
        return True  # `connect` says what it is
    writer.close()
    return True
