"""A YAML text as a tree in which everything knows its line and column (YAML 1.2: `on` and `no` are text).

Read from the parser's events, not from a loader: no tag makes an object, an alias is counted, and a key that stands
twice is seen.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from casehub.loader.mistakes import Mistakes, Place
from casehub.values import Plain

MAX_SIZE: Final = 1_048_576
"""Characters of a file."""
MAX_NODES: Final = 50_000
"""Values of a file, each alias counted with all that it stands for."""
MAX_DEPTH: Final = 32
"""Levels of nesting."""

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, Plain]] = {"": None, "~": None}
for _word, _meant in (("null", None), ("true", True), ("false", False)):
    _WORDS.update({_word: _meant, _word.capitalize(): _meant, _word.upper(): _meant})


@dataclass(slots=True, eq=False)
class Node(ABC):
    """A value of the document. `place`: where it begins; `size`: how many values it holds, itself among them."""

    place: Place
    size: int = 1

    @abstractmethod
    def plain(self) -> Plain:
        """It as JSON has it."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """What it is, in a word for messages."""


@dataclass(slots=True, eq=False)
class Scalar(Node):
    """Text, a number, true, false or null. `text`: as it was written, without quotes; `raw`: with them."""

    text: str = ""
    value: Plain = None
    raw: str = ""

    def plain(self) -> Plain:
        return self.value

    @property
    def kind(self) -> str:
        if self.value is None:
            return "nothing"
        if isinstance(self.value, bool):
            return f"the boolean {self.text}"
        return f"the text {_short(self.text)!r}" if isinstance(self.value, str) else f"the number {_short(self.text)}"

    def inside(self, line: int, column: int) -> Place:
        """The place of a character of its text, by line and column from 1; its own begin where that cannot be told."""
        if self.raw[:1] in ("|", ">"):
            lines = self.raw.split("\n")[1:]
            if self.raw[0] == "|" and line <= len(lines):
                indent = next((len(each) - len(each.lstrip(" ")) for each in lines if each.strip()), 0)
                return Place(self.place.file, self.place.line + line, indent + column)
            return self.place
        if line > 1 or "\n" in self.raw:
            return self.place
        start = self.raw.find(self.text)
        return (
            self.place if start < 0 else Place(self.place.file, self.place.line, self.place.column + start + column - 1)
        )


@dataclass(slots=True, eq=False)
class Sequence(Node):
    """A list."""

    items: list[Node] = field(default_factory=list[Node])

    def plain(self) -> Plain:
        return [item.plain() for item in self.items]

    @property
    def kind(self) -> str:
        return "a list"


@dataclass(slots=True, eq=False)
class Mapping(Node):
    """Keys with their values, in the order of the text. `keys`: the nodes of the keys by their text."""

    keys: dict[str, Scalar] = field(default_factory=dict[str, Scalar])
    values: dict[str, Node] = field(default_factory=dict[str, Node])

    def plain(self) -> Plain:
        return {name: node.plain() for name, node in self.values.items()}

    @property
    def kind(self) -> str:
        return "a mapping"

    def entries(self) -> Iterator[tuple[Scalar, Node]]:
        """Key nodes with their values."""
        for name, node in self.values.items():
            yield self.keys[name], node


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """Nothing more can be read; the mistake is noted."""


def read(text: str, mistakes: Mistakes) -> Node | None:
    """The document's tree. Mistakes are noted; None when nothing could be read."""
    top = Place(mistakes.file, 1, 1)
    if len(text) > MAX_SIZE:
        mistakes.note(top, "the file", f"has {len(text):,} characters, and {MAX_SIZE:,} are the most", "split it")
        return None
    tab = _indenting_tab(text)
    if tab is not None:
        mistakes.note(
            Place(mistakes.file, *tab), "the indentation", "has a tab, and YAML indents by spaces alone",
            "replace the tab by spaces",
        )  # fmt: skip
        return None
    try:
        return _Composer(text, mistakes).document()
    except _Refused:
        return None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = top if mark is None else Place(mistakes.file, mark.line + 1, mark.column + 1)
        mistakes.note(place, "YAML", *_told(error, text, place))
        return None
    except YAMLError as error:  # a character that no YAML may have
        at = getattr(error, "position", 0)
        line = text.count("\n", 0, at) + 1
        place = Place(mistakes.file, line, at - (text.rfind("\n", 0, at) + 1) + 1)
        mistakes.note(
            place, "YAML", f"has the character {text[at : at + 1]!r}", "remove it, or write it escaped in double quotes"
        )
        return None


