"""What a YAML definition says is what it becomes: the same structure as in Python, and cases that run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.strategies.simple import OneAtATime
from casehub import (
    AnswerRefusedError,
    Budget,
    CaseDefinition,
    CaseFaultedError,
    CaseStatus,
    Compensation,
    DefinitionError,
    Gate,
    HumanTask,
    InputRefusedError,
    Limits,
    MilestoneReached,
    OnOutcome,
    Quarantine,
    Refire,
    Retry,
    SettingsError,
    Verdict,
    absent,
    after,
    all_of,
    any_of,
    at,
    cron,
    deep_merge,
    every,
    load_definition,
    present,
    reached,
)
from casehub.binding import Trigger
from casehub.loader import loads
from casehub.loader.document import read
from casehub.loader.mistakes import Mistakes
from casehub.loader.rehearsal import Rehearsal
from casehub.loader.vocabulary import SECTIONS
from casehub.policies import BESIDE, PolicyOptions
from casehub.stage import StageFault
from casehub.testing import CaseTestKit
from casehub.validation import build
from examples.claim import claim
from tests.loader import code

ALLOWED = ("tests.loader.code", "examples")

CLAIM = """
case: claim
workers:
  extract: {run: "examples.claim:extract", writes: entities}
  assess: {run: "examples.claim:assess", writes: risk}
  decide: {run: "examples.claim:decide", writes: decision}
goal: decision
"""

STAGED = """
case: loan
signals: [abort]
workers:
  extract: {run: "tests.loader.code:extract", writes: entities}
  assess: {run: "tests.loader.code:assess", writes: risk, when: {absent: abort}, retry: {attempts: 4, on: TimeoutError}}
  decide: {run: "tests.loader.code:decide", writes: decision, when: {run: "tests.loader.code:risky"}, timeout: 2h}
milestones:
  intake done: {when: {present: entities}, entry: {present: document}, sla: 1d}
stages:
  intake: {members: [extract, intake done], on_fault: fault}
  underwriting: {members: [assess, decide], entry: {reached: intake done}, exit: {present: abort}, optional: [assess]}
goals:
  aborted: {when: {present: abort}, failure: true}
  decided: {any: [{present: decision}, {not: {present: entities}, present: risk}]}
goal: {any_of: [decided, {all_of: [decision, risk]}]}
budget: {calls: 20}
limits: {firings: 50}
"""


def staged() -> CaseDefinition:
    d = CaseDefinition(
        "loan",
        goal=any_of("decided", all_of("decision", "risk")),
        signals=["abort"],
        budget=Budget(calls=20),
        limits=Limits(firings=50),
    )
    d.worker(writes="entities")(code.extract)
    d.worker(writes="risk", when=absent("abort"), retry=Retry(4, on=(TimeoutError,)))(code.assess)
    d.worker(writes="decision", when=code.risky, timeout="2h")(code.decide)
    d.milestone("intake done", present("entities"), entry=present("document"), sla="1d")
    d.stage("intake", "extract", "intake done", on_fault="fault")
    d.stage(
        "underwriting", "assess", "decide", entry=reached("intake done"), exit=present("abort"), optional=["assess"]
    )
    d.goal("aborted", present("abort"), failure=True)
    d.goal("decided", present("decision") | (~present("entities") & present("risk")))
    return d


EXPENSES = """
case: declaration
signals:
  submission: {type: object, properties: {amount: {type: number}}}
  final_approval: any
  rejection: any
milestones:
  paid: {when: {present: final_approval, absent: rejection}, entry: {present: submission}, sla: 28d}
goals:
  over: {all: [{present: submission}, {any: [{present: final_approval}, {present: rejection}]}]}
goal: over
"""


def expenses() -> CaseDefinition:
    d = CaseDefinition("declaration", goal="over", signals=["submission", "final_approval", "rejection"])
    d.milestone("paid", present("final_approval") & absent("rejection"), entry=present("submission"), sla="28d")
    d.goal("over", present("submission") & (present("final_approval") | present("rejection")))
    return d


CONDITIONS = """
case: promised
inputs: {amount: integer}
facts: {approved: boolean}
conditions:
  approved: {}
  seen: {present: rating}
  fine: {when: {holds: [approved, seen]}}
