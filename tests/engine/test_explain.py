"""Why a binding does or does not fire: one test a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from casehub import (
    Binding,
    Budget,
    CaseDefinition,
    CaseState,
    CaseView,
    ChoreographyLoopControl,
    Limits,
    Signal,
    Verdict,
    absent,
)
from casehub.policies import Retry
from casehub.spi import LoopControl
from tests.engine.core import Core


def explained(loop: LoopControl | None = None, *, limits: Limits | None = None, **options: Any) -> Core:
    """A case of one worker, not started."""
    d = CaseDefinition("d", goal="never", external=["never"], signals=["a", "hold"], limits=limits)

    @d.worker(writes="b", **options)
    async def work(a: int) -> int:
        return a

    return Core(d, loop=loop)


class Picky(ChoreographyLoopControl):
    """Chooses nothing."""

    async def select(self, case: CaseView, eligible: Sequence[Binding]) -> Sequence[Binding]:
        return ()


class Gated(ChoreographyLoopControl):
    """Lets nothing pass."""

    def gate(self, state: CaseState, binding: Binding) -> str | None:
        return f"{binding.name} is not allowed"


class Slow(ChoreographyLoopControl):
    """Says that it suspends, so the case asks and goes on."""

    immediate = False


def test_missing_facts_names_them_and_who_would_write_them() -> None:
    d = CaseDefinition("d", goal="c", signals=["a"])

    @d.worker(writes="b")
    async def first(a: int) -> int:
        return a

    @d.worker(writes="c")
    async def second(b: int, a: int) -> int:
        return a

    core = Core(d)
    core.start()
    said = core.why("second")
    assert said.verdict is Verdict.MISSING_FACTS
    assert said.facts == {"b": None, "a": None}
    assert said.text == "needs 'b', which first would write, 'a', which a signal would bring"
    assert str(said) == f"second: MISSING_FACTS - {said.text}"


@pytest.mark.parametrize(("way", "word"), [("delete", "deleted by bob"), ("hide", "hidden")])
def test_missing_facts_says_who_took_them_away(way: str, word: str) -> None:
    core = explained()
    core.start(a=1)
    core.run()
    core.write(**{way: ("a",), "by": "user:bob"})
    said = core.why("work")
    assert said.verdict is Verdict.MISSING_FACTS
    assert f"'a' ({word})" in said.text


def test_guard_false_shows_the_guard_and_the_values_it_reads() -> None:
    core = explained(when=absent("hold"))
    core.start(a=1, hold="wait")
    said = core.why("work")
    assert said.verdict is Verdict.GUARD_FALSE
    assert said.text == "its guard absent('hold') does not hold"
    assert said.facts == {"hold": "wait"}


def test_a_guard_that_is_a_function_says_which_of_its_facts_are_not_there() -> None:
    def enough(a: int, hold: int) -> bool:
        return a > hold

    core = explained(when=enough)
    core.start(a=1)
    assert core.why("work").text == "its guard enough(a, hold) does not hold; not there: 'hold'"
    core.signal(hold=2)
    assert core.why("work").text == "its guard enough(a, hold) does not hold"


def test_unchanged_shows_the_facts_it_has_run_on() -> None:
    core = explained()
    core.start(a=1)
    core.run()
    said = core.why("work")
    assert said.verdict is Verdict.UNCHANGED
    assert said.text == "has run on these facts"
    assert said.facts == {"a": 1}


def test_unchanged_says_how_it_failed() -> None:
    core = explained(retry=Retry(1))
    core.start(a=1)
    core.raises("work", OSError("away"))
    assert core.why("work").text == "has run on these facts (WORKER_EXECUTION_FAILED: away)"


def test_unchanged_says_that_its_trigger_has_not_happened() -> None:
    core = explained(on=Signal("hold"))
    core.start(a=1)
    said = core.why("work")
    assert said.verdict is Verdict.UNCHANGED
    assert said.text == "what triggers it has not happened"


def test_in_flight() -> None:
    core = explained()
    core.start(a=1)
    assert core.why("work").verdict is Verdict.IN_FLIGHT


def test_retry_wait() -> None:
    core = explained()
    core.start(a=1)
    core.raises("work", OSError("away"))
    assert core.why("work").verdict is Verdict.RETRY_WAIT


def test_gated_is_what_the_gate_of_the_loop_control_says() -> None:
    core = explained(Gated())
    core.start(a=1)
    said = core.why("work")
    assert said.verdict is Verdict.GATED
    assert said.text == "work is not allowed"


def test_not_selected() -> None:
    core = explained(Picky())
    core.start(a=1)
    assert core.why("work").verdict is Verdict.NOT_SELECTED


def test_not_selected_says_what_the_loop_control_said() -> None:
    core = explained(Slow())
    core.start(a=1)
    core.answer(rationale="too dear")
    said = core.why("work")
    assert said.verdict is Verdict.NOT_SELECTED
    assert said.text == "too dear"


def test_eligible_while_the_loop_control_decides() -> None:
    core = explained(Slow())
    core.start(a=1)
    said = core.why("work")
    assert said.verdict is Verdict.ELIGIBLE
    assert said.facts == {"a": 1}


def test_limit_names_it_and_its_bound() -> None:
    core = explained(limits=Limits(firings=1))
    core.start(a=1)
    core.run()
    core.signal(a=2)
    said = core.why("work")
    assert said.verdict is Verdict.LIMIT
    assert said.text == "held back by firings (1)"


def test_budget_names_its_scope_its_unit_and_its_bound() -> None:
    core = explained(budget=Budget(tokens=10))
    core.start(a=1)
    core.returns("work", 1, charges={"tokens": 12.0})
    core.signal(a=2)
    said = core.why("work")
    assert said.verdict is Verdict.BUDGET
    assert said.text == "held back by work.tokens (10)"


def test_suspended_says_how_to_go_on() -> None:
    core = explained()
    core.start(a=1)
    core.suspend()
    said = core.why("work")
    assert said.verdict is Verdict.SUSPENDED
    assert "resume it" in said.text


def test_ended() -> None:
    core = explained()
    core.start(a=1)
    core.cancel()
    said = core.why("work")
    assert said.verdict is Verdict.ENDED
    assert "CANCELLED" in said.text


def test_a_raising_guard_is_shown_and_not_raised() -> None:
    calls: list[int] = []

    def moody(a: int) -> bool:
        calls.append(a)
        if len(calls) > 1:
            raise LookupError("no rate")
        return False

    core = explained(when=moody)
    core.start(a=1)
    said = core.why("work")
    assert said.verdict is Verdict.GUARD_FALSE
    assert "raised LookupError: no rate" in said.text


def test_explain_without_a_name_explains_every_binding_in_order() -> None:
    d = CaseDefinition("d", signals=["a"])

    async def work(a: int) -> int:
        return a

    for name in ("z", "y", "x"):
        d.worker(name=name, writes=f"by_{name}")(work)
    core = Core(d)
    core.start()
    assert [said.binding for said in core.live.explain()] == ["z", "y", "x"]


def test_explaining_changes_nothing() -> None:
    core = explained(when=absent("hold"))
    core.start(a=1, hold=1)
    before = core.replayed().state
    core.live.explain()
    assert core.state == before
