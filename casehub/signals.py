"""Signals: what somebody brings from outside, held against what the definition takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from casehub.errors import FactError, InputRefusedError, LimitError, did_you_mean
from casehub.inputs import Write
from casehub.structure import Structure
from casehub.values import Owner, Plain, apart, snake_case


def signalled(
    structure: Structure, what: Any, facts: Mapping[str, Any], owner: Owner, expected: int | None = None
) -> Write:
    """What a signal to a case, `owner`, writes: the facts that it brings, made plain, and the signals that it is.

    `expected`: the version of the case as the sender saw it.
    """
    given: dict[str, Any] = dict(facts)
    bare: tuple[str, ...] = ()
    kind_of_it: type[Any] = apart({"": what})[0][""].__class__
    if isinstance(what, str):
        bare = (what,)
        if what not in structure.brought:
            raise _unheard(structure, what)
    elif isinstance(what, Mapping):
        given = {**cast("Mapping[str, Any]", what), **facts}
    elif what is not None:
        fitting = [name for name, kind in structure.brought.items() if kind.annotation is kind_of_it]
        fitting = fitting or [name for name, kind in structure.brought.items() if kind.is_a(kind_of_it)]
        if len(fitting) != 1:
            raise _unheard(structure, snake_case(kind_of_it.__name__))
        given[fitting[0]] = what
    if not given and not bare:
        raise InputRefusedError(
            "a signal brings something: give facts by name, a mapping, or an object of a declared type"
        )
    if expected is not None and not given:
        raise InputRefusedError(f"signal {what!r} brings no fact that expected= could be about; leave it out")
    values, sure = apart(given)
    plain = brought(structure, values, owner)
    return Write(signals=(*bare, *given), facts=plain, confidence=sure, expected=expected)


def brought(structure: Structure, facts: Mapping[str, Any], owner: Owner) -> dict[str, Plain]:
    plain: dict[str, Plain] = {}
    for name, value in facts.items():
        kind = structure.brought.get(name)
        if kind is None and (structure.definition.strict or name not in structure.types):
            raise _unheard(structure, name)
        try:
            plain[name] = (kind or structure.types[name]).accept(value, f"fact {name!r}", owner)
        except (FactError, LimitError) as error:
            raise InputRefusedError(str(error)) from None
    return plain


def _unheard(structure: Structure, name: str) -> InputRefusedError:
    return InputRefusedError(
        f"definition {structure.name!r} takes no signal {name!r}; {did_you_mean(name, structure.brought)} "
        "(declare it with signals= or external=)"
    )