workers:
  rate: {set: {rating: amount + 1}, brings: seen, value: 2}
  approve: {set: {approved: rating > 3}, brings: [approved], needs: seen}
  pay: {set: {paid: amount}, needs: [seen, fine]}
  refuse: {set: {refused: amount}, when: {not: {holds: fine}, present: approved}}
goal: {any_of: [paid, refused]}
"""


async def test_named_conditions_are_needed_brought_and_tested() -> None:
    d = loads(CONDITIONS)
    rate, approve, pay, refuse = build(d).bindings.values()
    assert (rate.policy.brings, rate.policy.value, approve.policy.needs) == (("seen",), 2, ("seen",))
    assert str(pay.when) == "(holds('seen') & holds('fine'))"
    assert str(refuse.when) == "(~holds('fine') & present('approved'))"
    assert [(each.name, str(each.when)) for each in d.conditions] == [
        ("approved", "affirmed('approved')"),
        ("seen", "present('rating')"),
        ("fine", "(holds('approved') & holds('seen'))"),
    ]
    async with CaseTestKit(d) as kit:
        assert "paid" in await (await kit.start(d, amount=3)).completed()
        assert "refused" in await (await kit.start(d, amount=1)).completed()


@pytest.mark.parametrize(
    ("text", "python"),
    [(CLAIM, claim), (STAGED, staged()), (EXPENSES, expenses())],
    ids=["claim", "loan with stages", "expenses without code"],
)
def test_the_structure_is_that_of_the_definition_in_python(text: str, python: CaseDefinition) -> None:
    assert build(loads(text, allow_code=ALLOWED)).hash == build(python).hash


@pytest.mark.parametrize(
    ("option", "of_policy", "value"),
    [
        ("refire: always", "refire", Refire.ALWAYS),
        ("limit: 3", "limit", 3),
        ("merge: deep_merge", "merge", deep_merge),
        ("merge: tests.loader.code:longer", "merge", code.longer),
        ("retry: 5", "retry", Retry(5)),
        (
            "retry: {attempts: 2, wait: 2s, factor: 3, maximum: 1m, jitter: false, on: [OSError, 'tests.loader.code:BankClosedError']}",
            "retry",
            Retry(2, "2s", 3, "1m", False, (OSError, code.BankClosedError)),
        ),
        ("timeout: 1h30m", "timeout", timedelta(minutes=90)),
        ("priority: -2", "priority", -2),
        ("cost: 2.5", "cost", 2.5),
        ("estimate: {tokens: 10}", "estimate", Budget(tokens=10)),
        ("budget: {money: 1.5, per: day}", "budget", Budget(money=1.5, per="day")),
        ("compensates: other", "compensates", "other"),
        ("quarantine: {failures: 3, within: 1h, release: 2h}", "quarantine", Quarantine(3, "1h", "2h")),
    ],
)
def test_an_option_is_that_of_the_policy(option: str, of_policy: str, value: object) -> None:
    text = (
        "case: x\ninputs: {a: integer, document: string}\nworkers:\n  other: {set: {b: a}}\n"
        f"  go:\n    run: tests.loader.code:extract\n    writes: words\n    {option}\n"
    )
    (policy,) = (each.policy for each in loads(text, allow_code=ALLOWED).bindings if each.name == "go")
    assert getattr(policy, of_policy) == value


TRIP = """
case: trip
inputs: {city: string}
compensation: {on: [cancelled], deadline: 2d}
workers:
  book: {set: {flight: '"F " + city'}}
  tell:
    set: {told: flight}
  take_back:
    ask: {title: Give it back, form: boolean, shows: flight, users: ada}
    writes: refunded
    compensates: book
  untell:
    set: {told_again: '"not " + flight'}
    compensates: tell
