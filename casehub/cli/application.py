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
from casehub.lookup import adapter, load_definition, object_of, store_of
from casehub.retention import KEEP, Retention
from casehub.spi import Volatile
from casehub.structure import Structure
from casehub.validation import build


@runtime_checkable
class InFile(Protocol):
    """A store that is a file."""

    path: Path


@runtime_checkable
class OnServer(Protocol):
    """A store that may be on a server: `name` is then its URL, without what is secret."""

    name: str


ENDINGS = (".yaml", ".yml")
"""What the files of definitions end in."""


def is_app(text: str) -> bool:
    """Whether a word is an APP rather than the name of a definition."""
    return ":" in text or text.endswith(ENDINGS)


def is_file(reference: str) -> bool:
    """Whether APP is a file or a folder, rather than Python."""
    return reference.endswith(ENDINGS) or (":" not in reference and Path(reference).is_dir())


def definitions_of(reference: str, allow_code: Sequence[str] = ()) -> list[CaseDefinition]:
    """The definitions that APP names. `allow_code`: packages that those in files may refer to.

    Raises `SettingsError` for what is no APP, and what loading a file raises.
    """
    if is_file(reference):
        return _of_files(Path(reference), allow_code)
    found = object_of(reference)
    if isinstance(found, CaseHub):
        return list(found.definitions.values())
    if isinstance(found, CaseDefinition):
        return [found]
    if isinstance(found, Iterable) and not isinstance(found, str | bytes | dict):
        several = list(found)
        if several and all(isinstance(each, CaseDefinition) for each in several):
            return several
    raise SettingsError(
        f"{reference!r} is {_described(found)}; name a CaseDefinition, a list of them, or a CaseHub that is not open"
    )


def _of_files(path: Path, allow_code: Sequence[str]) -> list[CaseDefinition]:
    if not path.is_dir():
        return [load_definition(path, allow_code=allow_code)]
    files = sorted(each for each in path.iterdir() if each.suffix in ENDINGS)
    if not files:
        raise SettingsError(f"{str(path)!r} has no file that ends in {' or '.join(ENDINGS)}; name one that has")
    found: list[CaseDefinition] = adapter("loader").load_all(files, allow_code=allow_code)
    return found


def hub_of(
    reference: str,
    store: str,
    *,
    loop: str = "",
    tenant: str = "default",
    resume: bool = True,
    allow_code: Sequence[str] = (),
    retention: Retention | None = KEEP,
) -> CaseHub:
    """A hub for APP on a store. A hub that APP names keeps its own store, unless that is memory.

    Raises `SettingsError`, and `DefinitionError` for a definition that can never work.
    """
    definitions = definitions_of(reference, allow_code)
    found = None if is_file(reference) else object_of(reference)
    if not isinstance(found, CaseHub):
        loops = loops_named(loop, [definition.name for definition in definitions])
        return CaseHub(*definitions, store=store, loop=loops, tenant=tenant, resume=resume, retention=retention)
    if loop:
        raise SettingsError(f"--loop {loop}: {reference!r} is a CaseHub, which has its own; give it loop= there")
    if retention is not KEEP:
        raise SettingsError(f"retention: {reference!r} is a CaseHub, which has its own; give it retention= there")
    if isinstance(found.store, Volatile):
        found.store = store_of(store)
    if not resume:
        found.resumes = False
    return found


def structure_of(reference: str, case: str, definition: str, allow_code: Sequence[str] = ()) -> Structure:
    """The structure of a case's definition, which APP has. Raises `UnknownNameError` where it lacks it."""
    found = {each.name: each for each in definitions_of(reference, allow_code)}
    if definition not in found:
        raise UnknownNameError(
            f"case {case!r} is of definition {definition!r}, which {reference} lacks; {did_you_mean(definition, found)}"
        )
    return build(found[definition])


def _described(found: Any) -> str:
    return f"a {type(found).__name__}"
