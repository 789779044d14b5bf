"""Commands for dead letters: `dead-letters list`, `show`, `retry`, `discard`. The first two read the file only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.cli.cases import check_definition
from casehub.cli.desk import desk, known
from casehub.cli.options import Acting, Common, Session
from casehub.cli.output import progress
from casehub.cli.text import compact
from casehub.cli.words import facts_of, meant
from casehub.control import ControlClient
from casehub.deadletters import DeadLetter, case_of, letter, letters

Id = Annotated[str, Parameter(help="The dead letter: CASE/BINDING/NUMBER.")]
Reason = Annotated[str, Parameter(help="Why; it is kept in the log.")]

list_app = App(
    name="list",
    help_epilogue="""A dead letter is the last activation of a binding in an open case, if it
ended in a fault and nothing has been decided about it.

Examples:
  casehub dead-letters list
  casehub dead-letters list --definition claim --worker assess
  casehub dead-letters list -o ndjson""",
)


@list_app.default
async def list_letters(
    *,
    definition: Annotated[str | None, Parameter(help="Only of cases of this definition.")] = None,
    binding: Annotated[str | None, Parameter(help="Only of this binding.")] = None,
    worker: Annotated[str | None, Parameter(help="Only of this worker.")] = None,
    limit: Annotated[int, Parameter(help="At most this many.", show_default=True)] = 50,
    common: Common | None = None,
) -> None:
    """List dead letters, the latest first."""
    session = Session(common)
    tenant = session.settings.tenant
    async with session.reading() as store:
        found = await letters(store, tenant, definition, binding, worker, limit)
        if not found and definition is not None:
            await check_definition(store, definition, tenant)
    session.printer.items(
        map(letter_json, found),
        ("dead letter", "worker", "attempts", "at", "outcome", "message"),
        _row,
        empty="no dead letters",
    )


def letter_json(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter for programs."""
    return asdict(letter)


def _row(item: Mapping[str, Any]) -> Sequence[object]:
    outcome = str(item["outcome"]).removeprefix("WORKER_EXECUTION_").lower()
    return (item["id"], item["worker"], item["attempts"], item["at"], outcome, item["message"])


show_app = App(
    name="show",
    help_epilogue="""Example:
  casehub dead-letters show ID""",
)


@show_app.default
async def show_letter(id: Id, /, *, common: Common | None = None) -> None:
    """Show a dead letter, with what it ran on."""
    session = Session(common)
    printer = session.printer
    async with session.reading() as store:
        with known(session, case_of(id)):
            found = await letter(store, id, session.settings.tenant)
    if not printer.for_people:
        printer.document(letter_json(found))
        return
    about = [(name, value) for name, value in letter_json(found).items() if name != "inputs"]
    about += [("input", f"{name} = {compact(value, 100)}") for name, value in found.inputs.items()]
    printer.table(("", ""), about, heading=False)
    printer.say(f"again: {session.hint(f'dead-letters retry {id}')}")


retry_app = App(
    name="retry",
    help_epilogue="""Facts that are given are written for the whole case, as yours. Without a
running 'casehub up' the case is worked here until it rests.

Examples:
  casehub dead-letters retry ID --reason "the service is back"
  casehub dead-letters retry ID amount=12.5 --by user:ada""",
)


@retry_app.default
async def retry_letter(
    id: Id,
    /,
    *facts: Annotated[str, Parameter(help="Edited input: name=value, the value as JSON or text.")],
    reason: Reason = "",
    common: Acting | None = None,
) -> None:
    """Let the binding of a dead letter fire again, on edited facts too."""
    session = Session(common)
    case = case_of(id)
    edited = facts_of(facts, "fact")
    async with desk(session) as at:
        with known(session, case), meant(edited):
            if isinstance(at.hub, ControlClient):
                await at.hub.retry_letter(id, edited, by=session.by, reason=reason)
            else:
                await at.hub.dead_letters.retry(id, edited, by=session.by, reason=reason)
                with progress(f"case {case}: working"):
                    await at.hub.case(case).quiescent()
        record = await at.record(case)
    session.printer.say(f"{id}: retried; case {case}: {record.state.status}")


discard_app = App(
    name="discard",
    help_epilogue="""Example:
  casehub dead-letters discard ID --reason "done by hand" """,
)


@discard_app.default
async def discard_letter(id: Id, /, *, reason: Reason = "", common: Acting | None = None) -> None:
    """Settle the failure of a dead letter: nobody will try again."""
    session = Session(common)
    async with desk(session) as at:
        with known(session, case_of(id)):
            if isinstance(at.hub, ControlClient):
                await at.hub.discard_letter(id, by=session.by, reason=reason)
            else:
                await at.hub.drain("0s")  # nothing of the case is to be started for the time of the verb
                await at.hub.dead_letters.discard(id, by=session.by, reason=reason)
    session.printer.say(f"{id}: discarded")
