"""`casehub up --replay FILE`: a log of another system is fed into cases before the worker process goes to work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import anyio

from casehub.cli.logs import told
from casehub.cli.output import Printer, progress
from casehub.cli.text import note
from casehub.definition import CaseDefinition
from casehub.errors import SettingsError
from casehub.hub import CaseHub
from casehub.lookup import adapter
from casehub.replay import ReplaySummary, replay


async def replay_first(hub: CaseHub, path: Path, printer: Printer, asked_to_stop: asyncio.Event) -> bool:
    """Feed the log into the store of a hub that is not open yet, from where an earlier run has got to.

    Says what it came to. Returns whether it got to its end; it is left where it is when somebody asks to stop.
    """
    definition = _definition(hub)
    note(f"replaying {path}")
    traces = adapter("xes").read_traces(path)
    summary: ReplaySummary | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_call_when, asked_to_stop, group.cancel_scope.cancel)
        with progress(f"replaying {path}"):
            summary = await replay(
                definition,
                traces,
                store=hub.store,
                loop=hub.loop_of(definition),
                resume=True,
                tenant=hub.tenant,
            )
        group.cancel_scope.cancel()
    if summary is None:
        return False
    if printer.for_people:
        printer.say(f"{path} is replayed:")
        printer.table(("", ""), [(f"  {what}", text) for what, text in told(summary)], heading=False)
    else:
        printer.line({"replayed": str(path), **summary.as_dict()})
    return True


def _definition(hub: CaseHub) -> CaseDefinition:
    """The one definition that says what the activities of a log mean."""
    meant = [each for each in hub.definitions.values() if each.activities]
    if len(meant) != 1:
        names = ", ".join(each.name for each in meant) or "none"
        raise SettingsError(
            f"--replay needs one definition that says what activities mean, and these do: {names}; "
            "declare them with activity(...), or replay with 'casehub replay-log'"
        )
    return meant[0]


async def _call_when(event: asyncio.Event, call: Callable[[], None]) -> None:
    await event.wait()
    call()