signals: {home: boolean}
goal: home
"""


async def test_a_case_in_yaml_undoes_what_it_did() -> None:
    definition = loads(TRIP)
    assert definition.compensation == Compensation(["CANCELLED"], "2d")
    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition, city="Rome")
        await kit.settle()
        await case.cancel()
        await kit.settle()
        assert (await case.context())["told_again"] == "not F Rome"
        (task,) = await kit.hub.tasks.list()
        await kit.hub.tasks.complete(task.id, True, by="user:ada")
        await kit.settle()
        assert await case.status() is CaseStatus.CANCELLED
        assert (await case.context())["refunded"] is True


@pytest.mark.parametrize(
    ("section", "python", "written_otherwise"),
    [
        ("binding", PolicyOptions.__annotations__, ()),
        ("limits", [each.name for each in fields(Limits)], ()),
        ("budget", [each.name for each in fields(Budget)], ()),
        ("retry", [each.name for each in fields(Retry)], ()),
        ("quarantine", [each.name for each in fields(Quarantine)], ()),
        ("compensation", [each.name for each in fields(Compensation)], ()),
        ("gate", [each.name for each in fields(Gate)], ()),
        ("ask", [each.name for each in fields(HumanTask)], ()),
        ("worker", [*PolicyOptions.__annotations__, *BESIDE], ("name",)),
    ],
)
def test_what_is_said_in_python_can_be_said_in_yaml(
    section: str, python: Iterable[str], written_otherwise: tuple[str, ...]
) -> None:
    assert set(python) - set(written_otherwise) <= set(SECTIONS[section])


@pytest.mark.parametrize(
    ("declares", "section", "written_otherwise"),
    [
        (CaseDefinition, "definition", ("name",)),  # case:
        (CaseDefinition.worker, "worker", ("function", "name")),
        (CaseDefinition.human_task, "worker", ("name",)),
        (CaseDefinition.sub_case, "case", ("name", "writes", "when", "on", "capability")),  # beside it
        (CaseDefinition.binding, "binding", ("name",)),
        (CaseDefinition.stage, "stage", ("name",)),
        (CaseDefinition.milestone, "milestone", ("name",)),
        (CaseDefinition.goal, "goal", ("name",)),
        (CaseDefinition.condition, "named_condition", ("condition",)),
        (CaseDefinition.activity, "activity", ("name",)),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_what_is_declared_in_python_can_be_declared_in_yaml(
    declares: Any, section: str, written_otherwise: tuple[str, ...]
) -> None:
    taken = [name for name, each in signature(declares).parameters.items() if each.kind is not each.VAR_KEYWORD]
    assert {*taken} - {"self", *written_otherwise} <= set(SECTIONS[section])
    sections = {
        "flag": "flags",
        "resource": "resources",
        "upcast": "upcasts",
        "human_task": "workers",
        "sub_case": "workers",
    }
    verbs = [
        name for name in dir(CaseDefinition) if not name.startswith("_") and callable(getattr(CaseDefinition, name))
    ]
    plural = {
        verb: sections.get(verb, f"{verb.removesuffix('y')}{'ies' if verb.endswith('y') else 's'}") for verb in verbs
    }
    assert set(plural.values()) <= set(SECTIONS["definition"])


async def test_a_rehearsal_cancels_a_case_and_sees_what_is_undone() -> None:
    text = """
definition: trip.yaml
cases:
  - name: nobody goes
    start: {city: Rome}
    then: [{cancel: no time}, {complete: {take_back: true}}]
    expect: {status: CANCELLED, facts: {refunded: true}, ran: [book, tell, untell, take_back]}
"""
    mistakes = Mistakes("trip.test.yaml")
    found = await Rehearsal(read(text, mistakes), mistakes).play(loads(TRIP))
    assert [each.problems for each in found] == [[]]


STORED = """
case: person
inputs: {}
signals: {name: {type: object, properties: {given: {type: string}}}, password: string}
serializers: tests.loader.code:Passwords
upcasts: {name: "tests.loader.code:split"}
workers:
  greet: {set: {greeting: '"Dear " + name.given'}}
