"""What a snapshot keeps of a case: all of it, as plain data, and nothing comes back of what is damaged or of another shape."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic_core import from_json, to_json

from blackboard_ext.control import PlanningStrategyLoopControl
from blackboard_ext.plan_state import PlanState
from blackboard_ext.strategies import OneAtATime
from casehub import ABSENT, CaseDefinition, ChoreographyLoopControl, Limits
from casehub.adapters.codec import from_json as event_of
from casehub.context import Fact
from casehub.dataform import form_of
from casehub.engine import keeping
from casehub.engine.keeping import Kept, bring_back, keep
from casehub.errors import FactError, SnapshotError
from casehub.events import CaseId, Event, UnknownEvent
from casehub.folding import apply, fold
from casehub.lifecycle import CaseStatus
from casehub.state import CaseState
from casehub.testing.evidence import differences, through_snapshots
from tests.engine.core import Core
from tests.engine.test_replay import OPERATIONS, everything, play

GOLDEN = Path(__file__).parent.parent / "golden" / "events.ndjson"
AT = datetime(2026, 11, 30, 9, tzinfo=UTC)
CHOREOGRAPHY = ChoreographyLoopControl()
PLANNING = PlanningStrategyLoopControl(OneAtATime())


def again(state: CaseState, loop: Any = CHOREOGRAPHY) -> CaseState:
    kept = keep(state, loop, 7)
    assert kept is not None
    return bring_back(kept, state.id, state.tenant, loop).state


def played() -> Core:
    core = Core(everything())
    core.start(a=1)
    core.signal(b={"k": [1, 2.5, None]})
    core.returns("one", ABSENT)
    return core


# ---- whatever happened


@settings(max_examples=60, deadline=None)
@given(operations=OPERATIONS)
def test_a_snapshot_of_every_prefix_and_the_rest_of_the_log_give_the_same_case(
    operations: list[tuple[str, Any]],
) -> None:
    core = play(operations, slow=False)
    state = CaseState(core.state.id)
    for place, event in enumerate(core.log):
        apply(state, event)
        assert list(differences(state, again(state))) == []
        if place % 20 == 0:
            whole = fold(core.state.id, core.log[place + 1 :], again(state))
            assert list(differences(fold(core.state.id, core.log), whole)) == []
    assert list(differences(core.live.state, through_snapshots(core.state.id, core.log, core.live))) == []


def test_a_state_that_every_kind_of_event_has_gone_into_comes_back_equal() -> None:
    """The golden log has one of each, and is no story: what does not fit the state that far is left out of it."""
    state, control = CaseState(CaseId("c1"), tenant="acme"), PlanState()
    taken = set[str]()
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        event: Event = event_of(line)
        event.version = state.version + 1
        try:
            apply(state, event)
        except (KeyError, AttributeError):
            continue
        control.apply(event)
        state.id, state.tenant, state.control = CaseId("c1"), "acme", control
        taken.add(event.name)
        if not isinstance(event, UnknownEvent):
            state.occurrences.pop(UnknownEvent.name, None)
            assert list(differences(state, again(state, PLANNING))) == [], event.name
    assert len(taken) > 80


def test_what_json_cannot_tell_apart_comes_back_as_it_was() -> None:
    state = CaseState(CaseId("c1"))
    for name, value in {"text": "ABSENT", "gone": ABSENT, "none": None, "list": [], "int": 1, "float": 1.0}.items():
        state.facts[name] = Fact(name, value, 1, "user:ada", 0, AT, 0.5)
    state.held = {("case", "tokens"), ("a,b", "c")}
    state.spending.usage = {("case", "tokens"): 9.0, ("a,b", "money"): float("inf")}
    assert list(differences(state, again(state))) == []


def test_the_order_in_which_things_began_is_kept() -> None:
    state = CaseState(CaseId("c1"))
    for name in ("z", "a", "m"):
        state.goals[name] = 1
    assert list(again(state).goals) == ["z", "a", "m"]


# ---- control state


def test_a_plan_is_kept_with_its_case() -> None:
    state = CaseState(CaseId("c1"), control=PlanState(focus="risk", notes={"n": [1]}, resources={"gpu": 2, "cpu": 0.5}))
    assert list(differences(state, again(state, PLANNING))) == []


class Counting(ChoreographyLoopControl):
    """Keeps a control state and does not say how it is written."""

    handles = frozenset({Event})

    def initial(self) -> int:
        return 0

    def apply(self, control: Any, event: Event) -> int:
        return int(control) + 1


class Written(Counting):
    control_form = "a number"

    def dump_control(self, control: Any) -> Any:
        return control

    def load_control(self, data: Any) -> int:
        if type(data) is not int:
            raise FactError("a number")
        return data


def test_a_control_state_that_nobody_can_write_is_never_kept_wrongly() -> None:
    state = CaseState(CaseId("c1"), control=3)
    assert keep(state, Counting(), 7) is None
    assert again(state, Written()).control == 3
    with pytest.raises(FactError, match="int is written as no PlanState"):
        keep(state, PLANNING, 7)
    with pytest.raises(FactError, match="control state of Written is not plain"):
        keep(CaseState(CaseId("c1"), control=object()), Written(), 7)


@pytest.mark.parametrize("loop", [CHOREOGRAPHY, PLANNING, Counting()])
def test_the_control_state_of_another_loop_control_is_refused(loop: Any) -> None:
    kept = keep(CaseState(CaseId("c1"), control=3), Written(), 7)
    assert kept is not None
    with pytest.raises(SnapshotError, match="its control is 'a number'"):
        bring_back(kept, CaseId("c1"), "default", loop)


def test_a_case_with_events_that_this_process_does_not_know_is_not_kept() -> None:
    state = CaseState(CaseId("c1"))
    apply(state, UnknownEvent(type="OTHER", body={}))
    assert keep(state, CHOREOGRAPHY, 7) is None


# ---- what is refused


def parts() -> tuple[CaseState, dict[str, Any], bytes]:
    state = played().state
    kept = keep(state, CHOREOGRAPHY, 7)
    assert kept is not None
    head, body = kept.splitlines()
    return state, from_json(head), body


def refused(payload: bytes, case: CaseId) -> str:
    with pytest.raises(SnapshotError) as caught:
        bring_back(payload, case, "default", CHOREOGRAPHY)
    return str(caught.value)


def test_it_is_two_lines_of_json_that_name_no_code() -> None:
    state, head, body = parts()
    assert head.keys() == {"schema", "shape", "control", "sha256", "seq", "structure"}
    assert (head["seq"], head["structure"]) == (7, state.structure)
    text = json.dumps(from_json(body))
    assert not any(word in text for word in ("casehub", "Activation", "builtins", "__class__", "py/object"))
    assert bring_back(to_json(head) + b"\n" + body, state.id, "default", CHOREOGRAPHY) == Kept(state, 7)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda head, body: b"", "it is no JSON"),
        (lambda head, body: b"\x80\x04\x95\x0b\x00\x00\x00.", "it is no JSON"),
        (lambda head, body: b"cos\nsystem\n(S'true'\ntR.", "it is no JSON"),
        (lambda head, body: b"[]\n" + body, "its first line says nothing"),
        (lambda head, body: to_json({**head, "seq": "7"}) + b"\n" + body, "its first line says nothing"),
        (lambda head, body: to_json({**head, "schema": 99}) + b"\n" + body, "its schema is 99"),
        (lambda head, body: to_json({**head, "shape": "other"}) + b"\n" + body, "its shape is 'other'"),
        (lambda head, body: to_json({**head, "control": "other"}) + b"\n" + body, "its control is 'other'"),
        (lambda head, body: to_json(head) + b"\n" + body[:-9], "its checksum does not fit"),
        (lambda head, body: to_json(head) + b"\n" + body.replace(b'"a"', b'"b"', 1), "its checksum does not fit"),
        (lambda head, body: to_json({**head, "sha256": ""}) + b"\n" + body, "its checksum does not fit"),
    ],
)
def test_what_is_damaged_or_of_another_schema_is_refused(
    spoil: Callable[[dict[str, Any], bytes], bytes], reason: str
) -> None:
    state, head, body = parts()
    assert reason in refused(spoil(head, body), state.id)


CALLED: list[str] = []


def called() -> None:
    CALLED.append("called")


@pytest.mark.parametrize(
    "change",
    [
        {"__reduce__": ["tests.engine.test_keeping.called", []]},
        {"py/object": "tests.engine.test_keeping.called"},
        {"definition": {"__class__": "tests.engine.test_keeping.called"}},
        {"facts": {"a": {"lc": 1, "type": "constructor", "id": ["tests", "called"]}}},
        {"facts": ["!!python/object/apply:tests.engine.test_keeping.called []"]},
        {"status": "os.system"},
        {"version": "7"},
        {"started_at": "now"},
        {"tasks": None},
        {"held": [["case"]]},
        {"spending": {"usage": {"case": 1}}},
    ],
)
def test_what_was_edited_makes_no_call_and_no_case_even_with_a_right_checksum(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, head, body = parts()
    data = from_json(body)
    data["state"] |= change
    edited = to_json(data)
    head["sha256"] = keeping.sha256(edited).hexdigest()
    monkeypatch.setitem(sys.modules, "tests.engine.test_keeping", sys.modules[__name__])
    assert "what is in it is no case" in refused(to_json(head) + b"\n" + edited, state.id)
    assert CALLED == []


def test_the_snapshot_of_another_case_or_tenant_is_refused() -> None:
    state = played().state
    kept = keep(state, CHOREOGRAPHY, 7)
    assert kept is not None
    assert "it is of case" in refused(kept, CaseId("other"))
    with pytest.raises(SnapshotError, match="it is of case"):
        bring_back(kept, state.id, "other", CHOREOGRAPHY)


def test_a_state_of_another_shape_has_another_shape_in_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field more, another default, another type: what an older release has kept is folded from the log instead."""

    @dataclass
    class One:
        a: int = 0

    @dataclass
    class Default:
        a: int = 1

    @dataclass
    class More:
        a: int = 0
        b: str = ""

    @dataclass
    class Typed:
        a: float = 0

    shapes = {form_of(kind).shape.partition("(")[2] for kind in (One, Default, More, Typed)}
    assert len(shapes) == 4
    monkeypatch.setattr(keeping, "_SHAPE", "older")
    state = played().state
    kept = keep(state, CHOREOGRAPHY, 7)
    assert kept is not None
    monkeypatch.undo()
    assert "its shape is 'older'" in refused(kept, state.id)


