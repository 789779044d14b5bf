"""Looking things up by name: adapters by URL scheme, a user's objects by `module:attribute`.

The only place that imports by name, so that an adapter and what it needs are loaded when somebody asks for them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from casehub.definition import CaseDefinition
from casehub.errors import MissingExtraError, SettingsError, did_you_mean
from casehub.spi import CaseStore, Clock, LoopControl, SnapshotStore

_STORES = {
    "memory": ("casehub.adapters.memory", "MemoryStore", ""),
    "postgres": ("casehub.adapters.postgres", "PostgresStore", "postgres"),
    "postgresql": ("casehub.adapters.postgres", "PostgresStore", "postgres"),
    "sqlite": ("casehub.adapters.sqlite", "SQLiteStore", ""),
}
_SNAPSHOTS = {
    "memory": ("casehub.adapters.memory_snapshots", "MemorySnapshots", ""),
    "postgres": ("casehub.adapters.postgres.snapshots", "PostgresSnapshots", "postgres"),
    "postgresql": ("casehub.adapters.postgres.snapshots", "PostgresSnapshots", "postgres"),
    "redis": ("casehub.adapters.redis.snapshots", "RedisSnapshots", "redis"),
    "rediss": ("casehub.adapters.redis.snapshots", "RedisSnapshots", "redis"),
    "sqlite": ("casehub.adapters.sqlite_snapshots", "SQLiteSnapshots", ""),
    "unix": ("casehub.adapters.redis.snapshots", "RedisSnapshots", "redis"),
}
_SERVERS = ("postgres", "postgresql")
"""Stores that take the URL as it is."""
_OPTIONS = ("synchronous",)
"""What may stand behind the `?` of the URL of a file."""

ENDINGS = (".yaml", ".yml")
"""What the files of definitions end in."""
KEPT = "kept"
"""The folder, beside definitions in files, of the versions that are kept for their open cases."""
_CLOCKS = {"system": ("casehub.adapters.clock", "SystemClock")}
_EXTRAS = {"xes": ("casehub.adapters.xes", "xes"), "loader": ("casehub.loader", "yaml")}


def store_of(url: str, *, read_only: bool = False) -> CaseStore:
    """A store by URL: `memory://`, `sqlite:///relative.db`, `sqlite:////absolute.db`; `?synchronous=NORMAL` and such;
    `postgresql://user@host/database`, with `?schema=` and what libpq takes.

    `read_only`: to look into one that another process may own. Raises `SettingsError` for a scheme that is none, `MissingExtraError` when its driver is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme not in _STORES:
        raise SettingsError(
            f"store {url!r}: no store has the scheme {parts.scheme!r}; {did_you_mean(parts.scheme, _STORES)}"
        )
    module, name, extra = _STORES[parts.scheme]
    factory = getattr(_import(module, f"store {parts.scheme}://", extra), name)
    if parts.scheme == "memory":
        if read_only:
            raise SettingsError(f"store {url!r}: it is gone with the process that had it; give a database that is kept")
        return factory()  # type: ignore[no-any-return]  # looked up by name
    load_extensions()
    options: dict[str, Any] = {"read_only": True} if read_only else {}
    if parts.scheme in _SERVERS:
        return factory(url, **options)  # type: ignore[no-any-return]  # looked up by name
    for pair in filter(None, parts.query.split("&")):
        option, _, value = pair.partition("=")
        if option not in _OPTIONS:
            raise SettingsError(f"store {url!r}: it has no option {option!r}; {did_you_mean(option, _OPTIONS)}")
        options[option] = value
    return factory(_file_in(parts, f"store {url!r}"), **options)  # type: ignore[no-any-return]  # looked up by name