goal: greeting
"""


async def test_facts_may_be_stored_otherwise_and_read_as_they_once_were() -> None:
    definition = loads(STORED, allow_code=ALLOWED)
    assert definition.upcasts == {"name": code.split}
    async with CaseTestKit(definition) as kit:
        case = await kit.start(definition)
        await case.signal(password="secret")
        assert (await case.context())["password"] == "[redacted]"
    for wrong, says in (
        ("tests.loader.code:split", "which is no FactSerializer"),
        ("tests.loader.code:extract", "which is no FactSerializer"),
    ):
        with pytest.raises(DefinitionError, match=says):
            loads(STORED.replace("tests.loader.code:Passwords", wrong), allow_code=ALLOWED)
    with pytest.raises(DefinitionError, match="names of facts with module:name was expected"):
        loads(STORED.replace('{name: "tests.loader.code:split"}', "[name]"), allow_code=ALLOWED)


@pytest.mark.parametrize("outcome", ["failed", "declined", "expired", "exhausted"])
def test_an_outcome_has_its_own_answer(outcome: str) -> None:
    text = f"case: x\nworkers:\n  go: {{run: 'tests.loader.code:extract', writes: words, on_{outcome}: ignore}}\n"
    outcomes = loads(text, allow_code=ALLOWED).bindings[0].policy.outcomes
    assert getattr(outcomes, outcome) is OnOutcome.IGNORE


@pytest.mark.parametrize(
    ("on", "trigger"),
    [
        ("document", Trigger(("document",))),
        ("[document]", Trigger(("document",))),
        ("{events: [MILESTONE_REACHED, MilestoneReached]}", Trigger(events=(MilestoneReached, MilestoneReached))),
        ("{signals: abort, facts: document}", Trigger(("document",), (), ("abort",))),
        ("{after: 2d, since: abort, catch_up: skip}", Trigger(times=(after("2d", since="abort", catch_up="skip"),))),
        ("{at: abort}", Trigger(times=(at("abort"),))),
        ("{at: '2030-01-01T09:00:00Z'}", Trigger(times=(at(datetime(2030, 1, 1, 9, tzinfo=UTC)),))),
        (
            "{times: [{every: 15m, catch_up: skip}, {cron: 0 2 * * 1-5, tz: Europe/Berlin}]}",
            Trigger(times=(every("15m", catch_up="skip"), cron("0 2 * * 1-5", tz="Europe/Berlin"))),
        ),
    ],
)
def test_a_trigger_is_of_facts_events_and_signals(on: str, trigger: Trigger) -> None:
    text = f"case: x\nsignals: [abort]\nworkers:\n  go: {{run: 'tests.loader.code:extract', writes: words, on: {on}}}\n"
    assert loads(text, allow_code=ALLOWED).bindings[0].on == trigger


def test_events_of_installed_extensions_may_be_named_without_importing_them() -> None:
    program = """
import sys
from casehub.loader import loads
assert "blackboard_ext" not in sys.modules
for name in ("STAGE_COMPLETED", "StageCompleted"):
    text = "{case: x, workers: {a: {set: {b: '1'}, on: {events: " + name + "}}}}"
    print([each.name for each in loads(text).bindings[0].on.events])
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert (told.stdout, told.stderr) == ("['STAGE_COMPLETED']\n" * 2, "")


def test_a_stage_has_every_option() -> None:
    stage = loads(
        """
case: x
inputs: {a: integer}
workers:
  one: {set: {b: a + 1}}
  two: {set: {c: a + 2}}
  three: {set: {d: a + 3}}
stages:
  all: {members: [one, two, three], optional: [two], companions: [three], autocomplete: false, manual: true, on_fault: fault,
        entry: a > 1, exit: {present: c}}
""",
    ).stages[0]
    assert stage.members == ("one", "two", "three")
    assert (stage.optional, stage.companions) == ({"two"}, {"three"})
    assert (stage.autocomplete, stage.manual, stage.on_fault) == (False, True, StageFault.FAULT)
    assert (str(stage.entry), str(stage.exit)) == ("a > 1", "present('c')")


def test_the_rest_of_a_definition_comes_through() -> None:
    d = loads(
        """
case: x
title: An example
external: {rate: number}
signals: {note: string}
resources: [tests.loader.code:bank]
workers:
  fee: {set: {fee: rate * 2}}
  pay: {run: "tests.loader.code:pay", writes: paid}
protected: [rate]
flags: [fee]
activities:
  Note written: {signal: note, transition: start}
done_when: fee > 3
at_quiescence: true
strict: false
""",
        allow_code=ALLOWED,
    )
    assert (d.title, d.protected, d.flags, d.strict, d.at_quiescence) == ("An example", {"rate"}, ["fee"], False, True)
    assert (d.external, d.signals) == ({"rate": float}, {"note": str})
    assert d.resources["bank"][0] is code.Bank
    assert (d.activities[0].label, d.activities[0].signal) == ("Note written (start)", "note")
    assert str(d.done_when) == "fee > 3"


