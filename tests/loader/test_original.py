"""Definitions in the format of CaseHub for Java: translated, played, and every other key named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from structlog.testing import capture_logs

from casehub import (
    CaseFaultedError,
    DefinitionError,
    MilestoneReached,
    SettingsError,
    first_writer_wins,
    load_definition,
)
from casehub.loader import loads
from casehub.loader.original_keys import KEYS
from casehub.loader.quartz import QuartzError, crontab_of, duration_of
from casehub.testing import CaseTestKit

LOAN = r"""
dsl: "0.1.0"
namespace: lending
name: loan-application
version: "1.0.0"
expressionLang: jq
spec:
  planningStrategy: sequential
  capabilities:
    - {name: extract, inputProjection: "{docs: .documents}", outputProjection: "{fields: .fields}"}
    - {name: credit-check, inputProjection: "{ssn: .fields.ssn}", outputProjection: "{creditScore: .score}"}
  workers:
    - name: extractor
      capabilities: [extract]
      executionPolicy: {timeoutMs: 60000, retries: {maxAttempts: 3, delayMs: 100}}
    - name: bureau
      capabilities: [credit-check]
  bindings:
    - name: extract-on-upload
      on: {contextChange: {filter: ".documents != null and .fields == null"}}
      capability: extract
    - name: check-credit
      on: {contextChange: {filter: ".fields != null"}}
      when: ".creditScore == null"
      capability: credit-check
      outcomePolicy: {onDecline: REROUTE, onFailure: FAULT, maxRerouteAttempts: 3}
      conflictResolverStrategy: FIRST_WRITER_WINS
    - name: underwrite
      on: {contextChange: {filter: ".creditScore != null and .decision == null"}}
      humanTask:
        title: "Underwrite loan"
        candidateGroups: [underwriters]
        expiresIn: PT24H
        outcomes: [APPROVED, REJECTED]
        outputMapping: "{decision: .outcome}"
    - name: nightly-refresh
      on: {schedule: {cron: "0 0 2 * * ?", timezone: "Europe/Paris"}}
      when: ".decision == null"
      capability: credit-check
  milestones:
    - {name: documents-read, condition: ".fields != null", slaDuration: PT2H, slaStartFrom: CASE_CREATED}
  goals:
    - {name: approved, condition: ".decision == \"APPROVED\"", kind: success}
    - {name: rejected, condition: ".decision == \"REJECTED\"", kind: failure}
  completion:
    failure: {anyOf: [rejected]}
    success: {allOf: [approved]}
  authorization: {read: [auditors], admin: [ops]}
"""


class Bureau:
    """Code for the workers, which says what it was given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    async def extract(self, given: dict[str, Any]) -> dict[str, Any]:
        self.given.append(given)
        if len(self.given) == 1:
            raise TimeoutError("not now")
        return {"fields": {"ssn": "123", "pages": len(given["docs"])}, "noise": 1}

    def score(self, given: dict[str, Any]) -> dict[str, Any]:
        self.given.append(given)
        return {"score": 700 + len(self.given)}


@pytest.mark.parametrize("outcome", ["APPROVED", "REJECTED"])
async def test_the_example_is_played_to_its_end(outcome: str) -> None:
    bureau = Bureau()
    d = loads(LOAN, workers={"extractor": bureau.extract, "bureau": bureau.score})
    async with CaseTestKit(d) as kit:
        case = await kit.start(d)
        await case.signal(documents=["a", "b"])
        await kit.advance("1s")  # the second attempt
        assert bureau.given == [{"docs": ["a", "b"]}, {"docs": ["a", "b"]}, {"ssn": "123"}]
        assert [event.milestone for event in kit.events(case, MilestoneReached)] == ["documents-read"]
        await kit.advance("2h")  # past two o'clock in Paris
        assert bureau.given[3:] == [{"ssn": "123"}]
        (task,) = await kit.hub.tasks.list(user="ada", groups=["underwriters"])
        assert task.title == "Underwrite loan"
        assert task.form is not None
        assert task.form["properties"]["outcome"] == {"enum": ["APPROVED", "REJECTED"]}
        await kit.hub.tasks.claim(task.id, by="user:ada", groups=["underwriters"])
        await kit.hub.tasks.complete(task.id, {"outcome": outcome}, by="user:ada")
        if outcome == "APPROVED":
            facts = await case.completed()
            assert facts["decision"] == "APPROVED"
            assert facts["fields"] == {"ssn": "123", "pages": 2}
            assert "noise" not in facts
        else:
            with pytest.raises(CaseFaultedError, match="rejected"):
                await case.completed()


