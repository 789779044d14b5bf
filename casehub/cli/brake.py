"""The brake: `casehub suspend` and `casehub resume`, over all cases, those of a definition, or a worker."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from casehub.cli.desk import desk
from casehub.cli.options import Acting, Session
from casehub.control import ControlClient
from casehub.errors import SettingsError

All = Annotated[bool, Parameter(name="--all", help="Every case.")]
Definition = Annotated[str | None, Parameter(help="The cases of this definition.")]
Worker = Annotated[str | None, Parameter(help="This worker, in the cases of all definitions.")]
Reason = Annotated[str, Parameter(help="Why; it is kept in the log.")]

suspend_app = App(
    name="suspend",
    help_epilogue="""What runs goes on, and its results are taken; nothing new starts. Cases that
wait are suspended as soon as they would move, and new ones begin suspended.
A suspended worker is called in no case; another one of its capability is.
It stays on when the worker process is started again.

Examples:
  casehub suspend --all --reason "the bank's interface is down"
  casehub suspend --definition claim
  casehub suspend --worker assess --reason "it books twice"
for one case: casehub case suspend ID""",
)


@suspend_app.default
async def suspend(
    *,
    everything: All = False,
    definition: Definition = None,
    worker: Worker = None,
    reason: Reason = "",
    common: Acting | None = None,
) -> None:
    """Pull the brake: nothing new starts until it is released."""
    session = Session(common)
    name = _which(everything, definition, worker)
    count = await _act(session, name, worker, reason, pull=True)
    session.printer.say(
        f"worker {worker} is suspended" if worker else f"brake on {_words(name)}; {count} suspended that were at work"
    )


resume_app = App(
    name="resume",
    help_epilogue="""Cases that were suspended one by one stay suspended.

Examples:
  casehub resume --all
  casehub resume --definition claim
  casehub resume --worker assess
for one case: casehub case resume ID""",
)


@resume_app.default
async def resume(
    *,
    everything: All = False,
    definition: Definition = None,
    worker: Worker = None,
    reason: Reason = "",
    common: Acting | None = None,
) -> None:
    """Release the brake: the cases that it held go on."""
    session = Session(common)
    name = _which(everything, definition, worker)
    count = await _act(session, name, worker, reason, pull=False)
    session.printer.say(
        f"worker {worker} is resumed; cases that were told not to run it: {count}"
        if worker
        else f"brake off {_words(name)}; {count} resumed"
    )


async def _act(session: Session, name: str | None, worker: str | None, reason: str, *, pull: bool) -> int:
    """Pull or release the brake, in the worker process or, where none runs, on the database; the cases concerned."""
    async with desk(session) as at:
        if isinstance(at.hub, ControlClient):
            verb = at.hub.pull_brake if pull else at.hub.release_brake
        else:
            await at.hub.drain("0s")  # nothing is to be started for the time of the verb
            verb = at.hub.brake.pull if pull else at.hub.brake.release
        return await verb(name, worker=worker, by=session.by, reason=reason)


def _which(everything: bool, definition: str | None, worker: str | None) -> str | None:
    """The definition that is meant, None for all or for a worker. Raises `SettingsError` unless one of the three is said."""
    if everything + (definition is not None) + (worker is not None) != 1:
        raise SettingsError(
            "say what to hold: --all, --definition NAME, or --worker NAME; one case is 'casehub case suspend ID'"
        )
    return definition


def _words(name: str | None) -> str:
    return "all cases" if name is None else f"cases of {name}"
