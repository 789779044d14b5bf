"""`case reroute`: work goes to another worker of its capability."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from casehub.cli.options import Acting, Session
from casehub.cli.verbs import Id, Reason, act

reroute_app = App(
    name="reroute",
    help_epilogue="""What the binding has in flight is called off and goes on with the other worker;
a dead letter of it is tried again by that one. Without a running 'casehub up'
the case is worked here until it rests.

Example:
  casehub case reroute ID assess --to assess_by_hand --reason "the model is wrong" """,
)


@reroute_app.default
async def reroute(
    id: Id,
    binding: Annotated[str, Parameter(help="The binding.")],
    /,
    *,
    to: Annotated[str, Parameter(help="The worker.")],
    reason: Reason = "",
    common: Acting | None = None,
) -> None:
    """Give what a binding has in flight, or its dead letter, to another worker."""
    session = Session(common)
    await act(session, id, lambda case: case.reroute(binding, to=to, by=session.by, reason=reason), works=True)
