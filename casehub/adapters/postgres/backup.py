"""A backup of a PostgreSQL database's schema, by the server's own `pg_dump`, which takes it from one snapshot.

What `pg_dump` does is not done again here: it knows every version of the server. Where it is not installed, the error has
the command for wherever it is.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from casehub.adapters.postgres.connection import Place
from casehub.errors import FileError, StoreUnavailableError

DUMP: Final = "pg_dump"
RESTORE: Final = "pg_restore"


def command(place: Place, to: Path) -> list[str]:
    """What is run; the password is not in it."""
    parts = urlsplit(place.url)
    user, at, host = parts.netloc.rpartition("@")
    url = urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}"))
    return [DUMP, "--format=custom", f"--schema={place.schema}", f"--file={to}", f"--dbname={url}"]


async def dump(place: Place, to: Path, named: Path) -> None:
    """Write the backup, and read its list of contents back. `named`: the file it is to become.

    Raises `FileError` where there is no `pg_dump`, and for what it, or `pg_restore`, says.
    """
    if shutil.which(DUMP) is None:
        shown = shlex.join(command(place, named))
        raise FileError(f"{DUMP} is not installed here; where it is, run: {shown}")
    password = urlsplit(place.url).password
    environment = {**os.environ, **({"PGPASSWORD": unquote(password)} if password else {})}
    await _run(command(place, to), environment)
    if shutil.which(RESTORE) is not None:
        await _run([RESTORE, "--list", str(to)], environment)


async def _run(words: list[str], environment: dict[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *words,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        text = " ".join(said.decode(errors="replace").split())
        kind = StoreUnavailableError if "connection to server" in text else FileError
        raise kind(f"{words[0]}: {text or f'it ended with {process.returncode}'}; nothing was kept of it")
