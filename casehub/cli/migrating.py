"""`def migrate`: open cases go on under the current version of their definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.cli.application import registry_of
from casehub.cli.desk import desk
from casehub.cli.options import Acting, Session
from casehub.control import ControlClient
from casehub.errors import SettingsError, UnknownNameError, did_you_mean
from casehub.migration import migrations
from casehub.problems import Exit

migrate_app = App(
    name="migrate",
    help_epilogue="""A case can go on where everything that it has in flight is there still. Its
milestones, goals and stages are tested anew. 'casehub up' does the same with
each case that it loads. Ends with 1 when a case is refused.

Examples:
  casehub def migrate claim --app examples.claim:claim --dry-run
  casehub def migrate claim""",
)


@migrate_app.default
async def migrate(
    name: Annotated[str, Parameter(name="NAME", help="The definition.")],
    /,
    *,
    dry_run: Annotated[bool, Parameter(help="Only say which cases would, and which are refused.")] = False,
    common: Acting | None = None,
) -> int:
    """Let open cases adopt the current version of a definition."""
    session = Session(common)
    current, found = await (_would(session, name) if dry_run else _do(session, name))
    session.printer.items(
        found,
        ("", "case", "version", "becomes", "reason"),
        lambda item: (
            "fault" if item["refused"] else "ok",
            item["case"],
            item["before"],
            item["after"],
            item["refused"],
        ),
        empty=f"every open case of {name} has the current version, {current}",
    )
    return Exit.FAILED if any(item["refused"] for item in found) else Exit.OK


_Found = tuple[str, Sequence[Mapping[str, Any]]]
"""The current version, and the open cases of others."""


async def _would(session: Session, name: str) -> _Found:
    """Read the file, and look at the definition that the settings name, whatever a worker process has."""
    worked = session.worked
    if not worked.app:
        raise SettingsError("which definition is meant is not known; give it with --app")
    registry = registry_of(worked.app, worked.allow_code)
    if name not in registry:
        raise UnknownNameError(f"{worked.app} has no definition {name!r}; {did_you_mean(name, registry.names)}")
    target, tenant = registry.meant(name), session.settings.tenant
    async with session.reading() as store:
        return target.hash, [asdict(each) async for each in migrations(store, tenant, target, registry.versions)]


async def _do(session: Session, name: str) -> _Found:
    async with desk(session) as at:
        current = at.definitions[name].structure if name in at.definitions else ""
        if isinstance(at.hub, ControlClient):
            return current, await at.hub.migrate(name)
        await at.hub.drain("0s")  # the cases are not worked here
        return current, [asdict(each) for each in await at.hub.migrate(name)]
