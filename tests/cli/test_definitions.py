"""`casehub def`: validate, show, draw, compare and rehearse definitions."""

from __future__ import annotations

import json

import pytest

from tests.cli.program import Program

LOAN = """
case: loan
inputs: {amount: number}
signals: {abort: boolean}
workers:
  rate: {run: "stories:rate_it", writes: rating}
  decide:
    set: {decision: 'rating > 3 ? "refer" : "approve"'}
    when: {absent: abort}
goals: {decided: present(decision), aborted: {when: abort, failure: true}}
goal: decided
"""
SET = LOAN.replace('{run: "stories:rate_it", writes: rating}', "{set: {rating: amount / 1000}}")


@pytest.fixture
def loan(program: Program) -> Program:
    (program.folder / "loan.yaml").write_text(SET)
    return program


def test_a_good_definition_is_summed_up(loan: Program) -> None:
    result = loan.inside("def", "validate", "loan.yaml", "stories:claim", "-o", "json")
    assert result.code == 0, result.err
    first, second = result.json["items"]
    assert (first["definition"], first["bindings"], first["goals"], first["app"]) == ("loan", 2, 2, "loan.yaml")
    assert second["definition"] == "claim"


def test_every_mistake_of_every_file_is_told(loan: Program) -> None:
    (loan.folder / "bad.yaml").write_text(SET.replace("amount / 1000", "amuont / 1000").replace("number", "nmber"))
    alone = loan.inside("def", "validate", "bad.yaml")
    assert alone.code == 8
    assert "bad.yaml:3:18: inputs.amount: 'nmber' is no type; did you mean 'number'?" in alone.err
    assert "bad.yaml:6:24: workers.rate.set.rating: names 'amuont'" in alone.err
    several = loan.inside("def", "validate", "bad.yaml", "loan.yaml", "-o", "json")
    assert several.code == 8
    good, bad = several.json["items"]
    assert good["definition"] == "loan"
    assert [each["place"] for each in bad["problem"]["problems"]] == ["bad.yaml:3:18", "bad.yaml:6:24"]
    assert loan.inside("def", "validate").code == 2


def test_a_definition_is_shown(loan: Program) -> None:
    shown = loan.inside("def", "show", "loan.yaml")
    assert 'decision = rating > 3 ? "refer" : "approve"' in shown.out
    assert loan.inside("def", "show", "loan.yaml", "-o", "json").json["input"] == {"amount": {"type": "float"}}


def test_a_definition_is_drawn(loan: Program) -> None:
    assert loan.inside("def", "diagram", "loan.yaml").out.startswith("flowchart LR\n")
    assert loan.inside("def", "diagram", "loan.yaml", "--format", "svg").out.startswith("<svg ")
    assert loan.inside("def", "diagram", "loan.yaml", "--out", "loan.svg").code == 0
    assert (loan.folder / "loan.svg").read_text().startswith("<svg ")


def test_one_of_several_is_named(loan: Program) -> None:
    several = loan.inside("def", "diagram", "stories:everything")
    assert (several.code, "say which with --definition" in several.err) == (3, True)
    wrong = loan.inside("def", "diagram", "stories:everything", "--definition", "claimm")
    assert (wrong.code, "did you mean 'claim'?" in wrong.err) == (3, True)
    assert loan.inside("def", "diagram", "stories:everything", "--definition", "claim").code == 0


def test_definitions_are_compared(loan: Program) -> None:
    same = loan.inside("def", "diff", "loan.yaml", "loan.yaml")
    assert (same.code, same.out) == (0, "no difference\n")
    (loan.folder / "new.yaml").write_text(SET.replace("rating > 3", "rating > 4"))
    differs = loan.inside("def", "diff", "loan.yaml", "new.yaml", "-o", "json")
    assert differs.code == 1
    (only,) = differs.json["items"]
    assert (only["kind"], only["name"], only["change"]) == ("binding", "decide", "changed")
    assert only["details"]["computes"]["now"] == 'decision = rating > 4 ? "refer" : "approve"'


def test_the_schema_is_printed(loan: Program) -> None:
    assert json.loads(loan.inside("def", "schema").out)["required"] == ["case"]


