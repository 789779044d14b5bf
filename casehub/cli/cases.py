"""Commands that look at cases: `case list`, `case show`, `case facts`, `case explain`. They read the file only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.adapters.codec import as_dict
from casehub.cli.application import hub_of, structure_of
from casehub.cli.desk import known, worker_process
from casehub.cli.happening import COLUMNS, told
from casehub.cli.options import At, Common, Session, Working
from casehub.cli.output import Printer
from casehub.cli.text import compact
from casehub.cli.words import statuses_of
from casehub.context import Fact
from casehub.errors import CaseNotFoundError, InputRefusedError, SettingsError, UnknownNameError, did_you_mean
from casehub.events import CaseForked, CaseId
from casehub.explanation import Explanation
from casehub.parking import why_parked
from casehub.query import CaseQuery, CaseSummary, EventQuery
from casehub.record import CaseRecord, read_case, with_stalled
from casehub.spi import CaseStore
from casehub.subcase import parent_of
from casehub.subcases import Child
from casehub.values import ABSENT, shown

WIDTH = 100
"""Characters of a value in a table for people; `-o json` has all of it."""

list_app = App(
    name="list",
    help_epilogue="""Examples:
  casehub case list --status running,waiting
  casehub case list --stalled
  casehub case list --definition claim --limit 20 -o ndjson
  casehub case list --after ID            # the next page""",
)


@list_app.default
async def list_cases(
    *,
    status: Annotated[list[str] | None, Parameter(help="Only these, separated by commas.")] = None,
    definition: Annotated[str | None, Parameter(help="Only cases of this definition.")] = None,
    stalled: Annotated[bool, Parameter(help="Only cases that nothing can move.")] = False,
    limit: Annotated[int, Parameter(help="At most this many.", show_default=True)] = 50,
    after: Annotated[str | None, Parameter(help="The id of the case to go on behind.")] = None,
    common: Common | None = None,
) -> None:
    """List cases, the latest started first."""
    session = Session(common)
    if limit < 1:
        raise SettingsError(f"--limit {limit}: at least 1")
    tenant = session.settings.tenant
    query = CaseQuery(
        tenant=tenant,
        definition=definition,
        statuses=statuses_of(status or ()),
        stalled=True if stalled else None,
        after=None if after is None else CaseId(after),
        limit=limit + 1,
    )
    async with session.reading() as store:
        if after is not None:
            await check_case(session, store, after)
        found = await store.log.cases(query)
        if not found and definition is not None:
            await check_definition(store, definition, tenant)
    more = found[limit - 1].case if len(found) > limit else None
    session.printer.items(
        map(summary_json, found[:limit]),
        ("case", "definition", "status", "started", "changed", "events", "reason"),
        _summary_row,
        more=more,
        empty="no case" if query == CaseQuery(tenant=tenant, limit=limit + 1) else "no such case",
    )
    if more is not None:
        session.printer.say(f"more with: {session.hint('case list')} --after {more}")


async def check_case(session: Session, store: CaseStore, id: str) -> None:
    """Raise `CaseNotFoundError` when there is no such case."""
    query = EventQuery(case=CaseId(id), tenant=session.settings.tenant, limit=1)
    with known(session, id):
        if not await store.log.query(query):
            raise CaseNotFoundError(id)


async def check_definition(store: CaseStore, name: str, tenant: str) -> None:
    """Raise `UnknownNameError` when no case is of this definition."""
    counts = await store.log.count(EventQuery(types=("CASE_STARTED",), tenant=tenant), by="definition")
    if name not in counts:
        raise UnknownNameError(f"--definition {name}: no case is of it; {did_you_mean(name, counts)}")


def summary_json(summary: CaseSummary) -> dict[str, Any]:
    """A case on a line, for programs."""
    return {
        "case": summary.case,
        "definition": summary.definition,
        "status": summary.status,
        "stalled": summary.stalled,
        "reason": summary.reason,
        "version": summary.version,
        "seq": summary.seq,
        "started_at": summary.started_at,
        "changed_at": summary.changed_at,
        "tenant": summary.tenant,
    }


def _summary_row(item: Mapping[str, Any]) -> Sequence[object]:
    status = "stalled" if item["stalled"] else item["status"]
    return (
        item["case"],
        item["definition"],
        status,
        item["started_at"],
        item["changed_at"],
        item["version"],
        item["reason"],
    )


show_app = App(
    name="show",
    help_epilogue="""Examples:
  casehub case show ID
  casehub case show ID --at 1200             # as it was at a position
  casehub case show ID --at 2h -o json       # two hours ago""",
)


