"""Metrics: a metrics SDK reads what a hub counts, and a hub that has been left has nothing to say."""

from __future__ import annotations

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from casehub import CaseDefinition, CaseHub, EventQuery, Permanent
from casehub.adapters.memory_snapshots import MemorySnapshots
from casehub.testing import CaseTestKit

READER = InMemoryMetricReader()


@pytest.fixture(scope="module", autouse=True)
def _sdk() -> None:
    metrics.set_meter_provider(MeterProvider([READER]))  # once a process; other tests measure nothing


def figures() -> dict[str, float]:
    """The newest figures by name, and by name and outcome where there is one."""
    data = READER.get_metrics_data()
    found: dict[str, float] = {}
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    outcome = (point.attributes or {}).get("outcome")
                    found[f"{metric.name}.{outcome}" if outcome else metric.name] = point.value  # type: ignore[union-attr]
    return found


def halves() -> CaseDefinition:
    d = CaseDefinition("halves", goal="half", signals=["more"])

    @d.worker(writes="half")
    async def halve(number: int) -> float:
        if number % 2:
            raise Permanent("odd")
        return number / 2

    return d


async def test_what_a_hub_does_shows_in_its_figures() -> None:
    d = halves()
    before = figures()

    def more(name: str) -> float:
        return figures()[name] - before.get(name, 0)

    async with CaseTestKit(d) as kit:
        await (await kit.start(d, number=4)).completed()
        await kit.start(d, number=5)
        await kit.settle()
        with kit.hub.watch():
            assert more("casehub.subscribers") == 1
        assert more("casehub.events.published") == len(await kit.hub.log.query(EventQuery()))
        assert more("casehub.turns") == 4
        assert more("casehub.attempts.WORKER_EXECUTION_COMPLETED") == 1
        assert more("casehub.attempts.WORKER_EXECUTION_FAILED") == 1
        assert more("casehub.cases.resident") == 2
        assert more("casehub.work.running") == 0
        assert more("casehub.inbox.depth") == 0


async def test_what_a_hub_counted_stays_counted_when_it_is_left() -> None:
    before = figures().get("casehub.turns", 0)
    async with CaseHub(halves()) as hub:
        await (await hub.start("halves", number=2)).completed()
        assert figures()["casehub.turns"] == before + 2
        assert figures()["casehub.cases.resident"] == 1
    assert figures()["casehub.turns"] == before + 2
    assert figures().get("casehub.cases.resident", 0) == 0


async def test_two_hubs_of_a_process_are_counted_together() -> None:
    d = halves()
    async with CaseHub(d) as one, CaseHub(d) as other:
        for hub in (one, other):
            await (await hub.start("halves", number=2)).completed()
        assert figures()["casehub.cases.resident"] == 2


async def test_snapshots_are_counted_by_what_became_of_them() -> None:
    snapshots, before = MemorySnapshots(), figures()
    async with CaseHub(halves(), snapshots=snapshots) as hub:
        await (await hub.start("halves", case_id="c1", number=4)).completed()
        await hub.snapshots.flushed()
        found = figures()
        assert found["casehub.snapshots.saved"] - before.get("casehub.snapshots.saved", 0) == 1
        assert found["casehub.snapshots.dropped"] == before.get("casehub.snapshots.dropped", 0)
