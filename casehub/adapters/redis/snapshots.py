"""Snapshots in Redis: a hash for each case and, for each parent, the set of its sub-cases, both written by one script.

Keys are `casehub:{TENANT}:snapshot:CASE` and `casehub:{TENANT}:children:PARENT`; the braces keep those of a tenant on one
node of a cluster. A server that forgets them, or is set up to, costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pydantic_core import from_json, to_json
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from casehub.adapters.written import from_micros, to_micros
from casehub.errors import SettingsError, SnapshotConflictError, SnapshotError, StoreError, StoreUnavailableError
from casehub.events import CaseId
from casehub.lifecycle import CaseStatus
from casehub.snapshot import Snapshot, Written, check_parent

PREFIX: Final = "casehub"
PATIENCE: Final = 2.0
"""Seconds for the server to answer; then it is away."""

# Both give the version and the parent that are there; the first one, where it has written, also the time of the first.
_SAVE: Final = """
local found = redis.call('HMGET', KEYS[1], 'version', 'parent', 'created_at')
local version, created_at = 1, ARGV[3]
if ARGV[1] ~= '' or found[1] then
    if found[1] ~= ARGV[1] or found[2] ~= ARGV[2] then return {0, found[1] or '', found[2] or ''} end
    version, created_at = tonumber(ARGV[1]) + 1, found[3]
