"""APP: what a worker process works. A `module:attribute` that names a definition, several, or an unopened hub; the path
of a definition in YAML, or of a folder with several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from casehub.cli.loops import loops_named
from casehub.definition import CaseDefinition
from casehub.errors import SettingsError, UnknownNameError, did_you_mean
from casehub.hub import CaseHub
from casehub.lookup import ENDINGS, adapter, object_of, snapshots_of, store_of
from casehub.registry import Registry
from casehub.retention import KEEP, Retention
from casehub.snapshot import checkpoint_of
from casehub.spi import Volatile
from casehub.state import CaseState
from casehub.structure import Structure


@runtime_checkable
class InFile(Protocol):
    """A store that is a file."""

    path: Path


@runtime_checkable
class OnServer(Protocol):
    """A store that may be on a server: `name` is then its URL, without what is secret."""

    name: str


def is_app(text: str) -> bool:
    """Whether a word is an APP rather than the name of a definition."""
    return ":" in text or text.endswith(ENDINGS)


def is_file(reference: str) -> bool:
    """Whether APP is a file or a folder, rather than Python."""
    return reference.endswith(ENDINGS) or (":" not in reference and Path(reference).is_dir())


def definitions_of(reference: str, allow_code: Sequence[str] = ()) -> list[CaseDefinition]:
    """The definitions that APP names, the current versions alone. `allow_code`: packages that those in files may refer to.

    Raises `SettingsError` for what is no APP, and what loading a file raises.
    """
    return _listed(reference, allow_code)[0]


def registry_of(reference: str, allow_code: Sequence[str] = ()) -> Registry:
    """The definitions that APP names, with the versions that it keeps. Raises what `definitions_of` and `Registry` do."""
    found = None if is_file(reference) else object_of(reference)
    return found.registry if isinstance(found, CaseHub) else Registry(*_listed(reference, allow_code))


def _listed(reference: str, allow_code: Sequence[str]) -> tuple[list[CaseDefinition], list[CaseDefinition]]:
    """The current definitions and the kept ones."""
    if is_file(reference):
        return adapter("loader").load_versions(reference, allow_code=allow_code)  # type: ignore[no-any-return]  # looked up by name
    found = object_of(reference)
    if isinstance(found, CaseHub):
        current = list(found.definitions.values())
        return current, [each.definition for each in found.registry.versions.values() if each.definition not in current]
    if isinstance(found, CaseDefinition):
        return [found], []
    if isinstance(found, Iterable) and not isinstance(found, str | bytes | dict):
        several = list(found)
        if several and all(isinstance(each, CaseDefinition) for each in several):
            return several, []
    raise SettingsError(
        f"{reference!r} is {_described(found)}; name a CaseDefinition, a list of them, or a CaseHub that is not open"
    )


def hub_of(
    reference: str,
    store: str,
    *,
    loop: str = "",
    tenant: str = "default",
    resume: bool = True,
    allow_code: Sequence[str] = (),
    retention: Retention | None = KEEP,
    replays: bool = False,
    snapshots: str = "",
    checkpoint: str = "lifecycle",
) -> CaseHub:
    """A hub for APP on a store. A hub that APP names keeps its own store, unless that is memory; its snapshots too.

    `replays`: it is fed a log of the past, whose cases have ended long ago: they are kept unless somebody says otherwise.
    Raises `SettingsError`, and `DefinitionError` for a definition that can never work.
    """
    found = None if is_file(reference) else object_of(reference)
    if not isinstance(found, CaseHub):
        current, kept = _listed(reference, allow_code)
        loops = loops_named(loop, [definition.name for definition in (*current, *kept)])
        return CaseHub(
            *current,
            kept=kept,
            store=store,
            snapshots=snapshots or None,
            checkpoint=checkpoint_of(checkpoint),
            loop=loops,
            tenant=tenant,
            resume=resume,
            retention=None if replays and retention is KEEP else retention,
        )
    if loop:
        raise SettingsError(f"--loop {loop}: {reference!r} is a CaseHub, which has its own; give it loop= there")
    if retention is not KEEP:
        raise SettingsError(f"retention: {reference!r} is a CaseHub, which has its own; give it retention= there")
    if isinstance(found.store, Volatile):
        found.store = store_of(store)
        if found.snapshot_store is None and snapshots:
            found.snapshot_store = snapshots_of(snapshots)
    if not resume:
        found.resumes = False
    return found


def structure_of(registry: Registry, reference: str, state: CaseState) -> Structure:
    """What a case goes on with, of what APP has. Raises `UnknownNameError` where it lacks that."""
    structure = registry.of(state.definition, state.structure)
    if structure is None and state.definition in registry:
        raise UnknownNameError(
            f"case {state.id!r} is of version {state.structure} of {state.definition!r}, and {reference} keeps only others; "
            "keep that one too"
        )
    if structure is None:
        nearest = did_you_mean(state.definition, registry.names)
        raise UnknownNameError(
            f"case {state.id!r} is of definition {state.definition!r}, which {reference} lacks; {nearest}"
        )
    return structure


def _described(found: Any) -> str:
    return f"a {type(found).__name__}"
