"""What can never work is found when a hub is built: the thing, the reason, the remedy, the nearest name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from casehub import (
    CaseDefinition,
    CaseHub,
    Compensation,
    DefinitionError,
    Retry,
    SettingsError,
    Signal,
    WorkerExecutionFailed,
    absent,
    all_of,
    any_of,
    present,
)
from casehub.validation import build


@dataclass
class Risk:
    score: float


@dataclass
class HighRisk(Risk):
    level: int = 3


class Opaque:
    """No type that can be stored."""


def problems(definition: CaseDefinition) -> list[str]:
    """What is wrong with a definition, a line a problem."""
    try:
        build(definition)
    except DefinitionError as error:
        return [str(problem) for problem in error.problems]
    return []


def sound(**options: Any) -> CaseDefinition:
    """facts -> draft -> final: nothing is wrong with it."""
    options.setdefault("goal", "final")
    d = CaseDefinition("story", **options)

    @d.worker(writes="facts")
    async def research(question: str) -> list[str]:
        return [question]

    @d.worker(writes="draft")
    async def write(facts: list[str]) -> str:
        return facts[0]

    @d.worker(writes="final")
    async def polish(draft: str) -> str:
        return draft

    return d


def test_nothing_is_wrong_with_a_sound_definition() -> None:
    assert problems(sound()) == []


def test_everything_that_is_wrong_is_said_at_once_and_by_the_constructor_of_the_hub() -> None:
    d = sound(goal=all_of("final", "fanal"))
    d.milestone("told", present("quastion2"))
    with pytest.raises(DefinitionError) as caught:
        CaseHub(d)
    assert len(caught.value.problems) == 2
    text = str(caught.value)
    assert text.startswith("definition 'story' cannot work:\n  - ")
    assert all(f"  - {problem}" in text for problem in caught.value.problems)
    assert caught.value.definition == "story"


# ---- facts that nobody brings


def test_a_slip_of_the_keyboard_in_a_workers_parameter_names_the_fact_that_was_meant() -> None:
    d = sound()

    @d.worker(writes="summary")
    async def sum_up(fact: list[str]) -> str:
        return fact[0]

    assert problems(d) == [
        "worker 'sum_up': reads 'fact', which nobody writes; did you mean 'facts'; or, if 'fact' is an input, declare it with inputs="
    ]


@pytest.mark.parametrize("way", ["inputs", "signals", "external", "strict"])
def test_a_name_like_another_is_fine_once_it_is_declared(way: str) -> None:
    @dataclass
    class Inputs:
        question: str
        fact: str

    options = {"inputs": Inputs, "signals": ["fact"], "external": ["fact"], "strict": False}
    d = sound(**{way: options[way]})

    @d.worker(writes="summary")
    async def sum_up(fact: str) -> str:
        return fact

    assert problems(d) == []


def test_names_that_differ_in_their_numbers_alone_are_no_slips() -> None:
    d = CaseDefinition("d", goal="step3")

    async def work(step1: int) -> int:
        return step1

    d.worker(name="first", writes="step2")(work)
    d.worker(name="second", writes="step3")(work)
    assert problems(d) == []


def test_with_declared_inputs_a_fact_that_nobody_writes_is_a_problem() -> None:
    @dataclass
    class Inputs:
        question: str

    d = sound(inputs=Inputs)

    @d.worker(writes="summary")
    async def sum_up(weather: str) -> str:
        return weather

    assert problems(d) == [
        "worker 'sum_up': reads 'weather', which nobody writes and which is no input and no signal; "
        "known: draft, facts, final, question, summary (or declare it with signals= or external=)"
    ]


@pytest.mark.parametrize(
    ("declare", "subject"),
    [
        (lambda d: d.worker(writes="x", when=present("darft"))(lambda facts: 1), "binding '<lambda>'"),
        (lambda d: d.worker(writes="x", when=absent("darft"))(lambda facts: 1), "binding '<lambda>'"),
        (lambda d: d.worker(writes="x", when=lambda darft: True)(lambda facts: 1), "binding '<lambda>'"),
        (lambda d: d.milestone("m", present("darft")), "milestone 'm'"),
        (lambda d: d.milestone("m", present("draft"), entry=present("darft")), "milestone 'm'"),
        (lambda d: d.goal("g", present("darft")), "goal 'g'"),
    ],
)
def test_a_condition_over_a_fact_that_nobody_brings_names_the_nearest(
    declare: Callable[[CaseDefinition], object], subject: str
) -> None:
    d = sound()
    declare(d)
    assert problems(d) == [
        f"{subject}: tests 'darft', which nobody writes and which is no input and no signal; "
        "did you mean 'draft'? (or declare it with signals= or external=)"
    ]


def test_done_when_is_looked_at_too() -> None:
    found = problems(sound(goal=None, done_when=present("finale")))
    assert found == [
        "done_when: tests 'finale', which nobody writes and which is no input and no signal; "
        "did you mean 'final'? (or declare it with signals= or external=)"
    ]


def test_strict_false_lets_a_definition_with_a_removed_worker_build() -> None:
    def without_research(**options: Any) -> CaseDefinition:
        d = CaseDefinition("story", goal="draft", **options)

        @d.worker(writes="draft", when=present("facts"))
        async def write(question: str) -> str:
            return question

        return d

    assert len(problems(without_research())) == 1
    assert problems(without_research(strict=False)) == []
    assert problems(without_research(external=["facts"])) == []


# ---- triggers


def test_on_a_fact_that_nobody_brings() -> None:
    d = sound()
    d.worker(writes="x", on="darft")(lambda facts: 1)
    assert problems(d) == [
        "binding '<lambda>': waits for a change of 'darft', which nobody writes and which is no input and no signal; "
        "did you mean 'draft'? (or declare it with signals= or external=)"
    ]


def test_on_a_signal_that_is_not_declared_names_the_nearest() -> None:
    d = sound(signals=["approved"])
    d.worker(writes="x", on=Signal("aproved"))(lambda facts: 1)
    assert problems(d) == [
        "binding '<lambda>': waits for the signal 'aproved', which signals= does not declare; did you mean 'approved'?"
    ]


def test_on_a_signal_where_none_is_declared() -> None:
    d = sound()
    d.worker(writes="x", on=Signal("approved"))(lambda facts: 1)
    assert problems(d)[0].endswith("which signals= does not declare; none is declared")


def test_a_binding_with_neither_reads_nor_a_trigger_would_fire_once() -> None:
    d = sound()

    async def greet() -> str:
        return "hello"

    d.worker(writes="greeting")(greet)
    assert problems(d) == [
        "binding 'greet': reads no fact and has no trigger, so it fires once, at the start; "
        "say refire='once' if that is meant, or name what it reads"
    ]


@pytest.mark.parametrize(
    "option", [{"refire": "once"}, {"when": absent("greeting")}, {"on": WorkerExecutionFailed}, {"on": "draft"}]
)
def test_a_binding_without_reads_is_fine_if_it_is_meant(option: dict[str, Any]) -> None:
    d = sound()

    async def greet() -> str:
        return "hello"

    d.worker(writes="greeting", **option)(greet)
    assert problems(d) == []


# ---- names


@pytest.mark.parametrize("what", ["worker", "binding", "milestone", "goal"])
def test_duplicate_names(what: str) -> None:
    d = sound()

    async def work(facts: list[str]) -> int:
        return 1

    if what == "worker":
        for capability in ("one", "other"):
            d.worker(name="twin", writes="x", capability=capability)(work)
            d.binding(f"by {capability}", capability=capability)
    elif what == "binding":
        for name in ("one", "other"):
            d.worker(name=name, writes="x", capability="c")(work)
        d.binding("twin", capability="c")
        d.binding("twin", capability="c")
    elif what == "milestone":
        d.milestone("twin", present("facts"))
        d.milestone("twin", present("draft"))
    else:
        d.goal("twin", present("facts"))
        d.goal("twin", present("draft"))
    assert problems(d) == [f"{what} 'twin': is declared 2 times; give each a name of its own with name="]


def test_a_written_fact_is_an_identifier() -> None:
    d = sound()
    d.worker(name="odd", writes="two words")(lambda facts: 1)
    assert problems(d) == ["worker 'odd': writes 'two words', which is no name; use letters, digits and underscores"]


# ---- goals


def test_a_goal_that_is_used_but_not_declared_names_the_nearest() -> None:
    assert problems(sound(goal="finel")) == [
        "goal 'finel': is used but not declared, and no fact has this name; did you mean 'final'?"
    ]


def test_each_unknown_goal_of_an_expression_is_said_once() -> None:
    found = problems(sound(goal=any_of("xylophone", all_of("xylophone", "final"))))
    assert found == [
        "goal 'xylophone': is used but not declared, and no fact has this name; known: draft, facts, final, question"
    ]


@pytest.mark.parametrize(
    ("expression", "text"),
    [(all_of(), "all_of()"), (any_of(), "any_of()"), (any_of("final", all_of()), "any_of(final, all_of())")],
)
def test_an_empty_expression_is_refused(expression: Any, text: str) -> None:
    assert problems(sound(goal=expression)) == [
        f"goal: the expression {text} is empty and would hold at once; name the goals that it joins"
    ]


def test_a_goal_that_faults_the_case_cannot_complete_it() -> None:
    definition = sound(goal=any_of("final", "lost"))
    definition.goal("lost", when=lambda draft: draft == "", failure=True)
    assert problems(definition) == [
        "goal 'lost': faults the case by itself, and would complete it; leave it out of goal=, or out of the failure goals"
    ]


# ---- types


def test_a_reader_whose_type_cannot_be_what_the_fact_is() -> None:
    d = sound()

    @d.worker(writes="x")
    async def count(draft: int) -> int:
        return draft

    assert problems(d) == ["worker 'count': reads 'draft' as int, and it is str; make the two types agree"]


@pytest.mark.parametrize(
    ("written", "read"), [(int, float), (HighRisk, Risk), (Risk, HighRisk), (Any, int), (int, Any), (object, int)]
)
def test_types_that_may_agree_are_fine(written: Any, read: Any) -> None:
    d = CaseDefinition("d", goal="c")

    async def one(a: int): ...  # type: ignore[no-untyped-def]  # annotated below

    async def other(b) -> int: ...  # type: ignore[no-untyped-def, empty-body]  # annotated below

    one.__annotations__["return"] = written
    other.__annotations__["b"] = read
    d.worker(writes="b")(one)
    d.worker(writes="c")(other)
    assert problems(d) == []


def test_two_facts_that_fit_a_parameter_by_type() -> None:
    d = CaseDefinition("d", goal="c")

    async def assess(a: int) -> Risk:
        return Risk(a)

    d.worker(name="one", writes="low")(assess)
    d.worker(name="other", writes="high")(assess)

    @d.worker(writes="c")
    async def decide(assessment: Risk) -> float:
        return assessment.score

    assert problems(d) == [
        "worker 'decide': the parameter 'assessment' fits 2 facts by its type: low, high; "
        "name the parameter after the one that is meant"
    ]


def test_a_guard_that_fits_two_facts_by_type() -> None:
    d = CaseDefinition("d", goal="c")

    async def assess(a: int) -> Risk:
        return Risk(a)

    d.worker(name="one", writes="low")(assess)
    d.worker(name="other", writes="high")(assess)

    def severe(assessment: Risk) -> bool:
        return assessment.score > 1

    @d.worker(writes="c", when=severe)
    async def decide(low: Risk) -> float:
        return low.score

    assert problems(d)[0].startswith("binding 'decide': the parameter 'assessment' fits 2 facts by its type")


def test_a_condition_over_something_that_is_no_fact() -> None:
    d = sound()

    @d.resource
    async def client() -> AsyncIterator[Opaque]:
        yield Opaque()

    def reachable(client: Opaque) -> bool:
        return True

    @d.worker(writes="x", when=reachable)
    async def use(facts: list[str]) -> int:
        return 1

    assert problems(d)[0] == (
        "binding 'use': the parameter 'client' of the condition reachable(client) stands for no fact; "
        "let a worker look at it and write what it finds"
    )


def test_two_resources_that_fit_a_parameter_by_type() -> None:
    d = sound()

    async def one() -> AsyncIterator[Opaque]:
        yield Opaque()

    async def other() -> AsyncIterator[Opaque]:
        yield Opaque()

    d.resource(one)
    d.resource(other)

    @d.worker(writes="x")
    async def use(facts: list[str], client: Opaque) -> int:
        return 1

    assert problems(d) == [
        "worker 'use': the parameter 'client' fits 2 resources by its type: one, other; "
        "name the parameter after the one that is meant"
    ]


def test_a_type_that_cannot_be_stored_as_a_written_fact() -> None:
    d = sound()

    @d.worker(writes="x")
    async def make(facts: list[str]) -> Opaque:
        return Opaque()

    assert len(problems(d)) == 1
    assert problems(d)[0].startswith("fact 'x': type Opaque cannot be stored")
    assert problems(d)[0].endswith("or return a plain value")


def test_a_type_that_cannot_be_stored_as_a_parameter_may_be_meant_as_a_resource() -> None:
    d = sound()

    @d.worker(writes="x")
    async def use(facts: list[str], client: Opaque) -> int:
        return 1

    assert len(problems(d)) == 1
    assert problems(d)[0].startswith("worker 'use': parameter 'client': type Opaque cannot be stored")
    assert problems(d)[0].endswith("or wire it as a resource")


def test_a_return_annotation_that_names_no_fact() -> None:
    d = sound()

    @d.worker
    async def untold(facts: list[str]) -> list[int]:
        return [1]

    assert problems(d) == ["worker 'untold': its return annotation does not say which facts it writes; give writes="]


def test_a_resource_that_does_not_say_what_it_offers() -> None:
    d = sound()

    async def opener():  # type: ignore[no-untyped-def]  # on purpose
        yield 1

    d.resource(opener)
    assert problems(d) == [
        "resource 'opener': its return annotation names no type to wire it by; annotate it with AsyncIterator[Type] and yield one"
    ]


# ---- signatures and capabilities


@pytest.mark.parametrize("what", ["worker", "guard", "milestone", "goal", "done_when"])
def test_a_signature_that_names_no_facts(what: str) -> None:
    def anything(**facts: Any) -> bool:
        return True

    d = sound(goal=None, done_when=anything) if what == "done_when" else sound()
    if what == "worker":
        d.worker(name="odd", writes="x")(anything)
    elif what == "guard":
        d.worker(name="odd", writes="x", when=anything)(lambda facts: 1)
    elif what == "milestone":
        d.milestone("odd", anything)
    elif what == "goal":
        d.goal("odd", anything)
    subject = {"guard": "binding 'odd'", "done_when": "done_when"}.get(what, f"{what} 'odd'")
    assert problems(d) == [
        f"{subject}: anything takes **facts, which names no fact; name each fact that it reads as a parameter"
    ]


def test_an_annotation_that_cannot_be_resolved() -> None:
    d = sound()

    @d.worker(writes="x")
    async def odd(facts: Missing) -> int:  # type: ignore[name-defined]  # noqa: F821 - on purpose
        return 1

    assert problems(d) == [
        "worker 'odd': the annotation 'Missing' of odd cannot be resolved; import it at the top of the module"
    ]


def test_a_binding_of_a_capability_that_no_worker_has_says_which_there_are() -> None:
    d = sound()
    d.worker(name="w", writes="x", capability="scoring")(lambda facts: 1)
    d.binding("scored", capability="scorring")
    assert problems(d)[0] == (
        "binding 'scored': no worker has the capability 'scorring' (declared so far: scoring); declare its workers first"
    )


def test_a_worker_of_a_capability_that_no_binding_asks_for_would_never_run() -> None:
    d = sound()
    d.worker(name="w", writes="x", capability="scoring")(lambda facts: 1)
    assert problems(d) == [
        "worker 'w': no binding asks for its capability 'scoring', so it never runs; declare binding(name, capability='scoring')"
    ]


@pytest.mark.parametrize("what", ["goal", "milestone", "entry"])
def test_a_condition_that_reads_no_fact_would_never_be_tested_again(what: str) -> None:
    d = sound()
    if what == "goal":
        d.goal("odd", lambda: True)
    elif what == "milestone":
        d.milestone("odd", lambda: True)
    else:
        d.milestone("odd", present("facts"), entry=lambda: True)
    subject = "goal" if what == "goal" else "milestone"
    assert problems(d) == [
        f"{subject} 'odd': its condition <lambda>() reads no fact, so no change ever tests it; name the facts that it depends on"
    ]


# ---- replayed logs


def test_an_activity_names_a_declared_signal_or_a_bound_worker() -> None:
    d = sound(signals=["approved"])
    d.activity("approve", signal="aproved")
    d.activity("write it", worker="wrote")
    d.activity("again", signal="approved")
    d.activity("again", worker="write")
    assert problems(d) == [
        "activity 'again': is declared 2 times; say once what it means",
        "activity 'approve': is the signal 'aproved', which signals= does not declare; did you mean 'approved'?",
        "activity 'write it': is the result of 'wrote', and no binding runs a worker of this name; did you mean 'write'?",
    ]


def test_a_flag_is_a_fact_that_a_worker_writes() -> None:
    d = sound()
    d.flag("finel")
    assert problems(d) == ["flag 'finel': is a fact that no worker writes; did you mean 'final'?"]


def test_options_of_a_binding_do_not_get_lost_on_a_worker_with_a_capability() -> None:
    d = sound()

    @d.worker(writes="x", capability="scoring", retry=Retry(2), on="facts")
    async def score(facts: list[str]) -> int:
        return 1

    d.binding("scored", capability="scoring")
    with pytest.raises(
        DefinitionError, match=r"worker 'score': has a capability, and retry, on would be of its binding"
    ):
        build(d)


@pytest.mark.parametrize("name", ["two words", "", "1st", "a/b", "x" * 101])
def test_a_definition_whose_name_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match="its name is no name"):
        build(CaseDefinition(name))


@pytest.mark.parametrize("inputs", [{"question": str}, int, "Question"])
def test_inputs_that_are_no_class_with_fields_are_refused(inputs: Any) -> None:
    with pytest.raises(SettingsError, match="give a class that has the inputs as its fields"):
        build(sound(inputs=inputs))


# ---- compensations


def undoable(**options: Any) -> CaseDefinition:
    """book, and cancel that undoes it with these options."""
    d = CaseDefinition("trip")

    @d.worker(writes="flight")
    async def book(trip: str) -> str:
        return trip

    @d.worker(**{"compensates": book, **options})
    async def cancel(flight: str) -> None: ...

    return d


def test_a_compensation_alone_is_sound_whether_it_reads_something_or_not() -> None:
    d = undoable()
    assert problems(d) == []

    @d.worker
    async def tell(flight: str) -> None: ...

    @d.worker(compensates=tell)
    async def take_back() -> None: ...

    assert problems(d) == []


def test_what_compensates_no_binding_names_the_nearest() -> None:
    assert problems(undoable(compensates="bok")) == [
        "binding 'cancel': compensates 'bok', which is no binding; did you mean 'book'?"
    ]


def test_what_undoes_is_not_undone() -> None:
    d = undoable()

    @d.worker(compensates="cancel")
    async def book_again() -> None: ...

    assert problems(d) == [
        "binding 'book_again': compensates 'cancel', which undoes something itself; "
        "leave compensates= out; what undoes is not undone"
    ]


def test_two_compensations_of_one_binding_are_one_too_many() -> None:
    d = undoable()

    @d.worker(compensates="book")
    async def refund(flight: str) -> None: ...

    assert [problem.partition(";")[0] for problem in problems(d)] == [
        "binding 'cancel': compensates 'book', and 1 more do",
        "binding 'refund': compensates 'book', and 1 more do",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"when": present("flight")}, "when="),
        ({"on": Signal("x")}, "on="),
        ({"refire": "once", "limit": 3, "priority": 1}, "refire=, limit=, priority="),
    ],
)
def test_a_compensation_has_no_condition_of_its_own(options: dict[str, Any], said: str) -> None:
    d = undoable(**options)
    d.signals["x"] = Any
    assert any(f"compensates 'book' and says {said}, which is never asked" in problem for problem in problems(d))


def test_a_compensation_does_not_fault_the_case() -> None:
    assert any("would fault the case, which ends anyway" in p for p in problems(undoable(on_exhausted="fault_case")))


def test_a_compensation_is_no_member_of_a_stage() -> None:
    d = undoable()
    d.stage("s", "book", "cancel")
    assert any("stage 's': names 'cancel', which compensates 'book'" in problem for problem in problems(d))


def test_what_compensates_is_named_or_is_a_function() -> None:
    with pytest.raises(SettingsError, match="the name of a binding, or the function of its worker"):
        undoable(compensates=3)


def test_a_function_stands_for_its_binding_whatever_that_is_called() -> None:
    d = CaseDefinition("trip")

    @d.worker(name="book", writes="flight")
    async def do_book(trip: str) -> str:
        return trip

    @d.worker(compensates=do_book)
    async def cancel(flight: str) -> None: ...

    assert build(d).bindings["book"].compensation == "cancel"


def test_what_compensation_says_has_to_make_sense() -> None:
    with pytest.raises(SettingsError, match="before it is FAULTED or CANCELLED; did you mean 'FAULTED'"):
        Compensation(on=["FAULT"])
    with pytest.raises(SettingsError, match="more than nothing"):
        Compensation(deadline="0s")


def test_a_compensation_is_part_of_the_structure_and_its_absence_is_not() -> None:
    plain, other = undoable(), undoable()
    assert build(plain).hash == build(other).hash
    other.compensation = Compensation(deadline="1h")
    assert build(plain).hash != build(other).hash
    without = undoable()
    without.bindings[1] = replace(without.bindings[1], policy=replace(without.bindings[1].policy, compensates=""))
    assert build(plain).hash != build(without).hash