RATED = """
case: rated
inputs:
  amount: {type: number, exclusiveMinimum: 0}
  applicant: {type: object, properties: {name: {type: string}, income: {type: number}}, required: [name]}
  note: {type: string, default: none}
  guarantor: string?
signals:
  documents: list[string]
  abort: boolean
workers:
  rate:
    set: {rating: amount / 1000, large: amount > 10000}
  refer:
    set: {decision: '"refer " + applicant.name'}
    when: rating > 5 && absent(guarantor)
  approve:
    set: {decision: '"approve"'}
    when: rating <= 5 || present(guarantor)
    on: [rating]
goals:
  decided: {present: [decision, documents]}
  aborted: {when: abort, failure: true}
goal: decided
"""


async def test_a_case_without_code_runs_to_its_end() -> None:
    d = loads(RATED)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=20_000, applicant={"name": "Ada"})
        await case.signal(documents=["passport"])
        facts = await case.completed()
        assert (facts["rating"], facts["large"], facts["note"]) == (20.0, True, "none")
        assert facts["decision"] == "refer Ada"
        assert "guarantor" not in facts


async def test_a_fact_that_is_tested_for_presence_may_be_missing_or_there() -> None:
    d = loads(RATED)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=20_000, applicant={"name": "Ada"}, guarantor="Grace")
        await case.signal(documents=["passport"])
        assert (await case.completed())["decision"] == "approve"


async def test_a_condition_does_not_hold_while_a_fact_that_it_names_is_missing() -> None:
    d = loads(RATED)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=1, applicant={"name": "Ada"})
        await case.signal(documents=[])
        assert (await case.completed())["decision"] == "approve"
    waiting = loads(
        "case: w\nsignals: {a: integer}\nworkers: {go: {set: {b: '1'}, when: a > 1, refire: once}}\ngoal: b"
    )
    async with CaseTestKit(waiting) as kit:
        case = await kit.start(waiting)
        assert (await case.explain("go"))[0].verdict is Verdict.GUARD_FALSE
        await case.signal(a=1)
        assert await case.status() is CaseStatus.WAITING
        await case.signal(a=2)
        assert (await case.completed())["b"] == 1


async def test_a_failure_goal_by_an_expression_faults_the_case() -> None:
    d = loads(RATED)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=20, applicant={"name": "Ada"})
        await case.signal(abort=True)
        with pytest.raises(CaseFaultedError, match="aborted"):
            await case.completed()


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"amount": 0, "applicant": {"name": "Ada"}}, "0 is less than or equal to the minimum of 0"),
        ({"amount": 5, "applicant": {"income": 3}}, "'name' is a required property"),
        ({"amount": 5}, "applicant"),
        ({"amount": 5, "applicant": {"name": "Ada"}, "guarntor": "x"}, "did you mean 'guarantor'"),
    ],
)
async def test_inputs_are_checked_by_their_types(facts: dict[str, object], complaint: str) -> None:
    d = loads(RATED)
    async with CaseTestKit(d) as kit:
        with pytest.raises(InputRefusedError, match=complaint):
            await kit.start(d, **facts)


async def test_a_signal_is_checked_by_its_type() -> None:
    d = loads(RATED)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=5, applicant={"name": "Ada"})
        with pytest.raises(InputRefusedError, match="documents"):
            await case.signal(documents=[1])


async def test_an_expression_that_cannot_be_evaluated_is_a_failure_that_names_it() -> None:
    d = loads(
        "case: x\ninputs: {n: integer}\nworkers: {go: {set: {b: 1 / n}, retry: 1, on_exhausted: fault_case}}\ngoal: b"
    )
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, n=0)
        with pytest.raises(CaseFaultedError, match=r"'1 / n' cannot be evaluated: .*divide by zero"):
            await case.completed()


async def test_a_condition_that_cannot_be_evaluated_does_not_pass_for_true() -> None:
    d = loads("case: x\ninputs: {o: object}\nworkers: {go: {set: {b: '1'}, when: o.deep.key}}\ngoal: b")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, o={})
        with pytest.raises(CaseFaultedError, match=r"'o\.deep.key' cannot be evaluated: NOT_FOUND"):
            await case.completed()


