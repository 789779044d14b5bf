"""Resources of definitions, opened once for all the workers of a hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from casehub.registry import Registry

Opener = Callable[[], AsyncIterator[Any]]
"""An async generator that yields the resource and closes it; what `@definition.resource` decorates."""


async def open_resources(
    registry: Registry, replaced: Mapping[Opener, Any], opening: AsyncExitStack
) -> dict[str, Mapping[str, Any]]:
    """The resources of each version of each definition, by its hash and their names. One that several definitions share is opened once.

    `replaced`: what to take instead of opening; `opening`: closes what was opened, last first.
    """
    opened: dict[Opener, Any] = dict(replaced)
    found: dict[str, Mapping[str, Any]] = {}
    for version, structure in registry.versions.items():
        resources = structure.definition.resources
        for _, opener in resources.values():
            if opener not in opened:
                manager = asynccontextmanager(opener)  # pyright: ignore[reportDeprecated]  # users annotate AsyncIterator
                opened[opener] = await opening.enter_async_context(manager())
        found[version] = {resource: opened[opener] for resource, (_, opener) in resources.items()}
    return found
