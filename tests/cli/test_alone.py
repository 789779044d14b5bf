"""Commands without a worker process: they read the file, and work the case they are asked for themselves."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from casehub.adapters.sqlite_schema import MIGRATIONS
from casehub.lifecycle import CaseStatus
from tests.cli.program import Gate, Program, Result

EVERYTHING = ("--app", "stories:everything")


def start(program: Program, definition: str, id: str, *facts: str) -> None:
    words = [word for fact in facts for word in ("--fact", fact)]
    result = program.inside("case", "start", definition, *words, "--id", id, *EVERYTHING)
    assert result.code in (0, 1), result.err


def test_a_case_is_worked_here_until_it_completes(program: Program) -> None:
    result = program.inside("case", "start", "stories:claim", "--fact", "document=Ada met Grace", "-o", "json")
    assert result.code == 0, result.err
    assert result.json["status"] == "COMPLETED"
    assert result.json["facts"]["decision"] == "approve"
    assert not (program.folder / "casehub.db.sock").exists()


def test_a_waiting_case_is_left_signalled_and_finished_here(program: Program) -> None:
    start(program, "payment", "p", "amount=12.5")
    assert program.inside("case", "show", "p", "-o", "json").json["status"] == "WAITING"
    refused = program.inside("case", "signal", "p", "aproved=true", *EVERYTHING)
    assert (refused.code, "did you mean 'approved'?" in refused.err) == (2, True)
    done = program.inside("case", "signal", "p", "approved=false", *EVERYTHING, "-o", "json")
    assert done.code == 0, done.err
    assert (done.json["status"], done.json["facts"]["paid"]) == ("COMPLETED", "nothing")
    late = program.inside("case", "signal", "p", "approved=true", *EVERYTHING)
    assert (late.code, "COMPLETED" in late.err) == (4, True)


def test_commands_know_what_a_worker_process_worked_with_when_it_runs_no_more(program: Program) -> None:
    with program.up("stories:payment", "--loop", "stories:planning") as up:
        assert program.inside("case", "start", "payment", "--fact", "amount=12.5", "--id", "p").code == 0
        up.stop()
    assert (program.folder / "casehub.db.app").stat().st_mode & 0o777 == 0o600
    assert program.inside("case", "explain", "p", "-o", "json").json["items"][0]["verdict"] == "MISSING_FACTS"
    done = program.inside("case", "signal", "p", "approved=true", "-o", "json")
    assert (done.code, done.json["status"]) == (0, "COMPLETED"), done.err
    asked = program.inside("events", "list", "--case", "p", "--type", "DELIBERATION_FINISHED", "-o", "ndjson").lines
    assert len(asked) == 1  # by the same loop control


def test_what_was_worked_without_a_worker_process_is_known_until_one_works_something_else(program: Program) -> None:
    start(program, "payment", "p", "amount=12.5")
    assert program.inside("case", "suspend", "p").code == 0
    narrow = program.inside("case", "start", "stories:claim", "--fact", "document=Ada")
    assert narrow.code == 0, narrow.err
    assert program.inside("case", "resume", "p").code == 0  # what is given for one command is for that alone
    with program.up("stories:claim") as up:
        up.stop()
    refused = program.inside("case", "suspend", "p")
    assert (refused.code, "'payment'" in refused.err) == (2, True), refused.err
    assert program.inside("case", "suspend", "p", *EVERYTHING).code == 0  # what is given goes first


def test_elsewhere_a_command_says_what_was_worked_and_where(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    start(program, "payment", "p", "amount=12.5")
    elsewhere = program.folder / "elsewhere"
    elsewhere.mkdir()
    there = Program(elsewhere).inside("case", "signal", "p", "approved=true", "--db", "../casehub.db")
    assert there.code == 2
    assert (
        "no worker process owns ../casehub.db, and what to work with is not known, only that it was stories:everything "
        f"in the folder {program.folder.resolve()} the last time; go there, start 'casehub up stories:everything' there, "
        "or give --app stories:everything"
    ) in there.err
    monkeypatch.setattr(os, "geteuid", lambda: 4711)  # what somebody else wrote is not run
    assert program.inside("case", "signal", "p", "approved=true").code == 2


def test_other_open_cases_are_left_alone(program: Program) -> None:
    with Gate(program.gate) as gate, program.up("stories:held") as up:
        program.inside("case", "start", "held", "--fact", "task=dig", "--id", "h")
        gate.next()
        up.process.kill()
        up.process.wait()
    before = program.inside("case", "show", "h", "-o", "json").json
    start(program, "claim", "c", "document=Ada")
    assert program.inside("case", "show", "h", "-o", "json").json == before


def test_a_running_case_is_suspended_and_cancelled_without_being_worked(program: Program) -> None:
    with Gate(program.gate) as gate, program.up("stories:held") as up:
        program.inside("case", "start", "held", "--fact", "task=dig", "--id", "h")
        gate.next()
        up.process.kill()
        up.process.wait()
    assert program.inside("case", "suspend", "h", *EVERYTHING).out == "case h: SUSPENDED\n"
    assert program.inside("case", "cancel", "h", *EVERYTHING, "--by", "user:ada").out == "case h: CANCELLED\n"
    last = program.inside("events", "list", "--case", "h", "--type", "CaseEnded", "-o", "ndjson").lines[-1]
    assert (last["name"], last["by"]) == ("CASE_CANCELLED", "user:ada")


def stage(program: Program, verb: str, *words: str) -> Result:
    return program.inside("case", "stage", "r", "publication", verb, *words)


def test_a_stage_is_suspended_resumed_and_activated_by_hand(program: Program) -> None:
    (program.folder / "casehub.toml").write_text('app = "stories:report"\nloop = "stories:planning"\n')
    assert program.inside("case", "start", "report", "text=news", "--id", "r").code == 0
    early = stage(program, "suspend")
    assert (early.code, "it is PENDING, and only a stage that is ACTIVE can" in early.err) == (4, True)
    wrong = program.inside("case", "stage", "r", "publicaton", "activate")
    assert (wrong.code, "did you mean 'publication'?" in wrong.err) == (2, True)
    unknown = stage(program, "actvate")
    assert (unknown.code, "activate" in unknown.err) == (2, True)
    done = stage(program, "activate", "--by", "user:ada", "--reason", "checked", "-o", "json")
    assert (done.code, done.json["status"]) == (0, "COMPLETED")
    entered = program.inside("events", "list", "--case", "r", "--type", "STAGE_ACTIVATED", "-o", "ndjson").lines[-1]
    assert (entered["by"], entered["body"]) == ("user:ada", {"stage": "publication", "reason": "checked"})


def test_a_worker_process_steers_the_stages_of_its_cases(program: Program) -> None:
    with program.up("stories:report", "--loop", "stories:planning") as up:
        assert program.inside("case", "start", "report", "text=news", "--id", "r").code == 0
        for _ in range(2):
            assert stage(program, "activate", "--key", "k").code == 0
        gone = stage(program, "terminate")
        assert (gone.code, "COMPLETED" in gone.err) == (4, True)
        assert up.stop() == 0


def test_facts_show_how_sure_their_author_is(program: Program) -> None:
    program.inside("case", "start", "stories:guess", "--fact", "text=see below", "--id", "g")
    facts = program.inside("case", "facts", "g", "-o", "json").json["items"]
    assert [(fact["fact"], fact["confidence"]) for fact in facts] == [("text", None), ("topic", 0.4)]
    assert '"invoice" (confidence 0.4)' in program.inside("case", "facts", "g").out


def test_facts_show_their_history_and_what_led_to_them(program: Program) -> None:
    start(program, "claim", "c", "document=Ada met Grace")
    facts = program.inside("case", "facts", "c", "-o", "json").json["items"]
    assert [(fact["fact"], fact["by"]) for fact in facts][1:] == [
        ("entities", "worker:extract"),
        ("risk", "worker:assess"),
        ("decision", "worker:decide"),
    ]
    history = program.inside("case", "facts", "c", "risk", "--history", "-o", "ndjson").lines
    assert [(fact["value"], fact["deleted"]) for fact in history] == [(0.2, False)]
    why = program.inside("case", "facts", "c", "risk", "--why", "-o", "ndjson").lines
    written = [list(event["body"]["facts"]) for event in why if event["name"] == "CONTEXT_CHANGED"]
    assert written == [["document"], ["entities"], ["risk"]]
    wrong = program.inside("case", "facts", "c", "risc")
    assert (wrong.code, wrong.err) == (3, "error: case 'c' never had a fact 'risc'; did you mean 'risk'?\n")


def test_a_stuck_case_is_explained_from_its_definition(program: Program) -> None:
    start(program, "stuck", "s", "question=why")
    told = program.inside("case", "explain", "s", *EVERYTHING, "-o", "json").json["items"]
    assert [(each["binding"], each["verdict"]) for each in told] == [
        ("take_notes", "UNCHANGED"),
        ("answer", "MISSING_FACTS"),
    ]
    assert program.inside("case", "explain", "s", "anser", *EVERYTHING).err.endswith("did you mean 'answer'?\n")
    assert [each["verdict"] for each in program.inside("case", "explain", "s", "-o", "ndjson").lines] == [
        "UNCHANGED",
        "MISSING_FACTS",
    ]
    program.forget()
    assert "--app module:attribute" in program.inside("case", "explain", "s").err


def test_a_decision_after_the_other_is_shown(program: Program) -> None:
    result = program.inside("case", "start", "stories:claim", "--fact", "document=Ada met Grace", "--step")
    assert result.code == 0, result.err
    assert result.out.startswith(
        'step 1\n  eligible  extract\n  chosen    extract\n  written   entities = ["Ada","Grace"]'
    )
    assert "step 3" in result.out


def test_lists_are_filtered_and_go_on_where_they_ended(program: Program) -> None:
    for number in range(3):
        start(program, "payment", f"p{number}")
    start(program, "claim", "c0", "document=Ada")
    page = program.inside("case", "list", "--limit", "2", "-o", "json").json
    assert ([case["case"] for case in page["items"]], page["next"]) == (["c0", "p2"], "p2")
    rest = program.inside("case", "list", "--after", "p2", "-o", "json").json
    assert ([case["case"] for case in rest["items"]], rest["next"]) == (["p1", "p0"], None)
    waiting = program.inside("case", "list", "--status", "waiting,suspended", "-o", "ndjson").lines
    assert {case["status"] for case in waiting} == {CaseStatus.WAITING}
    assert [case["case"] for case in program.inside("case", "list", "--definition", "claim", "-o", "ndjson").lines] == [
        "c0"
    ]
    first = program.inside("events", "list", "--limit", "1", "-o", "json").json
    assert first["next"] == "1"
    second = program.inside("events", "list", "--after", "1", "--limit", "1", "-o", "json").json["items"]
    assert [event["seq"] for event in second] == [2]


def test_events_are_tailed_to_the_end_of_the_log(program: Program) -> None:
    start(program, "claim", "c", "document=Ada")
    result = program.inside("events", "tail", "--limit", "2", "-o", "ndjson")
    assert [event["name"] for event in result.lines] == ["GOAL_REACHED", "CASE_COMPLETED"]
    assert result.err == "no worker process owns casehub.db: that is all there is\n"
    behind = program.inside("events", "tail", "--after", "14", "-o", "ndjson").lines
    assert [event["seq"] for event in behind] == [15, 16]
    watched = program.inside("case", "watch", "c", "--type", "GoalReached", "-o", "ndjson").lines
    assert [event["name"] for event in watched] == ["GOAL_REACHED"]


def test_a_table_is_plain_and_whole_where_it_is_no_terminal(program: Program) -> None:
    start(program, "claim", "c" * 100, "document=Ada \x1b[31mmet Grace")
    listed = program.inside("case", "list").out.splitlines()
    assert listed[0].split() == ["CASE", "DEFINITION", "STATUS", "STARTED", "CHANGED", "EVENTS", "REASON"]
    assert listed[1].startswith("c" * 100 + "  claim")
    shown = program.inside("case", "show", "c" * 100).out
    assert "\x1b" not in shown
    assert r"Ada \u001b[31mmet Grace" in shown


def test_the_database_is_checked_and_what_is_broken_named(program: Program) -> None:
    start(program, "claim", "c", "document=Ada")
    assert program.inside("db", "check").code == 0
    with sqlite3.connect(program.database) as connection:
        connection.execute("DELETE FROM events WHERE seq = 5")
    connection.close()
    result = program.inside("db", "check", "-o", "json")
    assert result.code == 1
    assert any(finding["kind"] == "fault" for finding in result.json["items"])
    assert json.loads(result.err)["detail"].startswith("database casehub.db: ")


def test_the_schema_is_printed_and_made(program: Program) -> None:
    sql = program.inside("db", "migrate", "--sql").out
    assert not program.database.exists()
    with sqlite3.connect(program.folder / "by-hand.db") as by_hand:
        by_hand.executescript(sql)
    by_hand.close()
    latest = MIGRATIONS[-1].version
    made = program.inside("db", "migrate", "--db", "by-hand.db").out
    assert f"schema version {latest}, nothing to do" in made
    assert program.inside("db", "migrate", "-o", "json").json == {"from": 0, "to": latest}
    assert program.inside("case", "list", "-o", "json").json == {"items": [], "next": None}


def test_the_doctor_says_what_would_be_parked(program: Program) -> None:
    with Gate(program.gate) as gate, program.up("stories:everything") as up:
        program.inside("case", "start", "held", "--fact", "task=dig", "--id", "h")
        gate.next()
        up.process.kill()
        up.process.wait()
    for app, reason in (
        ("stories:claim", "is of definition 'held', which stories:claim lacks; "),
        (
            "stories:held_anew",
            "its definition has changed and lacks work, which is in flight; bring that back, or keep ",
        ),
    ):
        result = program.inside("doctor", "--app", app, "-o", "json")
        assert result.code == 1
        faults = [check for check in result.json["items"] if check["level"] == "fault"]
        assert [each["subject"] for each in faults] == ["parked case"]
        assert faults[0]["text"].startswith(f"h: {reason}")
    refused = program.inside("def", "migrate", "held", "--app", "stories:held_anew", "--dry-run", "-o", "json")
    assert refused.code == 1
    assert refused.json["items"][0]["refused"].startswith(reason)


WRONG = [
    # words, exit code, what is said
    ((), 0, ""),
    (("cas", "list"), 2, "did you mean 'case'?"),
    (("case", "lst"), 2, "did you mean 'list'?"),
    (("case", "list", "--stats", "running"), 2, "--status"),
    (("case", "list", "--status", "runing"), 2, "did you mean 'RUNNING'?"),
    (("case", "list", "--definition", "clam"), 3, "did you mean 'claim'?"),
    (("case", "list", "--limit", "0"), 2, "at least 1"),
    (("case", "list", "--limit", "many"), 2, "--limit"),
    (("case", "list", "--after", "c9"), 3, "there is no case 'c9'"),
    (("case", "list", "-o", "yaml"), 2, "json"),
    (("case", "show"), 2, "ID is missing (see 'casehub case show --help')"),
    (("case", "show", "c9"), 3, "list them with 'casehub case list'"),
    (("case", "facts", "c", "--why"), 2, "name it"),
    (("case", "start", "clam", *EVERYTHING), 3, "did you mean 'claim'?"),
    (("case", "start", "claim", "--db", "other.db"), 2, "start one with 'casehub up APP', or give --app module:attribute"),
    (("case", "start", "claim", "--fact", "documnt=x", *EVERYTHING), 2, "did you mean 'document'?"),
    (("case", "start", "claim", "--fact", "document", *EVERYTHING), 2, "write name=value"),
    (("case", "start", "claim", "--fact", "document=5", *EVERYTHING), 2, "document"),
    (("case", "start", "claim", "--fact", 'document="cut', *EVERYTHING), 2, "begins like JSON and is none"),
    (("case", "start", "claim", "--data", "none.json", *EVERYTHING), 2, "none.json"),
    (("case", "start", "stories:everything"), 2, "has several definitions: claim, payment"),
    (("case", "start", "stories:claims"), 2, "did you mean 'claim'?"),
    (("case", "start", "storys:claim"), 2, "there is no module 'storys'"),
    (("case", "start", "stories.py:claim"), 2, "write stories:claim"),
    (("case", "start", "stories:number"), 2, "name a CaseDefinition"),
    (("case", "start", "stories:broken"), 8, "definition 'broken' cannot work"),
    (("case", "start", "claim", "--timeout", "soon", *EVERYTHING), 2, "write numbers with units"),
    (("case", "signal", "c", *EVERYTHING), 2, "name=value"),
    (("case", "signal", "c", "approved=true", *EVERYTHING), 2, "takes no signal 'approved'"),
    (("case", "signal", "c", "approved=true", "--wait", "trun", *EVERYTHING), 2, "turn"),
    (("case", "cancel", "c", *EVERYTHING), 4, "COMPLETED"),
    (("case", "cancel", "c", "--by", "ada:", *EVERYTHING), 2, "write kind:name"),
    (("events", "list", "--type", "CaseStalld"), 2, "did you mean 'CASE_STALLED'?"),
    (("events", "list", "--case", "c9"), 3, "there is no case 'c9'"),
    (("up",), 2, "APP is missing"),
    (("up", "stories:claim", "--db", "memory://"), 2, "give --db the path of a file"),
    (("up", "stories:claim", "--db", "sqlit:///x.db"), 2, "did you mean 'sqlite'?"),
    (("up", "stories:claim", "--drain-timeout", "30"), 2, "write numbers with units"),
    (("up", "stories:claim", "--loop", "stories:number"), 2, "--loop stories:number"),
    (("up", "stories:claim", "--loop", "stories:planning", "--loop", "clam=stories:planning"), 2, "did you mean 'claim'?"),
    (("case", "list", "--db", "other.db"), 7, "database other.db: there is none"),
    (("case", "list", "--config", "none.toml"), 2, "none.toml"),
]  # fmt: skip


@pytest.fixture(scope="module")
def with_a_case(shared: Program) -> Program:
    start(shared, "claim", "c", "document=Ada")
    return shared


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=[" ".join(words) or "nothing" for words, _, _ in WRONG])
def test_what_is_typed_wrong_is_answered_with_what_is_right(
    with_a_case: Program, words: tuple[str, ...], code: int, said: str
) -> None:
    result = with_a_case.inside(*words)
    assert result.code == code, result.err or result.out
    assert said.lower() in result.err.lower()
    if code:
        assert result.out == ""
        assert result.err.startswith("error: ")
        assert "Traceback" not in result.err
        as_json = with_a_case.inside(*words, "-o", "json") if "-o" not in words else None
        if as_json is not None:
            assert as_json.code == code
            told = json.loads(as_json.err)
            assert said.lower() in told["detail"].lower()


def test_a_path_that_is_too_long_for_a_socket_is_refused_before_anything_is_made(program: Program) -> None:
    deep = Path(*["folder" * 4] * 5)
    (program.folder / deep).mkdir(parents=True)
    result = program.inside("up", "stories:claim", "--db", f"{deep}/casehub.db")
    assert result.code == 2
    assert "a Unix socket takes" in result.err
    assert list((program.folder / deep).iterdir()) == []


def test_a_database_of_somebody_else_is_not_allowed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    start(program, "claim", "c", "document=Ada")
    monkeypatch.setattr("casehub.cli.options.os.access", lambda path, mode: False)  # root may read everything
    result = program.inside("case", "list")
    assert (result.code, result.err.startswith("error: database casehub.db: this user may not read it")) == (5, True)


def test_a_case_can_be_tried_without_a_database(program: Program) -> None:
    result = program.inside("case", "start", "stories:claim", "document=Ada", "--db", "memory://", "-o", "json")
    assert (result.code, result.json["status"]) == (0, "COMPLETED")
    assert list(program.folder.iterdir()) == []


def test_what_to_work_with_can_be_a_setting(program: Program) -> None:
    (program.folder / "casehub.toml").write_text('app = "stories:everything"\ndb = "mine.db"\nby = "user:ada"\n')
    result = program.inside("case", "start", "claim", "document=Ada", "--id", "c")
    assert result.code == 0, result.err
    assert (program.folder / "mine.db").exists()
    assert program.inside("events", "list", "--limit", "1", "-o", "ndjson").lines[0]["by"] == "user:ada"
    told = {check["subject"]: check["text"] for check in program.inside("doctor", "-o", "json").json["items"]}
    assert told["setting db"].startswith("'sqlite:///mine.db' from casehub.toml")
    assert told["app"] == "stories:everything: claim, payment, stuck, held, deaf"


def test_a_hub_with_a_database_of_its_own_keeps_it(program: Program) -> None:
    (program.folder / "own.py").write_text(
        "from casehub import CaseHub\nfrom stories import claim\nhub = CaseHub(claim, store='sqlite:///own.db')\n"
    )
    refused = program.inside("case", "start", "own:hub", "document=Ada")
    assert (refused.code, "own.db; give --db own.db" in refused.err) == (2, True)
    assert program.inside("case", "start", "own:hub", "document=Ada", "--db", "own.db").code == 0
    assert program.inside("case", "list", "--db", "own.db", "-o", "json").json["items"][0]["status"] == "COMPLETED"
    loop = program.inside("up", "own:hub", "--loop", "stories:number")
    assert (loop.code, "which has its own" in loop.err) == (2, True)
    conflict = program.inside("up", "own:hub", "--db", "other.db")
    assert (conflict.code, "has its own database, own.db" in conflict.err) == (2, True)


def test_common_options_may_stand_before_the_command(program: Program) -> None:
    start(program, "claim", "c", "document=Ada")
    assert program.inside("-o", "json", "--db", "casehub.db", "case", "list").json["items"][0]["case"] == "c"


def test_a_case_is_shown_with_its_sub_cases_and_what_holds_these_up(program: Program) -> None:
    app = ("--app", "stories:inquiry")
    program.inside("case", "start", "stories:inquiry", "--fact", "heard=why", "--id", "i")
    program.inside("case", "signal", "i", "heard=why", *app)
    shown = program.inside("case", "show", "i").out
    assert "i/pay_first/1 of payment, open" in shown
    assert "i/dig/1 of stuck, open" in shown
    data = program.inside("case", "show", "i", "-o", "json").json
    assert data["parent"] is None
    assert [(child["case"], child["waited"]) for child in data["children"]] == [
        ("i/pay_first/1", True),
        ("i/dig/1", True),
    ]
    child = program.inside("case", "show", "i/dig/1")
    assert "parent" in child.out
    assert program.inside("case", "show", "i/dig/1", "-o", "json").json["parent"] == "i"
    said = {e["binding"]: e["text"] for e in program.inside("case", "explain", "i", *app, "-o", "json").json["items"]}
    assert said["pay_first"] == "waits for sub-case i/pay_first/1"
    assert said["dig"].startswith("waits for sub-case i/dig/1, which is stalled: take_notes: UNCHANGED")
    assert "nobody knows why" in said["dig"]
    assert program.inside("case", "cancel", "i", *app).code == 0
    assert {c["status"] for c in program.inside("case", "list", "-o", "json").json["items"]} == {"CANCELLED"}