@show_app.default
async def show_case(
    id: Annotated[str, Parameter(help="The case.")],
    /,
    *,
    at: At = None,
    common: Common | None = None,
) -> None:
    """Show a case: where it stands, its facts, what runs, and what holds it up."""
    session = Session(common)
    async with session.reading() as store:
        with known(session, id):
            record = await read_case(store, id, session.settings.tenant, session.moment(at))
    show(session.printer, record)
    if not record.state.status.ended and at is None:
        session.printer.say(f"why: {session.hint(f'case explain {id}')}")


def show(printer: Printer, record: CaseRecord) -> None:
    """Print a case."""
    if not printer.for_people:
        printer.document(case_json(record))
        return
    state = record.state
    about: list[tuple[str, object]] = [
        ("case", state.id),
        ("definition", state.definition),
        ("version", state.structure),
        ("status", "stalled" if state.stalled else state.status),
        ("started", state.started_at),
        ("changed", state.changed_at),
        ("events", state.version),
    ]
    if state.reason:
        about.append(("reason", state.reason))
    if (parent := parent_of(state.id)) is not None:
        about.append(("parent", parent))
    about += [("forked from", f"{e.source} at {e.source_seq}") for e in record.events if isinstance(e, CaseForked)]
    if state.goals:
        about.append(("goals reached", ", ".join(state.goals)))
    about += [("milestone", f"{name} {each.status}, SLA {each.sla}") for name, each in state.milestones.items()]
    at_work = state.with_workers()
    about += [
        ("running", f"{each.binding}, attempt {each.attempt}")
        for each in state.activations.values()
        if each.id in at_work
    ]
    about += [("task", f"{task.title} ({task.where})") for task in state.tasks.open.values()]
    about += [("sub-case", _child_line(child)) for child in state.children.known.values()]
    undoing = state.compensations
    if undoing.ending is not None:
        about.append(("ends as", f"{undoing.ending.status}, when it has undone what it did"))
    about += [("undone", f"{each.activation} by {each.undone_by}") for each in undoing.undone]
    about += [("not undone", f"{each.activation} by {by}: {each.failure}") for by, each in undoing.failed.items()]
    about += [("can be undone", each.activation) for each in undoing.undoable.values()]
    about += [("timer", f"{timer} at {due:%Y-%m-%d %H:%M:%SZ}") for timer, due in state.timers.items()]
    about += [("stalled", reason) for reason in state.stalled]
    printer.table(("", ""), about, heading=False)
    printer.say("")
    _print_facts(printer, record)


def case_json(record: CaseRecord) -> dict[str, Any]:
    """A case for programs."""
    state, at_work = record.state, record.state.with_workers()
    undoing = state.compensations
    return {
        "case": state.id,
        "definition": state.definition,
        "structure": state.structure,
        "status": state.status,
        "stalled": bool(state.stalled),
        "reason": state.reason,
        "version": state.version,
        "seq": record.events[-1].seq,
        "started_at": state.started_at,
        "changed_at": state.changed_at,
        "tenant": state.tenant,
        "stall_reasons": list(state.stalled),
        "facts": {fact.name: shown(fact.value) for fact in _visible(record)},
        "goals": list(state.goals),
        "milestones": {name: {"status": m.status, "sla": m.sla} for name, m in state.milestones.items()},
        "running": [
            {"activation": each.id, "binding": each.binding, "worker": each.worker, "attempt": each.attempt}
            for each in state.activations.values()
            if each.id in at_work
        ],
        "tasks": list(state.tasks.open),
        "parent": parent_of(state.id),
        "forked_from": next((e.source for e in reversed(record.events) if isinstance(e, CaseForked)), None),
        "children": [
            {
                "case": child.id,
                "definition": child.definition,
                "binding": child.binding,
                "status": child.status,
                "waited": child.waited,
                "cancelled": child.cancelled,
            }
            for child in state.children.known.values()
        ],
        "timers": dict(state.timers),
        "compensation": {
            "ends_as": undoing.ending and undoing.ending.status,
            "undone": [each.activation for each in undoing.undone],
            "under_way": [each.activation for each in undoing.under_way.values()],
            "failed": {each.activation: each.failure for each in undoing.failed.values()},
            "undoable": list(undoing.undoable),
        },
    }


def _child_line(child: Child) -> str:
    """A sub-case that is open, or counts still, on a line."""
    told = ", told to end" if child.cancelled else "" if child.waited else ", not waited for"
    return f"{child.id} of {child.definition}, {child.status or 'open'}{told}"


facts_app = App(
    name="facts",
    help_epilogue="""Examples:
  casehub case facts ID
  casehub case facts ID risk
  casehub case facts ID risk --why
  casehub case facts ID risk --history""",
)