end
redis.call('HSET', KEYS[1], 'version', version, 'parent', ARGV[2], 'created_at', created_at, unpack(ARGV, 5))
if ARGV[2] ~= '' then redis.call('SADD', KEYS[2], ARGV[4]) end
return {1, tostring(version), created_at}
"""
_DELETE: Final = """
local parent = redis.call('HGET', KEYS[1], 'parent')
if parent and parent ~= '' then redis.call('SREM', ARGV[1] .. parent, ARGV[2]) end
redis.call('DEL', KEYS[1])
"""


class RedisSnapshots:
    """Implements `SnapshotStore` and `SavesTogether`.

    `where`: a URL as redis-py takes it (`redis://host:6379/0`, `rediss://`, `unix://`), with `?prefix=` for keys that do not
    begin with `casehub`; or an application's own client (`redis.asyncio.Redis`), which stays its own, and open.
    """

    def __init__(self, where: str | Redis, *, prefix: str = PREFIX) -> None:
        self._url = ""
        self._client: Redis | None = None
        self._own = isinstance(where, str)
        self._prefix = prefix
        if isinstance(where, str):
            parts = urlsplit(where)
            options = dict(parse_qsl(parts.query))
            self._prefix = options.pop("prefix", prefix)
            self._url = urlunsplit((*parts[:3], urlencode(options), ""))
            self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        else:
            known = where.connection_pool.connection_kwargs
            if known.get("decode_responses"):
                raise SettingsError(
                    "RedisSnapshots: this client reads text, and snapshots are bytes; give one without decode_responses"
                )
            self.name = f"redis://{known.get('host', known.get('path', 'localhost'))}:{known.get('port', '')}"
            self._client = where

    def describe(self) -> str:
        return f"snapshots in Redis, {self.name}"

    async def open(self) -> None:
        if self._own:
            retry = Retry(NoBackoff(), 1)  # a connection that has been idle for too long
            self._client = Redis.from_url(
                self._url,
                socket_timeout=PATIENCE,
                socket_connect_timeout=PATIENCE,
                retry=retry,
                health_check_interval=30,
            )
        try:
            await self._asked(cast("Awaitable[Any]", self._redis.ping()))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._own:
            client, self._client = self._client, None
            if client is not None:
                await client.aclose()

    async def save(self, snapshot: Snapshot, expected: int | None = None) -> Snapshot:
        keys, values = self._given(snapshot, expected)
        return _told(snapshot, expected, await self._run(_SAVE, keys, *values))

    async def save_all(self, given: Sequence[tuple[Snapshot, int | None]]) -> Sequence[Written]:
        """All of them on one way to the server and back."""
        pipe = self._redis.pipeline(transaction=False)
        script = self._redis.register_script(_SAVE)
        for snapshot, expected in given:
            keys, values = self._given(snapshot, expected)
            await script(keys, values, client=pipe)
        answers = await self._asked(pipe.execute())
        written: list[Written] = []
        for (snapshot, expected), answer in zip(given, answers, strict=True):
            try:
                written.append(_told(snapshot, expected, answer))
            except SnapshotError as error:
                written.append(error)
        return written

    def _given(self, snapshot: Snapshot, expected: int | None) -> tuple[Sequence[str], Sequence[Any]]:
        """The keys and values that the script takes."""
        tenant, parent, at = snapshot.tenant, snapshot.parent or "", str(to_micros(snapshot.updated_at))
        fields = {
            "id": snapshot.id,
            "definition": snapshot.definition,
            "status": str(snapshot.status),
            "position": snapshot.position,
            "content_type": snapshot.content_type,
            "payload": snapshot.payload,
            "updated_at": at,
            "metadata": to_json(dict(snapshot.metadata)),
        }
        keys = (self._key(tenant, "snapshot", snapshot.id), self._key(tenant, "children", parent))
        pairs = [part for pair in fields.items() for part in pair]
        return keys, ("" if expected is None else str(expected), parent, at, snapshot.id, *pairs)

    async def latest(self, case: CaseId, tenant: str = "default") -> Snapshot | None:
        return _read(case, tenant, await self._fields(case, tenant))

    async def children(self, parent: CaseId, tenant: str = "default") -> Sequence[Snapshot]:
        ids = await self._asked(cast("Awaitable[Any]", self._redis.smembers(self._key(tenant, "children", parent))))
        cases = sorted(CaseId(id.decode()) for id in ids)
        found = [_read(case, tenant, await self._fields(case, tenant)) for case in cases]
        return [each for each in found if each is not None]

    async def delete(self, case: CaseId, tenant: str = "default") -> None:
        await self._run(_DELETE, (self._key(tenant, "snapshot", case),), self._key(tenant, "children", ""), case)

    @property
    def _redis(self) -> Redis:
        if self._client is None:
            raise StoreError(f"snapshots in {self.name} are not open; use them through a hub, or call open() first")
        return self._client

    def _key(self, tenant: str, kind: str, id: str) -> str:
        return f"{self._prefix}:{{{tenant}}}:{kind}:{id}"

    async def _fields(self, case: CaseId, tenant: str) -> dict[bytes, bytes]:
        key = self._key(tenant, "snapshot", case)
        found: dict[bytes, bytes] = await self._asked(cast("Awaitable[Any]", self._redis.hgetall(key)))
        return found

    async def _run(self, script: str, keys: Sequence[str], *values: Any) -> Any:
        """What a script gives; its text goes to the server when that does not have it yet."""
        return await self._asked(self._redis.register_script(script)(keys, values))

    async def _asked(self, answer: Awaitable[Any]) -> Any:
        try:
            return await answer
        except (RedisError, OSError) as error:
            said = " ".join(str(error).split())
            if isinstance(error, ResponseError) and not isinstance(error, OutOfMemoryError):
                raise StoreError(f"snapshots in {self.name}: {said}; give other keys with prefix=") from error
            raise StoreUnavailableError(
                f"snapshots in {self.name}: {said}; see that the server runs and has room"
            ) from error


def _told(snapshot: Snapshot, expected: int | None, answer: Any) -> Snapshot:
    """What the script has written. Raises what `save` does where it has not."""
    written, version, other = answer
    if written:
        return replace(snapshot, version=int(version), created_at=from_micros(int(other)))
    found = int(version) if version else None
    if found is not None and found == expected:
        check_parent(snapshot, CaseId(other.decode()) if other else None)
    raise SnapshotConflictError(snapshot.id, expected, found)


def _read(case: CaseId, tenant: str, fields: dict[bytes, bytes]) -> Snapshot | None:
    """The snapshot that a hash has. Raises `SnapshotError` for one that none was written as."""
    if not fields:
        return None
    try:
        parent = fields[b"parent"].decode()
        return Snapshot(
            id=case,
            tenant=tenant,
            parent=CaseId(parent) if parent else None,
            definition=fields[b"definition"].decode(),
            status=CaseStatus(fields[b"status"].decode()),
            version=int(fields[b"version"]),
            position=int(fields[b"position"]),
            content_type=fields[b"content_type"].decode(),
            payload=fields[b"payload"],
            created_at=from_micros(int(fields[b"created_at"])),
            updated_at=from_micros(int(fields[b"updated_at"])),
            metadata=from_json(fields[b"metadata"]),
        )
    except (KeyError, ValueError, OverflowError) as error:
        raise SnapshotError(
            f"snapshot of case {case!r}: its hash is damaged: {type(error).__name__}: {error}"
        ) from error
