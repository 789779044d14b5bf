"""Exporting: what cases did as activities, the log as it is, and files that are whole or not there."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from casehub import CaseDefinition, CaseHub, Confident, Declined, Permanent
from casehub.adapters.codec import from_json
from casehub.adapters.xes import Trace, read_traces
from casehub.export import COLUMNS, Format, export, harmless
from casehub.query import EventQuery
from tests.replay.logs import WHOLE, Happened, Shop, Told, after, cases_of, made_up, told
from tests.staging import Kept


async def written(store: Kept, format: Format, **options: Any) -> bytes:
    out = io.BytesIO()
    await export(store.log, out, format, **options)
    return out.getvalue()


async def exported(store: Kept, folder: Path, **options: Any) -> list[Trace]:
    """What is read back of what was written."""
    await export(store.log, folder / "log.xes.gz", "xes", **options)
    return list(read_traces(folder / "log.xes.gz"))


def plain(traces: Sequence[Any]) -> dict[str, list[tuple[Any, ...]]]:
    return {t.case: [(e.activity, e.at, e.resource, e.role, dict(e.attributes)) for e in t.events] for t in traces}


def working() -> CaseDefinition:
    d = CaseDefinition("work", goal="made", signals=["go", "stop"])
    d.milestone("halfway", when=lambda half: half == 1)

    @d.worker(writes="half")
    async def begin(go: Any) -> int:
        return 1

    @d.worker(writes="nothing")
    async def refuse(go: Any) -> int:
        raise Declined("not today")

    @d.worker(writes="error")
    async def fail(go: Any) -> int:
        raise Permanent("broken")

    @d.worker(writes="made")
    async def finish(half: int, stop: Any) -> int:
        return 2

    return d


async def live(store: Kept, *ids: str) -> None:
    d = working()
    async with CaseHub(d, store=store) as hub:
        for id in ids:
            case = await hub.start(d, case_id=id)
            await case.signal(go=1, by="user:ada", wait="quiescent")
            await case.signal(stop=1, by="session:l2b")
            await case.completed()


async def test_a_replayed_log_comes_out_as_it_went_in(tmp_path: Path) -> None:
    log, store = made_up(5), Kept()
    summary = await Shop().replay(log, store)
    ended = {(case, reason[:4]) for case, _, reason in summary.refusals}
    assert ended, "the made-up log has nothing that is refused: it tests less than it should"
    found = plain(await exported(store, tmp_path))
    assert set(found) == await cases_of(store)
    for trace in log:
        mapped = [event for event in trace.events if event.activity != "Lost"]
        theirs = [(e.activity, e.at, e.resource, e.role, dict(e.attributes)) for e in mapped]
        taken = found.get(trace.case, [])
        assert taken == theirs[: len(taken)]
        late = len([case for case, _, _ in summary.refusals if case == trace.case])
        assert len(theirs) - len(taken) == late


async def test_traces_are_in_the_order_their_cases_started(tmp_path: Path) -> None:
    store = Kept()
    await Shop().replay([told("late", ("Ordered", 9)), told("early", ("Ordered", 1))], store)
    assert [trace.case for trace in await exported(store, tmp_path)] == ["early", "late"]


async def test_an_outcome_is_told_with_its_confidence(tmp_path: Path) -> None:
    d = CaseDefinition("d", goal="topic")

    @d.worker(writes="topic")
    async def classify(text: str) -> Confident[str]:
        return Confident("invoice", 0.4)

    store = Kept()
    async with CaseHub(d, store=store) as hub:
        await (await hub.start(d, case_id="c", text="see below")).completed()
    (trace,) = await exported(store, tmp_path)
    assert [event.attributes.get("casehub:confidence") for event in trace.events] == [None, 0.4, None]


async def test_what_a_live_case_did_is_told_in_the_words_of_xes(tmp_path: Path) -> None:
    store = Kept()
    await live(store, "c")
    (trace,) = await exported(store, tmp_path)
    steps = [
        (e.activity, e.resource, e.role, e.attributes["lifecycle:transition"], e.attributes["casehub:kind"])
        for e in trace.events
    ]
    assert steps[0] == ("go", "ada", "user", "complete", "signal")
    assert set(steps[1:8]) == {
        ("begin", "begin", "worker", "start", "worker"),
        ("refuse", "refuse", "worker", "start", "worker"),
        ("fail", "fail", "worker", "start", "worker"),
        ("begin", "begin", "worker", "complete", "worker"),
        ("refuse", "refuse", "worker", "ate_abort", "worker"),
        ("fail", "fail", "worker", "ate_abort", "worker"),
        ("milestone halfway", None, "engine", "complete", "milestone"),
    }
    assert steps[8:] == [
        ("stop", "l2b", "session", "complete", "signal"),
        ("finish", "finish", "worker", "start", "worker"),
        ("finish", "finish", "worker", "complete", "worker"),
        ("goal made", None, "engine", "complete", "goal"),
    ]
    assert trace.attributes == {"casehub:definition": "work"}


async def test_what_happens_after_the_end_of_a_replayed_log_is_told_too(tmp_path: Path) -> None:
    shop, store = Shop(), Kept()
    await shop.replay([told("a", ("Ordered", 0), ("Paid", 5), amount=500.0)], store)
    async with CaseHub(shop.definition, store=store) as hub:
        await hub.case("a").signal(paid="again", by="user:grace", wait="quiescent")
    (trace,) = await exported(store, tmp_path)
    activities = [event.activity for event in trace.events]
    assert activities[:3] == ["Ordered", "Paid", "paid"]  # and what the shop's workers did then
    assert set(activities[3:]) == {"pack", "send", "milestone sent", "goal parcel"}
    assert shop.ran == ["warn", "pack", "send"]


async def test_csv_has_a_line_an_activity_under_the_names_of_xes(tmp_path: Path) -> None:
    store = Kept()
    await Shop().replay([told("a", *WHOLE, amount=3.0)], store)
    rows = list(csv.reader(io.StringIO((await written(store, "csv")).decode(), newline="")))
    assert rows[0] == list(COLUMNS)
    assert rows[1] == ["a", "Ordered", "2017-05-01T09:00:00+00:00", "Ada", "CLERK", "complete", '{"amount":3.0}']
    assert len(rows) == 5


@pytest.mark.parametrize("cell", ["=1+1", "+31 20", "-2", "@home", "\tx", "\rx"])
def test_no_cell_is_taken_for_a_formula(cell: str) -> None:
    assert harmless(cell) == f"'{cell}"
    assert harmless(f"a{cell}") == f"a{cell}"


async def test_a_formula_in_a_log_is_quoted_in_csv() -> None:
    store = Kept()
    await Shop().replay([Told("=case", [Happened("Paid", after(0), "@Ada", "-x")])], store)
    row = list(csv.reader(io.StringIO((await written(store, "csv")).decode())))[1]
    assert (row[0], row[3], row[4]) == ("'=case", "'@Ada", "'-x")


async def test_ndjson_is_every_event_as_it_is() -> None:
    store = Kept()
    await live(store, "c", "d")
    lines = (await written(store, "ndjson")).splitlines()
    events = await store.log.query(EventQuery())
    assert [from_json(line) for line in lines] == list(events)
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(events) + 1))


@pytest.mark.parametrize("format", ["xes", "csv", "ndjson"])
async def test_a_definition_and_a_case_narrow_it_down(format: Format) -> None:
    store = Kept()
    await live(store, "c", "d")
    await Shop().replay([told("a", *WHOLE)], store)
    one = (await written(store, format, case="c")).decode()
    assert ("c" in one, '"d"' in one, "Ordered" in one) == (True, False, False)
    shop = (await written(store, format, definition="shop")).decode()
    assert ("Ordered" in shop, "halfway" in shop) == (True, False)
    assert "Ordered" not in (await written(store, format, tenant="other")).decode()


async def test_many_pages_are_one_export(tmp_path: Path) -> None:
    store = Kept()
    log = [told(f"c{n:04}", ("Ordered", n), ("Paid", n + 0.5)) for n in range(450)]
    await Shop().replay(log, store)
    seen: list[tuple[int, int]] = []
    out = tmp_path / "log.csv"
    summary = await export(store.log, out, "csv", progress=lambda position, last: seen.append((position, last)))
    assert (summary.cases, summary.events) == (450, 900)
    assert len(out.read_text().splitlines()) == 901
    last = await store.log.position()
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert all(of == last and position <= last for position, of in seen)


async def test_a_file_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    store = Kept()
    await live(store, "c")
    out = tmp_path / "log.ndjson.gz"

    def interrupted(position: int, last: int) -> None:
        assert not out.exists()
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        await export(store.log, out, "ndjson", progress=interrupted)
    assert os.listdir(tmp_path) == []
    await export(store.log, out, "ndjson")
    assert gzip.decompress(out.read_bytes()) == await written(store, "ndjson")


class Growing:
    """A log that grows as soon as somebody has asked where it ends."""

    def __init__(self, store: Kept) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store.log, name)

    async def position(self) -> int:
        found = await self._store.log.position()
        await live(self._store, "later")
        return int(found)


@pytest.mark.parametrize("format", ["xes", "csv", "ndjson"])
async def test_an_export_is_as_of_one_position_whatever_is_written_meanwhile(format: Format) -> None:
    store = Kept()
    await live(store, "c")
    before = await written(store, format)
    log: Any = Growing(store)
    out = io.BytesIO()
    await export(log, out, format)
    assert out.getvalue() == before
    assert "later" in (await written(store, format)).decode()
