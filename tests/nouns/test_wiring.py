"""How parameters find what they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import pytest

from casehub.definition import CaseDefinition
from casehub.errors import FactError
from casehub.sentry import Predicate, as_sentry
from casehub.validation import build
from casehub.values import ABSENT, FactType, Plain
from casehub.view import CaseView, WorkerExecution
from casehub.wiring import Parameter, Source, Wires, WiringError, signature_of


@dataclass
class Risk:
    score: float


@dataclass
class HighRisk(Risk):
    reason: str = ""


class Client:
    """A resource."""


class SpecialClient(Client):
    """A resource that is a client too."""


def wires(facts: dict[str, Any] | None = None, resources: dict[str, Any] | None = None) -> Wires:
    types = {name: FactType(annotation) for name, annotation in (facts or {}).items()}
    return Wires(types, resources or {}, WorkerExecution, CaseView)


def parameter(annotation: Any, name: str = "it", optional: bool = False) -> Parameter:
    return Parameter(name, annotation, optional)


def test_the_execution_and_the_view_are_found_by_type_before_anything_else() -> None:
    crowded = wires({"execution": int, "case": int}, {"execution": WorkerExecution})
    assert crowded.wire(parameter(WorkerExecution, "execution")).source is Source.EXECUTION
    assert crowded.wire(parameter(CaseView, "case")).source is Source.VIEW


def test_a_resource_is_found_by_type_before_a_fact_of_that_name() -> None:
    wired = wires({"client": int}, {"opener": Client}).wire(parameter(Client, "client"))
    assert (wired.source, wired.target) == (Source.RESOURCE, "opener")


def test_a_resource_of_a_subclass_serves_too() -> None:
    assert wires(resources={"special": SpecialClient}).wire(parameter(Client)).target == "special"
    with pytest.raises(FactError, match="type SpecialClient cannot be stored"):  # so it is no fact either
        wires(resources={"plain": Client}).wire(parameter(SpecialClient))


def test_a_fact_is_found_by_name_before_its_type() -> None:
    wired = wires({"risk": Risk, "other": Risk}).wire(parameter(Risk, "other"))
    assert wired.target == "other"


def test_a_fact_is_found_by_type_where_no_fact_has_the_name() -> None:
    wired = wires({"risk": Risk}).wire(parameter(Risk, "assessment"))
    assert (wired.source, wired.target, wired.fact) == (Source.FACT, "risk", "risk")


def test_a_fact_of_a_subclass_is_found_by_type() -> None:
    assert wires({"high": HighRisk}).wire(parameter(Risk)).target == "high"


@pytest.mark.parametrize("annotation", [int, str, list[str], dict[str, int], Any, list[Risk], Risk | int])
def test_builtins_generics_and_unions_never_wire_by_type(annotation: Any) -> None:
    assert wires({"count": annotation}).wire(parameter(annotation)).target == "it"


def test_two_facts_of_a_type_are_ambiguous_and_both_are_named() -> None:
    with pytest.raises(WiringError, match="the parameter 'it' fits 2 facts by its type: low, high") as caught:
        wires({"low": Risk, "high": HighRisk}).wire(parameter(Risk))
    assert caught.value.remedy == "name the parameter after the one that is meant"


def test_two_resources_of_a_type_are_ambiguous() -> None:
    with pytest.raises(WiringError, match="fits 2 resources by its type: one, other"):
        wires(resources={"one": Client, "other": SpecialClient}).wire(parameter(Client))


def test_what_is_found_nowhere_is_a_fact_of_the_parameters_name() -> None:
    wired = wires().wire(parameter(int, "unknown"))
    assert (wired.source, wired.target) == (Source.FACT, "unknown")


def test_a_reader_sees_the_narrower_of_two_types() -> None:
    both = wires({"risk": HighRisk})
    assert both.wire(parameter(Risk, "risk")).type.annotation is HighRisk
    assert both.wire(parameter(Any, "risk")).type.annotation is HighRisk
    assert wires({"risk": Any}).wire(parameter(Risk, "risk")).type.annotation is Risk
    assert wires({"risk": Risk}).wire(parameter(HighRisk, "risk")).type.annotation is HighRisk


# ---- signatures


def test_parameters_have_their_types_and_whether_they_are_optional() -> None:
    def function(a: int, b: str = "x", *, c: list[str], d: float | None = None) -> bool:
        return True

    parameters, returned = signature_of(function)
    assert [(p.name, p.annotation, p.optional) for p in parameters] == [
        ("a", int, False),
        ("b", str, True),
        ("c", list[str], False),
        ("d", float, True),
    ]
    assert returned is bool


def test_without_annotations_everything_is_any() -> None:
    parameters, returned = signature_of(lambda a, b=1: a)
    assert [(p.name, p.annotation, p.optional) for p in parameters] == [("a", Any, False), ("b", Any, True)]
    assert returned is Any


def test_returning_none_is_not_the_same_as_saying_nothing() -> None:
    def silent() -> None: ...

    assert signature_of(silent)[1] is type(None)


def test_an_optional_type_is_wired_by_what_it_holds() -> None:
    def function(risk: Risk | None, other: Annotated[Risk, "note"]) -> None: ...

    assert [p.annotation for p in signature_of(function)[0]] == [Risk, Risk]


def test_annotations_may_name_classes_of_an_enclosing_function() -> None:
    @dataclass
    class Local:
        x: int

    def function(local: Local) -> Local:
        return local

    parameters, returned = signature_of(function, locals())
    assert parameters[0].annotation is Local
    assert returned is Local


def test_an_annotation_that_cannot_be_resolved_is_named_with_the_remedy() -> None:
    def function(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - on purpose

    with pytest.raises(WiringError, match="the annotation 'Missing' of function cannot be resolved") as caught:
        signature_of(function)
    assert caught.value.remedy == "import it at the top of the module"


@pytest.mark.parametrize(
    ("function", "complaint", "remedy"),
    [
        (lambda *args: 1, r"takes \*args, which names no fact", "name each fact that it reads as a parameter"),
        (lambda **facts: 1, r"takes \*\*facts, which names no fact", "name each fact that it reads as a parameter"),
        (lambda a, /: 1, "takes a by position only", "remove the '/' of its signature"),
    ],
)
def test_signatures_that_name_no_facts_are_refused(function: Any, complaint: str, remedy: str) -> None:
    with pytest.raises(WiringError, match=complaint) as caught:
        signature_of(function)
    assert caught.value.remedy == remedy


def test_objects_with_a_call_method_have_a_signature_too() -> None:
    class Model:
        def __call__(self, question: str) -> str:
            return question

    parameters, returned = signature_of(Model())
    assert [(p.name, p.annotation) for p in parameters] == [("question", str)]
    assert returned is str


def test_what_a_partial_function_has_bound_is_optional_or_gone() -> None:
    def scale(factor: int, value: float) -> float:
        return factor * value

    assert [p.name for p in signature_of(partial(scale, 2))[0]] == ["value"]
    assert [(p.name, p.optional) for p in signature_of(partial(scale, factor=2))[0]] == [
        ("factor", True),
        ("value", False),
    ]


def test_a_predicates_parameters_are_wired_like_a_workers() -> None:
    predicate = as_sentry(_by_type)
    assert isinstance(predicate, Predicate)
    wired = predicate.wired(wires({"risk": Risk}))
    assert wired.reads == {"risk"}


def test_a_condition_without_annotations_reads_what_a_worker_reads_though_nobody_declares_the_fact() -> None:
    definition = CaseDefinition("d", goal="verdict")

    @definition.worker(writes="verdict", when=lambda risk: risk.score > 1)
    async def judge(risk: Risk) -> str:
        return "high"

    guard = build(definition).bindings["judge"].when
    assert isinstance(guard, Predicate)
    assert guard.parameters[0].type.annotation is Risk


def test_a_writer_of_several_facts_leaves_their_types_to_whoever_says_them() -> None:
    definition = CaseDefinition("d", goal="risk", signals={"hint": str})

    @definition.worker(writes="risk")
    async def judge(question: str) -> Risk:
        return Risk(1.0)

    @definition.worker(writes=["risk", "hint", "note"])
    async def forget(question: str) -> dict[str, object]:
        return {"risk": ABSENT}

    types = build(definition).types
    assert [types[name].annotation for name in ("risk", "hint", "note")] == [Risk, str, Any]


def _by_type(assessment: Risk) -> bool:
    return assessment.score > 1


def test_a_parameter_that_asks_for_plain_values_gets_them_whatever_the_fact_is() -> None:
    wired = wires({"risk": Risk}).wire(parameter(Plain, "risk"))
    assert wired.type.annotation is Any
    assert wired.type.restore({"score": 1}, "risk") == {"score": 1}