# ---- forms


@dataclass
class Odd:
    status: CaseStatus = CaseStatus.WAITING
    pair: tuple[str, int] = ("a", 1)
    several: tuple[str, ...] = ()
    by_pair: dict[tuple[str, str], float] = field(default_factory=dict)
    maybe: datetime | None = None
    frozen: frozenset[int] = frozenset()


def test_every_kind_of_field_comes_back_of_its_type() -> None:
    form = form_of(Odd)
    odd = Odd(CaseStatus.COMPLETED, ("b", 2), ("x", "y"), {("a", "b"): 1.5}, AT, frozenset({1, 2}))
    back = form.load(from_json(to_json(form.plain(odd))))
    assert list(differences(odd, back)) == []
    assert form.plain(Odd()) == {}
    assert form.load({}) == Odd()


@dataclass
class Loose:
    value: Any = 0


@pytest.mark.parametrize("value", [0, 0.0, False, None, "", []])
def test_what_equals_a_default_and_is_another_value_is_kept(value: Any) -> None:
    form = form_of(Loose)
    assert list(differences(Loose(value), form.load(from_json(to_json(form.plain(Loose(value))))))) == []


def test_an_object_of_a_subclass_is_not_written_as_what_it_is_not() -> None:
    @dataclass
    class Other(Odd):
        more: int = 1

    with pytest.raises(FactError, match="Other is written as no Odd"):
        form_of(Odd).plain(Other())


