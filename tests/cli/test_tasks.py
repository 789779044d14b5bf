"""Human tasks at the command line, beside a worker process and without one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.program import Program, Result

LOAN = ("--app", "stories:loan")
TASK = "l/approve/1"
ADA = ("--by", "user:ada")


def started(program: Program, id: str = "l") -> None:
    result = program.inside("case", "start", "loan", "--fact", "applicant=Ada", "--id", id, *LOAN)
    assert result.code == 0, result.err


def does(program: Program, verb: str, *words: str, by: str = "user:ada", task: str = TASK) -> Result:
    return program.inside("task", verb, task, *words, "--by", by, *LOAN)


def test_tasks_are_listed_from_the_file_for_people_and_for_programs(program: Program) -> None:
    started(program)
    started(program, "m")
    listed = program.inside("task", "list")
    assert listed.code == 0, listed.err
    assert [word in listed.out for word in (TASK, "m/approve/1", "OPEN", "underwriters", "Approve Ada?", "2d")][:5] == [
        True
    ] * 5
    told = program.inside("task", "list", "--limit", "1", "-o", "json").json
    assert (told["items"][0]["id"], told["items"][0]["priority"], told["next"]) == (TASK, 3, TASK)
    rest = program.inside("task", "list", "--after", TASK, "-o", "ndjson").lines
    assert [task["id"] for task in rest] == ["m/approve/1"]
    assert program.inside("task", "list", "--user", "ada", "-o", "ndjson").lines == []
    mine = program.inside(
        "task", "list", "--user", "ada", "--group", "underwriters", "--case", "m", "-o", "ndjson"
    ).lines
    assert [task["id"] for task in mine] == ["m/approve/1"]
    assert "no tasks" in program.inside("task", "list", "--status", "completed").out
    wrong = program.inside("task", "list", "--status", "opne")
    assert (wrong.code, "did you mean 'OPEN'?" in wrong.err) == (2, True)


def test_a_case_shows_its_tasks_beside_what_runs(program: Program) -> None:
    started(program)
    assert f"Approve Ada? (waits for underwriters to take task {TASK})" in program.inside("case", "show", "l").out
    told = program.inside("case", "show", "l", "-o", "json").json
    assert (told["status"], told["running"], told["tasks"]) == ("WAITING", [], [TASK])


def test_a_task_is_shown_with_its_facts_its_form_and_its_history(program: Program) -> None:
    started(program)
    assert does(program, "comment", "see page 3").code == 0
    shown = program.inside("task", "show", TASK, *LOAN)
    assert shown.code == 0, shown.err
    for expected in ("Approve Ada?", 'applicant = "Ada"', "approved: boolean", "why: string, optional", "see page 3"):
        assert expected in shown.out, shown.out
    told = program.inside("task", "show", TASK, "-o", "json").json
    assert (told["facts"], told["form"]["required"], told["comments"]) == ({"applicant": "Ada"}, ["approved"], 1)
    assert [event["name"] for event in told["history"]] == ["HUMAN_TASK_CREATED", "HUMAN_TASK_COMMENTED"]
    program.forget()
    assert program.inside("task", "show", TASK, "-o", "json").json["form"] == {}
    missing = program.inside("task", "show", "l/approve/9")
    assert (missing.code, "casehub task list" in missing.err) == (3, True)
    assert program.inside("task", "show", "nowhere/approve/1").code == 3


def test_a_task_is_taken_handed_on_and_answered_here(program: Program) -> None:
    started(program)
    assert does(program, "claim", "--group", "guests").code == 4
    assert does(program, "claim", "--group", "underwriters").out == f"task {TASK}: CLAIMED, ada; case l: WAITING\n"
    late = does(program, "claim", by="user:grace")
    assert (late.code, "ada has it" in late.err) == (4, True)
    assert does(program, "delegate", "grace").out.startswith(f"task {TASK}: CLAIMED, grace")
    assert does(program, "release", by="user:grace").out.startswith(f"task {TASK}: OPEN;")
    assert does(program, "assign", "ada", by="user:boss").out.startswith(f"task {TASK}: CLAIMED, ada")
    wrong = does(program, "complete", "aproved=true")
    assert wrong.code == 2
    assert "did you mean 'approved'?" in wrong.err
    assert "approved: Field required" in wrong.err
    done = does(program, "complete", "approved=true", "why=fine")
    assert done.out == f"task {TASK}: COMPLETED, ada; case l: COMPLETED\n"
    assert program.inside("case", "show", "l", "-o", "json").json["facts"]["letter"] == "yes"
    again = does(program, "complete", "approved=false", by="user:grace")
    assert (again.code, "COMPLETED by user:ada" in again.err) == (4, True)


def test_a_task_is_answered_from_a_file_and_declined(program: Program) -> None:
    started(program)
    (program.folder / "answer.json").write_text(json.dumps({"approved": False}))
    told = program.inside("task", "complete", TASK, "--data", "answer.json", *ADA, *LOAN, "-o", "json").json
    assert (told["status"], told["answer"]) == ("COMPLETED", {"approved": False, "why": ""})
    started(program, "m")
    declined = does(program, "decline", "--reason", "not mine", task="m/approve/1")
    assert declined.out == "task m/approve/1: REJECTED; case m: stalled\n"
    for words in ((), ("approved=true", "--value", "3")):
        assert does(program, "complete", *words).code == 2


def test_who_waits_for_the_end_of_a_case_is_told_of_the_task_that_it_waits_for(program: Program) -> None:
    words = ("loan", "applicant=Ada", "--id", "w", "--wait", "--timeout", "1s")
    assert "'casehub task show w/approve/1' says for what" in program.inside("case", "start", *words, *LOAN).err


def test_an_answer_that_is_no_field_says_how_to_answer_a_form_without_fields(program: Program) -> None:
    done = does(program, "complete", "true")
    assert (done.code, "to a form without fields, --value 'true'" in done.err) == (2, True), done.err


def test_without_a_worker_process_and_a_definition_it_says_what_to_do(program: Program) -> None:
    started(program)
    program.forget()
    refused = program.inside("task", "claim", TASK, *ADA)
    assert (refused.code, "give --app" in refused.err) == (2, True)


@pytest.fixture(scope="module")
def beside(shared: Program) -> Any:
    with shared.up("stories:loan") as up:
        yield shared
        assert up.stop() == 0


def test_beside_a_worker_process_everything_goes_to_it(beside: Program) -> None:
    assert beside.inside("case", "start", "loan", "--fact", "applicant=Ada", "--id", "b").code == 0
    task = "b/approve/1"
    assert [each["id"] for each in beside.inside("task", "list", "-o", "ndjson").lines] == [task]
    assert beside.inside("task", "claim", task, *ADA).out == f"task {task}: CLAIMED, ada; case b: WAITING\n"
    wrong = beside.inside("task", "complete", task, "approved=perhaps", *ADA, "-o", "json")
    assert wrong.code == 2
    assert "approved: Input should be a valid boolean" in wrong.err
    taken = beside.inside("task", "complete", task, "approved=true", "--by", "user:grace")
    assert (taken.code, "ada has it" in taken.err) == (4, True)
    for _ in range(2):
        done = beside.inside("task", "complete", task, "approved=true", "--key", "k", *ADA)
        assert done.code == 0, done.err
        assert done.out.startswith(f"task {task}: COMPLETED, ada")
    assert beside.inside("task", "comment", task, "late", *ADA).code == 4
    assert beside.inside("task", "release", "b/approve/2", *ADA).code == 3
