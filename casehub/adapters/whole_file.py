"""A file that is there whole or not at all: written beside its place, brought to the disk, then put into it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from casehub.errors import FileError


@contextmanager
def whole_file(path: Path, *, over: bool = False) -> Iterator[Path]:
    """Where to write what is to become the file; whatever raises in the block, or ends the process, leaves none behind.

    For its owner alone. `over`: in place of a file that is there. Raises `FileError` for one that may not be replaced,
    and for a folder that cannot be written.
    """
    if not over and os.path.lexists(path):
        raise FileError(f"{path} is there already, and nothing is written over it; give another name, or move it away")
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        yield part
        _bring_to_disk(part)
        _put(part, path, over)
        _bring_to_disk(path.parent)
    except OSError as error:
        raise FileError(
            f"{path}: {error.strerror or error}; see that its folder is there, has room and can be written"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()


def _put(part: Path, path: Path, over: bool) -> None:
    if over:
        os.replace(part, path)
        return
    try:
        os.link(part, path)  # which, unlike a renaming, never replaces what has come meanwhile
    except FileExistsError:
        raise FileError(f"{path} has come to be there meanwhile; give another name, or move it away") from None
    except OSError:  # a file system without links
        os.rename(part, path)


def _bring_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