async def test_a_condition_that_is_no_truth_is_a_failure() -> None:
    d = loads("case: x\ninputs: {o: object}\nworkers: {go: {set: {b: '1'}, when: o.key}}\ngoal: b")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, o={"key": "yes"})
        with pytest.raises(CaseFaultedError, match="comes to 'yes', and a condition is true or false"):
            await case.completed()


async def test_an_expression_without_end_stops() -> None:
    deep = "l.map(p, l.map(q, l.map(r, l.map(s, l.map(t, p + q + r + s + t)))))"
    d = loads(
        f"case: x\ninputs: {{l: 'list[integer]'}}\nworkers: {{go: {{set: {{b: '{deep}'}}, retry: 1, on_exhausted: fault_case}}}}\ngoal: b"
    )
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, l=list(range(100)))
        with pytest.raises(CaseFaultedError, match="budget"):
            await case.completed()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("n + 1", 4),
        ("amount * 2", 5.0),
        ("whole * 1.5", 3.0),
        ("numbers.map(x, x * 2.0)", [2.0, 4.0]),
        ("amount > 2 && 2 < amount && amount > -(1)", True),
        ("n / 2", 1),
        ("words.map(w, w.upperAscii())", ["A", "B"]),
        ("{'a': n, 'b': words}", {"a": 3, "b": ["a", "b"]}),
        ("at + duration('1h')", "2030-01-01T01:00:00+00:00"),
        ("null", None),
        ("any_", {"x": [1, 2.5, None]}),
        ("numbers.exists(x, x > 1.5)", True),
    ],
)
async def test_an_expression_comes_to_a_value(expression: str, value: object) -> None:
    d = loads(f"""
case: x
inputs: {{n: integer, amount: number, whole: number, words: "list[string]", at: datetime, any_: any, numbers: "list[number]"}}
workers:
  go:
    set:
      found: |
        {expression}
    refire: once
goal: found
""")
    async with CaseTestKit(d) as kit:
        case = await kit.start(
            d,
            n=3,
            amount=2.5,
            whole=2,
            words=["a", "b"],
            at="2030-01-01T00:00:00Z",
            any_={"x": [1, 2.5, None]},
            numbers=[1, 2],
        )
        assert (await case.completed())["found"] == value


async def test_alternatives_of_a_capability_and_resources_work() -> None:
    d = loads(
        """
case: x
inputs: {applicant: "tests.loader.code:Applicant"}
resources: tests.loader.code:bank
workers:
  fees: {run: "tests.loader.code:fees", writes: [fee, tax], capability: fees}
  pay: {run: "tests.loader.code:pay", writes: paid}
facts: {fee: number, tax: number}
bindings:
  count: {capability: fees, when: applicant.income > 10}
goal: paid
done_when: tax > 2
""",
        allow_code=ALLOWED,
    )
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, applicant={"name": "Ada", "income": 250})
        assert (await case.completed())["paid"] == "paid 2.5"


ASKED = """
case: asked
inputs:
  applicant: {type: object, properties: {name: {type: string}, income: {type: number}}}
  deadline: datetime?
  team: {type: string, default: underwriters}
workers:
  approve:
    ask:
      title: {cel: '"Approve " + applicant.name + "?"'}
      description: An answer in writing.
      form:
        type: object
        properties: {approved: {type: boolean}, comment: {type: string}}
        required: [approved]
      shows: [applicant, note?]
      groups: {cel: "[team]"}
      users: [ada]
      priority: 3
      due: 1d
      expires: 5d
      deadline: {cel: "present(deadline) ? deadline : timestamp('2040-01-01T00:00:00Z')"}
      escalate: 2d
      escalate_to: [directors]
    writes: approval
  close:
    set: {closed: approval.approved}
signals: {note: string}
goal: closed
"""


async def test_people_are_asked_with_a_form() -> None:
    d = loads(ASKED)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, applicant={"name": "Ada"}, deadline="2030-01-02T00:00:00+00:00")
        (task,) = await kit.hub.tasks.list(user="grace", groups=["underwriters"])
        assert (task.title, task.description, task.priority) == ("Approve Ada?", "An answer in writing.", 3)
        assert (list(task.groups), list(task.users)) == (["underwriters"], ["ada"])
        assert task.expires == datetime(2030, 1, 2, tzinfo=UTC)
        assert task.form is not None
        assert task.form["required"] == ["approved"]
        await kit.hub.tasks.claim(task.id, by="user:grace", groups=["underwriters"])
        with pytest.raises(AnswerRefusedError, match="'approved' is a required property"):
            await kit.hub.tasks.complete(task.id, {"comment": "yes"}, by="user:grace")
        await kit.hub.tasks.complete(task.id, {"approved": True}, by="user:grace")
        assert (await case.completed())["closed"] is True