class _Composer:
    """Makes nodes of the parser's events."""

    def __init__(self, text: str, mistakes: Mistakes) -> None:
        self._text = text
        self._mistakes = mistakes
        self._events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
        self._anchors: dict[str, Node] = {}
        self._count = 0

    def document(self) -> Node | None:
        found: Node | None = None
        documents = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._note(event, "the file", "has a second document", "write one definition in a file")
                    raise _Refused
                if event.version is not None and tuple(event.version) != (1, 2):
                    self._note(
                        event, "YAML", "is asked to be of another version", "remove the %YAML line; this is YAML 1.2"
                    )
                    raise _Refused
                found = self._node(next(self._events), 1)
        return found

    def _note(self, event: Event, subject: str, reason: str, remedy: str) -> None:
        self._mistakes.note(self._place(event), subject, reason, remedy)

    def _place(self, event: Event) -> Place:
        return Place(self._mistakes.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: Any, depth: int) -> Node:
        place = self._place(event)
        if depth > MAX_DEPTH:
            self._note(event, "the document", f"is nested deeper than {MAX_DEPTH} levels", "write it flatter")
            raise _Refused
        if isinstance(event, AliasEvent):
            return self._alias(event)
        self._counted(event, 1)
        if event.ctag is not None and str(event.ctag) != "!":
            self._note(
                event,
                "a tag",
                f"{self._tag(event)} is given, and definitions have none",
                "remove the tag; put text that looks like a number in quotes",
            )
        node: Node
        if isinstance(event, ScalarEvent):
            raw = self._text[event.start_mark.index : event.end_mark.index]
            quoted = event.style is not None and event.style != ""
            node = Scalar(place, 1, event.value, event.value if quoted else self._resolved(event), raw)
        elif isinstance(event, SequenceStartEvent):
            node = self._sequence(place, depth)
        elif isinstance(event, MappingStartEvent):
            node = self._mapping(place, depth)
        else:  # the parser gives nothing else here
            raise _Refused
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None:
            self._note(
                event,
                "an alias",
                f"*{event.anchor} stands for nothing",
                f"write &{event.anchor} at what it stands for, above it",
            )
            raise _Refused
        self._counted(event, node.size)
        return node

    def _counted(self, event: Event, size: int) -> None:
        self._count += size
        if self._count > MAX_NODES:
            self._note(
                event,
                "the document",
                f"has more than {MAX_NODES:,} values, aliases counted in full",
                "split it, or leave aliases out",
            )
            raise _Refused

    def _tag(self, event: Any) -> str:
        return self._text[event.start_mark.index : event.end_mark.index].split()[0]

    def _resolved(self, event: Any) -> Plain:
        text: str = event.value
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text) and len(text) <= 64:
            return int(text)
        if _NUMBER.fullmatch(text):
            number = float(text)
            if number in (float("inf"), float("-inf")):
                self._note(event, "a number", f"{text} is too large", "write it as text, in quotes")
                return 0
            return number
        return text

    def _sequence(self, place: Place, depth: int) -> Sequence:
        found = Sequence(place)
        for event in self._events:
            if isinstance(event, SequenceEndEvent):
                break
            item = self._node(event, depth + 1)
            found.items.append(item)
            found.size += item.size
        return found

    def _mapping(self, place: Place, depth: int) -> Mapping:
        found = Mapping(place)
        for event in self._events:
            if isinstance(event, MappingEndEvent):
                break
            key = self._node(event, depth + 1)
            value = self._node(next(self._events), depth + 1)
            found.size += key.size + value.size
            if not isinstance(key, Scalar):
                self._mistakes.note(key.place, "a key", f"is {key.kind}, and keys are names", "write a name")
            elif key.text == "<<":
                self._mistakes.note(
                    key.place,
                    "a key",
                    "is '<<', which YAML 1.2 does not merge by",
                    "write the keys out, or give the whole value as an alias",
                )
            elif key.text in found.values:
                first = found.keys[key.text].place
                self._mistakes.note(
                    key.place,
                    f"key {key.text!r}",
                    f"stands twice; the first is in line {first.line}",
                    "remove one of them",
                )
            else:
                found.keys[key.text], found.values[key.text] = key, value
        return found


def _indenting_tab(text: str) -> tuple[int, int] | None:
    """Line and column of the first tab in an indentation."""
    found = re.search(r"^ *\t[ \t]*(?=[^\s#])", text, re.MULTILINE)
    if found is None:
        return None
    at = text.index("\t", found.start())
    return text.count("\n", 0, at) + 1, at - found.start() + 1


def _told(error: MarkedYAMLError, text: str, place: Place) -> tuple[str, str]:
    """What the parser did not like, and what to do."""
    problem = str(error.problem or error.context or "cannot be read")
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if "mapping values are not allowed" in problem:
        return "has a ':' where no key can be", "indent the keys of one mapping alike, and put text with ': ' in quotes"
    if "cannot start any token" in problem:
        return f"has {line[place.column - 1 : place.column]!r} where a value begins", "put the text in quotes"
    if "end of stream" in problem or "stream end" in problem:
        opened = error.context_mark
        where = f" that line {opened.line + 1} opens" if opened is not None else ""
        return f"ends inside of a quotation or a bracket{where}", "close it"
    if "found '<scalar>'" in problem:
        return (
            "has text behind a value in quotes",
            "put the whole value in single quotes, and use double ones inside of it",
        )
    if problem.startswith("expected ',' or '}'") and line[place.column - 1 : place.column] == "[":
        return "has a '[' within braces", "put the text in quotes, such as 'list[string]'"
    if "expected <block end>" in problem:
        return "is not indented like what is before it", "indent the keys of one mapping alike"
    return f"cannot be read here: {problem}", "mend the line"


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
