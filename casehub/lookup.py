"""Looking things up by name: adapters by URL scheme, a user's objects by `module:attribute`.

The only place that imports by name, so that an adapter and what it needs are loaded when somebody asks for them.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any
from urllib.parse import urlsplit

from casehub.errors import MissingExtraError, SettingsError, did_you_mean
from casehub.spi import CaseStore, Clock

_STORES = {
    "memory": ("casehub.adapters.memory", "MemoryStore", ""),
    "sqlite": ("casehub.adapters.sqlite", "SQLiteStore", ""),
}
_CLOCKS = {"system": ("casehub.adapters.clock", "SystemClock")}
_EXTRAS = {"xes": ("casehub.adapters.xes", "xes")}


def store_of(url: str) -> CaseStore:
    """A store by URL: `memory://`, `sqlite:///relative.db`, `sqlite:////absolute.db`; `?synchronous=NORMAL` and such.

    Raises `SettingsError` for a scheme that is none, `MissingExtraError` when its driver is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme not in _STORES:
        raise SettingsError(
            f"store {url!r}: no store has the scheme {parts.scheme!r}; {did_you_mean(parts.scheme, _STORES)}"
        )
    module, name, extra = _STORES[parts.scheme]
    factory = getattr(_import(module, f"store {parts.scheme}://", extra), name)
    if parts.scheme == "memory":
        return factory()  # type: ignore[no-any-return]  # looked up by name
    options = dict(pair.partition("=")[::2] for pair in parts.query.split("&") if pair)
    path = parts.path.removeprefix("/")
    if parts.netloc or not path:
        raise SettingsError(
            f"store {url!r}: write sqlite:///file.db, or sqlite:////folder/file.db for an absolute path"
        )
    try:
        return factory(path, **options)  # type: ignore[no-any-return]  # looked up by name
    except TypeError as error:
        raise SettingsError(f"store {url!r}: {error}") from None


def clock_of(name: str) -> Clock:
    """A clock by name: `system`."""
    module, attribute = _CLOCKS[name]
    return getattr(_import(module, name, ""), attribute)()  # type: ignore[no-any-return]  # looked up by name


def adapter(name: str) -> Any:
    """The module of an optional adapter. Raises `MissingExtraError` with the command that installs what it needs."""
    module, extra = _EXTRAS[name]
    return _import(module, name, extra)


def object_of(reference: str) -> Any:
    """What `module:attribute` names; modules are found from the current folder too.

    Raises `SettingsError` when the reference is none, or names nothing.
    """
    module_name, colon, attribute = reference.partition(":")
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
        raise
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise SettingsError(f"{reference!r}: {module_name} has no {part!r}; {did_you_mean(part, vars(found))}")
        found = getattr(found, part)
    return found


def _import(module: str, what: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not extra or (error.name or "").startswith("casehub"):
            raise
        raise MissingExtraError(f"{what} needs the extra \"{extra}\": pip install 'casehub[{extra}]'") from None