def test_policies_are_translated() -> None:
    d = loads(LOAN)
    bindings = {binding.name: binding for binding in d.bindings}
    retry = bindings["extract-on-upload"].policy.retry
    assert (retry.attempts, retry.wait, retry.factor, retry.jitter) == (3, "100ms", 1, False)
    assert str(bindings["extract-on-upload"].policy.timeout) == "0:01:00"
    outcomes = bindings["check-credit"].policy.outcomes
    assert str(bindings["check-credit"].when) == "(.fields != null & .creditScore == null)"
    assert (outcomes.declined, outcomes.failed) == ("reroute", "fault_item")
    assert bindings["check-credit"].policy.merge is first_writer_wins
    assert (d.name, d.title) == ("lending.loan-application", "loan-application 1.0.0")
    assert set(d.signals) == {"documents"}


async def test_a_worker_without_code_faults_and_says_how_to_give_it() -> None:
    d = loads(LOAN)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, documents=[])
        await kit.settle()
        (failed,) = [event for event in kit.events(case) if event.name == "WORKER_EXECUTION_FAILED"]
        assert "load_definition(..., workers={'extractor': function})" in str(failed)


def test_what_is_not_enforced_is_warned_of() -> None:
    with capture_logs() as logs:
        loads(LOAN)
    assert [each["event"] for each in logs] == ["authorization of a definition is not enforced"]