CASES = """
definition: loan.yaml
cases:
  - name: a small loan
    start: {amount: 100}
    expect: {status: COMPLETED, facts: {decision: approve, rating: 0.1}, absent: abort, ran: [rate, decide]}
  - name: a rating made up, at the second attempt
    start: {amount: 100}
    answers:
      rate: [{fails: not now, as: TimeoutError}, {returns: {rating: 5}}]
    then: [{advance: 1m}]
    expect: {facts: {decision: refer}}
  - name: an abort
    start: {amount: 100}
    answers:
      rate: {declines: not today}
    then: [{signal: {abort: true}}]
    expect: {status: FAULTED}
"""


def test_cases_are_rehearsed(loan: Program) -> None:
    (loan.folder / "loan.test.yaml").write_text(CASES)
    result = loan.inside("def", "test", "loan.test.yaml", "-o", "json")
    assert result.code == 0, result.out
    assert [(item["case"], item["status"]) for item in result.json["items"]] == [
        ("a small loan", "COMPLETED"),
        ("a rating made up, at the second attempt", "COMPLETED"),
        ("an abort", "FAULTED"),
    ]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("decision: approve,", "decision: refer,"), "fact 'decision' is 'approve', and 'refer' was expected"),
        (("absent: abort", "absent: rating"), "fact 'rating' is there: 0.1"),
        (("[rate, decide]", "[decide]"), "rate, decide ran, and decide was expected"),
        (("status: COMPLETED", "status: WAITING"), "status is COMPLETED, and WAITING was expected"),
        (
            ("[{fails: not now, as: TimeoutError}, {returns: {rating: 5}}]", "[{fails: not now}]"),
            "its script has 1 results",
        ),
        (("start: {amount: 100}", "start: {}"), "amount"),
    ],
)
def test_what_is_not_as_expected_is_told(loan: Program, change: tuple[str, str], problem: str) -> None:
    (loan.folder / "loan.test.yaml").write_text(CASES.replace(*change, 1))
    result = loan.inside("def", "test", "loan.test.yaml", "-o", "json")
    assert result.code == 1
    assert any(problem in each for item in result.json["items"] for each in item["problems"]), result.out


@pytest.mark.parametrize(
    ("change", "place", "problem"),
    [
        (("rate: [", "rat: ["), "10:7", "'rat' is no worker; did you mean 'rate'?"),
        (("{rating: 5}", "5"), "10:60", "returns several facts"),
        (("TimeoutError", "TimeoutErr"), "10:35", "'TimeoutErr' is no exception"),
        (("{declines: not today}", "{}"), "16:13", "is no answer"),
        (("ran: [rate,", "ran: [rat,"), "6:95", "'rat' is no binding"),
        (("facts: {decision: refer}", "facts: {decison: refer}"), "12:22", "'decison' is no fact"),
        (("advance: 1m", "advance: soon"), "11:22", "'soon' is no duration"),
        (("expect: {status: FAULTED}", "expcet: {}"), "18:5", "did you mean 'expect'?"),
    ],
)
def test_mistakes_in_rehearsals_have_their_places(
    loan: Program, change: tuple[str, str], place: str, problem: str
) -> None:
    (loan.folder / "loan.test.yaml").write_text(CASES.replace(*change, 1))
    result = loan.inside("def", "test", "loan.test.yaml")
    assert result.code == 8
    assert f"loan.test.yaml:{place}: " in result.err
    assert problem in result.err


def test_a_definition_in_the_place_of_its_cases_is_said_to_be_one(loan: Program) -> None:
    result = loan.inside("def", "test", "loan.yaml")
    assert result.code == 8
    assert "is a definition, and cases to play are wanted; give the file of its cases" in result.err
    assert "is no key of it" not in result.err


def test_people_are_rehearsed(loan: Program) -> None:
    (loan.folder / "asked.yaml").write_text("""
case: asked
inputs: {amount: number}
workers:
  approve: {ask: {title: Pay?, form: boolean, shows: [amount], users: [ada]}, writes: approved, refire: once}
goal: approved
""")
    text = """
definition: asked.yaml
cases:
  - {name: yes, start: {amount: 1}, then: [{complete: {approve: true}}], expect: {status: COMPLETED, facts: {approved: true}}}
  - {name: no, start: {amount: 1}, then: [{decline: {approve: not me}}], expect: {absent: approved}}
  - {name: twice, start: {amount: 1}, then: [{decline: {approve: x}}, {complete: {approve: true}}], expect: {absent: approved}}
"""
    (loan.folder / "asked.test.yaml").write_text(text)
    result = loan.inside("def", "test", "asked.test.yaml", "-o", "json")
    found = [(item["ok"], item["problems"][:1]) for item in result.json["items"]]
    assert found == [(True, []), (True, []), (False, ["complete: binding 'approve' asks nobody now"])]
    (loan.folder / "asked.test.yaml").write_text(text.replace("{decline: {approve: not me}}", "{decline: {aprove: x}}"))
    wrong = loan.inside("def", "test", "asked.test.yaml")
    assert (wrong.code, "'aprove' is no binding; did you mean 'approve'?" in wrong.err) == (8, True), wrong.err


