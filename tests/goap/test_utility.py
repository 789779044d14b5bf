"""One step at a time, by what it is worth now."""

from __future__ import annotations

import pytest

from blackboard_ext.goap.system import Goal
from blackboard_ext.goap.utility import NIRVANA, best_step
from tests.goap.systems import actions, goal, needs

DONE = goal("goal", "done")
NOOP = "noop: ready -> x @0.1 +0.5"
TWO_STEPS = "s1: ready -> m; s2: m -> goal"


@pytest.mark.parametrize(
    ("what", "start", "goals", "satisfied", "expected"),
    [
        pytest.param(NOOP, "ready, goal", [DONE], True, "", id="a goal that is reached needs nothing"),
        pytest.param(NOOP, "ready, goal", [DONE], False, "noop", id="unless it goes on for ever"),
        pytest.param("cheap: ready -> a @0.3 +0.5; high: ready -> b @0.05 +1.5", "ready", [NIRVANA], True, "high",
                     id="the best net value where no end is in sight"),
        pytest.param("a: never -> x", "", [NIRVANA], True, None, id="nothing where nothing can be done"),
        pytest.param(TWO_STEPS, "ready", [DONE], True, None, id="no plan of two steps"),
        pytest.param("noisy: ready -> x @0.5 +0.1", "ready, goal", [DONE, NIRVANA], True, "",
                     id="a goal that is reached beats what costs more than it brings"),
        pytest.param("research: ready -> x @0.1 +1.5", "ready", [DONE, NIRVANA], True, "research",
                     id="what is worth doing while no goal is near"),
        pytest.param("x: -> x +0.8; y: ready -> goal +0.1", "ready", [DONE], False, "y",
                     id="what reaches the goal, not what is worth most"),
    ],
)  # fmt: skip
def test_the_best_plan_of_one_step(
    what: str, start: str, goals: list[Goal], satisfied: bool, expected: str | None
) -> None:
    plan = best_step(actions(what), needs(start), goals, satisfied=satisfied)
    assert (None if plan is None else " ".join(plan.names)) == expected


def test_goals_are_weighed_with_what_reaches_them_and_the_first_of_equals_is_taken() -> None:
    what = actions("a: -> x +1; b: -> y +1")
    x, y = goal("x", "x"), goal("y", "y", value=2)
    best = best_step(what, {}, [x, y])
    assert best is not None
    assert (best.goal, best.names) == (y, ("b",))
    first = best_step(what, {}, [goal("y", "y"), x])
    assert first is not None
    assert first.goal.name == "y"
