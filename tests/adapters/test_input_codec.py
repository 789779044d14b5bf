"""Inputs that one hub sends to another come back equal; what cannot be sent says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import BaseModel

from casehub import inputs
from casehub.adapters.input_codec import SENT, decode_input, encode_input
from casehub.errors import FactError
from casehub.events import ActivationId, CaseId, GoalReached
from casehub.inputs import Input
from casehub.lifecycle import CaseStatus
from casehub.stage import StageVerb
from casehub.task_events import TaskId

TASK = TaskId("c/judge/1")
ALL: Sequence[Input] = [
    inputs.Write(
        signals=("a",), facts={"a": {"b": [1, None, "ü", 1.5]}}, confidence={"a": 0.5}, delete=("b",), hide=("c",), show=("d",),
        absent_only=True, clear=True, reason="so", by="user:ada", key="k",
    ),
    inputs.Suspend(reason="lunch"),
    inputs.Resume(),
    inputs.Unfault(facts={"a": 1}, retry=False),
    inputs.RetryLetter(activation=ActivationId("c/a/1"), facts={"a": "b"}),
    inputs.DiscardLetter(activation=ActivationId("c/a/1"), reason="no"),
    inputs.Reroute(binding="a", to="b"),
    inputs.ReleaseWorker(worker="a"),
    inputs.Cancel(reason="enough", by="user:ada"),
    inputs.SteerStage(stage="s", verb=StageVerb.ACTIVATE),
    inputs.ChildEnded(child=CaseId("c/1"), status=CaseStatus.FAULTED, facts={"a": 1}, reason="r", charges={"calls": 2.0}),
    inputs.Claim(task=TASK, groups=("a", "b"), by="user:ada"),
    inputs.Release(task=TASK),
    inputs.Assign(task=TASK, to="joan"),
    inputs.Delegate(task=TASK, to="joan", groups=()),
    inputs.Complete(task=TASK, value={"fine": True}),
    inputs.Decline(task=TASK, reason="no"),
    inputs.Comment(task=TASK, text="hm"),
]  # fmt: skip


@pytest.mark.parametrize("input", ALL, ids=lambda each: type(each).__name__)
def test_an_input_comes_back_equal(input: Input) -> None:
    assert decode_input(encode_input(input)) == input


def test_every_input_that_is_sent_is_tried() -> None:
    assert {type(each).__name__ for each in ALL} == set(SENT)


def test_an_answer_of_a_type_is_sent_as_what_it_is_made_of() -> None:
    class Verdict(BaseModel):
        fine: bool

    sent = decode_input(encode_input(inputs.Complete(task=TASK, value=Verdict(fine=True))))
    assert isinstance(sent, inputs.Complete)
    assert sent.value == {"fine": True}


@pytest.mark.parametrize(
    ("input", "reason"),
    [
        (inputs.Start(facts={}), "Start cannot be sent to the hub that works the case"),
        (inputs.Write(notes=[GoalReached(goal="a")]), "an input with events to record cannot be sent"),
        (inputs.Complete(task=TASK, value=object()), "Complete cannot be sent to another hub: .*give plain values"),
    ],
)
def test_what_cannot_be_sent_says_so(input: Input, reason: str) -> None:
    with pytest.raises(FactError, match=reason):
        encode_input(input)


@pytest.mark.parametrize("text", ['{"kind": "Start"}', '{"kind": "Cancel", "more": 1}', '{"kind": "Claim"}', "{}"])
def test_what_is_no_input_says_so(text: str) -> None:
    with pytest.raises(FactError, match="let all hubs be of one release"):
        decode_input(text)