def test_what_sub_cases_do_is_rehearsed_too(loan: Program) -> None:
    (loan.folder / "visit.yaml").write_text("""
case: visit
inputs: {address: string}
workers:
  look: {set: {seen: '"seen " + address'}}
  confirm: {ask: {title: Confirm it, form: string, shows: [seen], groups: [field]}, writes: report}
goal: report
""")
    (loan.folder / "sites.yaml").write_text("""
case: sites
inputs: {sites: "list[string]"}
workers:
  visit_all: {case: {definition: visit.yaml, starts: 'sites.map(site, {"address": site})', takes: report, need: 2}, writes: reports}
goal: reports
""")
    text = """
definition: sites.yaml
cases:
  - name: two of three
    start: {sites: [a, b, c]}
    answers: {look: {returns: {seen: scripted}}}
    then: [{complete: {confirm: one}}, {complete: {confirm: two}}]
    expect: {status: COMPLETED, facts: {reports: [one, two]}, ran: [visit_all]}
"""
    (loan.folder / "sites.test.yaml").write_text(text)
    assert [item["problems"] for item in loan.inside("def", "test", "sites.test.yaml", "-o", "json").json["items"]] == [
        []
    ]
    for right, wrong, what in (
        ("confirm: one", "confrm: one", "'confrm' is no binding; did you mean 'confirm'?"),
        ("look: {returns: {seen: scripted}}", "visit_all: {returns: [x]}", "'visit_all' is no worker"),
    ):
        (loan.folder / "sites.test.yaml").write_text(text.replace(right, wrong))
        result = loan.inside("def", "test", "sites.test.yaml")
        assert (result.code, what in result.err) == (8, True), result.err


def test_a_definition_in_python_is_rehearsed_by_its_types(loan: Program) -> None:
    (loan.folder / "claim.test.yaml").write_text("""
definition: stories:claim
cases:
  - name: names made up
    start: {document: nothing}
    answers: {extract: {returns: [Ada, Grace]}}
    expect: {status: COMPLETED, facts: {entities: [Ada, Grace]}}
""")
    result = loan.inside("def", "test", "claim.test.yaml")
    assert result.code == 0, result.out + result.err


def test_open_cases_are_migrated_with_and_without_a_worker_process_and_a_dry_run_only_says_so(program: Program) -> None:
    (program.folder / "versions.py").write_text(
        "from casehub import CaseDefinition\n"
        "def made(name):\n"
        "    d = CaseDefinition('claim', goal='risk', signals={'amount': int})\n"
        "    @d.worker(name=name, writes='risk')\n"
        "    async def assess(amount: int) -> int:\n"
        "        return amount\n"
        "    return d\n"
        "old, new = made('assess'), made('judge')\n"
    )
    for id in ("a", "b"):
        program.inside("case", "start", "claim", "--id", id, "--app", "versions:old")
    dry = program.inside("def", "migrate", "claim", "--app", "versions:new", "--dry-run", "-o", "json")
    assert dry.code == 0, dry.err
    assert [each["case"] for each in dry.json["items"]] == ["b", "a"]
    assert "DEFINITION_ADOPTED" not in program.inside("events", "list").out
    done = program.inside("def", "migrate", "claim", "--app", "versions:new")
    assert done.code == 0, done.err
    assert program.inside("events", "list").out.count("DEFINITION_ADOPTED") == 2
    with program.up("versions:old"):
        assert [each["case"] for each in program.inside("def", "migrate", "claim", "-o", "json").json["items"]] == [
            "b",
            "a",
        ]
        again = program.inside("def", "migrate", "claim")
        assert "every open case of claim has the current version" in again.out + again.err
    assert "did you mean 'claim'?" in program.inside("def", "migrate", "clam", "--app", "versions:new", "--dry-run").err
