"""Plans for small systems: the cheapest, in one order, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from blackboard_ext.goap.planner import Planner
from blackboard_ext.goap.search import Bounds
from blackboard_ext.goap.system import GaveUp, Impossible, Missing, Plan, Undetermined, World
from casehub.errors import SettingsError
from tests.goap.systems import actions, goal, needs

CRIME = """cook: -> drugs, peril @1.2
sell: drugs -> !drugs, money, peril @1.2
gun: money -> gun, !money @1
bribe: money -> !peril, !money @2
shoot: gun -> dead, peril @1
poison: money -> poison, !money @3
use_poison: poison -> dead, peril @1"""
DISTRACTORS = "\n".join(f"distract{n}: unreachable{n} -> nothing{n} @3" for n in range(300))
DETOUR = "set_a: s -> a; unset_a: a -> !a, b; need_ab: a, b -> g; need_b: b -> g"
NOISE = "; ".join(f"noise{n}: noise{n} -> noise{n + 1}" for n in range(10))
CHAIN5 = "; ".join(f"step{n + 1}: step{n} -> step{n + 1}" for n in range(5))
BRANCHES = "; ".join(f"by{m}_{n}: {f'by{m}_{n}' if n else 's'} -> by{m}_{n + 1}" for m in range(3) for n in range(5))
INSIGHTS = "extract: user_input -> name; load: name -> orders; build: name, orders -> insights"
LOAN = """analyze: request -> auto, underwriting @2
auto_decide: auto -> decision @1
underwrite: underwriting -> assessment @5
underwriter_decides: assessment, underwriting -> decision @2"""
KYC = """screen: kyc -> direct, edd @1
assess_direct: direct -> assessed @1
collect: edd -> collected @1
assess_edd: collected, edd -> assessed @1"""
CARPENTER = """chop: -> wood @1
saw: wood -> !wood, plank @1
table: plank -> !plank, table @1
chair: plank -> !plank, chair @1"""
IRRELEVANT = "; ".join(f"irrelevant{n}: s -> i{n} @0.1" for n in range(14))
CHAIN = "a1: s -> c1 @1; a2: c1 -> c2 @1; a3: c2 -> c3 @1; a4: c3 -> c4 @1; a5: c4 -> g @1"

PLANS = {
    "a need that is used up is brought again": (CRIME, "", "dead, !peril", "cook sell gun shoot cook sell bribe"),
    "a goal on the way": (CRIME, "", "gun", "cook sell gun"),
    "what cannot be reached is left aside": (f"{CRIME}\n{DISTRACTORS}", "", "dead, !peril", "cook sell gun shoot cook sell bribe"),
    "a condition that must not hold": ("a1: !a -> b; a2: b -> c; a3: c -> a; cycle: b -> !b", "", "c", "a1 a2"),
    "the shortest of those that cost nothing": ("a: s -> b; b: b -> g; m: s -> g, w; m2: w -> g", "s", "g", "m"),
    "what is taken away on the way": (DETOUR, "s", "g", "set_a unset_a need_b"),
    "the more specific of two that cost the same": ("simple: s -> g @1; specific: s, c1, c2 -> g @1", "s, c1, c2", "g", "specific"),
    "the cheaper one however specific": ("specific: s, c1, c2, c3 -> g @5; cheap: s -> g @1", "s, c1, c2, c3", "g", "cheap"),
    "the more specific first step": ("simple1: s -> m @1; specific1: s, e -> m @1; step2: m -> g @1", "s, e", "g", "specific1 step2"),
    "of equals the one declared first": ("a1: s, c1 -> g @1; a2: s, c2 -> g @1", "s, c1, c2", "g", "a1"),
    "of equals the one declared first, the other way round": ("a2: s, c2 -> g @1; a1: s, c1 -> g @1", "s, c1, c2", "g", "a2"),
    "a chain of two": ("a1: s -> m; a2: m -> g", "s", "g", "a1 a2"),
    "nothing that does not help": ("unneeded: s -> i @1; simple: s -> g @1; specific: s, sp -> g @1", "s, sp", "g", "specific"),
    "a chain through noise": (f"{CHAIN5}; {NOISE}", "step0, noise0", "step5", "step1 step2 step3 step4 step5"),
    "what is undone in vain": ("set_a: s -> a; unset_a: a -> !a; reach: a -> g", "s", "g", "set_a reach"),
    "what brings more than is needed": ("set_a: s -> a; misleading: s -> a, foo; reach: a -> g", "s", "g", "set_a reach"),
    "noise that starts on the way": ("set_a: s -> a, n; noise: n -> n2; reach: a -> g", "s", "g", "set_a reach"),
    "a chain beside three others": (f"s1: s -> t1; s2: t1 -> t2; s3: t2 -> t3; {BRANCHES}", "s", "t3", "s1 s2 s3"),
    "a need for what is not there": ("set_a: s -> a; unset_a: a -> !a; set_again: !a -> a; reach: a -> g", "s", "g", "set_a reach"),
    "what distracts and is undone": ("set_a: s -> a; distract: s -> n; undo: n -> !n; reach: a -> g", "s", "g", "set_a reach"),
    "three steps from what the user says": (INSIGHTS, "user_input", "insights", "extract load build"),
    "two steps from what is remembered": (INSIGHTS, "user_input, name", "insights", "load build"),
    "one step from what is remembered": (INSIGHTS, "user_input, name, orders", "insights", "build"),
    "no step to what is there": (INSIGHTS, "user_input, insights", "insights", ""),
    "a diamond": ("a: s -> a; b: a -> b; c: a -> c; d: b, c -> d", "s", "d", "a b c d"),
    "the cheaper of what an analysis may come to": (LOAN, "request", "decision", "analyze auto_decide"),
    "what screening may come to": (KYC, "kyc", "assessed", "screen assess_direct"),
    "many cheap steps": ("direct: s -> g @0.9; p1: s -> x @0.2; p2: x -> y @0.2; p3: y -> g @0.2", "s", "g", "p1 p2 p3"),
    "what is used up, twice": (CARPENTER, "", "table, chair", "chop saw chair chop saw table"),
    "a chain among cheap steps that lead nowhere": (f"{CHAIN}; {IRRELEVANT}", "s", "g", "a1 a2 a3 a4 a5"),
    "the goal that is asked for": ("first: r -> r1; second: r1 -> r2; third: r2 -> r3", "r", "r3", "first second third"),
}  # fmt: skip


@pytest.mark.parametrize(("what", "start", "wanted", "expected"), PLANS.values(), ids=PLANS)
def test_the_cheapest_plan_is_found_and_is_proved_to_be(what: str, start: str, wanted: str, expected: str) -> None:
    plan = Planner(actions(what)).plan(needs(start), goal(wanted))
    assert isinstance(plan, Plan)
    assert plan.names == tuple(expected.split())
    assert plan.proved


def test_a_plan_says_what_it_costs_and_what_it_is_worth() -> None:
    plan = Planner(actions(f"{CRIME}\nrest: -> rested @0.5 +3")).plan({}, goal("dead, !peril, rested", value=10))
    assert isinstance(plan, Plan)
    assert plan.cost == 9.3
    assert plan.net_value == pytest.approx(10 + 3 - 9.3)
    assert str(plan) == "rest -> cook -> sell -> gun -> shoot -> cook -> sell -> bribe"
    assert str(Plan(goal("a", "dinner"))) == "dinner is reached"


def test_goals_are_ranked_by_value_less_cost() -> None:
    murder, armed = goal("dead, !peril", "murder", 10), goal("gun", "armed", 1)
    plans = Planner(actions(CRIME)).plans({}, [armed, goal("rich", "rich", 100), murder])
    assert [plan.goal.name for plan in plans] == ["murder", "armed"]
    assert [round(plan.net_value, 6) for plan in plans] == [1.2, -2.4]
    assert Planner(actions(CRIME)).plans({"gun": True}, [murder, armed])[0].goal is murder


# ---- no plan


def test_what_nobody_brings_is_named_and_who_would_go_on_from_there() -> None:
    answer = Planner(actions("first: input -> text; goal_act: text, condition -> out")).plan(
        needs("input"), goal("out", "answer")
    )
    assert answer == Impossible(
        goal("out", "answer"), (Missing("out", True, ("goal_act",)), Missing("condition", True))
    )
    assert str(answer) == (
        "answer cannot be reached: it lacks out, which goal_act would bring; condition, which nobody brings"
    )


def test_a_goal_beyond_reach_is_known_to_be_at_once_whatever_else_could_be_done() -> None:
    planner = Planner(actions(f"far: x -> y; near: y -> g; {IRRELEVANT}"), Bounds(nodes=1))
    answer = planner.plan(needs("s"), goal("g"))
    assert isinstance(answer, Impossible)
    assert [missing.condition for missing in answer.missing] == ["g", "y", "x"]


def test_what_cannot_hold_at_the_same_time_is_impossible_though_each_can() -> None:
    answer = Planner(actions("left: !right -> left; right: !left -> right")).plan({}, goal("left, right", "both"))
    assert answer == Impossible(goal("left, right", "both"))
    assert str(answer) == "both cannot be reached: what it needs cannot hold at the same time"


def test_a_need_that_something_does_not_hold_is_missing_where_nobody_ends_it() -> None:
    answer = Planner(actions("a: s, !blocked -> g")).plan(needs("s, blocked"), goal("g"))
    assert isinstance(answer, Impossible)
    assert [str(missing) for missing in answer.missing] == [
        "g, which a would bring",
        "not blocked, which nobody brings",
    ]


PUZZLE = "\n".join(
    f"swap{m}{n}{k}: at{m}_{k}, free_{n} -> at{m}_{n}, free_{k}, !at{m}_{k}, !free_{n} @1"
    for m in range(5)
    for n in range(6)
    for k in range(6)
    if n != k
)
START = ", ".join([f"at{n}_{n}" for n in range(5)] + ["free_5"])
TURNED = ", ".join(f"at{n}_{(n + 1) % 5}" for n in range(5))


def test_a_bound_that_is_reached_is_said_and_is_not_the_same_as_impossible() -> None:
    answer = Planner(actions(PUZZLE), Bounds(nodes=2)).plan(needs(START), goal(TURNED, "turned"))
    assert answer == GaveUp(goal(TURNED, "turned"), "2 states or 1 s")
    assert str(answer) == "turned: no plan within 2 states or 1 s"
    solved = Planner(actions(PUZZLE), Bounds(nodes=10_000, seconds=60)).plan(needs(START), goal(TURNED))
    assert isinstance(solved, Plan)
    assert len(solved.actions) == 6
    assert isinstance(Planner(actions(PUZZLE), Bounds(seconds=0)).plan(needs(START), goal(TURNED)), GaveUp)


def test_a_plan_that_is_there_when_a_bound_is_reached_is_given_and_is_said_not_to_be_proved() -> None:
    both = actions("a: -> x @1; b: -> y @1; ab: -> x, y @1.5; c: x -> z @0.1; d: y -> z @0.1; e: x, y -> w @1")
    wanted = goal("x, y, z, w")
    proved = Planner(both).plan({}, wanted)
    assert isinstance(proved, Plan)
    assert (proved.names, proved.proved) == (("ab", "e", "c"), True)
    hasty = Planner(both, Bounds(nodes=0)).plan({}, wanted)
    assert isinstance(hasty, Plan)
    assert hasty.cost >= proved.cost
    assert not hasty.proved


# ---- what is unknown


def test_an_unknown_condition_is_determined_when_a_plan_relies_on_it() -> None:
    asked: list[str] = []

    def determine(condition: str) -> bool:
        asked.append(condition)
        return True

    plan = Planner(actions("only: c -> g")).plan({"c": None}, goal("g"), determine=determine)
    assert isinstance(plan, Plan)
    assert plan.names == ("only",)
    assert asked == ["c"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"c1": True, "c2": True}, "cheap"),
        ({"c1": True, "c2": False}, "sure"),
        ({"c1": False, "c2": True}, "sure"),
        ({"c1": None, "c2": None}, "sure"),
    ],
)
def test_several_unknown_conditions_are_determined_as_far_as_they_matter(
    values: Mapping[str, bool | None], expected: str
) -> None:
    asked: list[str] = []

    def determine(condition: str) -> bool | None:
        asked.append(condition)
        return values[condition]

    what = actions("cheap: c1, c2 -> g @1; sure: s -> g @5; other: c3 -> i")
    plan = Planner(what).plan({"s": True, "c1": None, "c2": None, "c3": None}, goal("g"), determine=determine)
    assert isinstance(plan, Plan)
    assert plan.names == (expected,)
    assert asked == ["c1", "c2"][: 1 if values["c1"] is not True else 2]


def test_a_goal_that_may_be_reached_is_looked_at_and_one_that_is_needs_nothing() -> None:
    asked: list[str] = []
    world: World = {"peril": False, "dead": None}
    plan = Planner(actions(CRIME)).plan(
        world, goal("dead, !peril"), determine=lambda condition: asked.append(condition) is None
    )
    assert isinstance(plan, Plan)
    assert (plan.names, asked) == ((), ["dead"])


def test_what_stays_unknown_is_brought_about() -> None:
    plan = Planner(actions(CRIME)).plan({"money": True, "dead": None}, goal("dead, !peril"), determine=lambda _: None)
    assert isinstance(plan, Plan)
    assert plan.names == ("gun", "shoot", "cook", "sell", "bribe")


def test_who_looks_is_told_what_a_plan_relies_on_and_may_say_that_it_cannot_be_known() -> None:
    planner = Planner(actions("a: !c1, c2 -> g; b: c1 -> x"))
    world: World = {"c1": None, "c2": None}
    assert planner.look(world, goal("g")) == Undetermined(goal("g"), ("c1", "c2"))
    answer = planner.look(world, goal("g"), unknowable={"c2"})
    assert isinstance(answer, Impossible)
    assert str(answer.missing[-1]) == "c2, which nobody brings"


def test_what_an_earlier_action_brings_need_not_be_known() -> None:
    plan = Planner(actions("sense: s -> c @1; use: c -> g @1; direct: s -> g @9")).look(
        {"s": True, "c": None}, goal("g"), unknowable={"c"}
    )
    assert isinstance(plan, Plan)
    assert plan.names == ("sense", "use")


def test_goals_that_ask_for_the_same_condition_ask_once() -> None:
    asked: list[str] = []
    Planner(actions("a: c -> g; b: c -> h")).plans(
        {"c": None}, [goal("g"), goal("h")], determine=lambda condition: asked.append(condition) is None
    )
    assert asked == ["c"]


# ---- leaving something out, and what is wrong


def test_an_action_that_is_left_out_is_gone_around() -> None:
    planner = Planner(actions("always: u -> person @1; normal: u -> person @2; frog: person -> frog @1"))
    first, second = planner.plan(needs("u"), goal("frog")), planner.plan(needs("u"), goal("frog"), without={"always"})
    assert isinstance(first, Plan)
    assert isinstance(second, Plan)
    assert (first.names, second.names) == (("always", "frog"), ("normal", "frog"))
    with pytest.raises(SettingsError, match="no action 'alwys'; did you mean 'always'"):
        planner.plan(needs("u"), goal("frog"), without={"alwys"})


@pytest.mark.parametrize(
    ("what", "done", "came", "wanted", "expected"),
    [
        (LOAN, "analyze", "request, underwriting", "decision", "underwrite underwriter_decides"),
        (KYC, "screen", "kyc, edd", "assessed", "collect assess_edd"),
        (KYC, "screen", "kyc, direct", "assessed", "assess_direct"),
    ],
)
def test_what_was_done_and_has_come_to_something_else_is_planned_on_from(
    what: str, done: str, came: str, wanted: str, expected: str
) -> None:
    plan = Planner(actions(what)).plan(needs(came), goal(wanted), without={done})
    assert isinstance(plan, Plan)
    assert plan.names == tuple(expected.split())


def test_two_actions_of_one_name_are_refused() -> None:
    with pytest.raises(SettingsError, match="two actions 'a'; give each a name of its own"):
        Planner(actions("a: -> x; b: -> y; a: -> z"))


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), 1e10])
def test_a_cost_that_cannot_be_added_up_is_refused(cost: float) -> None:
    with pytest.raises(SettingsError, match="action 'a': cost"):
        actions(f"a: -> x @{cost}")


def test_a_value_that_cannot_be_added_up_is_refused() -> None:
    with pytest.raises(SettingsError, match="action 'a': value nan"):
        actions("a: -> x +nan")
