"""Mappings read by the vocabulary: unknown keys, missing keys and values of another kind are noted with their places."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from collections.abc import Mapping as Mapped
from collections.abc import Sequence as Sequenced
from typing import Any, Final, TypeVar

from casehub.durations import duration
from casehub.errors import SettingsError
from casehub.loader.document import Mapping, Node, Scalar, Sequence
from casehub.loader.mistakes import Mistakes, instead
from casehub.loader.vocabulary import SECTIONS, Key, Takes

T = TypeVar("T")
_SIMPLE: Final = (
    Takes.TEXT, Takes.INTEGER, Takes.NUMBER, Takes.FLAG, Takes.DURATION, Takes.CHOICE, Takes.NAMES,
)  # fmt: skip


class Section:
    """A mapping whose keys are known. `values`: those of simple kinds, as Python has them; others are nodes."""

    def __init__(self, node: Mapping, subject: str, values: dict[str, Any]) -> None:
        self.node = node
        self.subject = subject
        self.values = values

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key; `default` where it is not given, or is wrong."""
        return self.values.get(key, default)

    def only(self, *keys: str) -> dict[str, Any]:
        """Those of these keys that are given."""
        return {key: self.values[key] for key in keys if key in self.values}

    def value(self, key: str) -> Node:
        """The node of a key that is given."""
        return self.node.values[key]


class SectionReader:
    """Reads sections of one file."""

    def __init__(self, mistakes: Mistakes) -> None:
        self.mistakes = mistakes
        self.lost = False
        """Whether a key was unknown of which more depends than the key: what follows from that is not worth telling."""

    def section(self, node: Node, name: str, subject: str, keys: Mapped[str, Key] | None = None) -> Section | None:
        """A mapping by its section of the vocabulary; None where there is no mapping."""
        keys = SECTIONS[name] if keys is None else keys
        if not isinstance(node, Mapping):
            self.expected(node, subject, f"a mapping with {', '.join(list(keys)[:4])}{' ...' if len(keys) > 4 else ''}")
            return None
        values: dict[str, Any] = {}
        for key, value in node.entries():
            known = keys.get(key.text)
            if known is None:
                self.mistakes.note(
                    key.place, subject or "the definition", f"{key.text!r} is no key of it", instead(key.text, keys)
                )
                self.lost |= name in ("definition", "worker")
                continue
            found = self._value(value, known, f"{subject}.{key.text}" if subject else key.text)
            if found is not None:
                values[key.text] = found
        for each, key_ in keys.items():
            if key_.required and each not in node.values and not set(node.values) - set(keys):
                self.mistakes.note(
                    node.place, subject or "the definition", f"lacks {each!r}", f"add {each}: {key_.takes}"
                )
        return Section(node, subject, values)

    def expected(self, node: Node, subject: str, what: str) -> None:
        """Note that something else was expected here."""
        remedy = "write it"
        if isinstance(node, Scalar) and node.value == "":
            self.mistakes.note(
                node.place, subject, f"is empty, and {what} was expected", "give it, or leave the key out"
            )
            return
        if isinstance(node, Scalar) and node.value is None:
            remedy = "give it, or leave the key out"
        elif isinstance(node, Scalar) and what.startswith(("text", "a name")):
            remedy = f'put it in quotes: "{node.text}"'
        elif isinstance(node, Scalar) and isinstance(node.value, str) and node.raw[:1] in ("'", '"'):
            remedy = "leave the quotes out"
        elif what == Takes.FLAG:
            remedy = "write true or false; yes, no, on and off are text"
        elif what == Takes.DURATION:
            remedy = "write numbers with units"
        self.mistakes.note(node.place, subject, f"is {node.kind}, and {what} was expected", remedy)

    def names(self, node: Node, subject: str) -> list[Scalar]:
        """The name, or the names of a list."""
        found = node.items if isinstance(node, Sequence) else [node]
        names: list[Scalar] = []
        for place, each in enumerate(found):
            if isinstance(each, Scalar) and isinstance(each.value, str):
                names.append(each)
            else:
                self.expected(each, f"{subject}[{place}]" if isinstance(node, Sequence) else subject, "a name")
        return names

    def fact_name(self, name: Scalar, subject: str) -> bool:
        """Whether a key can name a fact; noted where it cannot."""
        if name.text.isidentifier() and not keyword.iskeyword(name.text):
            return True
        self.mistakes.note(
            name.place,
            subject,
            f"{name.text!r} is no name of a fact",
            "use letters, digits and underscores, and no word of Python",
        )
        return False

    def text(self, node: Node, subject: str) -> str | None:
        """Text; noted where it is something else."""
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
            return node.value
        self.expected(node, subject, "text")
        return None

    def simple(self, node: Node, takes: Takes, subject: str) -> Any:
        """The value of a node of a simple kind; None, and noted, where it is something else."""
        return self._value(node, Key(takes, ""), subject)

    def one(self, section: Section, key: str, kind: str) -> Section | None:
        """The section under a key, if it is there."""
        subject = f"{section.subject}.{key}" if section.subject else key
        return self.section(section.value(key), kind, subject) if key in section else None

    def noting(self, section: Section, make: Callable[[], T]) -> T | None:
        """What `make` makes; a value that it refuses is noted at its key."""
        try:
            return make()
        except SettingsError as error:
            said = re.sub(r"^\w+\(.*?\): ", "", str(error))
            reason, _, remedy = said.partition("; ")
            match = re.search(r"\(?(\w+)=", str(error))
            key = match[1] if match and match[1] in section.node.values else ""
            place = section.value(key).place if key else section.node.place
            self.mistakes.note(
                place, f"{section.subject}.{key}" if key else section.subject, reason, remedy or "give another value"
            )
            return None

    def _value(self, node: Node, key: Key, subject: str) -> Any:
        if key.takes is Takes.ANYTHING:
            return node
        if key.takes not in _SIMPLE:
            if isinstance(node, Scalar) and node.value is None:
                self.expected(node, subject, key.takes)
                return None
            return node
        if key.takes is Takes.TEXT:
            return self.text(node, subject)
        if key.takes is Takes.NAMES:
            return [name.text for name in self.names(node, subject)]
        if key.takes is Takes.CHOICE:
            return self._choice(node, key.choices, subject)
        value = node.value if isinstance(node, Scalar) else None
        if key.takes is Takes.FLAG:
            fits = isinstance(value, bool)
        elif key.takes is Takes.INTEGER:
            fits = isinstance(value, int) and not isinstance(value, bool)
        elif key.takes is Takes.NUMBER:
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        else:
            return self._duration(node, subject)
        if not fits:
            self.expected(node, subject, key.takes)
            return None
        return value

    def _choice(self, node: Node, choices: Sequenced[str], subject: str) -> str | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.expected(node, subject, f"one of {', '.join(choices)}")
            return None
        if node.value not in choices:
            self.mistakes.note(node.place, subject, f"{node.value!r} is no choice", instead(node.value, choices))
            return None
        return node.value

    def _duration(self, node: Node, subject: str) -> str | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.expected(node, subject, Takes.DURATION)
            return None
        try:
            duration(node.value)
        except SettingsError:
            self.mistakes.note(
                node.place,
                subject,
                f"{node.value!r} is no duration",
                "write numbers with units, such as 90s, 2h30m or 7d",
            )
            return None
        return node.value
