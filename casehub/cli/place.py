"""Where a database is, as commands see it: what it is called, and what lies beside it.

Beside a file lie the control socket and the note of what it is worked with. A database on a server has no folder, so
what belongs to it lies in one of this user's, under a name that its URL comes to: `~/.local/state/casehub`.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from casehub.errors import SettingsError

_SERVERS: Final = ("postgres", "postgresql")


def is_kept(url: str) -> bool:
    """Whether a store is kept when the process ends, so that commands can find it."""
    return urlsplit(url).scheme in ("sqlite", *_SERVERS)


def is_server(url: str) -> bool:
    """Whether a database is on a server rather than in a file."""
    return urlsplit(url).scheme in _SERVERS


def called(url: str) -> str:
    """The database in words: the path of a file, or the URL without user, password and options."""
    parts = urlsplit(url)
    if not is_server(url):
        return parts.path.removeprefix("/") if parts.scheme == "sqlite" else url
    schema = dict(parse_qsl(parts.query)).get("schema", "casehub")
    suffix = "" if schema == "casehub" else f"?schema={schema}"
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}{suffix}"


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    user, at, host = urlsplit(url).netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    return url.replace(f"{user}@{host}", f"{name}:***@{host}", 1) if at and colon else url


def beside(url: str) -> Path:
    """The file, or what stands for it: its neighbours are what belongs to the database.

    Raises `SettingsError` for a store that is not kept, and where there is no folder for what belongs to a server's.
    """
    if not is_kept(url):
        raise SettingsError(f"database {url!r}: this command needs one that is kept; give --db a path or a URL")
    name = called(url)
    if not is_server(url):
        return Path(name)
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        folder = state / "casehub"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise SettingsError(
            f"database {name}: no folder for its control socket ({error}); set XDG_STATE_HOME to one"
        ) from error
    return folder / f"{Path(urlsplit(name).path).name}-{sha256(name.encode()).hexdigest()[:8]}"
