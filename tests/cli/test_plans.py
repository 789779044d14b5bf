"""`case plan`, `case agenda`, `case decisions` and `replay`: beside a worker process, and without one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.program import Program, Up

CAREFUL = {"CASEHUB_LOOP": "plans:careful"}
APP = ("--app", "plans:trip")
STAGES = {
    "before": {"status": "ACTIVE", "parent": "", "enabled": False},
    "home": {"status": "COMPLETED", "parent": "before", "enabled": False},
    "away": {"status": "PENDING", "parent": "", "enabled": False},
    "hotel": {"status": "PENDING", "parent": "", "enabled": True},
}


@pytest.fixture(scope="module")
def up(shared: Program) -> Iterator[Up]:
    """A worker process with a trip that waits, and a walk without a plan."""
    with shared.up("plans:trip", env=CAREFUL) as up:
        started = shared.inside("case", "start", "trip", "--fact", "place=Rome", "--id", "t")
        assert started.code == 0, started.err
        for _ in range(100):  # each look takes a while
            if shared.inside("case", "show", "t", "-o", "json").json["status"] == "WAITING":
                break
        yield up


def test_a_plan_is_shown_beside_a_worker_process_with_all_its_stages(shared: Program, up: Up) -> None:
    told = shared.inside("case", "plan", "t", "-o", "json")
    assert told.code == 0, told.err
    plan = told.json
    assert plan["stages"] == STAGES
    assert plan["milestones"] == {"ready": "ACHIEVED"}
    assert (plan["focus"], plan["because"]) == ("care", "one thing after the other")
    assert plan["notes"] == {"asked": 2}
    assert [(item["binding"], item["status"]) for item in plan["ended"]] == [
        ("plan_route", "COMPLETED"),
        ("pack", "COMPLETED"),
    ]
    people = shared.inside("case", "plan", "t").out
    for expected in (
        "focus      care: one thing after the other",
        "stage      home COMPLETED, in before",
        "stage      away PENDING\n",
        "stage      hotel PENDING; begin it with casehub case stage ID hotel activate\n",
        "milestone  ready ACHIEVED",
        "note       asked = 2",
        "BINDING     STATUS     PRIORITY  STAGE  SINCE  DETAIL",
        "plan_route  COMPLETED  2         home",
    ):
        assert expected in people


def test_decisions_are_shown_beside_a_worker_process(shared: Program, up: Up) -> None:
    people = shared.inside("case", "decisions", "t").out.splitlines()
    assert people[0].split() == ["NO", "TIME", "STATUS", "ELIGIBLE", "CHOSEN", "SECONDS", "WHY"]
    assert "DECIDED  plan_route, pack  plan_route" in people[1]
    assert people[1].endswith("one thing after the other")
    first, second = shared.inside("case", "decisions", "t", "-o", "json").json["items"]
    assert (first["eligible"], first["chosen"]) == (["plan_route", "pack"], ["plan_route"])
    assert (first["not_chosen"], first["fired"]) == (["pack"], ["plan_route"])
    assert (second["number"], second["chosen"]) == (2, ["pack"])
    (asked,) = first["inquiries"]
    assert asked == {
        "verb": "count",
        "kinds": ["WORKER_EXECUTION_FAILED"],
        "arguments": {"by": "binding", "across": "definition", "since": "7d"},
        "as_of": first["as_of"],
    }


def test_one_decision_is_shown_with_all_there_is_to_it(shared: Program, up: Up) -> None:
    people = shared.inside("case", "decisions", "t", "1").out
    for expected in (
        "eligible    plan_route, pack\n",
        "not chosen  pack\n",
        "rationale   one thing after the other\n",
        "asked       count(WORKER_EXECUTION_FAILED, by=binding, across=definition, since=7d) as of ",
    ):
        assert expected in people
    assert shared.inside("case", "decisions", "t", "2", "-o", "json").json["number"] == 2
    missing = shared.inside("case", "decisions", "t", "9")
    assert (missing.code, missing.err) == (3, "error: case 't' has no decision 9; it has 2 of them\n")


def test_decisions_are_replayed_beside_a_worker_process(shared: Program, up: Up) -> None:
    same = shared.inside("replay", "t", "--strategy", "plans:Careful", *APP)
    assert (same.code, same.out) == (0, "plans:Careful takes the same 2 decisions\n"), same.err
    agrees = shared.inside("replay", "t", "--strategy", "plans:careful", *APP, "-o", "json")
    assert agrees.code == 0
    assert agrees.json == {
        "strategy": "plans:careful", "agrees": True, "case": "t", "compared": 2, "skipped": 0, "difference": None
    }  # fmt: skip
    other = shared.inside("replay", "t", "--strategy", "plans:Hasty", *APP)
    assert other.code == 1
    for expected in (
        "plans:Hasty decides otherwise; before that, 0 the same\n",
        "decision 1 (version ",
        "of plan_route, pack:\n",
        "  recorded: plan_route (one thing after the other)\n",
        "  replayed: plan_route, pack (time is money)\n",
        "all of it: casehub case decisions t 1\n",
    ):
        assert expected in other.out
    told = shared.inside("replay", "t", "--strategy", "plans:Hasty", *APP, "-o", "json")
    assert (told.code, told.json["agrees"], told.json["compared"]) == (1, False, 1)
    difference = told.json["difference"]
    assert (difference["recorded"]["chosen"], difference["chosen"]) == (["plan_route"], ["plan_route", "pack"])
    assert (difference["rationale"], difference["error"]) == ("time is money", "")


def test_a_strategy_that_is_none_is_told_so(shared: Program, up: Up) -> None:
    for words, code, expected in (
        (("plans:NoStrategy", *APP), 2, "a NoStrategy is no strategy; give it async def select"),
        (("plans:Unmade", *APP), 2, "--strategy plans:Unmade: making it raised TypeError"),
        (("plans:Nowhere", *APP), 2, "plans has no 'Nowhere'"),
        (("plans:Careful", "--app", "plans:walk"), 3, "definition 'trip', which plans:walk lacks"),
    ):
        told = shared.inside("replay", "t", "--strategy", *words)
        assert told.code == code, (words, told.err)
        assert expected in told.err


def test_an_unknown_case_has_neither_plan_nor_decisions(shared: Program, up: Up) -> None:
    for words in (("case", "plan", "x"), ("case", "agenda", "x"), ("case", "decisions", "x")):
        told = shared.inside(*words)
        assert (told.code, "there is no case 'x'" in told.err) == (3, True), words
    assert shared.inside("replay", "x", "--strategy", "plans:Careful", *APP).code == 3


def test_without_a_worker_process_the_log_tells_the_plan(program: Program) -> None:
    started = program("case", "start", "plans:trip", "--fact", "place=Rome", "--id", "t", env=CAREFUL)
    assert started.code == 0, started.err
    assert program.inside("case", "plan", "t", "-o", "json").json["stages"] == STAGES
    program.forget()
    bare = program.inside("case", "plan", "t", "-o", "json").json
    assert bare["notes"] == {"asked": 2}
    assert bare["stages"] == {name: {**STAGES[name], "parent": ""} for name in ("before", "home")}
    assert program.inside("case", "plan", "t", *APP, "-o", "json").json["stages"] == STAGES
    lost = program.inside("replay", "t", "--strategy", "plans:Careful")
    assert (lost.code, "give --app module:attribute" in lost.err) == (2, True)
    assert [each["number"] for each in program.inside("case", "decisions", "t", "-o", "ndjson").lines] == [1, 2]
    assert program.inside("replay", "t", "--strategy", "plans:Careful", *APP).code == 0


def test_an_agenda_is_what_is_pending(program: Program) -> None:
    with program.up("plans:trip", env={"CASEHUB_LOOP": "plans:waiting"}):
        assert program.inside("case", "start", "trip", "--fact", "place=Rome", "--id", "t").code == 0
        beside = program.inside("case", "agenda", "t", "-o", "json").json["items"]
        assert [(item["binding"], item["priority"], item["stage"]) for item in beside] == [
            ("plan_route", 2, "home"),
            ("pack", 0, "home"),
        ]
    alone = program.inside("case", "agenda", "t")
    assert [line.split()[:3] for line in alone.out.splitlines()] == [
        ["BINDING", "STATUS", "PRIORITY"],
        ["plan_route", "PENDING", "2"],
        ["pack", "PENDING", "0"],
    ]


def test_choreography_has_no_plan_no_agenda_and_no_decisions(program: Program) -> None:
    assert program.inside("case", "start", "plans:walk", "--fact", "place=Rome", "--id", "w").code == 0
    plan = program.inside("case", "plan", "w")
    assert (plan.code, plan.out.startswith("no plan: ")) == (0, True)
    assert program.inside("case", "plan", "w", "-o", "json").json is None
    assert program.inside("case", "agenda", "w").out.startswith("no plan: ")
    assert program.inside("case", "agenda", "w", "-o", "json").json == {"items": [], "next": None}
    assert program.inside("case", "decisions", "w").out.startswith("no decision: ")
    nothing = program.inside("replay", "w", "--strategy", "plans:Careful", "--app", "plans:walk")
    assert (nothing.code, "nothing to replay" in nothing.err) == (3, True)


def test_a_replay_is_answered_as_of_then_though_the_log_has_gone_on(program: Program) -> None:
    reliable = {"CASEHUB_LOOP": "plans:reliable"}
    for id, x in (("early", 0), ("late", 1), ("now", 0)):
        started = program("case", "start", "plans:race", "--fact", f"x={x}", "--id", id, env=reliable)
        assert started.code == 0, started.err
    chosen = {
        id: [each["chosen"] for each in program.inside("case", "decisions", id, "-o", "ndjson").lines]
        for id in ("early", "late", "now")
    }
    assert chosen == {"early": [["flaky"]], "late": [["flaky"], ["steady"]], "now": [["steady"]]}
    same = ("--strategy", "blackboard_ext.strategies:LeastRecentlyFailed", "--app", "plans:race")
    for id in chosen:
        told = program.inside("replay", id, *same)
        assert told.code == 0, told.out
