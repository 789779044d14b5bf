"""Commands for workers that keep failing: `quarantine list`, which reads the file only, and `quarantine release`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from cyclopts import App, Parameter

from casehub.cli.desk import desk
from casehub.cli.options import Acting, Common, Session
from casehub.control import ControlClient
from casehub.quarantines import quarantines

list_app = App(
    name="list",
    help_epilogue="""A worker with quarantine= that keeps failing is left alone for a while. The
list is that of the log: quarantines that hold up a case. One without an end is
a worker that was suspended: see 'casehub suspend --worker'.

Example:
  casehub quarantine list""",
)


@list_app.default
async def list_quarantines(*, common: Common | None = None) -> None:
    """List quarantined workers, and until when they are."""
    session = Session(common)
    async with session.reading() as store:
        found = await quarantines(store, session.settings.tenant, datetime.now(UTC))
    session.printer.items(
        [{"definition": of, "worker": worker, "until": until} for (of, worker), until in found.items()],
        ("definition", "worker", "until"),
        lambda item: (item["definition"], item["worker"], item["until"] or "it is resumed"),
        empty="no worker is quarantined",
    )


release_app = App(
    name="release",
    help_epilogue="""Every case that was held up goes on. Without a running 'casehub up' it is only
recorded here, and they go on with the next one.

Example:
  casehub quarantine release claim assess --reason "the service is back" """,
)


@release_app.default
async def release_worker(
    definition: Annotated[str, Parameter(help="The definition.")],
    worker: Annotated[str, Parameter(help="The worker.")],
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; it is kept in the log.")] = "",
    common: Acting | None = None,
) -> None:
    """Let a worker be called again."""
    session = Session(common)
    async with desk(session) as at:
        if isinstance(at.hub, ControlClient):
            await at.hub.release_worker(definition, worker, by=session.by, reason=reason)
        else:
            await at.hub.drain("0s")  # nothing of the cases is to be started for the time of the verb
            await at.hub.quarantine.release(definition, worker, by=session.by, reason=reason)
    session.printer.say(f"{worker} of {definition}: released")
