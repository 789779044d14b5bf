"""Facts that are not stored as the JSON of their type: encrypted, redacted, or a reference to what is kept elsewhere.

A serializer stands between a fact's value and what the state, the log and every face have of it. What it makes carries
its name, `{"$serializer": "customer", "value": "c-42"}`, and reading looks that name up among those that are
registered: nothing stored names code. A value of a user's own that has the key `$serializer` is stored as
`{"$serializer": "json", "value": {...}}`, so it is never taken for one of these.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Protocol, get_origin, runtime_checkable

from casehub.errors import FactError, LimitError, SettingsError, did_you_mean
from casehub.plain import TAG, Plain, plain, same
from casehub.values import JSON, FactType, Owner, tagged, type_name

_NAME: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}")

Upcast = Callable[[Any], Any]
"""Makes of a plain value as it was once stored one that today's type reads."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a value stands: a fact of a case of a tenant. `kind`: its type; `where`: the same for messages.

    `outside`: it came from outside, so that text such as dates is converted; `secret`: no message may show it.
    """

    tenant: str
    case: str
    fact: str
    kind: FactType
    where: str
    outside: bool = False
    secret: bool = False

    def plain(self, value: object) -> Plain:
        """The JSON of a value, by the fact's type. Raises `FactError` or `LimitError`."""
        try:
            return (self.kind.accept if self.outside else self.kind.normalise)(value, self.where)
        except FactError:
            if not self.secret:
                raise
        raise FactError(
            f"{self.where}: it does not fit {type_name(self.kind.annotation)}; as it is secret, it is not shown"
        )

    def read(self, form: Plain) -> Any:
        """The value of the fact's type that JSON stands for. Raises `FactError`."""
        try:
            return self.kind.restore(form, self.fact)
        except FactError:
            if not self.secret:
                raise
        raise FactError(
            f"fact {self.fact!r}: what is stored does not fit {type_name(self.kind.annotation)}; as it is secret, it is not shown"
        )


@runtime_checkable
class Deferred(Protocol):
    """What stands for a value that is kept elsewhere."""

    def opened(self) -> AbstractAsyncContextManager[Any]:
        """The value, for as long as the context is open."""
        ...


class FactSerializer(ABC):
    """How some facts are stored. `name`: what marks them in the log, for ever; small letters, digits, `_`, `.` and `-`.

    `secret`: no message may show a value. `deferred`: the class, a `Deferred`, of what `load` gives where the value itself
    has to be fetched: a worker gets the value, whoever reads within a turn gets this.
    """

    name: str
    secret: ClassVar[bool] = False
    deferred: ClassVar[type | None] = None

    @abstractmethod
    def handles(self, fact: str, annotation: Any) -> bool:
        """Whether it stores this fact, given its name and type. Asked when a hub is made."""

    @abstractmethod
    def dump(self, value: Any, slot: Slot) -> Plain:
        """What is stored of a value. Computes only: it is called within a turn. Equal values give equal forms."""

    @abstractmethod
    def load(self, form: Plain, slot: Slot) -> Any:
        """The value of what `dump` gave, which `dump` makes the same of again. Computes only."""


class Lenses:
    """The types of facts: which serializer stores one, JSON last, and what becomes of one that was stored long ago.

    Raises `SettingsError` for two serializers of one name, and a name that is none.
    """

    def __init__(self, serializers: Sequence[FactSerializer] = (), upcasts: Mapping[str, Upcast] | None = None) -> None:
        self.by_name: dict[str, FactSerializer] = {}
        self._upcasts = upcasts or {}
        for each in dict.fromkeys(serializers):
            if not _NAME.fullmatch(each.name) or each.name == JSON:
                raise SettingsError(
                    f"serializer {type(each).__name__} is called {each.name!r}; give it a name of small letters, digits, "
                    f"'_', '.' and '-' that is not {JSON!r}"
                )
            if each.name in self.by_name:
                raise SettingsError(f"two serializers are called {each.name!r}; the log knows them by name: rename one")
            self.by_name[each.name] = each

    def lens(self, fact: str, annotation: Any) -> FactType:
        """The type of a fact. Raises `FactError` for one that neither pydantic nor a serializer takes."""
        for each in self.by_name.values():
            if each.handles(fact, annotation):
                return SerializedType(fact, annotation, each, self)
        kind = RegisteredType(annotation, self) if self.by_name else FactType(annotation)
        kind.upcast = self._upcasts.get(fact)
        return kind

    def upcast_of(self, fact: str) -> Upcast | None:
        """What reads values of a fact that do not fit its type any more."""
        return self._upcasts.get(fact)


