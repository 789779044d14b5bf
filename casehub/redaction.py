"""Redaction: facts, or fields of them, of which the log has a mask and nobody the value.

    hub = CaseHub(payment, serializers=[Redaction("password", "customer.card.number", "people.*.email")])

What is masked is gone from the moment at which it is written: the worker that reads the fact gets the mask too, now and
after a restart, so a case does not depend on which process works it. A value that somebody still needs is encrypted
(`casehub.encryption`), or kept elsewhere and referred to (`casehub.references`).

Two values with the same mask are equal: writing one over the other changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from casehub.errors import FactError, SettingsError
from casehub.plain import Plain
from casehub.serialized import FactSerializer, Slot
from casehub.values import type_name

MASK: Final = "[redacted]"
ANY: Final = "*"
"""In a path: each item of a list, each value of an object."""


def masked(value: Plain) -> Plain:
    """The mask of a value: text becomes `[redacted]`, everything else None."""
    return MASK if isinstance(value, str) else None


class Redaction(FactSerializer):
    """Masks facts by name, and fields of facts by their path in the JSON of the fact: `customer.card.number`.

    `mask`: what is stored instead of a value, given its JSON; it makes the same of what it has made, and something
    that still fits the fact's type, or the value is refused. `None` stays, and a field that is not there is fine.
    `name`: in the log; several redactions with masks of their own need names of their own.
    """

    secret: ClassVar[bool] = True

    def __init__(self, *paths: str, mask: Callable[[Any], Plain] = masked, name: str = "redacted") -> None:
        self.name = name
        self._mask = mask
        self._paths: dict[str, list[list[str]]] = {}
        for path in paths:
            fact, *fields = path.split(".")
            if not fact or "" in fields:
                raise SettingsError(
                    f"redaction {path!r} is no path; write fact, or fact.field.field, such as card.number"
                )
            self._paths.setdefault(fact, []).append(fields)

    def handles(self, fact: str, annotation: Any) -> bool:
        return fact in self._paths

    def dump(self, value: Any, slot: Slot) -> Plain:
        form = slot.plain(value)
        for path in self._paths[slot.fact]:
            form = self._without(form, path)
        try:
            slot.read(form)
        except FactError:
            raise FactError(
                f"{slot.where}: once it is masked it does not fit {type_name(slot.kind.annotation)}; give Redaction a mask= "
                "that makes something of the same kind"
            ) from None
        return form

    def load(self, form: Plain, slot: Slot) -> Any:
        return slot.read(form)

    def _without(self, form: Plain, path: Sequence[str]) -> Plain:
        if form is None:
            return None
        if not path:
            return self._mask(form)
        name, *rest = path
        if isinstance(form, dict):
            return {key: self._without(item, rest) if name in (key, ANY) else item for key, item in form.items()}
        if isinstance(form, list) and name == ANY:
            return [self._without(item, rest) for item in form]
        return form
