"""Expressions in jq: null-tolerant, bounded, and with nothing to see but the facts."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from casehub import CaseFaultedError, CaseHub, DefinitionError
from casehub.loader import jq, loads
from casehub.loader.expressions import ExpressionError
from casehub.testing import CaseTestKit

FACTS = ("amount", "documents", "fields", "items")


@pytest.mark.parametrize(
    ("source", "facts", "value"),
    [
        (".amount > 3", {"amount": 5}, True),
        (".documents != null and .fields == null", {"documents": []}, True),
        (".documents != null and .fields == null", {}, False),
        ("[.items[] | .price * 2]", {"items": [{"price": 2}, {"price": 3.5}]}, [4, 7]),
        ("{a: .amount, b: null}", {"amount": 1.5}, {"a": 1.5, "b": None}),
        ('.["amount"] + 1', {"amount": 2}, 3),
        ("keys", {"amount": 2}, ["amount"]),
        ('"\\(.amount) Euro"', {"amount": 2}, "2 Euro"),
    ],
)
def test_a_program_comes_to_a_value(source: str, facts: dict[str, object], value: object) -> None:
    program = jq.compiled(source, FACTS)
    assert program.compute(facts) == value
    assert set(facts) <= set(program.reads)


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        (".amount > 3", {"amount"}),
        (".amount.items", {"amount", "items"}),
        ("(.items | length) > 3", {"items"}),
        ('has("fields")', {"fields"}),
        ('."documents" == "amount of"', {"documents"}),
        ("length > 3", set(FACTS)),
        (". as $all | $all.amount", set(FACTS)),
        ("[..] | length", set(FACTS)),
        ("true", set[str]()),
    ],
)
def test_a_program_reads_what_it_names(source: str, reads: set[str]) -> None:
    assert set(jq.compiled(source, FACTS).reads) == reads


@pytest.mark.parametrize(
    ("source", "facts", "problem"),
    [
        ("1, 2", {}, "several results"),
        ("empty", {}, "no result"),
        ('error("no")', {}, "no"),
        (".amount + 1", {"amount": "x"}, "cannot be added"),
        (".amount", {"amount": 2**53 + 1}, "lose digits"),
        ("def f: f; f", {}, "takes too long"),
        ("[range(1e9)] | length", {}, "takes too long, or too much memory"),
    ],
)
def test_a_failure_is_told_and_the_next_program_runs(source: str, facts: dict[str, object], problem: str) -> None:
    began = time.monotonic()
    with pytest.raises(ExpressionError, match=problem):
        jq.compiled(source, FACTS).compute(facts)
    assert time.monotonic() - began < 60
    assert jq.compiled(".amount", FACTS).compute({"amount": 1}) == 1


def test_the_environment_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "no")
    assert "SECRET" in os.environ
    jq._PROCESS.close()  # the next one begins in this environment
    monkeypatch.setattr(jq, "REFUSED", frozenset[str]())
    assert "SECRET" not in str(jq.compiled("env", FACTS).compute({}))


@pytest.mark.parametrize(
    ("source", "column", "problem"),
    [
        (".amount >", 10, "is not jq: syntax error"),
        ("foo", 1, "is not jq: foo/0 is not defined"),
        ("$ENV.HOME", 1, "has '$ENV'"),
        (".amount | env", 11, "has 'env'"),
        ('"\\(env)"', 4, "has 'env'"),
        ("input", 1, "has 'input'"),
        ('import "x" as $x; 1', 1, "has 'import'"),
    ],
)
def test_a_mistake_has_its_place(source: str, column: int, problem: str) -> None:
    text = f"case: x\ninputs: {{amount: number}}\ndone_when:\n  jq: |\n    {source}\n"
    with pytest.raises(DefinitionError) as caught:
        loads(text, "x.yaml")
    (only,) = caught.value.problems
    assert (only.place, problem in only.reason) == (f"x.yaml:5:{column + 4}", True), only


def test_a_field_may_be_called_as_what_is_refused() -> None:
    assert jq.compiled('.env == "input"', FACTS).compute({}) is False
    assert jq.compiled('.amount == "#1"', FACTS).compute({}) is False


@pytest.mark.parametrize("word", sorted(jq.REFUSED))
@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param("{}", id="as it stands"),
        pytest.param('"\\("a" | {} | "b")"', id="between texts of an interpolation"),
        pytest.param('"\\("\\("a")" | {})"', id="in an interpolation of an interpolation"),
        pytest.param('# "\n{} # "', id="behind a quote in a comment"),
        pytest.param('# \\\n"\n{} # "', id="behind a comment that goes on"),
        pytest.param('# "\r{} # "', id="behind a comment that a carriage return ends"),
        pytest.param('1 # "\n| {} # "', id="behind a comment further on"),
    ],
)
def test_what_reads_or_does_more_than_facts_is_refused_wherever_it_hides(hidden: str, word: str) -> None:
    with pytest.raises(jq.JqError, match=r"which reads or does more than facts|has a comment"):
        jq.compiled(hidden.replace("{}", word), FACTS)


def test_a_file_cannot_be_read_behind_a_comment(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('{"key": "hunter2"}')
    source = f'# "\nimport "secret" as $x {{search: "{tmp_path}"}}; [$x, .amount] # "'
    with pytest.raises(jq.JqError, match="has a comment"):
        jq.compiled(source, FACTS)


async def test_a_case_in_jq_runs_to_its_end() -> None:
    d = loads("""
case: x
expressions: jq
inputs: {amount: number}
signals: {documents: "list[string]"}
workers:
  read: {set: {fields: ".documents | length"}, when: .documents != null and .fields == null}
  rate: {set: {rating: ".amount / .fields"}, when: .fields > 0}
goals: {rated: .rating != null}
goal: rated
""")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=10)
        await case.signal(documents=["a", "b"])
        assert (await case.completed())["rating"] == 5


async def test_a_condition_that_is_no_truth_is_a_failure() -> None:
    d = loads("case: x\nexpressions: jq\ninputs: {amount: number}\nworkers: {go: {set: {b: '1'}, when: .amount}}")
    async with CaseTestKit(d) as kit:
        case = await kit.start(d, amount=10)
        with pytest.raises(CaseFaultedError, match="a condition is true or false"):
            await case.completed()


def test_without_the_extra_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("casehub.loader.conditions.is_there", lambda name: False)
    with pytest.raises(DefinitionError, match=r"pip install 'casehub\[jq\]'"):
        loads("case: x\ninputs: {a: any}\ndone_when: {jq: .a == 1}")


async def test_the_event_loop_goes_round_while_a_worker_computes() -> None:
    d = loads("""
case: x
expressions: jq
inputs: {amount: number}
workers:
  count: {set: {count: ".amount + ([range(200000)] | length)"}}
goal: count
""")
    rounds = 0

    async def go_round() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    async with CaseHub(d) as hub:
        case = await hub.start(d, amount=1)
        going = asyncio.create_task(go_round())
        assert (await case.completed())["count"] == 200_001
        going.cancel()
    assert rounds > 100


async def test_a_test_kit_waits_for_what_a_worker_computes() -> None:
    d = loads("case: x\nexpressions: jq\ninputs: {amount: number}\nworkers: {go: {set: {double: .amount * 2}}}\n")
    async with CaseTestKit(d) as kit:
        for amount in range(20):
            case = await kit.start(d, amount=amount)
            await kit.settle()
            assert (await case.context())["double"] == 2 * amount
