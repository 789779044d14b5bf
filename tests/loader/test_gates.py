"""Gates in YAML: the same as in Python, in cases, in rehearsals and in what is said of mistakes."""

from __future__ import annotations

import pytest

from casehub import ActionHeld, CaseDefinition, CaseStatus, DefinitionError, Gate
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
        ("run: tests.loader.code:plan_transfer", "set: {receipt: payee}", ":9:7: workers.pay.gate: has 'perform', and what is approved is what is set"),
        ("run: tests.loader.code:plan_transfer", "ask: tests.loader.code:ask", "has 'gate', and nothing that plans an action"),
        ("      approvals: 2\n", "      title: Pay\n", ":11:7: workers.pay.gate: has 'title', which the function of run gives"),
        ("risk: tests.loader.code:is_large", "risk: {cel: action.amount + 'x' > 3}", ":10:"),
        ("risk: tests.loader.code:is_large", "risk: {cel: amount > 3}", ":10:19: workers.pay.gate.risk: names 'amount', which is no fact; one of: action"),
        ("risk: tests.loader.code:is_large", "risk: {cel: '[1]'}", "a policy is true or false, or says why in a text"),
        ("risk: tests.loader.code:is_large", "risk: {}", ":10:13: workers.pay.gate.risk: is no policy; write {cel: action.amount > 1000}"),
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


# ---- without code

PLAIN = """
case: payment
inputs: {amount: number, payee: string}
workers:
  pay:
    set: {payment: '{"amount": amount, "to": payee}', paid: amount}
    gate:
      title: {cel: '"Pay " + payee'}
      risk: {cel: 'action.paid > 1000 ? "it is much" : ""'}
      approvals: 2
      groups: [treasury]
      expires: 1d
    on_declined: fault_case
  thank: {set: {thanks: '"thanks for " + string(paid)'}}
goal: thanks
"""


async def test_facts_that_are_risky_are_set_once_people_have_approved_them() -> None:
    async with CaseTestKit(definition := loads(PLAIN)) as kit:
        small = await kit.start(definition, amount=20, payee="Joan")
        assert (await small.completed())["payment"] == {"amount": 20, "to": "Joan"}
        large = await kit.start(definition, amount=2000, payee="Joan")
        await kit.settle()
        assert "paid" not in await large.context()
        first, second = await kit.hub.tasks.list(groups=["treasury"])
        assert first.title == "Pay Joan (1 of 2)"
        (held,) = kit.events(large, ActionHeld)
        assert held.reason == "it is much"
        for task, person in ((first, "ada"), (second, "joan")):
            await kit.hub.tasks.complete(task.id, {"approved": True}, by=f"user:{person}", groups=["treasury"])
        assert (await large.completed())["thanks"] == "thanks for 2000"
        late = await kit.start(definition, amount=2000, payee="Joan")
        await kit.settle()
        await kit.advance("1d")
        assert await late.status() is CaseStatus.FAULTED


async def test_a_title_and_a_policy_may_be_plain_and_a_policy_that_cannot_tell_holds() -> None:
    text = PLAIN.replace("{cel: '\"Pay \" + payee'}", "Pay it").replace("action.paid > 1000", "action.nothing > 1000")
    async with CaseTestKit(definition := loads(text)) as kit:
        case = await kit.start(definition, amount=20, payee="Joan")
        await kit.settle()
        assert (await kit.hub.tasks.list())[0].title == "Pay it (1 of 2)"
        (held,) = kit.events(case, ActionHeld)
        assert held.reason.startswith("its risk policy raised ExpressionError")


async def test_an_expression_judges_what_a_function_plans_in_cel_and_in_jq() -> None:
    for risk in ("{cel: action.amount > 1000}", "{jq: .action.amount > 1000}"):
        text = PAYMENT.replace("risk: tests.loader.code:is_large", f"risk: {risk}")
        async with CaseTestKit(definition := loads(text, allow_code=ALLOWED)) as kit:
            small = await kit.start(definition, amount=20, payee="Joan")
            assert (await small.completed())["receipt"] == "20 sent to Joan"
            large = await kit.start(definition, amount=2000, payee="Joan")
            await kit.settle()
            assert "receipt" not in await large.context()


async def test_an_expression_judges_each_element() -> None:
    text = """
case: payroll
inputs: {payees: "list[string]", amount: number}
workers:
  pay:
    run: tests.loader.code:plan_each
    writes: receipts
    each: payees
    gate: {perform: tests.loader.code:transfer, risk: {cel: action.to == "Joan"}}
goal: receipts
"""
    async with CaseTestKit(definition := loads(text, allow_code=ALLOWED)) as kit:
        case = await kit.start(definition, payees=["Ada", "Joan"], amount=5)
        await kit.settle()
        (task,) = await kit.hub.tasks.list()
        await kit.hub.tasks.complete(task.id, {"approved": True}, by="user:boss")
        assert (await case.completed())["receipts"] == ["5 sent to Ada", "5 sent to Joan"]


def test_what_is_risky_and_what_it_is_called_are_part_of_the_structure() -> None:
    base = build(loads(PLAIN)).hash
    assert build(loads(PLAIN.replace("> 1000", "> 2000"))).hash != base
    assert build(loads(PLAIN.replace("Pay ", "Send "))).hash != base
    coded = PAYMENT.replace("risk: tests.loader.code:is_large", "risk: {cel: action.amount > 1000}")
    other = coded.replace("> 1000", "> 2000")
    assert build(loads(coded, allow_code=ALLOWED)).hash != build(loads(other, allow_code=ALLOWED)).hash


async def test_a_rehearsal_needs_no_answers_of_what_has_no_code() -> None:
    text = """
definition: payment.yaml
cases:
  - name: two people approve
    start: {amount: 5000, payee: Joan}
    then:
      - complete: {pay: {approved: true}}
      - complete: {pay: {approved: true}}
    expect: {status: COMPLETED, facts: {paid: 5000}}
"""
    mistakes = Mistakes("payment.test.yaml")
    found = await Rehearsal(read(text, mistakes), mistakes).play(loads(PLAIN))
    assert [each.problems for each in found] == [[]]
