"""`case compensate`: something that was done is undone while its case goes on."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from casehub.cli.options import Acting, Session
from casehub.cli.verbs import Id, Reason, act

compensate_app = App(
    name="compensate",
    help_epilogue="""The binding that compensates it runs; nothing is undone twice. Without a running
'casehub up' the case is worked here until it rests.

Examples:
  casehub case compensate ID book_flight --by user:ada   # the last one
  casehub case compensate ID ID/book_flight/2 --reason "the wrong day" """,
)


@compensate_app.default
async def compensate(
    id: Id,
    what: Annotated[str, Parameter(help="A binding, for its last activation, or the id of one.")],
    /,
    *,
    reason: Reason = "",
    common: Acting | None = None,
) -> None:
    """Have a completed activation undone while its case goes on."""
    session = Session(common)
    await act(session, id, lambda case: case.compensate(what, by=session.by, reason=reason), works=True)
