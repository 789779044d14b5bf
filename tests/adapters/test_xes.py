"""Reading and writing event logs in XES: what comes in, what is refused, what it costs, and what comes back."""

from __future__ import annotations

import gzip
import io
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("defusedxml", reason="the extra `xes` is not installed")

from casehub.adapters.xes import Trace, XesError, XesEvent, XesLimits, XesSummary, XesValue, read_traces, write_log
from casehub.errors import CaseHubError

REAL_LOG = Path(__file__).parents[3] / "shared" / "data" / "DomesticDeclarations.xes.gz"
needs_real_log = pytest.mark.skipif(not REAL_LOG.exists(), reason="the real log is not beside the repository")

NAME = '<string key="concept:name" value="pay"/>'
STAMP = '<date key="time:timestamp" value="2024-05-01T10:00:00.000+02:00"/>'
AT = datetime(2024, 5, 1, 8, tzinfo=UTC)


def event(extra: str = "", *, name: str = NAME, stamp: str = STAMP) -> str:
    return f"<event>{name}{stamp}{extra}</event>"


def trace(*events: str, case: str = "c1", extra: str = "") -> str:
    return f'<trace><string key="concept:name" value="{case}"/>{extra}{"".join(events)}</trace>'


def log(*inside: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1.0">{"".join(inside)}</log>'


Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes a file and returns its path."""

    def write(content: str | bytes, name: str = "log.xes") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def first_event(path: Path) -> XesEvent:
    return next(read_traces(path)).events[0]


def value_of(put: Put, element: str) -> XesValue:
    (value,) = first_event(put(log(trace(event(element))))).attributes.values()
    return value


def refusal(path: Path, limits: XesLimits | None = None) -> str:
    with pytest.raises(XesError) as caught:
        list(read_traces(path, limits=limits or XesLimits()))
    return str(caught.value)


def peak_memory(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# What comes in


def test_an_event_has_its_four_fields_and_the_other_attributes(put: Put) -> None:
    who = '<string key="org:resource" value="Ann"/><string key="org:role" value="CLERK"/>'
    path = put(log(trace(event(who + '<string key="lifecycle:transition" value="complete"/>'), case="order 7")))

    assert list(read_traces(path)) == [
        Trace(
            case="order 7",
            events=(
                XesEvent(
                    activity="pay",
                    at=AT,
                    resource="Ann",
                    role="CLERK",
                    attributes={"lifecycle:transition": "complete"},
                ),
            ),
        )
    ]


def test_resource_and_role_may_be_missing(put: Put) -> None:
    read = first_event(put(log(trace(event()))))
    assert (read.resource, read.role, read.attributes) == (None, None, {})


def test_a_trace_has_its_attributes_and_its_events_in_the_order_of_the_log(put: Put) -> None:
    names = [f'<string key="concept:name" value="{name}"/>' for name in "bac"]
    path = put(
        log(trace(*(event(name=name) for name in names), extra='<int key="variant" value="3"/>'), trace(case="c2"))
    )

    first, second = read_traces(path)

    assert [event.activity for event in first.events] == ["b", "a", "c"]
    assert first.attributes == {"variant": 3}
    assert (second.case, second.events) == ("c2", ())


@pytest.mark.parametrize(
    ("element", "value"),
    [
        ('<string key="k" value=" a &lt;b&gt; &amp; &quot;c&quot; &#10;"/>', ' a <b> & "c" \n'),
        ('<string key="k" value=""/>', ""),
        ('<int key="k" value="-42"/>', -42),
        ('<int key="k" value="9223372036854775807"/>', 2**63 - 1),
        ('<float key="k" value="3.5e-7"/>', 3.5e-7),
        ('<float key="k" value="INF"/>', math.inf),
        ('<float key="k" value="-Infinity"/>', -math.inf),
        ('<boolean key="k" value="true"/>', True),
        ('<boolean key="k" value="False"/>', False),
        ('<boolean key="k" value="1"/>', True),
        ('<id key="k" value="6ba7b810-9dad-11d1-80b4-00c04fd430c8"/>', "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ('<date key="k" value="2024-05-01T08:00:00Z"/>', AT),
    ],
)
def test_a_value_has_the_type_that_its_element_says(put: Put, element: str, value: XesValue) -> None:
    read = value_of(put, element)
    assert (read, type(read)) == (value, type(value))


def test_a_float_can_be_not_a_number(put: Put) -> None:
    value = value_of(put, '<float key="k" value="NaN"/>')
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("text", "micros", "hours"),
    [
        ("2024-05-01T10:00:00+02:00", 0, 2),
        ("2024-05-01T08:00:00Z", 0, 0),
        ("2024-05-01T08:00:00", 0, 0),
        ("2024-05-01T03:00:00.5-05:00", 500_000, -5),
        ("2024-05-01T08:00:00.12Z", 120_000, 0),
        ("2024-05-01T08:00:00.123", 123_000, 0),
        ("2024-05-01T08:00:00.1234+00:00", 123_400, 0),
        ("2024-05-01T08:00:00.12345Z", 123_450, 0),
        ("2024-05-01T08:00:00.123456Z", 123_456, 0),
        ("2024-05-01T08:00:00.1234567Z", 123_456, 0),
        ("2024-05-01T08:00:00.12345678Z", 123_456, 0),
        (" 2024-05-01T10:00:00.123456789+02:00 ", 123_456, 2),
    ],
)
def test_a_timestamp_keeps_instant_and_offset_and_is_utc_without_one(
    put: Put, text: str, micros: int, hours: int
) -> None:
    at = first_event(put(log(trace(event(stamp=f'<date key="time:timestamp" value="{text}"/>'))))).at
    assert at == AT + timedelta(microseconds=micros)
    assert at.utcoffset() == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("opening", "prefix"),
    [
        ("<log>", ""),
        ('<log xmlns="http://www.xes-standard.org/">', ""),
        ('<log xmlns="http://www.xes-standard.org">', ""),
        ('<x:log xmlns:x="http://www.xes-standard.org/">', "x:"),
    ],
)
def test_namespaces_and_prefixes_do_not_matter(put: Put, opening: str, prefix: str) -> None:
    inside = trace(event('<int key="n" value="1"/>')).replace("</", "\0").replace("<", f"<{prefix}")
    path = put(opening + inside.replace("\0", f"</{prefix}") + f"</{prefix}log>")
    assert [(read.case, read.events[0].attributes) for read in read_traces(path)] == [("c1", {"n": 1})]


def test_declarations_log_attributes_and_events_outside_of_traces_are_skipped(put: Put) -> None:
    path = put(
        log(
            '<extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>',
            '<global scope="event"><string key="org:role" value="DEFAULT"/></global>',
            '<classifier name="Activity" keys="concept:name"/>',
            '<string key="concept:name" value="the log"/><list key="l"/><int key="n" value="many"/>',
            trace(event()),
            event(),
            "<event/>",
        )
    )
    (read,) = read_traces(path)
    assert read == Trace(case="c1", events=(XesEvent(activity="pay", at=AT),))


def test_what_is_nested_in_an_attribute_is_skipped_and_so_are_lists_and_containers(put: Put) -> None:
    nested = (
        '<string key="n" value="outer"><int key="deep" value="1"><int key="concept:name" value="2"/></int></string>'
    )
    lists = '<list key="l"><values><int key="i" value="1"/></values></list><container key="c"><event/></container>'
    path = put(log(trace(event(nested + lists), extra=nested + lists)))

    (read,) = read_traces(path)

    assert (read.case, read.attributes) == ("c1", {"n": "outer"})
    assert (read.events[0].activity, read.events[0].attributes) == ("pay", {"n": "outer"})


def test_attributes_of_a_trace_may_come_after_its_events(put: Put) -> None:
    late = '<string key="concept:name" value="late"/><int key="n" value="1"/>'
    (read,) = read_traces(put(log(f"<trace>{event()}{late}</trace>")))
    assert (read.case, read.attributes, read.events[0].attributes) == ("late", {"n": 1}, {})


def test_a_case_may_be_named_by_a_number(put: Put) -> None:
    (read,) = read_traces(put(log('<trace><int key="concept:name" value="173688"/></trace>')))
    assert read.case == "173688"


def test_of_a_key_that_comes_twice_the_last_value_counts(put: Put) -> None:
    assert value_of(put, '<int key="n" value="1"/><string key="n" value="two"/>') == "two"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "iso-8859-1", "cp1252"])
def test_the_encoding_is_taken_from_the_declaration_or_the_byte_order_mark(put: Put, encoding: str) -> None:
    declared = encoding.removesuffix("-sig")
    path = put(log(trace(case="Zoë")).replace("UTF-8", declared).encode(encoding))
    assert [read.case for read in read_traces(path)] == ["Zoë"]


@pytest.mark.parametrize("order", ["le", "be"])
def test_utf_16_is_read_in_both_orders_without_a_declaration(put: Put, order: str) -> None:
    text = "\ufeff" + log(trace(case="Zoë 😀")).partition("\n")[2]
    path = put(text.encode(f"utf-16-{order}"))
    assert [read.case for read in read_traces(path)] == ["Zoë 😀"]


def test_a_gz_file_is_decompressed_whatever_its_members(put: Put) -> None:
    content = log(trace(event())).encode()
    path = put(gzip.compress(content[:50]) + gzip.compress(content[50:]), "log.xes.gz")
    assert [read.case for read in read_traces(path)] == ["c1"]


# What is refused


def test_a_refusal_is_an_error_of_casehub() -> None:
    assert issubclass(XesError, CaseHubError)


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        next(read_traces(tmp_path / "none.xes"))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (event(name=""), "no concept:name"),
        (event(stamp=""), "no time:timestamp"),
        (
            event(stamp='<string key="time:timestamp" value="2024-05-01T08:00:00Z"/>'),
            "no time:timestamp that is a <date>",
        ),
        (event(stamp='<date key="time:timestamp" value="yesterday"/>'), "'time:timestamp' is no date: 'yesterday'"),
        (event('<date key="k" value="2024-13-01T00:00:00Z"/>'), "'k' is no date"),
        (event('<date key="k" value="0001-01-01T00:00:00+14:00"/>'), "'k' is no date"),
        (event('<int key="k" value="1.5"/>'), "'k' is no int: '1.5'"),
        (event('<int key="k" value="1_000"/>'), "'k' is no int"),
        pytest.param(event(f'<int key="k" value="{"9" * 5000}"/>'), "'k' is no int", id="int of 5000 digits"),
        (event('<float key="k" value="1,5"/>'), "'k' is no float: '1,5'"),
        (event('<float key="k" value="1_0.5"/>'), "'k' is no float"),
        (event('<boolean key="k" value="yes"/>'), "'k' is no boolean: 'yes'"),
        (event('<string value="v"/>'), "a <string> without key"),
        (event('<string key="k"/>'), "a <string> without value"),
        (event('<sting key="k" value="v"/>'), "<sting> has no place here"),
        (event("<event/>"), "<event> has no place here"),
    ],
)
def test_a_bad_event_is_refused_with_file_line_trace_and_event(put: Put, bad: str, reason: str) -> None:
    path = put(log("\n", trace(case="good"), "\n", trace("\n", event(), "\n", bad, case="c9")))
    message = refusal(path)
    assert message.startswith(f"{path}, line 6, trace 2 (c9), event 2: ")
    assert reason in message


def test_a_trace_without_a_name_is_refused_with_its_number(put: Put) -> None:
    message = refusal(put(log(trace(), f"<trace>{event()}</trace>")))
    assert "line 2, trace 2 (unnamed): the trace has no concept:name" in message


@pytest.mark.parametrize(
    "content",
    [
        "<html/>",
        "<list/>",
        "<trace/>",
        "<log><log/></log>",
        "<log><trase/></log>",
        "<log><trace><trace/></trace></log>",
        "<log:/>",
    ],
)
def test_a_document_that_is_no_log_is_refused(put: Put, content: str) -> None:
    assert "has no place here" in refusal(put(content))


def test_the_traces_that_are_complete_before_a_fault_come_first(put: Put) -> None:
    reading = read_traces(put(log(trace(case="a"), trace(case="b"), "<trace><event/></trace>", trace(case="d"))))
    assert [next(reading).case, next(reading).case] == ["a", "b"]
    with pytest.raises(XesError, match="trace 3"):
        next(reading)
    assert list(reading) == []


@pytest.mark.parametrize(
    "content", ["", " ", "order;activity\n1;pay\n", "<log>", "<log></trace>", "<log/><log/>", "\x00"]
)
def test_what_is_not_xml_is_refused(put: Put, content: str) -> None:
    assert "not XML" in refusal(put(content))


def test_a_log_that_is_cut_off_is_refused_at_every_length(put: Put) -> None:
    whole = log(trace(event())).encode()
    for length in range(len(whole)):
        assert "not XML, or not all of it" in refusal(put(whole[:length]))


def test_a_gz_file_that_is_cut_off_is_refused_at_every_length(put: Put) -> None:
    whole = gzip.compress(log(trace(event())).encode())
    for length in range(1, len(whole)):
        assert "cut off, damaged or no gzip" in refusal(put(whole[:length], "log.xes.gz"))


@pytest.mark.parametrize("position", [0, 10, -8, -1], ids=["header", "data", "checksum", "length"])
def test_a_gz_file_with_a_wrong_byte_is_refused(put: Put, position: int) -> None:
    whole = bytearray(gzip.compress(log(trace(event())).encode()))
    whole[position] ^= 0x7F
    assert "cut off, damaged or no gzip" in refusal(put(bytes(whole), "log.xes.gz"))


def test_a_plain_file_that_is_named_gz_is_refused_with_what_to_do(put: Put) -> None:
    assert "or name it .xes" in refusal(put(log(), "log.xes.gz"))


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("UTF-8", "not well-formed"),
        ("UTF-16", "encoding specified in XML declaration is incorrect"),
        ("gb18030", "multi-byte encodings are not supported"),
        ("klingon", "unknown encoding"),
        ("hex", "not a text encoding"),
    ],
)
def test_a_wrong_encoding_is_refused(put: Put, declared: str, reason: str) -> None:
    path = put(log(trace(case="Zoë")).replace("UTF-8", declared).encode("iso-8859-1"))
    assert reason in refusal(path)


# What an attacker tries

opened: list[str] | None = None


def watch(name: str, arguments: tuple[object, ...]) -> None:
    if opened is not None and name in {"open", "socket.connect", "socket.getaddrinfo", "urllib.Request"}:
        opened.append(f"{name} {arguments[0]}")


sys.addaudithook(watch)  # cannot be taken away again; it does nothing while `opened` is None


@pytest.fixture
def openings() -> Iterator[list[str]]:
    """Every file and connection that is opened during the test."""
    global opened  # noqa: PLW0603 - the hook of the interpreter has no other way to get at it
    opened = []
    yield opened
    opened = None


LAUGHS = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))


@pytest.mark.parametrize(
    ("doctype", "use"),
    [
        ("<!DOCTYPE log>", ""),
        ('<!DOCTYPE log SYSTEM "file:///etc/passwd">', ""),
        ('<!DOCTYPE log PUBLIC "-//X//Y" "http://127.0.0.1:9/x.dtd">', ""),
        ('<!DOCTYPE log [<!ENTITY l0 "ha">' + LAUGHS + "]>", "&l9;"),
        ('<!DOCTYPE log [<!ENTITY a "' + "a" * 50_000 + '">]>', "&a;" * 10_000),
        ('<!DOCTYPE log [<!ENTITY x SYSTEM "file:///etc/passwd">]>', "&x;"),
        ('<!DOCTYPE log [<!ENTITY % p SYSTEM "http://127.0.0.1:9/evil.dtd"> %p;]>', ""),
        ('<!DOCTYPE log [<!ATTLIST string value CDATA "injected">]>', ""),
    ],
    ids=["bare", "system", "public", "laughs", "quadratic", "entity file", "parameter entity", "defaults"],
)
def test_a_document_type_is_refused_promptly_and_nothing_else_is_opened(
    put: Put, openings: list[str], doctype: str, use: str
) -> None:
    path = put(f'<?xml version="1.0"?>{doctype}<log>{use}<trace><string key="concept:name"/></trace></log>')
    openings.clear()

    begun = time.perf_counter()
    memory = peak_memory(lambda: refusal(path))

    assert "it declares a document type or an entity, which are refused" in refusal(path)
    assert time.perf_counter() - begun < 30
    assert memory < 4_000_000
    assert set(openings) == {f"open {path}"}


def test_an_entity_that_is_not_declared_is_refused(put: Put) -> None:
    assert "undefined entity" in refusal(put(log(trace(case="&x;"))))


def gz_bomb(head: str, filler: bytes, megabytes: int = 64) -> bytes:
    """A compressed log that swells, cut off: a reader that goes on to the end meets that fault, not its limit."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1) as packed:
        packed.write(head.encode())
        for _ in range(megabytes):
            packed.write(filler * (2**20 // len(filler)))
    return out.getvalue()[:-1000]


@pytest.mark.parametrize(
    ("head", "filler", "limits", "reached"),
    [
        ("<log>", b" ", XesLimits(total_bytes=10**6), "more than 1,000,000 bytes"),
        ("<log>", b"<event/>", XesLimits(total_bytes=10**6), "more than 1,000,000 bytes"),
        ("<log><trace>", b"\n", XesLimits(trace_bytes=10**6), "more than 1,000,000 bytes in one trace"),
        ('<log><trace><string key="k" value="', b"a", XesLimits(), "more than 65,536 characters in one piece"),
        ("<log><trace><", b"a", XesLimits(), "more than 65,536 characters in one piece"),
        ("<log><trace", b" ", XesLimits(), "more than 65,536 characters in one piece"),
        ("<log><!--", b"a\n", XesLimits(), "more than 65,536 characters in one piece"),
        ("<log><?x ", b"a", XesLimits(), "more than 65,536 characters in one piece"),
        ("<!DOCTYPE ", b"a", XesLimits(), "more than 65,536 characters in one piece"),
        ("<log>", b"<list>", XesLimits(), "more than 32 elements inside each other"),
    ],
)
def test_a_bomb_is_refused_while_it_is_decompressed_and_takes_no_memory(
    put: Put, head: str, filler: bytes, limits: XesLimits, reached: str
) -> None:
    path = put(gz_bomb(head, filler), "bomb.xes.gz")
    messages: list[str] = []

    memory = peak_memory(lambda: messages.append(refusal(path, limits)))

    assert reached in messages[0]
    assert memory < 8_000_000


def test_names_that_never_repeat_are_refused_because_the_parser_keeps_them(put: Put) -> None:
    names = "".join(f"<string key='k' value='v' x{n}=''/>" for n in range(10_000))
    assert "more than 1000 different names" in refusal(put(log(names)))


# Limits

THREE = log(
    *(trace(event('<list key="l"><values/></list>'), event('<int key="key" value="123456789"/>')) for _ in range(3))
)


@pytest.mark.parametrize(
    ("enough", "limit", "where"),
    [
        (XesLimits(total_bytes=len(THREE)), "total_bytes", "line 1:"),
        (XesLimits(traces=3), "traces", "line 2:"),
        (XesLimits(events_per_trace=2), "events_per_trace", "line 2, trace 1 (c1):"),
        (XesLimits(attributes_per_element=3), "attributes_per_element", "line 2, trace 1 (c1), event 2:"),
        (XesLimits(value_chars=29), "value_chars", "line 2, trace 1 (c1), event 1:"),
        (XesLimits(depth=5), "depth", "line 2, trace 1 (c1), event 1:"),
    ],
)
def test_a_limit_that_is_met_is_no_fault_and_one_less_names_place_limit_and_remedy(
    put: Put, enough: XesLimits, limit: str, where: str
) -> None:
    path = put(THREE)
    assert len(list(read_traces(path, limits=enough))) == 3

    lower = getattr(enough, limit) - 1
    message = refusal(path, replace(enough, **{limit: lower}))

    assert message.startswith(f"{path}, {where} more than {lower:,} ")
    assert message.endswith(f"read it with a higher XesLimits({limit}=...)")


def test_a_key_is_limited_like_a_value(put: Put) -> None:
    path = put(log(trace(event(f'<int key="{"k" * 100}" value="1"/>'))))
    assert "more than 99 characters" in refusal(path, XesLimits(value_chars=99))


def test_a_trace_is_limited_in_its_bytes_wherever_it_begins(put: Put) -> None:
    small, large = trace(event(), case="small"), trace(*[event()] * 3_000, case="large")
    path = put(log(small * 5_000, large))
    limits = XesLimits(trace_bytes=len(large) // 2)

    assert len(large) > 300_000
    assert "trace 5001 (large)" in refusal(path, limits)
    assert len(list(read_traces(path, limits=replace(limits, trace_bytes=len(large))))) == 5_001


def test_a_message_stays_short_whatever_is_in_the_log(put: Put) -> None:
    long = "x" * 60_000
    for bad in (event(f'<int key="{long}" value="{long}"/>'), event(f"<{long}/>")):
        assert len(refusal(put(log(trace(bad, case=long))))) < 700


# Streaming


@pytest.mark.slow
def test_reading_takes_no_more_memory_for_a_log_ten_times_as_long(tmp_path: Path) -> None:
    def memory_for(events: int) -> int:
        path = tmp_path / f"{events}.xes.gz"
        write_log(path, generated(events))
        read = 0

        def consume() -> None:
            nonlocal read
            read = sum(len(read_trace.events) for read_trace in read_traces(path))

        peak = peak_memory(consume)
        assert read == events
        return peak

    memory_for(500)  # what is allocated once and for all
    assert memory_for(50_000) < 1.2 * memory_for(5_000) + 100_000


def generated(events: int) -> Iterator[Trace]:
    for case in range(events // 5):
        happened = [
            XesEvent(activity=f"step {n}", at=AT + timedelta(seconds=n), attributes={"n": n, "note": f"{case} {n}"})
            for n in range(5)
        ]
        yield Trace(case=f"case {case}", events=happened)


def test_the_first_trace_is_there_before_the_rest_is_read(put: Put) -> None:
    path = put(log(trace(case="first"), *[trace(event())] * 2_000) + "this is not XML")
    reading = read_traces(path)
    assert next(reading).case == "first"
    with pytest.raises(XesError):
        list(reading)


def test_a_trace_is_written_before_the_next_one_is_asked_for() -> None:
    out = io.BytesIO()

    def traces() -> Iterator[Trace]:
        for case in "abc":
            yield Trace(case=case, events=())
            sizes.append(len(out.getvalue()))

    sizes: list[int] = []
    write_log(out, traces())
    assert all(before < after for before, after in pairwise(sizes))
    assert len(sizes) == 3


# What comes back


def test_a_log_says_what_process_mining_tools_look_for() -> None:
    out = io.BytesIO()
    write_log(out, [], attributes={"concept:name": "orders"})
    text = out.getvalue().decode()

    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<log xes.version="1849.2016"')
    for prefix in ("concept", "time", "org", "lifecycle"):
        assert f'prefix="{prefix}" uri="http://www.xes-standard.org/{prefix}.xesext"' in text
    assert '<global scope="trace"><string key="concept:name"' in text
    assert '<date key="time:timestamp" value="1970-01-01T00:00:00.000+00:00"/>' in text
    assert '<classifier name="Activity" keys="concept:name"/>' in text
    assert '<string key="concept:name" value="orders"/>' in text


@pytest.mark.parametrize(
    ("value", "element"),
    [
        ('<&>"\t\n\r', '<string key="k" value="&lt;&amp;&gt;&quot;&#9;&#10;&#13;"/>'),
        (True, '<boolean key="k" value="true"/>'),
        (7, '<int key="k" value="7"/>'),
        (-(2**63), '<int key="k" value="-9223372036854775808"/>'),
        (2**63, '<string key="k" value="9223372036854775808"/>'),
        (0.1, '<float key="k" value="0.1"/>'),
        (-math.inf, '<float key="k" value="-INF"/>'),
        (math.nan, '<float key="k" value="NaN"/>'),
        (AT, '<date key="k" value="2024-05-01T08:00:00.000+00:00"/>'),
        (AT.replace(microsecond=120_000), '<date key="k" value="2024-05-01T08:00:00.120+00:00"/>'),
        (AT.replace(microsecond=120_001), '<date key="k" value="2024-05-01T08:00:00.120001+00:00"/>'),
        (AT.replace(tzinfo=None), '<date key="k" value="2024-05-01T08:00:00.000+00:00"/>'),
        (
            AT.astimezone(timezone(timedelta(hours=-3, minutes=-30))),
            '<date key="k" value="2024-05-01T04:30:00.000-03:30"/>',
        ),
        (AT.astimezone(timezone(timedelta(seconds=1172))), '<date key="k" value="2024-05-01T08:00:00.000+00:00"/>'),
    ],
)
def test_a_value_is_written_as_its_element(value: XesValue, element: str) -> None:
    out = io.BytesIO()
    write_log(out, [], attributes={"k": value})
    assert f"\t{element}\n" in out.getvalue().decode()


def test_characters_that_xml_cannot_hold_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "log.xes"
    bad = XesEvent(activity="a\0b", at=AT, attributes={"k\x1f": "\ud800\ufffe\uffff ok \x7f\x85"})

    assert write_log(path, [Trace(case="\x08", events=[bad])]) == XesSummary(traces=1, events=1, replaced=6)

    (read,) = read_traces(path)
    assert (read.case, read.events[0].activity) == ("\ufffd", "a\ufffdb")
    assert read.events[0].attributes == {"k\ufffd": "\ufffd\ufffd\ufffd ok \x7f\x85"}


def test_a_value_of_another_type_is_refused_by_its_key() -> None:
    with pytest.raises(XesError, match="'k' is a NoneType: use a str, int"):
        write_log(io.BytesIO(), [Trace(case="c", events=(), attributes={"k": None})])  # type: ignore[dict-item]


def test_a_field_wins_over_an_attribute_of_the_same_key(tmp_path: Path) -> None:
    path = tmp_path / "log.xes"
    both = XesEvent(activity="pay", at=AT, role="CLERK", attributes={"concept:name": "x", "org:role": "y", "n": 1})
    write_log(path, [Trace(case="c", events=[both], attributes={"concept:name": "z"})])

    assert path.read_text().count("concept:name") == 5  # two globals, a classifier, a trace, an event
    (read,) = read_traces(path)
    assert (read.case, read.events[0]) == ("c", XesEvent(activity="pay", at=AT, role="CLERK", attributes={"n": 1}))


def test_a_stream_is_left_open_and_holds_what_a_file_would(tmp_path: Path) -> None:
    out = io.BytesIO()
    summary = write_log(out, generated(10))
    assert summary == write_log(tmp_path / "log.xes", generated(10)) == XesSummary(traces=2, events=10, replaced=0)
    assert out.getvalue() == (tmp_path / "log.xes").read_bytes()


def test_a_path_that_ends_in_gz_is_compressed_and_equal_logs_are_equal_files(tmp_path: Path) -> None:
    for name in ("a.xes.gz", "b.xes.gz"):
        write_log(tmp_path / name, generated(10))
    packed = (tmp_path / "a.xes.gz").read_bytes()
    assert gzip.decompress(packed).endswith(b"</log>\n")
    assert packed == (tmp_path / "b.xes.gz").read_bytes()
    assert packed[3:8] == bytes(5)  # RFC 1952: no flags, so no name, and no time


def test_a_log_can_be_written_over_the_file_it_is_read_from(tmp_path: Path) -> None:
    path = tmp_path / "log.xes"
    write_log(path, generated(5_000))
    before = path.read_bytes()
    write_log(path, read_traces(path))
    assert path.read_bytes() == before


def test_a_log_that_fails_on_the_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "log.xes"
    path.write_text("old")

    def traces() -> Iterator[Trace]:
        yield Trace(case="a", events=())
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError):
        write_log(path, traces())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


text = st.text(
    st.characters(
        exclude_categories=["Cs"], exclude_characters=[*map(chr, {*range(32)} - {9, 10, 13}), "\ufffe", "\uffff"]
    )
)
zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
instants = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=zones | st.just(UTC)).map(  # noqa: DTZ001
    lambda at: at.replace(fold=0)
)
values = st.one_of(text, instants, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False))
own = {"concept:name", "time:timestamp", "org:resource", "org:role"}
attributes = st.dictionaries(text.filter(lambda key: key not in own), values, max_size=4)
events = st.builds(
    XesEvent, activity=text, at=instants, resource=st.none() | text, role=st.none() | text, attributes=attributes
)
traces = st.lists(
    st.builds(Trace, case=text, events=st.lists(events, max_size=3).map(tuple), attributes=attributes), max_size=3
)


@given(written=traces)
@settings(deadline=None)
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, written: list[Trace]) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.xes"
    summary = write_log(path, written)
    read = list(read_traces(path))

    assert read == written
    assert repr(read) == repr(written)  # the types and the offsets as well
    assert summary == XesSummary(traces=len(written), events=sum(len(each.events) for each in written), replaced=0)


@given(st.text(st.characters()), st.text(st.characters()))
@settings(deadline=None)
def test_any_text_at_all_can_be_written(tmp_path_factory: pytest.TempPathFactory, key: str, value: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any-text.xes"
    summary = write_log(path, [Trace(case=value, events=(), attributes={f"k{key}": value})])
    (read,) = read_traces(path)

    (read_key,) = read.attributes
    pairs = [*zip(value * 2 + f"k{key}", read.case + str(read.attributes[read_key]) + read_key, strict=True)]
    assert all(after in {before, "\ufffd"} for before, after in pairs)
    assert summary.replaced == sum(before != after for before, after in pairs)


# A real log


@needs_real_log
@pytest.mark.slow
def test_the_real_log_has_its_known_traces_and_events() -> None:
    read = list(read_traces(REAL_LOG))
    assert len(read) == len({each.case for each in read}) == 10_357
    assert sum(len(each.events) for each in read) == 55_628
    assert sum(any(event.activity == "Payment Handled" for event in each.events) for each in read) == 9_912
    assert len({tuple(event.activity for event in each.events) for each in read}) == 90
    assert all(before.at <= after.at for each in read for before, after in pairwise(each.events))
    assert {event.role for each in read for event in each.events} >= {"EMPLOYEE", "SUPERVISOR", "ADMINISTRATION"}
    amounts = [float(str(event.attributes["(case)_Amount"])) for each in read for event in each.events]
    assert (min(amounts), max(amounts)) == pytest.approx((0, 3_292.54), abs=0.01)


@needs_real_log
@pytest.mark.slow
def test_the_real_log_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "again.xes.gz"
    summary = write_log(path, read_traces(REAL_LOG))
    assert summary == XesSummary(traces=10_357, events=55_628, replaced=0)
    assert all(again == each for again, each in zip(read_traces(path), read_traces(REAL_LOG), strict=True))
