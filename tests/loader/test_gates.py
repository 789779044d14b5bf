"""Gates in YAML: the same as in Python, in cases, in rehearsals and in what is said of mistakes."""

from __future__ import annotations

import pytest

from casehub import CaseDefinition, DefinitionError, Gate
from casehub.loader import loads
from casehub.loader.document import read
from casehub.loader.mistakes import Mistakes
from casehub.loader.rehearsal import Rehearsal
from casehub.testing import CaseTestKit
from casehub.validation import build
from tests.loader import code

ALLOWED = ("tests.loader.code",)
PAYMENT = """
case: payment
inputs: {amount: number, payee: string}
workers:
  pay:
    run: tests.loader.code:plan_transfer
    writes: receipt
    gate:
      perform: tests.loader.code:transfer
      risk: tests.loader.code:is_large
      approvals: 2
      groups: [treasury]
      users: [ada]
      priority: 3
      due: 1h
      expires: 1d
      escalate: 4h
      escalate_to: board
      patience: 10s
    on_declined: fault_case
goal: receipt
"""


def test_a_gate_is_that_of_python() -> None:
    python = CaseDefinition("payment", goal="receipt")
    gate = Gate(
        code.transfer, risk=code.is_large, approvals=2, groups=["treasury"], users=["ada"], priority=3, due="1h",
        expires="1d", escalate="4h", escalate_to=["board"], patience="10s",
    )  # fmt: skip
    python.worker(name="pay", writes="receipt", gate=gate, on_declined="fault_case")(code.plan_transfer)
    definition = loads(PAYMENT, allow_code=ALLOWED)
    assert definition.workers[0].gate == gate
    assert build(definition).hash == build(python).hash
    assert build(definition).bindings["pay"].policy == build(python).bindings["pay"].policy


async def test_people_approve_what_a_definition_in_yaml_plans() -> None:
    async with CaseTestKit(definition := loads(PAYMENT, allow_code=ALLOWED)) as kit:
        small = await kit.start(definition, amount=20, payee="Joan")
        assert (await small.completed())["receipt"] == "20 sent to Joan"
        large = await kit.start(definition, amount=2000, payee="Joan")
        await kit.settle()
        for task, person in zip(await kit.hub.tasks.list(groups=["treasury"]), ("ada", "joan"), strict=True):
            await kit.hub.tasks.complete(task.id, {"approved": True}, by=f"user:{person}", groups=["treasury"])
        assert (await large.completed())["receipt"] == "2000 sent to Joan"


async def test_each_element_has_a_gate_of_its_own() -> None:
    text = """
case: payroll
inputs: {payees: "list[string]", amount: number}
workers:
  pay:
    run: tests.loader.code:plan_each
    writes: receipts
    each: payees
    gate: {perform: tests.loader.code:transfer}
goal: receipts
"""
    async with CaseTestKit(definition := loads(text, allow_code=ALLOWED)) as kit:
        case = await kit.start(definition, payees=["Ada", "Joan"], amount=5)
        await kit.settle()
        for task in await kit.hub.tasks.list():
            await kit.hub.tasks.complete(task.id, {"approved": True}, by="user:boss")
        assert (await case.completed())["receipts"] == ["5 sent to Ada", "5 sent to Joan"]


async def test_a_rehearsal_plans_approves_and_carries_out_with_made_up_answers() -> None:
    text = """
definition: payment.yaml
cases:
  - name: two people approve
    start: {amount: 1, payee: Joan}
    answers:
      pay: {returns: {amount: 5000, to: Joan}}
      transfer: {returns: sent}
    then:
      - complete: {pay: {approved: true}}
      - complete: {pay: {approved: true}}
    expect: {status: COMPLETED, facts: {receipt: sent}, ran: [pay]}
  - name: one is against it
    start: {amount: 5000, payee: Joan}
    then:
      - decline: {pay: "too much"}
    expect: {status: FAULTED, absent: receipt}
"""
    mistakes = Mistakes("payment.test.yaml")
    found = await Rehearsal(read(text, mistakes), mistakes).play(loads(PAYMENT, allow_code=ALLOWED))
    assert [each.problems for each in found] == [[], []]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("approvals: 2", "approvals: 0", ":11:18: workers.pay.gate.approvals: from 1 to 100"),
        ("approvals: 2", "aprovals: 2", ":11:7: workers.pay.gate: 'aprovals' is no key of it; did you mean 'approvals'?"),
        ("code:transfer", "code:transfr", ":9:16: workers.pay.gate.perform: 'tests.loader.code:transfr'"),
        ("code:transfer", "code:assess", "it plans Transfer, and assess carries out list[str]"),
        ("code:is_large", "code:risky", "it plans Transfer, and risky judges float"),
        ("code:is_large", "code:no", ":10:13: workers.pay.gate.risk:"),
        ("      perform: tests.loader.code:transfer\n", "", ":9:7: workers.pay.gate: lacks 'perform'"),
        ("run: tests.loader.code:plan_transfer", "set: {receipt: payee}", "has 'gate' without a function that plans an action"),
        ("run: tests.loader.code:plan_transfer", "run: tests.loader.code:extract", "its return annotation names no planned action"),
        ("      escalate: 4h\n", "", "escalate= says when and escalate_to= to whom"),
    ],
)  # fmt: skip
def test_mistakes_in_a_gate_say_where_and_what(old: str, new: str, says: str) -> None:
    assert old in PAYMENT
    with pytest.raises(DefinitionError) as refused:
        loads(PAYMENT.replace(old, new), allow_code=ALLOWED)
    assert says in str(refused.value)
    if "workers.pay.gate" in says:  # what the worker writes is known all the same
        assert "goal 'receipt'" not in str(refused.value)


def test_a_planned_action_without_a_gate_is_refused() -> None:
    text = "case: a\ninputs: {amount: number, payee: string}\nworkers: {pay: {run: tests.loader.code:plan_transfer, writes: b}}\n"
    with pytest.raises(DefinitionError, match=r"a\.yaml:3:11: .*nothing says who may approve it"):
        loads(text, "a.yaml", allow_code=ALLOWED)