@pytest.mark.parametrize("kind", [int | str, Callable[[], None], bytes, complex])
def test_a_type_that_does_not_say_how_it_is_written_has_no_form(kind: Any) -> None:
    with pytest.raises(TypeError, match="has no form as plain data"):
        form_of(kind)


def test_the_state_is_not_changed_by_being_kept() -> None:
    state = CaseState(CaseId("c1"), control=PlanState(focus="x"))
    before = replace(state)
    keep(state, PLANNING, 1)
    assert (state, state.control) == (before, before.control)


def test_fifty_facts_and_twenty_five_bindings_are_kept_and_brought_back_in_ten_milliseconds() -> None:
    """Processor time, on average and of the best of some batches: what others do on the machine is not counted."""
    board = CaseDefinition("board", signals=["a", *(f"given{n}" for n in range(24))], limits=Limits(concurrency=25))

    async def work(a: int) -> Any:
        return None

    for n in range(25):
        board.worker(name=f"work{n}", writes=f"made{n}")(work)
    core = Core(board)
    core.start(a=1, **{f"given{n}": {"text": "x" * 60, "numbers": [n, n / 7], "flag": True} for n in range(24)})
    for n in range(25):
        core.returns(f"work{n}", {"text": "y" * 60, "number": n})
    state = core.state
    assert (len(state.facts), len(state.firings)) == (50, 25)
    spent = list[float]()
    for _ in range(5):
        began = time.process_time()
        for _ in range(20):
            kept = again(state)
        spent.append((time.process_time() - began) / 20)
    assert list(differences(state, kept)) == []
    assert min(spent) < 0.010
