"""The end of the control socket that a hub listens on; `casehub.control` has the protocol.

Its verbs (`casehub.control_verbs`) are called for whoever is connected; a call that raises answers with the error, and
the process goes on. When the socket closes, what is waited for ends with a `HubClosedError`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskGroup
from pydantic import ValidationError
from pydantic_core import to_json

from casehub.adapters.codec import as_json
from casehub.control import MAX_LINE, PROTOCOL, Lines, error_as_dict, note_of
from casehub.control_verbs import Verbs
from casehub.errors import CaseHubError, HubClosedError, InputRefusedError, LimitError, UnknownNameError, did_you_mean
from casehub.events import CaseId
from casehub.hub import CaseHub
from casehub.jsontext import read_json
from casehub.lookup import release

log = structlog.get_logger("casehub.control")

MAX_CONNECTIONS: Final = 100
"""Connections at once; the next one is told so and closed."""
MAX_REQUESTS: Final = 100
"""Requests of one connection under way at once."""
PAUSE: Final = 0.1
"""Seconds before another try when a connection could not be accepted."""
FAREWELL: Final = 1.0
"""Seconds that connections get, when the socket closes, to take what is said last."""


class ControlServer:
    """Serves a hub on a socket, which is made for the owner alone and removed at the end."""

    def __init__(self, hub: CaseHub, path: Path) -> None:
        self.path = path
        self._hub = hub
        self._verbs = Verbs(hub)
        self._connections = 0
        self._waiting: set[anyio.CancelScope] = set()
        self._closing = False
        self._quiet = anyio.Event()

    async def serve(self, listening: socket.socket, group: TaskGroup) -> None:
        """Accept connections until cancelled; each is served in a task of the group."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as error:  # out of descriptors, say
                log.error("control.not_accepted", reason=str(error))
                await anyio.sleep(PAUSE)
            else:
                group.start_soon(self._connected, connection)

    async def farewell(self) -> None:
        """End what is waited for, and give its connections a moment to hear of it; new requests are refused."""
        self._closing = True
        for scope in self._waiting:
            scope.cancel()
        if self._waiting:
            self._quiet = anyio.Event()
            with anyio.move_on_after(FAREWELL):
                await self._quiet.wait()

    async def _connected(self, connection: socket.socket) -> None:
        self._connections += 1
        try:
            reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_LINE)
            try:
                await self._converse(Lines(reader, writer, read_json))
            finally:
                writer.close()
        except ConnectionError:
            pass  # who asked has gone
        except Exception as error:
            log.error("control.connection_failed", exc_info=error)
        finally:
            self._connections -= 1

    async def _converse(self, lines: Lines) -> None:
        if self._connections > MAX_CONNECTIONS:
            error = LimitError(f"the control socket has {MAX_CONNECTIONS} connections; close one")
            await lines.send(to_json({"error": error_as_dict(error)}))
            return
        await lines.send(to_json(self._greeting()))
        stepped: list[str] = []
        try:
            async with anyio.create_task_group() as group:
                with suppress(ConnectionError):
                    await self._requests(lines, group, stepped)
                group.cancel_scope.cancel()  # who asked has gone
        finally:
            for case in stepped:
                self._verbs.stepper.turnstile.open(CaseId(case))

    async def _requests(self, lines: Lines, group: TaskGroup, stepped: list[str]) -> None:
        """Take requests until the connection ends; each is answered in a task of its own."""
        under_way = anyio.CapacityLimiter(MAX_REQUESTS)
        while True:
            try:
                request = await lines.receive()
            except ValueError as error:
                await _refuse(lines, None, InputRefusedError(f"a request is a line of JSON, and this is none: {error}"))
                continue
            except LimitError as error:
                await _refuse(lines, None, error)
                return  # where the next line begins is unknown
            token = object()
            await under_way.acquire_on_behalf_of(token)
            group.start_soon(self._answer, lines, request, stepped, partial(under_way.release_on_behalf_of, token))

    async def _answer(self, lines: Lines, request: Any, stepped: list[str], done: Callable[[], None]) -> None:
        number = request.get("id") if isinstance(request, dict) else None
        scope = anyio.CancelScope()
        self._waiting.add(scope)
        try:
            if self._closing:
                await _refuse(
                    lines, number, HubClosedError("the worker process is stopping; ask again when it is back")
                )
                return
            with scope:
                await self._call(lines, number, request, stepped)
            if scope.cancelled_caught:
                error = HubClosedError(
                    "the worker process is stopping; what was asked may have been done: look at the case"
                )
                with anyio.move_on_after(FAREWELL):
                    await _refuse(lines, number, error)
        except ConnectionError:
            pass  # who asked has gone
        finally:
            done()
            self._waiting.discard(scope)
            if not self._waiting:
                self._quiet.set()

    async def _call(self, lines: Lines, number: object, request: Any, stepped: list[str]) -> None:
        try:
            called = self._called(request)
            if hasattr(called, "__aiter__"):
                async for event in called:
                    await lines.send(b'{"id":%b,"item":%b}' % (to_json(number), as_json(event)))
                result = None
            else:
                result = await called
                if request["verb"] == "start" and request["arguments"].get("step"):
                    stepped.append(result)
            await lines.send(to_json({"id": number, "result": result}))
        except (CaseHubError, TimeoutError) as error:
            await _refuse(lines, number, error)
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
            await _refuse(lines, number, InputRefusedError(f"verb {request['verb']!r} does not take this: {told}"))
        except ConnectionError:
            raise
        except Exception as error:
            log.error("control.failed", verb=request.get("verb"), exc_info=error)
            await _refuse(
                lines, number, CaseHubError(f"{type(error).__name__}: {error}; the worker process's log has more")
            )

    def _called(self, request: Any) -> Any:
        """What the verb's function gives: something to await, or a stream of events."""
        if not isinstance(request, dict) or not isinstance(request.get("verb"), str):
            raise InputRefusedError('a request is {"id": 1, "verb": "...", "arguments": {...}}')
        verb, arguments = request["verb"], request.get("arguments", {})
        if verb not in self._verbs.table:
            raise UnknownNameError(f"there is no verb {verb!r}; {did_you_mean(verb, self._verbs.table)}")
        if not isinstance(arguments, dict):
            raise InputRefusedError(f"verb {verb!r}: arguments are an object, names to values")
        return self._verbs.table[verb](**arguments)

    def _greeting(self) -> Mapping[str, Any]:
        return {
            "casehub": release(),
            "protocol": PROTOCOL,
            "pid": os.getpid(),
            "tenant": self._hub.tenant,
            "database": str(self.path).removesuffix(".sock"),
            "kept": sorted({each.name for each in self._hub.registry.others}),
            "definitions": {name: asdict(note_of(each)) for name, each in self._hub.structures.items()},
        }


