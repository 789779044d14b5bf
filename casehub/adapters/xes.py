"""Event logs in XES, the format that process-mining tools exchange: read and written a trace at a time.

The terms are those of XES (IEEE 1849-2016, eXtensible Event Stream; XES 1.0 is read as well). A *log* holds *traces*,
a trace is one case and holds *events* in their order, and all three carry *attributes*: a key and a typed value.
Four attributes have a meaning here, which their extensions give them:

    concept:name    Concept         of a trace: the case; of an event: the activity
    time:timestamp  Time            when the event happened
    org:resource    Organizational  who did it
    org:role        Organizational  in which role

Reading holds one trace in memory, however long the log is, and takes nothing on trust: what an unknown file may cost
is bounded by `XesLimits`, and document type definitions, entities and external references are refused.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler, property_interning_dict
from xml.sax.xmlreader import AttributesImpl

from defusedxml.common import DefusedXmlException  # type: ignore[import-untyped, unused-ignore]
from defusedxml.expatreader import DefusedExpatParser  # type: ignore[import-untyped, unused-ignore]

from casehub.errors import CaseHubError

XesValue = str | datetime | int | float | bool
"""The value of an attribute. XES's `id` (a UUID) is a `str`; a `datetime` has an offset."""


class XesError(CaseHubError):
    """A log that cannot be read or written; the message says where, why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XesEvent:
    """One thing that happened in a case.

    `at` has an offset. `attributes` are all the others, without the four that have a field of their own.
    """

    activity: str
    at: datetime
    resource: str | None = None
    role: str | None = None
    attributes: Mapping[str, XesValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One case: its name, its events in the order of the log, and its attributes other than the name."""

    case: str
    events: Sequence[XesEvent]
    attributes: Mapping[str, XesValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class XesLimits:
    """What one log may cost. Bytes are counted after decompression, and looked at every 64 KiB."""

    total_bytes: int = 2**31
    """Bytes of the whole log; like the number of its traces they cost time, not memory."""
    traces: int = 10_000_000
    trace_bytes: int = 2**26
    """Bytes of one trace. This bounds the memory: an open trace takes up to about ten times its bytes."""
    events_per_trace: int = 100_000
    attributes_per_element: int = 1_000
    """Attributes of one trace or event."""
    value_chars: int = 65_536
    """Characters of one key or one value."""
    depth: int = 32
    """Elements inside each other; an attribute of an event is at 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XesSummary:
    """What was written. `replaced` counts the characters that XML 1.0 cannot hold; U+FFFD stands for each of them."""

    traces: int
    events: int
    replaced: int


DEFAULT_LIMITS: Final = XesLimits()
_CHUNK: Final = 65_536
_MAX_NAMES: Final = 1_000  # different names of elements and XML attributes: XES has about 30, and the parser keeps all
_BYTES_A_CHAR: Final = 20  # at most: `&#x10FFFF;` in UTF-16


def read_traces(path: Path, *, limits: XesLimits = DEFAULT_LIMITS) -> Iterator[Trace]:
    """The traces of the log in `path`, in its order; a name that ends in `.gz` is decompressed on the way.

    Every trace needs a `concept:name`, every event a `concept:name` and a `time:timestamp`. A timestamp without an
    offset is taken as UTC; digits after the microseconds are cut off. Of a key that comes twice in one element the
    last value counts. Not read: the log's own attributes, declarations (extensions, classifiers, globals: an event
    gets no default from them), what is nested in an attribute, lists and containers, and events outside of a trace,
    which belong to no case. Prefixes and namespaces of elements do not matter.

    Raises `OSError` for a file that cannot be opened, `XesError` for one that is damaged, is no XES or is beyond a
    limit. The traces that are complete before the fault come first.
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        reader = _Reader(path, limits)
        fault: XesError | None = None
        chunk: bytes | None = None
        while chunk != b"" and fault is None:
            try:
                chunk = file.read(_CHUNK)
                reader.feed(chunk)
            except XesError as error:
                fault = error
            except (SAXParseException, EOFError, gzip.BadGzipFile, zlib.error, LookupError, ValueError) as error:
                fault = reader.fault(*_diagnosis(error))
            yield from reader.complete
            reader.complete.clear()
        if fault is not None:
            raise fault