async def test_failures_that_have_to_meet_fault_the_case_together() -> None:
    text = LOAN.replace("kind: success}", 'kind: success}\n    - {name: late, condition: ".late == true"}')
    d = loads(text.replace("failure: {anyOf: [rejected]}", "failure: {allOf: [rejected, late]}"))
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, late=True)
        await kit.settle()
        assert not (await case.status()).ended
        assert "failure" in {goal.name for goal in d.goals if goal.failure}


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("dsl:", "summary: x\ndsl:", "summary"),
        ("  planningStrategy", "  humanTaskRouting: x\n  planningStrategy", "humanTaskRouting"),
        ("{name: extract, ", "{name: extract, cognitiveDemand: 1, ", "cognitiveDemand"),
        ("    - name: bureau\n", "    - name: bureau\n      function: x\n", "function"),
        ("{timeoutMs: 60000, ", "{timeoutMs: 60000, backoff: x, ", "backoff"),
        ("{maxAttempts: 3, ", "{maxAttempts: 3, backoff: x, ", "backoff"),
        ("      capability: extract\n", "      capability: extract\n      lifecycleScope: CASE\n", "lifecycleScope"),
        (
            '{contextChange: {filter: ".fields != null"}}',
            '{contextChange: {filter: "true", listenLayer: x}}',
            "listenLayer",
        ),
        ('{contextChange: {filter: ".fields != null"}}', "{cloudEvent: {type: x}}", "cloudEvent"),
        ("{onDecline: REROUTE,", "{onExpired: FAULT, onDecline: REROUTE,", "onExpired"),
        ("        expiresIn", "        claimDeadlineHours: 3\n        expiresIn", "claimDeadlineHours"),
        ('timezone: "Europe/Paris"', 'timezone: "Europe/Paris", every: PT1H', "every"),
        ("{name: documents-read, ", "{name: documents-read, entryCriteria: x, ", "entryCriteria"),
        ("{name: approved, ", "{name: approved, terminal: true, ", "terminal"),
        ("    success:", "    custom: {anyOf: [approved]}\n    success:", "custom"),
        ("{anyOf: [rejected]}", "{anyOf: [rejected], noneOf: []}", "noneOf"),
        ("{read: [auditors], ", "{read: [auditors], write: [ops], ", "write"),
    ],
)
def test_every_other_key_is_an_error_that_names_it(old: str, new: str, key: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        loads(LOAN.replace(old, new, 1), "loan.yaml")
    assert [f"'{key}' is no key of it" in each.reason for each in caught.value.problems] == [True], caught.value


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('.documents != null and', '.documents != null ^an', "is not jq"),
        ("capability: extract\n", "capability: ^extrct\n", "'extrct' is no capability; did you mean 'extract'?"),
        ("capabilities: [extract]", "capabilities: [^extrct]", "'extrct' is no capability"),
        ('"{fields: .fields}"', '^".fields"', "is no object whose names can be told"),
        ("anyOf: [rejected]", "anyOf: [^rejectd]", "'rejectd' is no goal; did you mean 'rejected'?"),
        ("name: extract, inputProjection", "name: ^3, inputProjection", "is the number 3, and text was expected"),
        ("PT24H", "^24h", "'24h' is no span of time"),
        ("0 0 2 * * ?", "^0 2 * * ?", "has 5 fields, and Quartz has six or seven"),
        ("0 0 2 * * ?", "^0 0 25 * * ?", "'25' is no hour"),
        ("Europe/Paris", "^Europe/Pari", "there is no time zone 'Europe/Pari'"),
        ("FIRST_WRITER_WINS", "^FIRST_WINS", "did you mean 'FIRST_WRITER_WINS'?"),
        ("capability: extract\n", "subCase: {namespace: lending, name: ^visit, version: x}\n", "No such file"),
        ("capability: extract\n", "subCase: ^{name: visit}\n", "lacks 'namespace'"),
        ("expressionLang: jq", "expressionLang: ^mvel", "'mvel' is no choice"),
        ('dsl: "0.1.0"', 'dsl: ^"9.9"', "'9.9' is no version of the format"),
        ('dsl: "0.1.0"', 'dsl: ^"1.0.0"', "'1.0.0' is no version of the format"),
        ('version: "1.0.0"', 'version: ^banana', "'banana' is no version"),
        ("outcomes: [APPROVED, REJECTED]", "outcomes: ^[]", "a list of answers was expected"),
        ("maxRerouteAttempts: 3", "maxRerouteAttempts: ^-1", "allows -1"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_place(old: str, new: str, problem: str) -> None:
    marked = LOAN.replace(old, new, 1)
    at = marked.index("^")
    quoted = marked[at - 1] == '"'  # the place is that of the whole text, with its quotes
    place = f"{marked.count(chr(10), 0, at) + 1}:{at - marked.rfind(chr(10), 0, at)}"
    with pytest.raises(DefinitionError) as caught:
        loads(marked.replace("^", "", 1), "loan.yaml")
    if quoted:
        line, column = map(int, place.split(":"))
        places = {place, f"{line}:{column - 1}"}
    else:
        places = {place}
    found = [each for each in caught.value.problems if problem in str(each)]
    assert [each.place.removeprefix("loan.yaml:") in places for each in found] == [True], caught.value


def test_how_often_work_is_passed_on_is_not_fewer_than_there_are_others() -> None:
    text = LOAN.replace("    - name: bureau\n      capabilities: [credit-check]\n", "".join(
        f"    - {{name: bureau{number}, capabilities: [credit-check]}}\n" for number in range(3)
    ))  # fmt: skip
    assert len(loads(text).bindings[1].workers) == 3
    assert loads(text.replace("maxRerouteAttempts: 3", "maxRerouteAttempts: 2"))
    with pytest.raises(DefinitionError, match="allows 1, and each of 2 other workers is tried once"):
        loads(text.replace("maxRerouteAttempts: 3", "maxRerouteAttempts: 1"))


def test_a_goal_of_the_kind_failure_is_one_without_being_named_as_one() -> None:
    d = loads(LOAN.replace("    failure: {anyOf: [rejected]}\n", ""))
    assert {goal.name: goal.failure for goal in d.goals} == {"approved": False, "rejected": True}


def test_a_goal_is_of_one_kind() -> None:
    with pytest.raises(DefinitionError, match="'rejected' is of one kind, and"):
        loads(LOAN.replace("kind: failure", "kind: success"))
    text = LOAN.replace("    failure: {anyOf: [rejected]}\n", "").replace("[approved]}", "[approved, rejected]}")
    with pytest.raises(DefinitionError, match="goal 'rejected': faults the case by itself, and would complete it"):
        loads(text)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("requiredCount: 2", "requiredCount: 5", "is 5, and can never be reached; give 1 to 3"),
        ("requiredCount: 2", "requiredCount: 0", "is 0, and no group is so small"),
        ("totalInGroup: 3, requiredCount: 2", "totalInGroup: 0", "is 0, and no group is so small"),
        ('name: site-visit, version: "1.0.0"', 'name: site-visit, version: "2.0.0"', "is '2.0.0', and 'site-visit.yaml' has the version '1.0.0'"),
    ],
)  # fmt: skip
def test_a_group_that_cannot_be_is_refused(tmp_path: Path, old: str, new: str, problem: str) -> None:
    (tmp_path / "visits.yaml").write_text(VISITS.replace(old, new))
    (tmp_path / "site-visit.yaml").write_text(VISIT)
    with pytest.raises(DefinitionError) as caught:
        load_definition(tmp_path / "visits.yaml")
    assert [problem in str(each) for each in caught.value.problems] == [True], caught.value


