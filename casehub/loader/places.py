"""Where the elements of a definition stand in its text, for problems that are found when the whole is built."""

from __future__ import annotations

import re
from collections.abc import Iterator

from casehub.definition import CaseDefinition
from casehub.errors import DefinitionError, Problem
from casehub.loader.document import Mapping, Node, Scalar, Sequence
from casehub.loader.mistakes import Mistakes, Place
from casehub.validation import build, skeleton


class Places:
    """Elements by what problems call them: `worker 'extract'`, `stage 'intake'`."""

    def __init__(self, top: Mapping, mistakes: Mistakes) -> None:
        self._top = top
        self._mistakes = mistakes
        self._elements: dict[str, tuple[Scalar, Node]] = {}

    def element(self, subject: str, key: Scalar, value: Node) -> None:
        """Remember where an element stands; the first of its name counts."""
        self._elements.setdefault(subject, (key, value))

    def key(self, subject: str) -> Place:
        """Where the name of an element stands."""
        return self._elements[subject][0].place

    def built(self, definition: CaseDefinition, *, code: bool = True) -> None:
        """Note what in the whole can never work; not where something in the same element is known to be wrong.

        Without its `code` only what it does not depend on.
        """
        try:
            if code:
                build(definition)
            elif found := skeleton(definition):
                raise DefinitionError(definition.name, found)
        except DefinitionError as error:
            for problem in error.problems:
                place = self.of(problem)
                if problem.subject in self._elements:
                    key, value = self._elements[problem.subject]
                    first, last = (
                        key.place.line,
                        max(each.place.line + each.raw.count("\n") for each in (key, *_scalars(value))),
                    )
                else:
                    first = last = place.line
                if not self._mistakes.known(first, last):
                    self._mistakes.note(place, problem.subject, problem.reason, problem.remedy)

    def of(self, problem: Problem) -> Place:
        """Where the mistake is: the name that the reason quotes, in the element that it is about."""
        key, value = self._elements.get(problem.subject, (self._top.keys.get("case"), self._top))
        if problem.subject.startswith("goal ") and problem.subject not in self._elements and "goal" in self._top.keys:
            key, value = self._top.keys["goal"], self._top.values["goal"]
        for name in re.findall(r"'([^']+)'", f"{problem.reason} {problem.subject}"):
            for scalar in _scalars(value):
                if scalar.text == name:
                    return scalar.place
                within = (
                    re.search(rf"(?<![\w.]){re.escape(name)}\b", scalar.text) if scalar.value == scalar.text else None
                )
                if within is not None and scalar is not key:
                    before = scalar.text[: within.start()]
                    return scalar.inside(before.count("\n") + 1, within.start() - (before.rfind("\n") + 1) + 1)
        return self._top.place if key is None else key.place


def _scalars(node: Node) -> Iterator[Scalar]:
    """All keys and values in a node, in the order of the text."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _scalars(item)
    elif isinstance(node, Mapping):
        for key, value in node.entries():
            yield key
            yield from _scalars(value)