def write_log(
    out: BinaryIO | Path, traces: Iterable[Trace], *, attributes: Mapping[str, XesValue] | None = None
) -> XesSummary:
    """Write `traces` as a log with these attributes (none unless given), as UTF-8, and say how much it was.

    A path whose name ends in `.gz` is compressed; it gets its content only when all is written, so that it may be
    the very file that `traces` is being read from. A stream is left open. Timestamps keep their offset and their
    instant to the microsecond; one without an offset is written as UTC. An `int` of more than 64 bits, which XES
    does not have, is written as a string. Raises `XesError` for a value of another type, `OSError` as files do.
    """
    if not isinstance(out, Path):
        return _write(out.write, traces, attributes or {})
    part = out.with_name(f"{out.name}.part")
    try:
        with part.open("wb") as file, _gzipped(file) if out.suffix == ".gz" else nullcontext(file) as target:
            summary = _write(target.write, traces, attributes or {})
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return summary


def _date(text: str) -> datetime:
    at = datetime.fromisoformat(text.strip())
    at = at.replace(tzinfo=at.tzinfo or UTC)
    at.astimezone(UTC)  # an OverflowError for an instant that UTC's years 1 to 9999 do not have
    return at


_READ: Final[Mapping[str, Callable[[str], XesValue]]] = {
    "string": str,
    "id": str,
    "date": _date,
    "int": lambda text: int(text.replace("_", "?")),  # an underscore is Python's, not XES's
    "float": lambda text: float(text.replace("_", "?")),
    "boolean": lambda text: {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()],
}
_SKIPPED: Final = frozenset({"list", "container"})
_CONTAINERS: Final = ("log", "trace", "event", None)
_SKIPPED_IN_LOG: Final = _SKIPPED | {"extension", "global", "classifier", "event", *_READ}


