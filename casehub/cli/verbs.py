"""Commands that act on a case: `case signal`, `case stage`, `case suspend`, `case resume`, `case unfault`,
`case cancel`, `case kill`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from cyclopts import App, Parameter

from casehub.case import Case, Wait, raise_outcome
from casehub.cli.cases import show
from casehub.cli.desk import Desk, desk, known
from casehub.cli.options import Acting, Session
from casehub.cli.output import progress
from casehub.cli.words import facts_of, meant
from casehub.control_cases import RemoteCase
from casehub.durations import duration
from casehub.errors import SettingsError
from casehub.hub import CaseHub
from casehub.lifecycle import CaseStatus
from casehub.stage import StageVerb

Id = Annotated[str, Parameter(help="The case.")]
Reason = Annotated[str, Parameter(help="Why; it is kept in the log.")]
Handle = Case | RemoteCase

signal_app = App(
    name="signal",
    help_epilogue="""Several facts are one change. Without a running 'casehub up' the case is
worked here until it rests, unless --wait turn is given.

Examples:
  casehub case signal ID approved=true --by user:ada
  casehub case signal ID amount=12.5 currency=EUR --reason "new estimate"
  casehub case signal ID reminder                    # it brings nothing
  casehub case signal ID paid=true --key payment-7   # safe to repeat
  casehub case signal ID limit=500 --expected 12     # unless changed since""",
)


@signal_app.default
async def signal_case(
    id: Id,
    /,
    *facts: Annotated[str, Parameter(help="What it brings: name=value, the value as JSON or text; or a name alone.")],
    reason: Reason = "",
    key: Annotated[str, Parameter(help="Makes it safe to repeat.")] = "",
    expected: Annotated[
        int | None, Parameter(help="The version of the case as you saw it; refused where a fact is newer.")
    ] = None,
    wait: Annotated[
        Wait | None, Parameter(help="Until it is taken, its workers have come back, or nothing moves.")
    ] = None,
    timeout: Annotated[str | None, Parameter(help="How long to wait, such as 30s or 2h.")] = None,
    common: Acting | None = None,
) -> None:
    """Bring facts to a case from outside."""
    session = Session(common)
    bare = [word for word in facts if "=" not in word]
    if not facts or len(bare) > 1 or (bare and len(facts) > 1):
        raise SettingsError("a signal is name=value words, or one name alone; such as approved=true")
    brought = {} if bare else facts_of(facts, "fact")
    what = bare[0] if bare else brought
    limit = None if timeout is None else duration(timeout)
    async with desk(session) as at:
        until = wait or ("turn" if at.remote else "quiescent")
        with known(session, id), meant(brought), progress(f"case {id}: waiting for it"):
            await at.case(id).signal(
                what, by=session.by, reason=reason, key=key, expected=expected, wait=until, timeout=limit
            )
        await _tell(at, id, whole=until != "turn")


stage_app = App(
    name="stage",
    help_epilogue="""A verb is one of: activate, complete, terminate, fault, suspend, resume.
Without a running 'casehub up' the case is worked here until it rests; suspend only notes it.

Examples:
  casehub case stage ID review activate --by user:ada
  casehub case stage ID review suspend --reason "waiting for legal"
  casehub case stage ID intake complete --reason "done by phone"
  casehub case stage ID intake terminate --key call-7   # safe to repeat""",
)


@stage_app.default
async def steer_stage(
    id: Id,
    stage: Annotated[str, Parameter(help="The stage.")],
    verb: Annotated[StageVerb, Parameter(help="What to do to it.")],
    /,
    *,
    reason: Reason = "",
    key: Annotated[str, Parameter(help="Makes it safe to repeat.")] = "",
    common: Acting | None = None,
) -> None:
    """Activate, complete, terminate, fault, suspend or resume one stage of a case."""
    session = Session(common)
    await act(
        session,
        id,
        lambda case: case.stage(stage).steer(verb, by=session.by, reason=reason, key=key),
        works=verb is not StageVerb.SUSPEND,
    )


