"""When a binding fires again: refraction by stamps, its own writes, once, always, triggers."""

from __future__ import annotations

import pytest

from casehub import (
    ABSENT,
    CaseDefinition,
    Limits,
    Signal,
    Verdict,
    WorkerExecutionFailed,
    WorkerExecutionFinished,
    WorkerScheduled,
    absent,
    present,
)
from casehub.policies import Retry
from tests.engine.core import Core, of


def test_a_binding_fires_once_for_the_facts_it_has_seen() -> None:
    d = CaseDefinition("d", signals=["a", "b"])

    @d.worker(writes="sum")
    async def add(a: int) -> int:
        return a + 1

    core = Core(d)
    core.start(a=1)
    assert core.run() == ["add"]
    core.signal(b=5)  # nothing that it reads
    assert core.run() == []
    assert core.why("add").verdict is Verdict.UNCHANGED


def test_a_new_value_makes_it_fire_again_and_an_equal_one_does_not() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="twice")
    async def double(a: int) -> int:
        return 2 * a

    core = Core(d)
    core.start(a=1)
    core.run()
    core.signal(a=1)
    assert core.run() == []
    core.signal(a=2)
    assert core.run() == ["double"]
    assert core.facts["twice"] == 4


def test_changes_while_it_runs_make_it_fire_once_more_with_the_last() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="copy")
    async def copy(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    for a in (2, 3, 4):
        core.signal(a=a)
    assert core.running == ["copy"]
    core.returns("copy", 1)
    assert core.run() == ["copy"]
    assert core.facts["copy"] == 4
    assert core.count(WorkerScheduled) == 2


def test_a_fact_that_its_guard_reads_counts_as_read() -> None:
    d = CaseDefinition("d", signals=["a", "gate"])

    @d.worker(writes="out", when=present("gate"))
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    assert core.run() == []
    core.signal(gate=1)
    assert core.run() == ["work"]
    core.signal(gate=2)
    assert core.run() == ["work"]


def test_its_own_output_does_not_make_it_fire_again() -> None:
    d = CaseDefinition("d", signals=["n"])

    @d.worker(writes="n")
    async def increment(n: int) -> int:
        return n + 1

    core = Core(d)
    core.start(n=1)
    assert core.run(10) == ["increment"]
    assert core.facts["n"] == 2


def test_its_own_output_that_keeps_its_guard_true_does_not_make_it_fire_again() -> None:
    d = CaseDefinition("d", signals=["total"])

    @d.worker(writes="total", when=lambda total: total > 0)
    async def grow(total: int) -> int:
        return total + 1

    core = Core(d)
    core.start(total=1)
    assert core.run(10) == ["grow"]


def test_somebody_elses_write_in_between_makes_it_fire_again_although_it_overwrote_it() -> None:
    d = CaseDefinition("d", signals=["n"])

    @d.worker(writes="n")
    async def increment(n: int) -> int:
        return n + 1

    core = Core(d)
    core.start(n=1)
    core.signal(n=10)  # while it runs on n=1
    core.returns("increment", 2)
    assert core.run(10) == ["increment"]  # no lost update: it runs on what it has not seen
    assert core.facts["n"] == 3


def test_another_binding_that_writes_the_same_fact_makes_it_fire_again() -> None:
    d = CaseDefinition("d", signals=["go", "n"])

    @d.worker(writes="n")
    async def increment(n: int) -> int:
        return n + 1

    @d.worker(writes="n")
    async def reset(go: bool) -> int:
        return 100

    core = Core(d)
    core.start(n=1)
    assert core.run(10) == ["increment"]
    core.signal(go=True)
    assert core.run(10) == ["reset", "increment"]
    assert core.facts["n"] == 101


def test_deleting_what_it_wrote_and_guards_against_brings_it_back() -> None:
    d = CaseDefinition("d", goal="never", external=["never"])

    @d.worker(writes="final", when=absent("final"))
    async def finish(draft: str) -> str:
        return draft.upper()

    core = Core(d)
    core.start(draft="x")
    assert core.run(10) == ["finish"]
    core.delete("final")
    assert core.run(10) == ["finish"]


def test_a_binding_that_deletes_what_it_reads_does_not_see_its_own_deletion() -> None:
    d = CaseDefinition("d", signals=["order"])

    @d.worker(writes=["order", "done"])
    async def consume(order: str) -> dict[str, object]:
        return {"order": ABSENT, "done": order}

    core = Core(d)
    core.start(order="tea")
    assert core.run(10) == ["consume"]
    assert core.facts == {"done": "tea"}
    core.signal(order="tea")  # the same value again, after the deletion: a new order
    assert core.run(10) == ["consume"]


def test_on_narrows_what_counts_as_a_change() -> None:
    d = CaseDefinition("d", signals=["price", "rate"])

    @d.worker(writes="quote", on="price")
    async def quote(price: int, rate: int) -> int:
        return price * rate

    core = Core(d)
    core.start(price=2, rate=3)
    assert core.run() == ["quote"]
    core.signal(rate=5)
    assert core.run() == []
    core.signal(price=4)
    assert core.run() == ["quote"]
    assert core.facts["quote"] == 20


def test_on_a_fact_that_it_does_not_read_waits_for_it() -> None:
    d = CaseDefinition("d", signals=["price", "tick"])

    @d.worker(writes="quote", on="tick")
    async def quote(price: int) -> int:
        return price

    core = Core(d)
    core.start(price=2)
    assert core.run() == []
    core.signal(tick=1)
    assert core.run() == ["quote"]
    core.signal(price=3)
    assert core.run() == []


def test_once_fires_once_whatever_changes() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b", refire="once")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    assert core.run() == ["work"]
    core.signal(a=2)
    assert core.run() == []


def test_always_fires_until_its_limit() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b", refire="always", limit=4)
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    assert core.run(10) == ["work"] * 4
    assert core.why("work").verdict is Verdict.LIMIT


def test_always_stops_when_its_guard_does_not_hold_any_more() -> None:
    d = CaseDefinition("d", signals=["n"])

    @d.worker(writes="n", refire="always", when=lambda n: n < 3)
    async def increment(n: int) -> int:
        return n + 1

    core = Core(d)
    core.start(n=0)
    assert core.run(10) == ["increment"] * 3
    assert core.facts["n"] == 3


def test_a_signal_triggers_each_time_whatever_it_brings() -> None:
    d = CaseDefinition("d", signals=["tick"])

    @d.worker(writes="beats", on=Signal("tick"))
    async def beat() -> int:
        return 1

    core = Core(d)
    core.start()
    assert core.run() == []
    for _ in range(3):
        core.occur("tick")
        assert core.run() == ["beat"]


def test_a_trigger_with_an_equal_value_is_still_an_occurrence() -> None:
    d = CaseDefinition("d", signals=["tick"])

    @d.worker(writes="last", on=Signal("tick"))
    async def beat(tick: int) -> int:
        return tick

    core = Core(d)
    core.start()
    core.signal(tick=7)
    assert core.run() == ["beat"]
    core.signal(tick=7)
    assert core.run() == ["beat"]


def test_occurrences_while_it_runs_come_to_one_more_firing() -> None:
    d = CaseDefinition("d", signals=["tick"])

    @d.worker(writes="beats", on=Signal("tick"))
    async def beat() -> int:
        return 1

    core = Core(d)
    core.start()
    core.occur("tick")
    core.occur("tick")
    core.occur("tick")
    core.returns("beat", 1)
    assert core.run() == ["beat"]
    assert core.count(WorkerScheduled) == 2


def test_a_change_of_what_a_triggered_binding_reads_does_not_trigger_it() -> None:
    d = CaseDefinition("d", signals=["tick", "a"])

    @d.worker(writes="b", on=Signal("tick"))
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.occur("tick")
    assert core.run() == ["work"]
    core.signal(a=2)
    assert core.run() == []


def test_an_event_class_triggers_and_brings_its_subclasses() -> None:
    d = CaseDefinition("d", goal="report")

    @d.worker(writes="data", retry=Retry(1))
    async def fetch(url: str) -> str:
        raise OSError(f"{url} is away")

    @d.worker(writes="report", on=WorkerExecutionFailed)
    async def report() -> str:
        return "failed"

    core = Core(d)
    core.start(url="x")
    assert core.run() == ["fetch", "report"]
    assert core.facts["report"] == "failed"


def test_a_base_class_as_a_trigger_hears_every_outcome() -> None:
    d = CaseDefinition("d", goal="never", external=["never"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    @d.worker(on=WorkerExecutionFinished, limit=1)
    async def audit() -> None:
        return None

    core = Core(d)
    core.start(a=1)
    assert core.run() == ["work", "audit"]


def test_a_cancelled_activation_gives_its_stamps_back() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    before = dict(core.state.firings["work"].stamps or {})
    assert before
    core.cancel()
    assert core.state.firings["work"].stamps is None


def test_a_faulted_activation_keeps_its_stamps_and_fires_again_on_a_change() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b", retry=Retry(1))
    async def work(a: int) -> int:
        if a < 2:
            raise ValueError("too small")
        return a

    core = Core(d)
    core.start(a=1)
    assert core.run() == ["work"]
    core.signal(a=2)
    assert core.run() == ["work"]
    assert core.facts["b"] == 2


def test_two_bindings_that_feed_each_other_are_bounded_by_the_limit() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], limits=Limits(firings_per_binding=5), signals=["ping"])

    @d.worker(writes="pong")
    async def one(ping: int) -> int:
        return ping + 1

    @d.worker(writes="ping")
    async def other(pong: int) -> int:
        return pong + 1

    core = Core(d)
    core.start(ping=0)
    ran = core.run(50)
    assert ran.count("one") == ran.count("other") == 5
    assert len(of(core.log, WorkerScheduled)) == 10


def test_activations_are_numbered_and_named_after_their_binding() -> None:
    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1)
    core.run()
    core.signal(a=2)
    assert [e.activation for e in of(core.log, WorkerScheduled)] == ["c/work/1", "c/work/2"]


@pytest.mark.parametrize("hidden", ["a", "guarded"])
def test_hiding_a_fact_takes_the_binding_off_and_showing_it_brings_it_back(hidden: str) -> None:
    d = CaseDefinition("d", signals=["a", "guarded"])

    @d.worker(writes="b", when=present("guarded"))
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=1, guarded=1)
    core.run()
    core.write(hide=(hidden,))
    assert core.run() == []
    core.write(show=(hidden,))
    assert core.run() == ["work"]
