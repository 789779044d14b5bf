"""One activation an element: a worker that is given `each=` does its work once for every element of a list.

Every element is worked as a sub-case of its own, whose only worker it is. So elements run side by side, are retried and
timed out one by one, survive a restart one by one, and their results come back together, in the order of the elements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from casehub.binding import Worker
from casehub.errors import SettingsError
from casehub.policies import UNREPEATED, OnOutcome, PolicyOptions
from casehub.subcase import Rest, SubCase
from casehub.values import FactType
from casehub.wiring import Parameter, WiringError

OF_THE_WHOLE = ("refire", "limit", "merge", "priority", "cost", "value", "needs", "brings", "compensates")
"""The options that say when the binding fires; the others are about an attempt at one element."""


@dataclass(frozen=True, slots=True)
class Each:
    """The elements of a list, `of`, are worked one by one. `need`, `rest`: as of sub-cases; `need` is None for all."""

    of: str
    need: int | None = None
    rest: Rest = Rest.CANCEL


def elements(each: str | None, need: int | None, rest: Rest | str) -> Each | None:
    """What these options mean; None where there is no list. Raises `SettingsError` for options that are about one."""
    if each is not None:
        return Each(each, need, Rest(rest))
    if need is not None or Rest(rest) is not Rest.CANCEL:
        raise SettingsError("need= and rest= are about the elements of a list; say which with each=, or leave them out")
    return None


def element_of(worker: Worker, each: str) -> Parameter:
    """The parameter that stands for one element: the first. Raises `WiringError` where that cannot be."""
    if not worker.parameters:
        raise WiringError(
            f"{worker.name} works each of {each!r} and takes nothing", "take an element as the first parameter"
        )
    if len(worker.writes) != 1 or worker.mapping:
        raise WiringError(f"{worker.name} works each of {each!r} and does not write one fact", "give writes= one name")
    first = worker.parameters[0]
    if first.name == each:
        raise WiringError(f"{worker.name} works each of {each!r} and takes {each!r}", "name an element by another name")
    return first


def whole(worker: Worker, wanted: Each, definition: str) -> Worker:
    """The worker that starts a sub-case an element, in the place of the one that works them. Raises `WiringError`."""
    each = wanted.of
    element = element_of(worker, each)
    if wanted.need is not None and wanted.need < 1:
        raise WiringError(
            f"{worker.name} needs {wanted.need} of {each!r}", "need at least 1, or leave need= out for all"
        )
    annotation: Any = list[element.annotation]  # type: ignore[name-defined]  # built from parts at run time

    def starts(**facts: Any) -> list[dict[str, Any]]:
        others = {name: value for name, value in facts.items() if name != each}
        return [{element.name: value, **others} for value in facts[each]]

    elements = replace(element, name=each, annotation=annotation, optional=False, type=FactType(annotation))
    return Worker(
        worker.name,
        starts,
        (elements, *worker.parameters[1:]),
        worker.writes,
        capability=worker.capability,
        is_async=False,
        sub_case=SubCase(definition, worker.writes[0], several=True, need=wanted.need, rest=wanted.rest),
    )


def of_the_whole(policy: PolicyOptions, *, capable: bool) -> PolicyOptions:
    """The options of the binding that starts them: when an element is given up, so is the whole.

    `capable`: it is one of several of a capability, whose binding has options of its own.
    """
    kept = {name: value for name, value in policy.items() if name in OF_THE_WHOLE}
    return cast("PolicyOptions", kept if capable else {**UNREPEATED, **kept})


def of_an_element(worker: Worker, policy: PolicyOptions) -> PolicyOptions:
    """The options of the work on one element, which ends its sub-case when it is given up."""
    found: dict[str, Any] = dict.fromkeys(("on_declined", "on_exhausted"), OnOutcome.FAULT_CASE)
    if worker.form is not None:  # people are not asked again unless somebody says so
        found["on_expired"] = OnOutcome.FAULT_CASE
    for name, value in policy.items():
        if name not in OF_THE_WHOLE:
            found[name] = OnOutcome.FAULT_CASE if value == OnOutcome.FAULT_ITEM else value
    return cast("PolicyOptions", found)
