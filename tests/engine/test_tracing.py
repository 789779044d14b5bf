"""What a case belongs to beyond this system: given or found, kept, and inherited by its sub-cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from casehub import CaseDefinition, CaseHub, CaseStarted, InputRefusedError, WorkerExecution

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def visits() -> CaseDefinition:
    visit = CaseDefinition("visit", goal="seen")

    @visit.worker(writes="seen")
    async def look(address: str, execution: WorkerExecution) -> str:
        return execution.case.trace

    round_ = CaseDefinition("round", goal="traces")

    @round_.sub_case(visit, writes="traces", takes="seen")
    def visit_all(sites: list[str]) -> list[dict[str, str]]:
        return [{"address": site} for site in sites]

    return round_


async def test_a_trace_is_in_the_log_and_sub_cases_and_their_workers_have_it(tmp_path: Path) -> None:
    d = visits()
    async with CaseHub(d, store=f"sqlite:///{tmp_path / 'cases.db'}") as hub:
        case = await hub.start(d, trace=PARENT, sites=["a", "b"])
        assert (await case.completed())["traces"] == [PARENT, PARENT]
        (own,) = await case.log.query(CaseStarted)
        assert own.trace == PARENT
        assert (await case.state()).trace == PARENT


async def test_without_one_it_is_that_of_the_current_span_and_of_none_where_there_is_none() -> None:
    d = visits()
    tracer = TracerProvider().get_tracer("tests")
    async with CaseHub(d) as hub:
        with tracer.start_as_current_span("request") as span:
            case = await hub.start(d, sites=["a"])
            (found,) = (await case.completed())["traces"]
            assert found.split("-")[1] == trace.format_trace_id(span.get_span_context().trace_id)
            alone = await hub.start(d, trace="", sites=["a"])
            assert (await alone.completed())["traces"] == [""]
        case = await hub.start(d, sites=["a"])
        assert (await case.completed())["traces"] == [""]


@pytest.mark.parametrize(
    "wrong", ["1", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", PARENT.upper(), "ff" + PARENT[2:], PARENT + "\n"]
)
async def test_what_is_no_traceparent_is_refused(wrong: str) -> None:
    d = visits()
    async with CaseHub(d) as hub:
        with pytest.raises(InputRefusedError, match="is no traceparent of W3C Trace Context"):
            await hub.start(d, trace=wrong, sites=["a"])
        assert await hub.cases() == []