class RegisteredType(FactType):
    """The type of a fact that is stored as JSON, in a hub with serializers: one of them may have stored it earlier."""

    __slots__ = ("lenses",)

    def __init__(self, annotation: Any, lenses: Lenses) -> None:
        self.lenses = lenses
        super().__init__(annotation)

    def seen_as(self, annotation: Any) -> FactType:
        seen = RegisteredType(Any if annotation is Plain else annotation, self.lenses)
        seen.upcast = None if annotation is Plain else self.upcast
        return seen

    def _serialised(self, name: str, form: Plain, fact: str, owner: Owner | None) -> Any:
        serializer = self.lenses.by_name.get(name)
        if serializer is None:
            raise FactError(
                f"fact {fact!r} was stored by serializer {name!r}, which is not registered "
                f"({did_you_mean(name, self.lenses.by_name)}); give it to CaseHub(serializers=[...])"
            )
        slot = _slot(fact, self._json, f"fact {fact!r}", owner, serializer)
        try:
            return serializer.load(form, slot)
        except (FactError, LimitError):
            raise
        except Exception as error:  # it may be user code, on what somebody has tampered with
            said = "" if serializer.secret else f": {error}"
            raise FactError(
                f"fact {fact!r} cannot be read: serializer {name!r} raised {type(error).__name__}{said}"
            ) from None

    @property
    def _json(self) -> FactType:
        return self


class SerializedType(RegisteredType):
    """The type of a fact that a serializer stores. `view`: as what it is read, its own type by default."""

    __slots__ = ("_kind", "fact", "loads", "secret", "serializer", "view")

    def __init__(
        self, fact: str, annotation: Any, serializer: FactSerializer, lenses: Lenses, view: Any = None
    ) -> None:
        self.fact = fact
        self.serializer = serializer
        self.view = annotation if view is None else view
        try:
            self._kind = FactType(annotation)
        except FactError:  # only its serializer knows it
            self._kind = FactType()
        self._kind.upcast = lenses.upcast_of(fact)
        super().__init__(Any, lenses)
        self.annotation = annotation
        deferred = serializer.deferred
        self.secret = serializer.secret
        self.loads = (
            deferred is not None and self.view is not Plain and (get_origin(self.view) or self.view) is not deferred
        )

    @property
    def _json(self) -> FactType:
        return self._kind

    def schema(self) -> dict[str, Any]:
        return self._kind.schema()

    def seen_as(self, annotation: Any) -> FactType:
        deferred = self.serializer.deferred
        kind = (
            self.annotation if annotation is Plain or (get_origin(annotation) or annotation) is deferred else annotation
        )
        return SerializedType(self.fact, kind, self.serializer, self.lenses, annotation)

    def normalise(self, value: object, where: str, owner: Owner | None = None) -> Plain:
        return self._stored(value, where, owner, outside=False)

    def accept(self, value: object, where: str, owner: Owner | None = None) -> Plain:
        return self._stored(value, where, owner, outside=True)

    def _stored(self, value: object, where: str, owner: Owner | None, *, outside: bool) -> Plain:
        serializer = self.serializer
        slot = _slot(self.fact, self._kind, where, owner, serializer)
        try:
            form = plain(serializer.dump(value, replace(slot, outside=outside)), where)
            again = plain(serializer.dump(serializer.load(form, slot), slot), where)
        except (FactError, LimitError):
            raise
        except Exception as error:  # it may be user code
            said = "" if serializer.secret else f": {error}"
            raise FactError(f"{where}: serializer {serializer.name!r} raised {type(error).__name__}{said}") from None
        if not same(form, again):
            raise FactError(
                f"{where}: serializer {serializer.name!r} makes something else of what it has read back; mend its dump "
                "or its load"
            )
        return tagged(serializer.name, form)

    def restore(self, value: Plain, fact: str, owner: Owner | None = None) -> Any:
        if self.view is Plain:
            return self.as_json(value, fact, owner)
        return (
            super().restore(value, self.fact, owner)
            if type(value) is dict and TAG in value
            else self._kind.restore(value, fact)
        )

    def as_json(self, value: Plain, fact: str, owner: Owner | None = None) -> Plain:
        if type(value) is not dict or TAG not in value:
            return self._kind.as_json(value, fact)
        if self.serializer.deferred is not None and value[TAG] == self.serializer.name:
            return value.get("value")
        return self._kind.as_json(
            self._kind.normalise(super().restore(value, self.fact, owner), f"fact {fact!r}"), fact
        )

    def from_json(self, value: Plain, where: str, owner: Owner | None = None) -> Plain:
        deferred = self.serializer.deferred is not None
        return self.normalise(value if deferred else self._kind._read(value, self.fact), where, owner)

    def alike(self, one: Plain, other: Plain, owner: Owner | None = None) -> bool:
        if one is other or type(other) is not dict or TAG not in other:
            return False
        try:
            mine, theirs = self.as_json(one, self.fact, owner), self.as_json(other, self.fact, owner)
            return same(mine, theirs)
        except FactError:  # what is there cannot be read, or has no JSON
            return False


def _slot(fact: str, kind: FactType, where: str, owner: Owner | None, serializer: FactSerializer) -> Slot:
    if owner is None:
        raise FactError(f"{where} is stored by serializer {serializer.name!r}, and it is not said of which case it is")
    return Slot(owner.tenant, owner.id, fact, kind, where, secret=serializer.secret)