TIMED = """
case: timed
inputs: {since: datetime, span: string, rank: any}
workers:
  look:
    ask:
      title: Look
      form: boolean
      priority: {cel: rank}
      due: {cel: since}
      follow_up: {cel: span}
      expires: {cel: 'span + "1h"'}
      escalate: "2030-01-03T00:00:00+01:00"
      escalate_to: [directors]
    writes: seen
goal: seen
"""


async def test_times_and_priority_of_a_task_may_be_computed_and_absolute() -> None:
    d = loads(TIMED)
    async with CaseTestKit(d) as kit:
        now = kit.clock.now()
        await kit.start(d, since="2030-01-02T00:00:00Z", span="2d", rank=7)
        (task,) = await kit.hub.tasks.list()
        assert (task.priority, task.due) == (7, datetime(2030, 1, 2, tzinfo=UTC))
        assert (task.follow_up, task.expires) == (now + timedelta(days=2), now + timedelta(days=2, hours=1))
        assert task.escalates == datetime(2030, 1, 2, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"span": "soon"}, "'soon', and a time with a time zone, or a duration"),
        ({"rank": 1.5}, "1.5, and a whole number"),
    ],
)
async def test_what_a_task_says_by_an_expression_is_checked_when_it_is_made(facts: dict[str, Any], said: str) -> None:
    d = loads(TIMED)
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, **{"since": "2030-01-02T00:00:00Z", "span": "2d", "rank": 7, **facts})
        await kit.settle()
        assert not await kit.hub.tasks.list()
        assert said in str(kit.events(case))


def test_a_task_of_a_function_is_that_of_python() -> None:
    text = """
case: x
workers:
  assess: {run: "tests.loader.code:assess", writes: risk}
  approve: {ask: "tests.loader.code:approve", writes: approval, priority: 2}
goal: approval
"""
    d = CaseDefinition("x", goal="approval")
    d.worker(writes="risk")(code.assess)
    d.human_task(writes="approval", priority=2)(code.approve)
    assert build(loads(text, allow_code=ALLOWED)).hash == build(d).hash


async def test_alternatives_are_tried_in_the_order_of_the_text() -> None:
    d = loads(
        """
case: x
inputs: {document: string}
workers:
  first: {set: {words: "[document]"}, capability: split}
  second: {run: "tests.loader.code:extract", writes: words, capability: split}
bindings: {split: {capability: split}}
goal: words
""",
        allow_code=ALLOWED,
    )
    assert [worker.name for worker in d.bindings[0].workers] == ["first", "second"]


EACH = """
case: each
inputs: {words: "list[string]", document: string}
workers:
  count: {run: "tests.loader.code:count", each: words, writes: counts, retry: 2, priority: 3}
goal: counts
"""


async def test_each_element_of_a_list_gets_the_work() -> None:
    d = loads(EACH, allow_code=ALLOWED)
    python = CaseDefinition("each", goal="counts")
    python.worker(writes="counts", each="words", retry=Retry(2), priority=3)(code.count)
    assert build(d).hash == build(python).hash
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, words=["a", "b"], document="abba a")
        assert (await case.completed())["counts"] == [3, 2]


def test_enough_of_the_elements_may_do() -> None:
    text = EACH.replace("writes: counts,", "writes: counts, need: 2, rest: keep,")
    python = CaseDefinition("each", goal="counts")
    python.worker(writes="counts", each="words", need=2, rest="keep", retry=Retry(2), priority=3)(code.count)
    assert (
        build(loads(text, allow_code=ALLOWED)).hash == build(python).hash != build(loads(EACH, allow_code=ALLOWED)).hash
    )


def test_a_computed_fact_may_say_its_language() -> None:
    d = loads(
        "case: x\ninputs: {a: integer, document: string}\nworkers: {go: {set: {b: {jq: .a + 1}, c: {cel: a + 1}}}}"
    )
    assert (d.facts.get("b", None), d.facts["c"]) == (None, int)
    assert d.bindings[0].worker.computes == "b = .a + 1; c = a + 1"