def snapshots_of(url: str) -> SnapshotStore:
    """A store of snapshots by URL: as `store_of`, and `redis://host:6379/0`, with `?prefix=` and what redis-py takes.

    Raises `SettingsError` for a scheme that is none, `MissingExtraError` when its driver is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme not in _SNAPSHOTS:
        raise SettingsError(
            f"snapshots {url!r}: no store of snapshots has the scheme {parts.scheme!r}; {did_you_mean(parts.scheme, _SNAPSHOTS)}"
        )
    module, name, extra = _SNAPSHOTS[parts.scheme]
    factory = getattr(_import(module, f"snapshots {parts.scheme}://", extra), name)
    if parts.scheme == "memory":
        return factory()  # type: ignore[no-any-return]  # looked up by name
    if parts.scheme != "sqlite":
        return factory(url)  # type: ignore[no-any-return]  # looked up by name
    for pair in filter(None, parts.query.split("&")):
        raise SettingsError(
            f"snapshots {url!r}: a file of snapshots has no option {pair.partition('=')[0]!r}; leave it out"
        )
    return factory(_file_in(parts, f"snapshots {url!r}"))  # type: ignore[no-any-return]  # looked up by name


def _file_in(parts: SplitResult, what: str) -> str:
    path = parts.path.removeprefix("/")
    if parts.netloc or not path or parts.fragment:
        raise SettingsError(f"{what}: write sqlite:///file.db, or sqlite:////folder/file.db for an absolute path")
    return path


def load_extensions() -> None:
    """Import what installed extensions name under the entry point `casehub.extensions`: their event classes.

    So a log that an extension wrote is read with its own classes, whoever opens it.
    """
    for entry in importlib.metadata.entry_points(group="casehub.extensions"):
        importlib.import_module(entry.value)


def planning(strategy: Any = None) -> LoopControl:
    """The loop control of an installed extension that asks planning strategies, under the entry point `casehub.planning`.

    Without a strategy it is one to look at plans with. Raises `SettingsError` for what is no strategy, and where no
    extension plans.
    """
    for entry in importlib.metadata.entry_points(group="casehub.planning"):
        return entry.load()(strategy)  # type: ignore[no-any-return]  # looked up by name
    raise SettingsError("no installed extension plans; install casehub again, which brings blackboard_ext")


def clock_of(name: str) -> Clock:
    """A clock by name: `system`."""
    module, attribute = _CLOCKS[name]
    return getattr(_import(module, name, ""), attribute)()  # type: ignore[no-any-return]  # looked up by name


def adapter(name: str) -> Any:
    """The module of an optional adapter. Raises `MissingExtraError` with the command that installs what it needs."""
    module, extra = _EXTRAS[name]
    return _import(module, name, extra)


def load_definition(
    path: str | os.PathLike[str],
    *,
    allow_code: Iterable[str] = (),
    workers: Mapping[str, Callable[[dict[str, Any]], Any]] | None = None,
) -> CaseDefinition:
    """The definition in a YAML file, for `CaseHub` like any other.

    `allow_code`: the packages whose functions and classes it may refer to; none without it. `workers`: the code of a
    definition in the format of CaseHub for Java, by the names of its workers: a dictionary in, a dictionary out. Raises `DefinitionError`
    with every mistake and its line and column, `SettingsError` when there is no such file, `MissingExtraError`.
    """
    return adapter("loader").load(os.fspath(path), allow_code=tuple(allow_code), workers=workers)  # type: ignore[no-any-return]  # looked up by name


def object_of(reference: str) -> Any:
    """What `module:attribute` names; modules are found from the current folder too.

    Raises `SettingsError` when the reference is none, or names nothing, `MissingExtraError` when the module needs an extra.
    """
    module_name, colon, attribute = reference.partition(":")
    if "/" in module_name or module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise SettingsError(f"{reference!r} names a file; write {dotted}:{attribute or 'attribute'}")
    if not colon or not module_name or not attribute:
        raise SettingsError(
            f"{reference!r} is no reference; write module:attribute, such as examples.expenses:declaration"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise SettingsError(
                f"{reference!r}: there is no module {error.name!r}; start from the folder it is in"
            ) from None
        raise _broken(reference, error) from error
    except MissingExtraError:
        raise
    except Exception as error:
        raise _broken(reference, error) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            known = [name for name in vars(found) if not name.startswith("_")]
            raise SettingsError(f"{reference!r}: {module_name} has no {part!r}; {did_you_mean(part, known)}")
        found = getattr(found, part)
    return found


def _broken(reference: str, error: Exception) -> SettingsError:
    """What importing a user's module raised, and where."""
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    else:
        own = os.path.dirname(__file__)
        frames = [
            each for each in traceback.extract_tb(error.__traceback__) if not each.filename.startswith(("<", own))
        ]
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else reference
    return SettingsError(
        f"{reference!r}: importing it raised {type(error).__name__}: {error} ({where}); mend the module"
    )


def is_there(module: str) -> bool:
    """Whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def release() -> str:
    """The version of the installed package."""
    return importlib.metadata.version("casehub")


def _import(module: str, what: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not extra or (error.name or "").startswith("casehub"):
            raise
        raise MissingExtraError(f"{what} needs the extra \"{extra}\": pip install 'casehub[{extra}]'") from None
