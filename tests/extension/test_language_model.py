"""A language model as selector: what it is shown, what it may answer, and who decides when it does not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from blackboard_ext import PlanningStrategyLoopControl
from blackboard_ext.strategies import CheapestFirst
from blackboard_ext.strategies.language_model import NOTE, LanguageModel
from casehub import CaseDefinition, DeliberationFinished, MissingExtraError, SettingsError, WorkerScheduled
from casehub.lookup import object_of
from casehub.testing import CaseTestKit


class Scripted:
    """A model that answers by a script; `shown`: the prompts and complaints that it got, in order."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.shown: list[str] = []
        self.instructions = ""

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self._answer)

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last: Any = messages[-1]
        self.shown.append(str(last.parts[-1].content))
        self.instructions = last.instructions or ""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Callable):  # type: ignore[arg-type]  # a callable
            await answer()
        if isinstance(answer, str):
            return ModelResponse(parts=[TextPart(answer)])
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, answer)])


def choice(*names: str, because: str = "it matters") -> dict[str, Any]:
    return {"chosen": list(names), "because": because}


def loan() -> CaseDefinition:
    d = CaseDefinition("loan", goal="never", signals=["never", "more"])

    @d.worker(writes="score", priority=2, cost=5)
    async def score(applicant: str) -> int:
        """Ask the credit agency.

        It takes a day.
        """
        return 1

    @d.worker(writes="letter", cost=1)
    async def write(applicant: str) -> str:
        return "dear"

    return d


async def first(strategy: LanguageModel, **facts: Any) -> tuple[DeliberationFinished, str]:
    """The first decision, and what the plan's note says behind the last one."""
    d = loan()
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, **{"applicant": "Ada", **facts})
        with kit.hub.watch(DeliberationFinished, case=case.id, after=0) as answers:
            found = await anext(answers)
        note = (await case.state()).control.notes.get(NOTE, "")
        await case.kill()
        return found, note


async def test_the_model_chooses_and_gives_the_reason() -> None:
    found, note = await first(LanguageModel(Scripted(choice("write", because="a\nletter \0first")).model))
    assert (found.chosen, found.rationale, note) == (("write",), "a letter first", "")


async def test_the_offline_test_model_will_do() -> None:
    found, _ = await first(LanguageModel(TestModel(custom_output_args=choice("score"))))
    assert found.chosen == ("score",)


async def test_the_order_of_the_choice_is_kept() -> None:
    found, _ = await first(LanguageModel(Scripted(choice("write", "score")).model))
    assert found.chosen == ("write", "score")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ("I think the score", "Exceeded maximum output retries"),
        (choice("nobody"), "Exceeded maximum output retries"),
        (choice("write", "write"), "Exceeded maximum output retries"),
        (choice(), "Exceeded maximum output retries"),
        ({"chosen": "write"}, "Exceeded maximum output retries"),
        (ConnectionError("down"), "ConnectionError: down"),
    ],
    ids=["prose", "not eligible", "twice", "nothing", "not the schema", "an error"],
)
async def test_on_nonsense_or_an_error_the_other_strategy_decides_and_says_so(answer: Any, complaint: str) -> None:
    found, note = await first(LanguageModel(Scripted(answer).model, otherwise=CheapestFirst()))
    assert found.chosen == ("write",)
    assert note.startswith("the language model did not decide (")
    assert complaint in note
    assert found.rationale == f"{note}; CheapestFirst does"


async def test_without_another_strategy_everything_eligible_fires() -> None:
    found, _ = await first(LanguageModel(Scripted("no").model))
    assert found.chosen == ("score", "write")


async def test_a_model_that_takes_too_long_is_not_waited_for() -> None:
    async def long() -> None:
        await asyncio.Event().wait()

    found, note = await first(LanguageModel(Scripted(long).model, timeout="10ms", otherwise=CheapestFirst()))
    assert (found.chosen, note) == (("write",), "the language model did not decide (TimeoutError)")


async def test_it_is_told_what_was_wrong_as_often_as_it_may_answer() -> None:
    script = choice("nobody"), choice("score", "score"), choice("score")
    patient, hasty = Scripted(*script), Scripted(*script)
    assert (await first(LanguageModel(patient.model, attempts=3)))[0].chosen == ("score",)
    assert "nobody cannot run now; choose out of score, write" in patient.shown[1]
    assert "each name at most once" in patient.shown[2]
    found, _ = await first(LanguageModel(hasty.model, attempts=2, otherwise=CheapestFirst()))
    assert found.chosen == ("write",)


