"""A change costs what it touches, not what is declared or what has happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from casehub import CaseDefinition, Limits
from tests.engine.core import Core

MANY = 60


def counting(calls: Counter[str], name: str, fact: str) -> Callable[..., bool]:
    """A condition over one fact that counts how often it is tested."""
    namespace: dict[str, object] = {"calls": calls, "name": name}
    source = f"def condition({fact}):\n    calls[name] += 1\n    return {fact} > 0\n"
    exec(source, namespace)
    condition: Callable[..., bool] = namespace["condition"]  # type: ignore[assignment]  # defined above
    return condition


def wide(calls: Counter[str]) -> CaseDefinition:
    """Many guards, milestones and goals, each over a fact of its own."""
    facts = [f"fact{n}" for n in range(MANY)]
    d = CaseDefinition("d", goal="never", external=["never"], signals=facts)

    async def work() -> int:
        return 1

    for fact in facts:
        d.worker(name=f"on_{fact}", writes=f"by_{fact}", when=counting(calls, f"guard {fact}", fact))(work)
        d.milestone(f"milestone_{fact}", counting(calls, f"milestone {fact}", fact))
        d.goal(f"goal_{fact}", counting(calls, f"goal {fact}", fact))
    return d


def test_a_change_tests_the_conditions_that_read_it_and_no_others() -> None:
    calls: Counter[str] = Counter()
    core = Core(wide(calls))
    core.start()
    calls.clear()
    core.signal(fact7=0)
    assert set(calls) == {"guard fact7", "milestone fact7", "goal fact7"}
    assert set(calls.values()) == {1}


def test_a_result_tests_the_conditions_that_read_what_it_wrote_and_no_others() -> None:
    calls: Counter[str] = Counter()
    core = Core(wide(calls))
    core.start()
    core.signal(fact3=1)
    calls.clear()
    core.returns("on_fact3", 1)
    assert set(calls) <= {"guard fact3"}


@pytest.mark.parametrize("history", [10, 1000])
def test_a_turn_tests_as_much_after_a_long_history_as_after_a_short_one(history: int) -> None:
    calls: Counter[str] = Counter()
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a"], limits=Limits(events=10**6))

    @d.worker(writes="b", when=counting(calls, "guard", "a"))
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start()
    for value in range(history):
        core.signal(a=-value - 1)
    calls.clear()
    core.signal(a=5)
    assert calls == {"guard": 1}


def test_what_a_case_remembers_does_not_grow_with_its_turns() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a"], limits=Limits(events=10**6))

    @d.worker(writes="b")
    async def work(a: int) -> int:
        return a

    core = Core(d)
    core.start(a=0)
    core.run()
    sizes = []
    for value in range(1, 500):
        core.signal(a=value)
        core.run()
        state = core.state
        remembered = (state.facts, state.activations, state.firings, state.timers, state.occurrences, state.held)
        sizes.append([len(each) for each in remembered])
    assert sizes[0] == sizes[-1]
    assert core.live.agenda.eligible == {}


def test_the_agenda_holds_no_binding_that_is_not_eligible_any_more() -> None:
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a", "hold"], limits=Limits(concurrency=1))

    async def work(a: int) -> int:
        return a

    for number in range(5):
        d.worker(name=f"w{number}", writes=f"b{number}")(work)
    core = Core(d)
    core.start(a=1)
    assert set(core.live.agenda.eligible) == {"w1", "w2", "w3", "w4"}
    core.delete("a")
    assert core.live.agenda.eligible == {}