def test_code_for_workers_that_are_not_there_is_refused() -> None:
    with pytest.raises(DefinitionError, match="'extractr' is no worker of it; did you mean 'extractor'"):
        loads(LOAN, workers={"extractr": dict})
    with pytest.raises(SettingsError, match="workers= is for the original's format"):
        loads("case: x\ninputs: {a: any}", workers={"x": dict})


@pytest.mark.parametrize(
    ("quartz", "crontab"),
    [
        ("0 0 2 * * ?", "0 0 2 * * *"),
        ("0 15 10 ? * MON-FRI", "0 15 10 * * MON-FRI"),
        ("0 15 10 ? * 2-6 *", "0 15 10 * * 1-5"),
        ("0 0/5 14,18 * * ?", "0 0/5 14,18 * * *"),
        ("0 0 12 1/5 * ?", "0 0 12 1/5 * *"),
        ("0 15 10 L * ?", "0 15 10 L * *"),
        ("0 15 10 ? * 6L", "0 15 10 * * 5L"),
        ("0 15 10 ? * 6#3", "0 15 10 * * 5#3"),
        ("0 0 0 ? * 1", "0 0 0 * * 0"),
        ("0 0 0 ? * 7,1/2", "0 0 0 * * 6,0/2"),
        ("0 0 0 ? * L", "0 0 0 * * 6"),
    ],
)
def test_cron_of_quartz_is_translated(quartz: str, crontab: str) -> None:
    assert crontab_of(quartz) == crontab


@pytest.mark.parametrize("quartz", ["0 2 * * ?", "0 0 2 15W * ?", "0 0 2 * * ? 2030", "? 0 2 * * ?", "* * * * * * * *"])
def test_cron_that_cannot_be_translated_is_refused(quartz: str) -> None:
    with pytest.raises(QuartzError):
        crontab_of(quartz)


@pytest.mark.parametrize(
    ("iso", "ours"), [("PT24H", "24h"), ("P2DT3H30M", "2d3h30m"), ("PT1.5S", "1.5s"), ("P1W", "1w")]
)
def test_spans_of_iso_are_translated(iso: str, ours: str) -> None:
    assert duration_of(iso) == ours


@pytest.mark.parametrize("iso", ["24h", "P", "PT", "P1Y", ""])
def test_spans_that_are_none_are_refused(iso: str) -> None:
    with pytest.raises(QuartzError):
        duration_of(iso)


VISITS = """
dsl: "0.1.0"
namespace: lending
name: visits
version: "1.0.0"
spec:
  bindings:
    - name: site-visits
      on: {contextChange: {filter: ".needsVisit == true"}}
      subCase: {namespace: lending, name: site-visit, version: "1.0.0",
                groupId: visits, totalInGroup: 3, requiredCount: 2, onThresholdReached: CANCEL,
                inputMapping: "{address: .address}", outputMapping: "{visitReport: .report}"}
  goals:
    - {name: visited, condition: ".visitReport != null", kind: success}
  completion: {success: {allOf: [visited]}}
"""
VISIT = """
dsl: "0.1.0"
namespace: lending
name: site-visit
version: "1.0.0"
spec:
  bindings:
    - name: go
      on: {contextChange: {filter: ".address != null"}}
      humanTask: {title: Go there, outcomes: [SEEN, LOST], outputMapping: "{report: .outcome}"}
  goals: [{name: seen, condition: ".report == \\"SEEN\\"", kind: success}]
  completion: {success: {allOf: [seen]}}
"""


async def test_a_group_of_sub_cases_is_done_when_enough_of_them_are(tmp_path: Path) -> None:
    (tmp_path / "visits.yaml").write_text(VISITS)
    (tmp_path / "site-visit.yaml").write_text(VISIT)
    d = load_definition(tmp_path / "visits.yaml")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, address="12 Elm Road", needsVisit=True)
        await kit.settle()
        tasks = await kit.hub.tasks.list()
        assert len(tasks) == 3
        for task in tasks[:2]:
            await kit.hub.tasks.complete(task.id, {"outcome": "SEEN"}, by="user:ada")
        assert (await case.completed())["visitReport"] == ["SEEN", "SEEN"]
        await kit.settle()
        assert not await kit.hub.tasks.list()  # the third is called off


