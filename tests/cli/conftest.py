"""Folders for the program: short ones, since the path of a socket may not be long."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.program import Program


@contextmanager
def short_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="casehub-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def program() -> Iterator[Program]:
    with short_folder() as folder:
        yield Program(folder)


@pytest.fixture(scope="module")
def shared() -> Iterator[Program]:
    """One folder for the tests of a module."""
    with short_folder() as folder:
        yield Program(folder)
