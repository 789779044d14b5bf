"""`case start`: begin a case, beside a worker process or in this one, and wait for it, or step through it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.case import Case, raise_outcome
from casehub.cli.application import definitions_of, is_app
from casehub.cli.cases import show
from casehub.cli.desk import Desk, desk
from casehub.cli.options import Acting, Session
from casehub.cli.output import progress
from casehub.cli.text import compact, note
from casehub.cli.words import data_of, facts_of, meant
from casehub.control_cases import RemoteCase
from casehub.durations import duration
from casehub.errors import (
    CaseExistsError,
    CaseOutcomeError,
    SettingsError,
    UnknownNameError,
    did_you_mean,
)
from casehub.lifecycle import CaseStatus

start_app = App(
    name="start",
    help_epilogue="""Beside a running 'casehub up' the case is worked there, and this returns when
it has started. Without one it is worked here until it completes, waits or
stalls; what became of it is in the database.

Examples:
  casehub case start claim document="Ada met Grace in Paris"
  casehub case start claim --fact amount=12.5 --fact tags='["new"]' --id c7
  casehub case start claim --data facts.json --wait --timeout 30s
  casehub case start examples.claim:claim document="Ada met Grace" --step""",
)


@start_app.default
async def start_case(
    definition: Annotated[str, Parameter(help="The definition, or APP (module:attribute) where it is the only one.")],
    /,
    *given: Annotated[str, Parameter(name="FACTS", help="Facts: name=value, the value as JSON or text.")],
    fact: Annotated[list[str] | None, Parameter(help="The same, by name.")] = None,
    data: Annotated[
        str | None,
        Parameter(help="A file with the facts as a JSON object; - for standard input.", allow_leading_hyphen=True),
    ] = None,
    id: Annotated[str | None, Parameter(help="The id of the case; a new one without it.")] = None,
    goal: Annotated[
        str | None, Parameter(help="The goal or fact that the case is for, instead of its definition's.")
    ] = None,
    wait: Annotated[bool, Parameter(help="Wait until the case has completed.")] = False,
    step: Annotated[bool, Parameter(help="Go one decision at a time: eligible, chosen, written.")] = False,
    timeout: Annotated[str | None, Parameter(help="How long to wait, such as 30s or 2h.")] = None,
    common: Acting | None = None,
) -> None:
    """Start a case."""
    session = Session(common)
    facts = {**(data_of(data) if data else {}), **facts_of((*given, *(fact or ())), "fact")}
    limit = None if timeout is None else duration(timeout)
    if step and (wait or timeout):
        raise SettingsError("--step goes at your pace; leave --wait and --timeout out")
    app = definition if is_app(definition) else ""
    async with desk(session, app) as at:
        name = _name(definition, at)
        if at.remote and limit is not None and not wait:
            raise SettingsError("--timeout is how long --wait waits; give both")
        case = await _started(at, name, id, facts, session.by, goal=goal, step=step)
        try:
            if step:
                await _step_through(at, case)
            elif wait or not at.remote:
                await _wait(at, case, limit, to_end=wait)
        except asyncio.CancelledError:
            goes_on = "the worker process goes on with it" if at.remote else "'casehub up' goes on with it"
            note(f"case {case.id} is left where it is; {goes_on}")
            raise
        record = await at.record(case.id)
    if wait or step or not at.remote or not session.printer.for_people:
        show(session.printer, record)
    else:
        session.printer.say(f"case {case.id} of {name}: started, {record.state.status}")
        session.printer.say(f"follow it: {session.hint(f'case watch {case.id}')}")
    raise_outcome(record.state)  # for the exit code


def _name(definition: str, at: Desk) -> str:
    """The definition that is meant. Raises `UnknownNameError` for one that the hub does not work."""
    names = [definition]
    if is_app(definition):
        names = [each.name for each in definitions_of(definition, at.session.allow_code)]
        if len(names) > 1:
            raise SettingsError(
                f"{definition!r} has several definitions: {', '.join(names)}; write one of these, and --app {definition}"
            )
    if names[0] not in at.definitions and names[0] not in at.kept:  # the hub itself says what is only kept
        where = "the worker process" if at.remote else (at.session.worked.app or definition)
        raise UnknownNameError(f"{where} has no definition {names[0]!r}; {did_you_mean(names[0], at.definitions)}")
    return names[0]


async def _started(
    at: Desk, name: str, id: str | None, facts: Mapping[str, Any], by: str, *, goal: str | None, step: bool
) -> Case | RemoteCase:
    try:
        with meant(facts):
            return await at.start(name, facts, case_id=id, by=by, goal=goal, stepped=step)
    except CaseExistsError:
        raise CaseExistsError(
            f"case {id!r} is there already; give another --id, or look at it with '{at.session.hint(f'case show {id}')}'"
        ) from None


async def _wait(at: Desk, case: Case | RemoteCase, limit: timedelta | None, *, to_end: bool) -> None:
    """Wait for the case: until it has completed, or until it rests. A stalled case has its own error, later."""
    began = time.monotonic()
    try:
        with progress(f"case {case.id}: working" if not at.remote else f"case {case.id}: waiting for it"):
            await case.quiescent(limit)
            if to_end and await case.status() is CaseStatus.WAITING:
                note(f"case {case.id} waits: '{at.session.hint(await _look(at, case))}' says for what")
            if to_end:
                rest = None if limit is None else limit - timedelta(seconds=time.monotonic() - began)
                await case.completed(None if rest is None else max(rest, timedelta(0)))
    except TimeoutError:
        goes_on = "it goes on" if at.remote else "it stays as it is until 'casehub up' works it"
        raise TimeoutError(
            f"case {case.id!r} was not done after {time.monotonic() - began:.1f}s; {goes_on}: "
            f"'{at.session.hint(f'case explain {case.id}')}' says why"
        ) from None
    except CaseOutcomeError:
        pass  # it is shown first


async def _look(at: Desk, case: Case | RemoteCase) -> str:
    """The command that says what a case waits for: a task for people, or what its bindings lack."""
    task = next(iter((await at.record(case.id)).state.tasks.open), None)
    return f"case explain {case.id}" if task is None else f"task show {task}"


async def _step_through(at: Desk, case: Case | RemoteCase) -> None:
    """Show one decision after the other; at a terminal, each when it is asked for."""
    printer = at.session.printer
    asks = printer.for_people and sys.stdin.isatty()
    number = 0
    while True:
        step = await at.step(case)
        if step is None:
            return
        number += 1
        if printer.for_people:
            printer.say(f"step {number}", "bold")
            printer.table(("", ""), _step_rows(step), heading=False)
        else:
            printer.line({"step": number, **step})
        if asks and not (await case.status()).ended and not await _next_one():
            await at.let_run(case)
            return


def _step_rows(step: Mapping[str, Any]) -> Sequence[Sequence[object]]:
    rows: list[Sequence[object]] = [
        ("  eligible", ", ".join(step["eligible"])),
        ("  chosen", ", ".join(step["chosen"]) or "none"),
    ]
    if step["rationale"]:
        rows.append(("  because", step["rationale"]))
    if step["dropped"]:
        rows.append(("  dropped", ", ".join(step["dropped"])))
    rows += [("  written", f"{name} = {compact(value, 100)}") for name, value in step["written"].items()]
    rows += [("  deleted", name) for name in step["deleted"]]
    return rows


async def _next_one() -> bool:
    """Ask at the terminal for the next step; whether it is wanted."""
    note("Enter: the next decision; q: let it run")
    typed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, typed.set)  # no thread: one that waits for a line would hold up the end of the process
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return not (sys.stdin.readline() or "q").strip().lower().startswith("q")