suspend_app = App(
    name="suspend",
    help_epilogue="""What runs goes on, and its results are taken; nothing new starts.

Example:
  casehub case suspend ID --reason "waiting for legal" """,
)


@suspend_app.default
async def suspend_case(id: Id, /, *, reason: Reason = "", common: Acting | None = None) -> None:
    """Hold a case: nothing new starts until it is resumed."""
    session = Session(common)
    await act(session, id, lambda case: case.suspend(by=session.by, reason=reason))


resume_app = App(
    name="resume",
    help_epilogue="""Without a running 'casehub up' the case is worked here until it rests.

Example:
  casehub case resume ID""",
)


@resume_app.default
async def resume_case(id: Id, /, *, reason: Reason = "", common: Acting | None = None) -> None:
    """Let a suspended case go on."""
    session = Session(common)
    await act(session, id, lambda case: case.resume(by=session.by, reason=reason), works=True)


unfault_app = App(
    name="unfault",
    help_epilogue="""What was called off when it faulted comes up again, and what faulted it is tried
again, unless --drop leaves it as a dead letter. Without a running 'casehub up'
the case is worked here until it rests.

Examples:
  casehub case unfault ID --reason "the service is back"
  casehub case unfault ID amount=12.5 --by user:ada   # with facts that mend it
  casehub case unfault ID --drop""",
)


@unfault_app.default
async def unfault_case(
    id: Id,
    /,
    *facts: Annotated[str, Parameter(help="Facts brought with it: name=value, the value as JSON or text.")],
    drop: Annotated[bool, Parameter(help="Do not try again what faulted it.")] = False,
    reason: Reason = "",
    common: Acting | None = None,
) -> None:
    """Let a case that has faulted go on."""
    session = Session(common)
    brought = facts_of(facts, "fact")
    with meant(brought):
        await act(
            session, id, lambda case: case.unfault(brought, by=session.by, reason=reason, retry=not drop), works=True
        )


cancel_app = App(
    name="cancel",
    help_epilogue="""What it did is undone first, by what compensates it; it is COMPENSATING until then.

Example:
  casehub case cancel ID --reason "withdrawn by the customer" --grace 10s""",
)


@cancel_app.default
async def cancel_case(
    id: Id,
    /,
    *,
    reason: Reason = "",
    grace: Annotated[str, Parameter(help="How long to wait for what runs.")] = "5s",
    common: Acting | None = None,
) -> None:
    """End a case, and give what runs a moment to come to its end."""
    session = Session(common)
    span = duration(grace)
    await act(session, id, lambda case: case.cancel(by=session.by, reason=reason, grace=span))


kill_app = App(
    name="kill",
    help_epilogue="""Example:
  casehub case kill ID --reason "runaway loop" """,
)


@kill_app.default
async def kill_case(id: Id, /, *, reason: Reason = "", common: Acting | None = None) -> None:
    """End a case now: wait for nothing that runs, and undo nothing."""
    session = Session(common)
    await act(session, id, lambda case: case.kill(by=session.by, reason=reason))


async def act(session: Session, id: str, verb: Callable[[Handle], Awaitable[None]], *, works: bool = False) -> None:
    """Give a verb to a case and say what became of it; `works`: it sets the case to work."""
    async with desk(session) as at:
        if isinstance(at.hub, CaseHub) and not works:
            await at.hub.drain("0s")  # nothing of the case is to be started for the time of the verb
        with known(session, id):
            await verb(at.case(id))
            if works and not at.remote:
                with progress(f"case {id}: working"):
                    await at.case(id).quiescent()
        await _tell(at, id, whole=works and not at.remote)


async def _tell(at: Desk, id: str, *, whole: bool) -> None:
    """Show what became of the case: a line, or the whole of it."""
    record = await at.record(id)
    printer = at.session.printer
    if whole or not printer.for_people:
        show(printer, record)
    else:
        status = record.state.status
        waits = status is CaseStatus.COMPENSATING and not at.remote
        printer.say(f"case {id}: {status}{'; run casehub up, which undoes what it did' if waits else ''}")
    if whole:
        raise_outcome(record.state)  # for the exit code
