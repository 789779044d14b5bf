"""The log is the truth: folding it gives the case as it is, whatever happened; and what happens is deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from casehub import (
    ABSENT,
    Binding,
    Budget,
    CaseDefinition,
    CaseView,
    ChoreographyLoopControl,
    Declined,
    Limits,
    Signal,
    Verdict,
    WorkerExecutionFailed,
    absent,
    all_of,
    any_of,
    deep_merge,
    present,
)
from casehub.engine.agenda import judge
from casehub.errors import CaseHubError
from casehub.folding import fold
from casehub.inputs import Write
from casehub.lifecycle import ActivationStatus, CaseStatus
from casehub.policies import Retry
from tests.engine.core import Core, names


class Slow(ChoreographyLoopControl):
    """Says that it suspends; the operations answer for it."""

    immediate = False


def everything() -> CaseDefinition:
    """A definition with something of each kind, small enough that everything happens."""
    d = CaseDefinition(
        "d",
        goal=any_of(all_of("rich", "done"), "end"),
        signals=["a", "b", "c", "end", "tick"],
        limits=Limits(firings_per_binding=6, events=400, concurrency=3),
        budget=Budget(calls=40, tokens=100, per="day"),
        protected=["a"],
    )
    d.goal("rich", lambda c: isinstance(c, int) and c > 5)
    d.goal("done", present("final") & absent("b"))
    d.milestone("first", present("x"), sla="10s")
    d.milestone("second", present("final"), entry=present("x"), sla="20s")

    @d.worker(writes="x", retry=Retry(3, wait="1s"))
    async def one(a: Any) -> Any:
        return None

    @d.worker(writes=["x", "y"], merge=deep_merge, when=absent("c"))
    async def two(b: Any) -> dict[str, object]:
        return {}

    @d.worker(writes="b", budget=Budget(tokens=30))
    async def loop(b: Any) -> Any:
        return None

    @d.worker(writes="ticks", on=Signal("tick"))
    async def beat() -> Any:
        return None

    @d.worker(writes="report", on=WorkerExecutionFailed, on_failed="ignore")
    async def report(x: Any = None) -> Any:
        return None

    async def finish(x: Any, y: Any) -> Any:
        return None

    for name in ("near", "far"):
        d.worker(name=name, writes="final", capability="finishing")(finish)
    d.binding("finishing", capability="finishing", on_declined="reroute", refire="always", limit=4)
    return d


VALUES = st.sampled_from([None, 0, 1, 1.0, 7, "text", [1], {"k": 1}, {"k": {"l": [2]}}])
FACTS = st.sampled_from(["a", "b", "c"])
ERRORS = st.sampled_from([OSError("away"), ValueError("wrong"), Declined("no"), KeyError()])
WHICH = st.integers(0, 5)

RETURNS = st.tuples(st.just("returns"), st.tuples(WHICH, VALUES, st.sampled_from([None, None, {"tokens": 9.0}])))
ONE = st.one_of(
    RETURNS,
    st.tuples(st.just("signal"), st.dictionaries(FACTS, VALUES, min_size=1)),
    st.tuples(st.just("occur"), st.just("tick")),
    st.tuples(st.just("write"), st.fixed_dictionaries({"delete": st.tuples(FACTS)})),
    st.tuples(st.just("write"), st.fixed_dictionaries({"hide": st.tuples(FACTS)})),
    st.tuples(st.just("write"), st.fixed_dictionaries({"show": st.tuples(FACTS)})),
    st.tuples(st.just("write"), st.just({"clear": True})),
    RETURNS,
    RETURNS,
    RETURNS,
    st.tuples(st.just("raises"), st.tuples(WHICH, ERRORS)),
    st.tuples(st.just("raises"), st.tuples(WHICH, ERRORS)),
    st.tuples(st.just("expires"), WHICH),
    st.tuples(st.just("pass_time"), st.sampled_from(["1s", "9s", "30s", "1d"])),
    st.tuples(st.just("life"), st.sampled_from(["suspend", "resume", "resume", "crash"])),
    st.tuples(st.just("answer"), st.lists(WHICH, max_size=3, unique=True)),
    st.tuples(st.just("answer"), st.sampled_from(["late", "timeout", "error", "defer"])),
    st.tuples(st.just("end"), st.sampled_from(["cancel", "goal", *["no"] * 12])),
)
OPERATIONS = st.lists(ONE, min_size=20, max_size=60)


def do(core: Core, what: str, how: Any) -> None:
    """One operation, as far as it makes sense now."""
    running = core.running
    if what == "signal":
        core.signal(**how)
    elif what == "occur":
        core.occur(how)
    elif what == "write":
        core.take(Write(**how))
    elif what == "returns" and running:
        binding = running[how[0] % len(running)]
        core.returns(binding, _result(core, binding, how[1]), charges=how[2])
    elif what == "raises" and running:
        core.raises(running[how[0] % len(running)], how[1])
    elif what == "expires" and running:
        core.expires(running[how % len(running)])
    elif what == "pass_time":
        core.pass_time(how)
    elif what == "life":
        getattr(core, how)()
    elif what == "answer" and core.state.deliberating:
        _answer(core, how)
    elif what == "end" and how == "cancel":
        core.cancel()
    elif what == "end" and how == "goal":
        core.signal(end=1)


def _result(core: Core, binding: str, value: object) -> object:
    if binding == "two":
        return {"x": value, "y": value if value is not None else ABSENT}
    return value


def _answer(core: Core, how: Any) -> None:
    if how == "late":
        core.answer(number=core.state.deliberation - 1)
    elif how == "timeout":
        core.answer(timed_out=1.0)
    elif how == "error":
        core.answer(error=ValueError("no model"))
    elif how == "defer":
        core.answer(defer_until=core.now)
    else:
        question = core.live.deliberations.question
        bindings = [binding.name for binding in question.eligible] if question is not None else []
        core.answer(*dict.fromkeys(bindings[place % len(bindings)] for place in how))


def play(operations: Sequence[tuple[str, Any]], *, slow: bool) -> Core:
    """A case after these operations. What the case refuses changes nothing."""
    core = Core(everything(), loop=Slow() if slow else None)
    core.start(a=1)
    for what, how in operations:
        length = len(core.log)
        try:
            do(core, what, how)
        except CaseHubError:
            assert len(core.log) == length
    return core


@settings(max_examples=100, deadline=None)
@given(operations=OPERATIONS, slow=st.booleans())
def test_folding_the_log_gives_the_case_whatever_happened(operations: list[tuple[str, Any]], slow: bool) -> None:
    core = play(operations, slow=slow)  # the log is folded after every turn of it
    assert core.replayed().state == core.state
    assert [event.version for event in core.log] == list(range(1, len(core.log) + 1))


@settings(max_examples=40, deadline=None)
@given(operations=OPERATIONS, slow=st.booleans())
def test_the_same_inputs_lead_to_the_same_log(operations: list[tuple[str, Any]], slow: bool) -> None:
    one, other = play(operations, slow=slow), play(operations, slow=slow)
    assert one.log == other.log


@settings(max_examples=60, deadline=None)
@given(operations=OPERATIONS, slow=st.booleans())
def test_whatever_happened_the_log_tells_a_possible_story(operations: list[tuple[str, Any]], slow: bool) -> None:
    core = play(operations, slow=slow)
    started: dict[str, int] = {}
    settled: set[str] = set()
    for event in core.log:
        name = event.name
        activation = getattr(event, "activation", None)
        if name == "WORKER_EXECUTION_STARTED":
            assert activation not in settled
            assert event.attempt == started.get(activation, 0) + 1  # type: ignore[attr-defined, arg-type]  # by its name
            started[activation] = event.attempt  # type: ignore[attr-defined, index]  # by its name
        elif name.startswith("WORKER_EXECUTION_") and event.settled:  # type: ignore[attr-defined]  # by its name
            assert activation in started
            assert activation not in settled
            settled.add(activation)
    ends = [name for name in names(core.log) if name in ("CASE_COMPLETED", "CASE_FAULTED", "CASE_CANCELLED")]
    assert len(ends) == core.status.ended
    if ends:
        assert core.log[-1].name == ends[0]
        assert core.state.activations == {}
        assert core.state.timers == {}
    elif core.status.active and not core.state.activations and not core.state.deliberating:
        assert core.status is CaseStatus.WAITING or core.state.stalled
    assert all(core.log[event.cause - 1].version < event.version for event in core.log if event.cause)


@settings(max_examples=60, deadline=None)
@given(operations=OPERATIONS, slow=st.booleans())
def test_the_agenda_kept_by_events_is_the_one_found_by_looking_at_everything(
    operations: list[tuple[str, Any]], slow: bool
) -> None:
    core = play(operations, slow=slow)
    kept = core.live.agenda.refresh(core.state)
    assert kept == [b for b in core.structure.bindings.values() if judge(core.state, b) is Verdict.ELIGIBLE]
    again = core.replayed()
    assert again.agenda.refresh(again.state) == kept


@settings(max_examples=60, deadline=None)
@given(operations=OPERATIONS, data=st.data())
def test_a_snapshot_anywhere_and_the_rest_of_the_log_give_the_same_case(
    operations: list[tuple[str, Any]], data: st.DataObject
) -> None:
    core = play(operations, slow=False)
    cut = data.draw(st.integers(0, len(core.log)))
    state = fold(core.state.id, core.log[cut:], fold(core.state.id, core.log[:cut]))
    state.definition = state.definition or core.state.definition
    assert state == core.state


def test_the_order_of_inputs_decides_and_not_how_they_are_batched() -> None:
    logs = []
    for _ in range(2):
        core = Core(everything())
        core.start(a=1)
        core.signal(b=1)
        core.signal(b=2)
        core.returns("one", {"k": 1})
        logs.append(names(core.log))
    assert logs[0] == logs[1]


def test_live_decisions_are_never_taken_again_by_a_replay() -> None:
    asked: list[int] = []

    class Counting(ChoreographyLoopControl):
        async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
            asked.append(len(eligible))
            return eligible

    guarded: list[int] = []

    def guard(a: int) -> bool:
        guarded.append(a)
        return True

    d = CaseDefinition("d", signals=["a"])

    @d.worker(writes="b", when=guard)
    async def work(a: int) -> int:
        return a

    core = Core(d, loop=Counting())
    core.start(a=1)
    core.run()
    before = (list(asked), list(guarded))
    core.replayed()
    assert (asked, guarded) == before
    assert core.state.activations == {}


def test_an_activation_that_the_log_leaves_running_is_running_after_the_fold() -> None:
    core = Core(everything())
    core.start(a=1)
    again = core.replayed()
    assert [a.status for a in again.state.activations.values()] == [ActivationStatus.RUNNING]
