"""Commands that look at the plan of a case: `case plan`, `case agenda`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.cli.application import registry_of, structure_of
from casehub.cli.desk import known, worker_process
from casehub.cli.options import At, Session, Working
from casehub.cli.text import compact
from casehub.lookup import planning
from casehub.record import read_case

WIDTH = 100
"""Characters of a note in a table for people; `-o json` has all of it."""
_COLUMNS = ("binding", "status", "priority", "stage", "since", "detail")

plan_app = App(
    name="plan",
    help_epilogue="""Examples:
  casehub case plan ID
  casehub case plan ID -o json
  casehub case plan ID --at 1200             # as it was at a position
and where no 'casehub up' runs, with all stages:
  casehub case plan ID --app examples.loan:loan""",
)


@plan_app.default
async def plan_of_case(
    id: Annotated[str, Parameter(help="The case.")],
    /,
    *,
    at: At = None,
    common: Working | None = None,
) -> None:
    """Show the plan of a case: focus, stages, milestones, notes, what is pending, runs, and ran."""
    session = Session(common)
    printer = session.printer
    plan = await _planned(session, id, at)
    if not printer.for_people:
        printer.document(plan)
    elif plan is None:
        printer.say(_NONE)
    else:
        about = list(_about(plan))
        if about:
            printer.table(("", ""), about, heading=False)
            printer.say("")
        printer.items(_items(plan), _COLUMNS, _row, empty="nothing is planned")


agenda_app = App(
    name="agenda",
    help_epilogue="""Examples:
  casehub case agenda ID
  casehub case agenda ID -o json""",
)


@agenda_app.default
async def agenda_of_case(
    id: Annotated[str, Parameter(help="The case.")],
    /,
    *,
    common: Working | None = None,
) -> None:
    """Show what a case may do next: pending items, highest priority first, then oldest."""
    session = Session(common)
    plan = await _planned(session, id)
    empty = _NONE if plan is None else "nothing is pending"
    session.printer.items((plan or {}).get("agenda", ()), _COLUMNS, _row, empty=empty)


_NONE = "no plan: no planning strategy works this case, so all that is eligible runs"


async def _planned(session: Session, id: str, at: str | None = None) -> Mapping[str, Any] | None:
    """The plan, of the worker process where one runs and keeps one, else as the log tells it. None for none."""
    with known(session, id):
        async with worker_process(session) as client:
            plan = None if client is None or at is not None else await client.case(id).plan()
        if plan is not None:
            return plan
        async with session.reading() as store:
            record = await read_case(store, id, session.settings.tenant, session.moment(at))
    worked = session.worked
    structure = None
    if worked.app:
        structure = structure_of(registry_of(worked.app, worked.allow_code), worked.app, record.state)
    told = record.plan(planning(), structure)
    return None if told is None else asdict(told)


def _items(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*plan["agenda"], *plan["running"], *plan["ended"]]


def _row(item: Mapping[str, Any]) -> Sequence[object]:
    return tuple(item[column] for column in _COLUMNS)


def _about(plan: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """What there is to say besides the items, in words."""
    if plan["focus"]:
        yield "focus", f"{plan['focus']}{': ' if plan['because'] else ''}{plan['because']}"
    if plan["intended"]:
        yield "plan", " -> ".join(plan["intended"])
    for name, stage in plan["stages"].items():
        within = f", in {stage['parent']}" if stage["parent"] else ""
        by_hand = f"; begin it with casehub case stage ID {name} activate" if stage["enabled"] else ""
        yield "stage", f"{name} {stage['status']}{within}{by_hand}"
    yield from (("milestone", f"{name} {status}") for name, status in plan["milestones"].items())
    yield from (("set aside", f"{name} {amount:g}") for name, amount in plan["resources"].items())
    yield from (("note", f"{name} = {compact(value, WIDTH)}") for name, value in plan["notes"].items())
    if plan["oscillating"]:
        yield "oscillates", ", ".join(plan["oscillating"])
    yield from (("spent", budget) for budget in plan["exhausted"])
    yield from (("about to stall", reason) for reason in plan["stalled"])