def test_a_condition_may_ask_how_sure_somebody_is() -> None:
    d = loads(
        "case: x\ninputs: {a: integer, document: string}\nworkers: {go: {set: {b: a + 1}, when: {confident: {a: 0.8}, present: a}}}"
    )
    assert str(d.bindings[0].when) == "(confident('a', 0.8) & present('a'))"


def test_an_expression_is_part_of_the_structure() -> None:
    one = loads("case: x\ninputs: {a: integer, document: string}\nworkers: {go: {set: {b: a + 1}}}")
    other = loads("case: x\ninputs: {a: integer, document: string}\nworkers: {go: {set: {b: a + 2}}}")
    guarded = loads("case: x\ninputs: {a: integer, document: string}\nworkers: {go: {set: {b: a + 1}, when: a > 2}}")
    assert len({build(each).hash for each in (one, other, guarded)}) == 3


def test_types_of_what_expressions_set_are_found_through_each_other() -> None:
    d = loads("""
case: x
inputs: {a: number}
workers:
  last: {set: {d: c > 1}}
  middle: {set: {c: b * 2}}
  first: {set: {b: a + 1}}
""")
    assert {name: d.facts[name] for name in "bcd"} == {"b": float, "c": float, "d": bool}


async def test_stages_work_under_a_loop_control_that_has_them() -> None:
    d = loads(STAGED, allow_code=ALLOWED)
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(OneAtATime())) as kit:
        case = await kit.start(d, document="A B C D E F G")
        assert (await case.completed())["decision"] == "refer"


def test_a_definition_is_loaded_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "claim.yaml"
    file.write_text(CLAIM, encoding="utf-8-sig")
    assert load_definition(file, allow_code=["examples.claim"]).name == "claim"
    with pytest.raises(DefinitionError, match=r"claim.yaml:4:18: workers.extract.run: 'examples.claim' is not among"):
        load_definition(file)
    with pytest.raises(SettingsError, match="No such file"):
        load_definition(tmp_path / "clam.yaml")
    file.write_bytes(b"case: \xff")
    with pytest.raises(SettingsError, match="byte 6 is no UTF-8"):
        load_definition(file)


def test_a_package_is_allowed_with_what_lies_in_it_and_nothing_else() -> None:
    assert loads(CLAIM, allow_code=["examples"]).name == "claim"
    with pytest.raises(DefinitionError, match=r"'examples\.claim' is not among"):
        loads(CLAIM, allow_code=["exam", "examples.claim.x", "example"])


def test_a_large_definition_loads_quickly() -> None:
    workers = "".join(f"  w{n}:\n    set: {{f{n + 1}: f{n} + 1}}\n    when: f{n} > {n}\n" for n in range(300))
    assert len(loads(f"case: x\ninputs: {{f0: integer}}\nworkers:\n{workers}").bindings) == 300


READERS = """
case: readers
inputs: {papers: "list[object]", editor: string}
workers:
  read:
    ask:
      title: {cel: '"Read " + paper.title + " for " + editor'}
      form: boolean
      shows: [paper]
      users: {cel: "[paper.reader]"}
    each: papers
    as: paper
    need: 2
    writes: verdicts
  count: {set: {told: verdicts.size()}}
goal: told
"""


async def test_people_may_be_asked_about_each_element_of_a_list() -> None:
    d = loads(READERS)
    async with CaseTestKit(d) as kit:
        papers = [{"title": title, "reader": reader} for title, reader in (("A", "ada"), ("B", "bob"), ("C", "cy"))]
        case = await kit.start(d, papers=papers, editor="Eve")
        await kit.settle()
        tasks = await kit.hub.tasks.list()
        assert [(task.title, *task.users) for task in tasks] == [
            ("Read A for Eve", "ada"), ("Read B for Eve", "bob"), ("Read C for Eve", "cy"),
        ]  # fmt: skip
        for task in tasks[1:]:
            await kit.hub.tasks.complete(task.id, task.users == ("cy",), by=f"user:{task.users[0]}")
        facts = await case.completed()
        assert (facts["verdicts"], facts["told"]) == ([False, True], 2)
        await kit.settle()
        assert await kit.hub.tasks.list() == []