@facts_app.default
async def facts_of_case(
    id: Annotated[str, Parameter(help="The case.")],
    name: Annotated[str | None, Parameter(help="One fact; all without it.")] = None,
    /,
    *,
    why: Annotated[bool, Parameter(help="Show what led to it, sources first.")] = False,
    history: Annotated[bool, Parameter(help="Show every value it had, oldest first.")] = False,
    at: At = None,
    common: Common | None = None,
) -> None:
    """Show the facts of a case: value, author and time; or one fact with its history or its causes."""
    session = Session(common)
    if (why or history) and name is None:
        raise SettingsError(f"--{'why' if why else 'history'} is about one fact; name it: case facts {id} NAME")
    if why and history:
        raise SettingsError("--why and --history are two questions; ask one")
    printer = session.printer
    async with session.reading() as store:
        with known(session, id):
            record = await read_case(store, id, session.settings.tenant, session.moment(at))
        if name is None:
            _print_facts(printer, record)
            return
        fact = record.facts(name)
        if why:
            printer.items(map(as_dict, await fact.why()), COLUMNS, told)
            return
        found = await fact.history() if history else [record.state.facts[name]]
    printer.items(map(fact_json, found), _FACT_COLUMNS, _fact_row if not history else _fact_row_whole)


_FACT_COLUMNS = ("fact", "by", "at", "version", "value")


def _print_facts(printer: Printer, record: CaseRecord) -> None:
    printer.items(map(fact_json, _visible(record)), _FACT_COLUMNS, _fact_row, empty="no facts")


def _visible(record: CaseRecord) -> list[Fact]:
    facts = [fact for fact in record.state.facts.values() if fact.visible]
    facts.sort(key=lambda fact: fact.stamp)
    return facts


def fact_json(fact: Fact) -> dict[str, Any]:
    """A fact for programs. `deleted`: there is no value any more."""
    deleted = fact.value is ABSENT
    return {
        "fact": fact.name,
        "value": None if deleted else shown(fact.value),
        "deleted": deleted,
        "hidden": fact.hidden,
        "by": fact.by,
        "at": fact.at,
        "version": fact.stamp,
        "cause": fact.cause,
        "confidence": fact.confidence,
    }


def _fact_row(item: Mapping[str, Any], width: int = WIDTH) -> Sequence[object]:
    value = "(deleted)" if item["deleted"] else compact(item["value"], width)
    if item["confidence"] is not None:
        value += f" (confidence {item['confidence']:g})"
    return (item["fact"], item["by"], item["at"], item["version"], f"{value} (hidden)" if item["hidden"] else value)


def _fact_row_whole(item: Mapping[str, Any]) -> Sequence[object]:
    return _fact_row(item, 0)


explain_app = App(
    name="explain",
    help_epilogue="""Examples:
  casehub case explain ID
  casehub case explain ID decide
and where no 'casehub up' runs:
  casehub case explain ID --app examples.claim:claim""",
)


@explain_app.default
async def explain_case(
    id: Annotated[str, Parameter(help="The case.")],
    binding: Annotated[str | None, Parameter(help="One binding; all without it.")] = None,
    /,
    *,
    at: At = None,
    common: Working | None = None,
) -> None:
    """Say of each binding why it does, or does not, fire now."""
    session = Session(common)
    with known(session, id):
        found = await _explained(session, id, binding, at)
    session.printer.items(
        map(explanation_json, found),
        ("binding", "verdict", "why"),
        lambda item: (item["binding"], item["verdict"], item["text"] + _values(item["facts"])),
        empty="no bindings",
    )


async def _explained(session: Session, id: str, binding: str | None, at: str | None) -> list[Explanation]:
    async with worker_process(session) as client:
        if client is not None and at is None:
            return await client.case(id).explain(binding)
    async with session.reading() as store:
        record = await read_case(store, id, session.settings.tenant, session.moment(at))
        worked = session.worked
        if not worked.app:
            raise session.needs_app("no worker process runs, and the definition of the case is not known")
        hub = hub_of(worked.app, "memory://", loop=worked.loop, allow_code=worked.allow_code)
        structure = structure_of(hub.registry, worked.app, record.state)
        if reason := why_parked(record.state, structure):
            raise InputRefusedError(f"case {id!r} is parked: {reason}")
        said = record.explain(structure, hub.loop_of(structure.definition), binding)
        return await with_stalled(said, list(record.state.children.known.values()), store, session.settings.tenant)


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """A verdict for programs."""
    return {
        "binding": explanation.binding,
        "verdict": explanation.verdict,
        "text": explanation.text,
        "facts": dict(explanation.facts),
    }


def _values(facts: Mapping[str, Any]) -> str:
    return "".join(f"; {name} = {compact(value, 40)}" for name, value in facts.items() if value is not None)
