"""The context: the shared blackboard of a case's facts (CMMN: the case file), read-only for everybody.

A fact carries who wrote it, when and why. Facts change only by events; what user code holds is a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, overload

from casehub.errors import FactError, did_you_mean
from casehub.events import ContextChanged
from casehub.values import ABSENT, Absent, FactType, Owner, Plain

T = TypeVar("T")
D = TypeVar("D")


@dataclass(slots=True)
class Fact:
    """One fact as the context holds it; read-only by contract.

    `value` is plain (see `casehub.values`), or `ABSENT` for the tombstone that a deletion leaves; `stamp` the version
    of the event that wrote, deleted, hid or showed it: a newer stamp is a change. `by` is `kind:name`, `cause` the
    version of the event that led to it, `confidence` 0 to 1 where the author gave one.
    """

    name: str
    value: Plain | Absent
    stamp: int
    by: str
    cause: int
    at: datetime
    confidence: float | None = None
    hidden: bool = False

    @property
    def visible(self) -> bool:
        """Whether readers and guards find it: neither deleted nor hidden."""
        return self.value is not ABSENT and not self.hidden

    @property
    def author(self) -> str:
        return self.by.partition(":")[2] or self.by


_ANY = FactType()


class CaseContext(Mapping[str, Any]):
    """A read-only mapping of a case's visible facts, at one version.

    Values are fresh objects of the type that the definition gives them: changing one changes nothing in the case.
    Besides names, types work as keys: `context[Risk]` is the fact of that type (or a subtype) that was written last.
    """

    __slots__ = ("_facts", "_hidden", "_owner", "_types", "version")

    def __init__(
        self,
        facts: Mapping[str, Fact],
        types: Mapping[str, FactType] | None = None,
        version: int = 0,
        hidden: frozenset[str] = frozenset(),
        owner: Owner | None = None,
    ) -> None:
        self._facts = facts
        self._types: Mapping[str, FactType] = types if types is not None else {}
        self._hidden = hidden
        self._owner = owner
        self.version = version

    @overload
    def __getitem__(self, key: str) -> Any: ...
    @overload
    def __getitem__(self, key: type[T]) -> T: ...
    def __getitem__(self, key: str | type[T]) -> Any:
        """The value of a fact by name, or of the latest fact of a type. Raises `KeyError` when there is none."""
        if isinstance(key, str):
            fact = self._facts.get(key)
            if fact is None or not fact.visible or key in self._hidden:
                raise KeyError(f"no fact {key!r}: {did_you_mean(key, self)}")
            return self._value(fact)
        latest = self._latest(key)
        if latest is None:
            raise KeyError(f"no fact of type {key.__name__}; facts: {', '.join(self) or 'none'}")
        return self._value(latest)

    def __iter__(self) -> Iterator[str]:
        """Names of the visible facts, in the order of their last writing."""
        return iter([fact.name for fact in self.facts()])

    def __len__(self) -> int:
        return sum(1 for _ in self.facts())

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            fact = self._facts.get(key)
            return fact is not None and fact.visible and key not in self._hidden
        return isinstance(key, type) and self._latest(key) is not None

    def __repr__(self) -> str:
        return f"CaseContext({dict(self)!r})"

    def facts(self) -> list[Fact]:
        """The visible facts themselves, oldest writing first."""
        hidden = self._hidden
        visible = [fact for fact in self._facts.values() if fact.visible and fact.name not in hidden]
        visible.sort(key=_stamp)
        return visible

    def fact(self, name: str) -> Fact:
        """One visible fact with its author, stamp, cause and time. Raises `KeyError`."""
        if name not in self:
            raise KeyError(f"no fact {name!r}: {did_you_mean(name, self)}")
        return self._facts[name]

    def last(self, kind: type[D]) -> D | None:
        """The value of the latest fact of a type or a subtype, or None."""
        fact = self._latest(kind)
        return None if fact is None else self._value(fact)

    def all_of_type(self, kind: type[D]) -> list[D]:
        """The values of all facts of a type or a subtype, oldest writing first."""
        return [self._value(fact) for fact in self.facts() if self._is_a(fact, kind)]

    @property
    def last_result(self) -> Any:
        """The value that a worker wrote last; None before the first."""
        written = [fact for fact in self.facts() if fact.by.startswith("worker:")]
        return self._value(written[-1]) if written else None

    def hiding(self, *names: str) -> CaseContext:
        """A child view without these facts. What its parent hides stays hidden in it."""
        return CaseContext(self._facts, self._types, self.version, self._hidden | frozenset(names), self._owner)

    def _latest(self, kind: type) -> Fact | None:
        found = [fact for fact in self.facts() if self._is_a(fact, kind)]
        return found[-1] if found else None

    def _is_a(self, fact: Fact, kind: type) -> bool:
        declared = self._types.get(fact.name)
        if declared is not None and declared.annotation is kind:
            return True
        return declared is not None and declared.is_a(kind)

    def _value(self, fact: Fact) -> Any:
        if fact.value is ABSENT:
            raise FactError(f"fact {fact.name!r} is deleted and has no value")
        return self._types.get(fact.name, _ANY).restore(fact.value, fact.name, self._owner)


def _stamp(fact: Fact) -> int:
    return fact.stamp


def change(facts: dict[str, Fact], event: ContextChanged) -> None:
    """Make the facts what they are after a change; a deleted one leaves a tombstone."""
    stamp, by, cause, at, confidence = event.version, event.by, event.cause, event.envelope.at, event.confidence
    for name, value in event.facts.items():
        facts[name] = Fact(name, value, stamp, by, cause, at, None if confidence is None else confidence.get(name))
    for name in event.deleted:
        facts[name] = Fact(name, ABSENT, stamp, by, cause, at)
    for name in (*event.hidden, *event.shown):
        fact, hidden = facts[name], name in event.hidden
        facts[name] = Fact(name, fact.value, stamp, fact.by, fact.cause, fact.at, fact.confidence, hidden)