async def test_choosing_nothing_is_an_answer_while_something_runs_and_clears_the_note() -> None:
    d = loan()
    d.signals["applicant"] = str
    gate = asyncio.Event()

    @d.worker(writes="slow")
    async def slow(applicant: str) -> int:
        await gate.wait()
        return 1

    scripted = Scripted("nonsense", "nonsense", choice(), choice("write"), choice("score"))
    strategy = LanguageModel(scripted.model, otherwise=OnlySlow())
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(strategy)) as kit:
        case = await kit.start(d, applicant="Ada")
        await kit.settle()
        assert (await case.state()).control.notes[NOTE].startswith("the language model did not decide")
        await case.signal(applicant="Bob")
        await kit.settle()
        assert kit.events(case, DeliberationFinished)[-1].chosen == ()
        assert NOTE not in (await case.state()).control.notes
        gate.set()
        await kit.settle()
        assert [event.binding for event in kit.events(case, WorkerScheduled)][:2] == ["slow", "write"]


class OnlySlow:
    async def select(self, plan: Any, case: Any, eligible: Any) -> Any:
        return [binding for binding in eligible if binding.name == "slow"]


async def test_it_is_shown_what_is_eligible_and_the_facts_newest_first() -> None:
    scripted = Scripted(choice("score"))
    await first(LanguageModel(scripted.model, instructions="Be quick."))
    assert scripted.shown[0].splitlines() == [
        "Case of 'loan'. Eligible now:",
        "- score: Ask the credit agency. (reads applicant; writes score; priority 2; cost 5)",
        "- write: no description (reads applicant; writes letter; priority 0; cost 1)",
        "Running: nothing",
        "Ended, oldest first: nothing",
        "Facts, newest first:",
        '- applicant = "Ada" (by user)',
    ]
    assert scripted.instructions.endswith("Be quick.")


async def test_it_is_shown_what_runs_and_what_has_ended() -> None:
    d = loan()
    scripted = Scripted(choice("score"), choice("write"))
    async with CaseTestKit(d, loop=PlanningStrategyLoopControl(LanguageModel(scripted.model))) as kit:
        await kit.start(d, applicant="Ada")
        await kit.settle()
    assert scripted.shown[1].splitlines()[2:] == [
        "Running: nothing",
        "Ended, oldest first: score COMPLETED",
        "Facts, newest first:",
        "- score = 1 (by worker:score)",
        '- applicant = "Ada" (by user)',
    ]


async def test_it_is_shown_only_the_facts_it_may_see() -> None:
    scripted = Scripted(choice("score"))
    await first(LanguageModel(scripted.model, facts=[]))
    assert "Ada" not in scripted.shown[0]


async def test_what_it_is_shown_has_a_bound() -> None:
    long = "a" * 10_000
    short, whole = Scripted(choice("score")), Scripted(choice("score"))
    await first(LanguageModel(short.model, size=100), applicant=long)
    await first(LanguageModel(whole.model), applicant=long)
    assert len(short.shown[0]) == 100
    assert 500 < len(whole.shown[0]) < 1_000


@pytest.mark.parametrize("options", [{"attempts": 0}, {"size": 0}])
def test_bounds_that_allow_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="both at least 1"):
        LanguageModel(TestModel(), **options)


def test_without_the_extra_the_error_names_the_command_and_everything_else_works() -> None:
    look = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "import blackboard_ext.strategies, blackboard_ext.testing\n"
        "from casehub import MissingExtraError\n"
        "try:\n    import blackboard_ext.strategies.language_model\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout == (
        "blackboard_ext.strategies.language_model needs the extra \"llm\": pip install 'casehub[llm]'\n"
    ), done.stderr


def test_a_reference_to_it_names_the_command_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    monkeypatch.delitem(sys.modules, "blackboard_ext.strategies.language_model")
    with pytest.raises(MissingExtraError, match=r"pip install 'casehub\[llm\]'"):
        object_of("blackboard_ext.strategies.language_model:LanguageModel")


def test_the_ready_strategies_do_not_load_it() -> None:
    look = "import sys, blackboard_ext.strategies; assert 'pydantic_ai' not in sys.modules"
    subprocess.run([sys.executable, "-c", look], check=True, timeout=240)