class _Reader(ContentHandler):
    """Makes traces of a document that is fed in pieces; what is complete waits in `complete`.

    `level` counts the open containers (log, trace, event) and `depth` all open elements: an element whose parent is
    the innermost container is looked at, one further inside is only counted.
    """

    def __init__(self, path: Path, limits: XesLimits) -> None:
        super().__init__()
        self.path, self.limits = path, limits
        self.complete: list[Trace] = []
        self.traces = self.level = self.depth = 0
        self.trace: dict[str, XesValue] = {}
        self.events: list[XesEvent] = []
        self.attributes = self.trace  # of the innermost container
        self.size = self.began = self.moved = 0  # bytes: so far, where the trace began, where the parser last moved
        self.position: tuple[int, int | None] = (0, 0)
        self.names: dict[str, str] = {}
        self.parser = DefusedExpatParser(forbid_dtd=True, forbid_entities=True, forbid_external=True)
        self.parser.setProperty(property_interning_dict, self.names)
        self.parser.setContentHandler(self)

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of the document; an empty one ends it."""
        self.size += len(chunk)
        if self.size > self.limits.total_bytes:
            raise self.beyond("total_bytes", "bytes")
        self.parser.feed(chunk)
        if not chunk:
            self.parser.close()
            return
        position = (self.parser.getLineNumber(), self.parser.getColumnNumber())
        if position != self.position:
            self.position, self.moved = position, self.size
        elif self.size - self.moved > _BYTES_A_CHAR * self.limits.value_chars:
            raise self.beyond("value_chars", "characters in one piece")  # the parser still collects it
        if self.level > 1 and self.size - self.began > self.limits.trace_bytes:
            raise self.beyond("trace_bytes", "bytes in one trace")
        if len(self.names) > _MAX_NAMES:
            raise self.fault(f"more than {_MAX_NAMES} different names of elements", "export it as XES")

    def startElement(self, name: str, attrs: AttributesImpl) -> None:  # noqa: N802 - SAX calls it
        self.depth += 1
        if self.depth > self.limits.depth:
            raise self.beyond("depth", "elements inside each other")
        if self.depth > self.level + 1:
            return
        tag = name.rpartition(":")[2]
        if tag == _CONTAINERS[self.level]:
            self.enter()
        elif self.level > 1 and tag in _READ:
            self.attribute(tag, attrs)
        elif self.level == 0 or tag not in (_SKIPPED_IN_LOG if self.level == 1 else _SKIPPED):
            raise self.fault(f"<{_short(name)}> has no place here", "export it as XES")

    def endElement(self, name: str) -> None:  # noqa: N802 - SAX calls it
        if self.depth == self.level:
            self.leave()
        self.depth -= 1

    def enter(self) -> None:
        """Open the next container."""
        if self.level == 1:
            if self.traces == self.limits.traces:
                raise self.beyond("traces", "traces")
            self.traces, self.began = self.traces + 1, self.size
            self.trace, self.events = {}, []
            self.attributes = self.trace
        elif self.level == 2:
            if len(self.events) == self.limits.events_per_trace:
                raise self.beyond("events_per_trace", "events in one trace")
            self.attributes = {}
        self.level += 1

    def leave(self) -> None:
        """Close the innermost container: it is complete."""
        if self.level == 3:
            event = self.attributes
            activity, at = _text(event, "concept:name"), event.pop("time:timestamp", None)
            if activity is None or not isinstance(at, datetime):
                missing = "concept:name (the activity)" if activity is None else "time:timestamp that is a <date>"
                raise self.fault(f"the event has no {missing}", "give it one")
            resource, role = _text(event, "org:resource"), _text(event, "org:role")
            self.events.append(XesEvent(activity=activity, at=at, resource=resource, role=role, attributes=event))
            self.attributes = self.trace
        elif self.level == 2:
            case = _text(self.trace, "concept:name")
            if case is None:
                raise self.fault("the trace has no concept:name (the case)", "give it one")
            self.complete.append(Trace(case=case, events=tuple(self.events), attributes=self.trace))
        self.level -= 1

    def attribute(self, tag: str, attrs: AttributesImpl) -> None:
        """Read one attribute of the innermost container."""
        key, value = attrs.get("key"), attrs.get("value")
        if key is None or value is None:
            raise self.fault(f"a <{tag}> without {'key' if key is None else 'value'}", "give it both")
        if max(len(key), len(value)) > self.limits.value_chars:
            raise self.beyond("value_chars", f"characters in {_short(key)!r}")
        try:
            self.attributes[key] = _READ[tag](value)
        except (ArithmeticError, LookupError, ValueError):
            raise self.fault(f"{_short(key)!r} is no {tag}: {_short(value)!r}", "correct it") from None
        if len(self.attributes) > self.limits.attributes_per_element:
            raise self.beyond("attributes_per_element", f"attributes in one {_CONTAINERS[self.level - 1]}")

    def fault(self, reason: str, remedy: str) -> XesError:
        """The error for what is wrong where the parser is now."""
        where = f"{self.path}, line {self.parser.getLineNumber()}"
        if self.level > 1:
            where += f", trace {self.traces} ({_short(str(self.trace.get('concept:name', 'unnamed')))})"
        if self.level > 2:
            where += f", event {len(self.events) + 1}"
        return XesError(f"{where}: {reason}; {remedy}")

    def beyond(self, limit: str, what: str) -> XesError:
        """The error for a limit that is reached."""
        reason = f"more than {getattr(self.limits, limit):,} {what}"
        return self.fault(reason, f"if it is meant to be so large, read it with a higher XesLimits({limit}=...)")


def _diagnosis(error: Exception) -> tuple[str, str]:
    """Reason and remedy for what the decompressor and the parser raise."""
    match error:
        case DefusedXmlException():
            return "it declares a document type or an entity, which are refused", "remove the declaration"
        case EOFError() | gzip.BadGzipFile() | zlib.error():
            return f"the compressed file is cut off, damaged or no gzip ({error})", "copy it again, or name it .xes"
        case SAXParseException():
            return f"this is not XML, or not all of it ({error.getMessage()})", "copy or export it again"
        case _:
            return f"the declared encoding cannot be read ({error})", "convert it to UTF-8"


def _text(attributes: dict[str, XesValue], key: str) -> str | None:
    """Take out the attribute `key` as text; some logs number their cases."""
    value = attributes.pop(key, None)
    return None if value is None else str(value)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"


def _gzipped(file: BinaryIO) -> gzip.GzipFile:
    """A stream that compresses into `file`, without name and time: equal logs are equal files."""
    return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)


_HEAD: Final = """\
<?xml version="1.0" encoding="UTF-8"?>
<log xes.version="1849.2016" xes.features="" xmlns="http://www.xes-standard.org/">
\t<extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>
\t<extension name="Time" prefix="time" uri="http://www.xes-standard.org/time.xesext"/>
\t<extension name="Organizational" prefix="org" uri="http://www.xes-standard.org/org.xesext"/>
\t<extension name="Lifecycle" prefix="lifecycle" uri="http://www.xes-standard.org/lifecycle.xesext"/>
\t<global scope="trace"><string key="concept:name" value="unknown"/></global>
\t<global scope="event">
\t\t<string key="concept:name" value="unknown"/>
\t\t<date key="time:timestamp" value="1970-01-01T00:00:00.000+00:00"/>
\t</global>
\t<classifier name="Activity" keys="concept:name"/>
"""
_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # production 2 of XML 1.0
_ESCAPES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)


def _write(write: Callable[[bytes], object], traces: Iterable[Trace], attributes: Mapping[str, XesValue]) -> XesSummary:
    trace_count = event_count = replaced = 0

    def put(text: str) -> None:
        nonlocal replaced
        text, count = _ILLEGAL.subn("\ufffd", text)
        replaced += count
        write(text.encode())

    put(_HEAD + _elements(attributes, "\t"))
    for trace in traces:
        trace_count += 1
        own: dict[str, XesValue] = {"concept:name": trace.case}
        put("\t<trace>\n" + _elements({**own, **trace.attributes, **own}, "\t\t"))
        for event in trace.events:
            event_count += 1
            own = {"concept:name": event.activity, "time:timestamp": event.at}
            who = {"org:resource": event.resource, "org:role": event.role}
            own |= {key: text for key, text in who.items() if text is not None}
            put("\t\t<event>\n" + _elements({**own, **event.attributes, **own}, "\t\t\t") + "\t\t</event>\n")
        put("\t</trace>\n")
    put("</log>\n")
    return XesSummary(traces=trace_count, events=event_count, replaced=replaced)


def _elements(attributes: Mapping[str, XesValue], indent: str) -> str:
    """An element a line; characters that XML cannot hold are still in it."""
    lines = []
    for key, value in attributes.items():
        tag, text = _tag_and_text(key, value)
        lines.append(f'{indent}<{tag} key="{key.translate(_ESCAPES)}" value="{text.translate(_ESCAPES)}"/>\n')
    return "".join(lines)


def _tag_and_text(key: str, value: XesValue) -> tuple[str, str]:
    match value:
        case str():
            return "string", value
        case bool():
            return "boolean", "true" if value else "false"
        case int():
            return "int" if -(2**63) <= value < 2**63 else "string", int.__repr__(value)
        case float():
            text = float.__repr__(value)
            return "float", {"inf": "INF", "-inf": "-INF", "nan": "NaN"}.get(text, text)
        case datetime():
            return "date", _iso(value)
        case _:
            raise XesError(f"{_short(key)!r} is a {type(value).__name__}: use a str, int, float, bool or datetime")


def _iso(at: datetime) -> str:
    """The timestamp with milliseconds, or with microseconds if it has them, and an offset in whole minutes."""
    offset = at.utcoffset()
    if offset is None:
        at = at.replace(tzinfo=UTC)
    elif offset % timedelta(minutes=1):  # local time of before there were zones; XML's offsets are hours and minutes
        at = at.astimezone(UTC)
    return at.isoformat(timespec="microseconds" if at.microsecond % 1000 else "milliseconds")