def test_a_sub_case_of_another_name_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "visits.yaml").write_text(VISITS.replace('"{visitReport: .report}"', '"{visitReport: .a.b}"'))
    (tmp_path / "site-visit.yaml").write_text(VISIT.replace("name: site-visit", "name: other"))
    with pytest.raises(DefinitionError) as caught:
        load_definition(tmp_path / "visits.yaml")
    assert [each.reason for each in caught.value.problems] == [
        "'site-visit.yaml' is of 'lending.other', and not of 'lending.site-visit'",
        "does not take one fact for one",
    ]


def test_a_sub_case_may_be_of_the_file_itself(tmp_path: Path) -> None:
    own = VISITS.replace("name: site-visit,", "name: visits,")
    (tmp_path / "visits.yaml").write_text(own.replace("{visitReport: .report}", "{visitReport: .visitReport}"))
    d = load_definition(tmp_path / "visits.yaml")
    assert d.sub_cases == {"lending.visits": d}


WHOLE = LOAN.replace(
    "  milestones:\n",
    """    - name: site-visits
      on: {contextChange: {filter: ".needsVisit == true"}}
      subCase: {namespace: lending, name: site-visit, version: "1.0.0",
                groupId: visits, totalInGroup: 3, requiredCount: 2, onThresholdReached: CANCEL,
                inputMapping: "{address: .address}", outputMapping: "{visitReport: .report}"}
  milestones:
""",
)
"""The example as its documents print it."""
SECTIONS_OF_IT: dict[str, tuple[str | int, ...]] = {
    "definition": (),
    "spec": ("spec",),
    "authorization": ("spec", "authorization"),
    "capability": ("spec", "capabilities", 0),
    "worker": ("spec", "workers", 0),
    "executionPolicy": ("spec", "workers", 0, "executionPolicy"),
    "retries": ("spec", "workers", 0, "executionPolicy", "retries"),
    "binding": ("spec", "bindings", 0),
    "on": ("spec", "bindings", 0, "on"),
    "contextChange": ("spec", "bindings", 0, "on", "contextChange"),
    "schedule": ("spec", "bindings", 3, "on", "schedule"),
    "outcomePolicy": ("spec", "bindings", 1, "outcomePolicy"),
    "humanTask": ("spec", "bindings", 2, "humanTask"),
    "subCase": ("spec", "bindings", 4, "subCase"),
    "milestone": ("spec", "milestones", 0),
    "goal": ("spec", "goals", 0),
    "completion": ("spec", "completion"),
    "expression": ("spec", "completion", "success"),
}


async def test_the_example_as_printed_visits_its_sites(tmp_path: Path) -> None:
    (tmp_path / "loan.yaml").write_text(WHOLE)
    (tmp_path / "site-visit.yaml").write_text(VISIT)
    d = load_definition(tmp_path / "loan.yaml")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, needsVisit=True, address="12 Elm Road")
        await kit.settle()
        visits = [task for task in await kit.hub.tasks.list() if task.case != case.id]
        for task in visits[:2]:
            await kit.hub.tasks.complete(task.id, {"outcome": "SEEN"}, by="user:ada")
        await kit.settle()
        assert (await case.context())["visitReport"] == ["SEEN", "SEEN"]


def test_each_section_is_in_the_example() -> None:
    assert SECTIONS_OF_IT.keys() == KEYS.keys()


@pytest.mark.parametrize("section", KEYS)
def test_an_unknown_key_of_each_section_is_an_error_that_names_it(section: str, tmp_path: Path) -> None:
    tree: Any = YAML(typ="safe", pure=True).load(WHOLE)
    part = tree
    for step in SECTIONS_OF_IT[section]:
        part = part[step]
    part["unheardOf"] = "x"
    (tmp_path / "loan.yaml").write_text(json.dumps(tree, indent=1))  # YAML has JSON in it
    (tmp_path / "site-visit.yaml").write_text(VISIT)
    with pytest.raises(DefinitionError) as caught:
        load_definition(tmp_path / "loan.yaml")
    assert ["'unheardOf' is no key of it" in each.reason for each in caught.value.problems] == [True], caught.value