@asynccontextmanager
async def listening(hub: CaseHub, path: Path) -> AsyncIterator[ControlServer]:
    """Serve a hub on a socket for as long as the block lasts.

    What lies there is stale, or of another hub on a database that several share: the last one to come is asked.
    """
    server = ControlServer(hub, path)
    bound = _bound(path)
    mine = os.lstat(path).st_ino
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, bound, group)
            try:
                yield server
            except Exception as error:
                failure = error  # the block's own passes by the group, which would wrap it
            finally:
                with anyio.CancelScope(shield=True):
                    await server.farewell()
                group.cancel_scope.cancel()
    finally:
        bound.close()
        with suppress(FileNotFoundError):
            if os.lstat(path).st_ino == mine:
                os.unlink(path)
    if failure is not None:
        raise failure


async def _refuse(lines: Lines, number: object, error: BaseException) -> None:
    await lines.send(to_json({"id": number, "error": error_as_dict(error)}))


def _bound(path: Path) -> socket.socket:
    """A listening socket at the path, which nobody but this user can open, at no moment."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise CaseHubError(f"control socket {path}: something else is in its place; move it away")
        path.unlink()
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        bound.bind(str(path))
        bound.listen(64)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise CaseHubError(f"control socket {path}: {error.strerror}; see that its folder can be written") from None
    finally:
        os.umask(mask)
    return bound
