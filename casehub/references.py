"""References: facts that are kept elsewhere. The log has a key, and a worker gets what the key stands for.

    customers = EntityReference(Customer, key=lambda customer: customer.id, load=find_customer)
    hub = CaseHub(order, serializers=[customers])

`find_customer` takes a key and returns the entity; it may be async, and a sync one is called in a thread. One that
returns an async context manager opens something (a file, a session), which is closed when the attempt ends: so a handle,
which no log can hold, is stored as what it can be opened by again.

Nothing is cached: each attempt that reads the fact loads it once, when it begins. So a worker sees the entity as it is
then and not as it was when the fact was written, and a change of the entity alone is no change of the fact.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

import anyio.to_thread

from casehub.errors import FactError
from casehub.plain import Plain
from casehub.serialized import FactSerializer, Slot
from casehub.values import snake_case, without_none

T = TypeVar("T")
Key = str | int


@dataclass(frozen=True, slots=True)
class Reference(Generic[T]):
    """What stands for an entity: guards, contexts and functions that only compute get this; so does who asks for it."""

    name: str
    key: Key
    source: EntityReference[T] = field(repr=False, compare=False)

    async def load(self) -> T:
        """The entity as it is now. Raises `FactError` where there is none, and what the loader raises."""
        async with self.opened() as found:
            return found

    def opened(self) -> AbstractAsyncContextManager[T]:
        """The entity, for as long as the context is open."""
        return self.source.opened(self.key)


class EntityReference(FactSerializer, Generic[T]):
    """Stores facts of a type as a key.

    `key`: of an entity, text or a whole number; `load`: the entity of a key, None where there is none; `name`: in the
    log, by default the type's snake_case name. A worker or a caller may also give the key alone, or a `Reference`.
    """

    deferred: ClassVar[type | None] = Reference

    def __init__(self, kind: type[T], *, key: Callable[[T], Key], load: Callable[[Any], Any], name: str = "") -> None:
        self.kind = kind
        self.name = name or snake_case(kind.__name__)
        self._key = key
        self._load = load

    def handles(self, fact: str, annotation: Any) -> bool:
        kind = without_none(annotation)
        if get_origin(kind) is Reference:
            (kind,) = get_args(kind)
        return isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, self.kind)

    def dump(self, value: Any, slot: Slot) -> Plain:
        if value is None:
            return None
        key: object = value
        if isinstance(value, Reference):
            key = value.key if value.name == self.name else value
        elif isinstance(value, self.kind):
            key = self._key(value)
        if type(key) not in (str, int):
            raise FactError(
                f"{slot.where}: {type(key).__name__} is no key of {self.kind.__name__}; give one, its key (text or a whole "
                "number), or a Reference to it"
            )
        return key  # type: ignore[return-value]  # as was looked at

    def load(self, form: Plain, slot: Slot) -> Reference[T] | None:
        if form is None:
            return None
        if type(form) is not str and type(form) is not int:
            raise FactError(f"fact {slot.fact!r}: {type(form).__name__} is no key of {self.kind.__name__}")
        return Reference(self.name, form, self)

    @asynccontextmanager
    async def opened(self, key: Key) -> AsyncIterator[T]:
        """The entity of a key. Raises `FactError` where there is none."""
        load = self._load
        found = load(key) if inspect.iscoroutinefunction(load) else await anyio.to_thread.run_sync(load, key)
        if isinstance(found, AbstractAsyncContextManager):
            async with found as entity:
                yield entity
            return
        if inspect.isawaitable(found):
            found = await found
        if found is None:
            raise FactError(f"{self.name} {key!r} is not there (any more); bring it back, or write another key")
        yield found
