"""Processes that are forked from one that has imported everything, and has neither threads nor a loop.

A child that is killed takes nothing with it but what it held in memory, as a process does that was started by itself; it
only starts a second sooner.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PATIENCE: Final = 120.0
"""Seconds after which a child that has neither spoken nor ended is taken to hang."""


class HungError(Exception):
    """A child did not say in time what was expected of it; it has been killed."""


@dataclass(slots=True)
class Fork:
    """A child. `pipe`: what it says comes out here."""

    pid: int
    pipe: int

    def word(self, patience: float = PATIENCE) -> bytes:
        """The next that it says; nothing when it has ended."""
        if not select.select([self.pipe], [], [], patience)[0]:
            self.kill()
            raise HungError(f"a child said nothing for {patience:g} s")
        return os.read(self.pipe, 65_536)

    def everything(self, patience: float = PATIENCE) -> bytes:
        """All that it says until it ends."""
        said = b""
        while word := self.word(patience):
            said += word
        return said

    def kill(self) -> int:
        """Kill it, unless it has ended; how it has, as of `os.waitstatus_to_exitcode`."""
        os.kill(self.pid, signal.SIGKILL)
        return self.ended()

    def ended(self) -> int:
        """Wait for its end."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(status)


def forked(run: Callable[[int], None], errors: Path) -> Fork:
    """A child that runs a function, which is given where to say something. What it writes to stderr is in `errors`."""
    out, into = os.pipe()
    pid = os.fork()
    if pid:
        os.close(into)
        return Fork(pid, out)
    code = 1
    try:
        os.close(out)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
        run(into)
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def answer_of(run: Callable[[], Any], errors: Path) -> Any:
    """What a function returns in a child, by way of JSON. Raises `AssertionError` with its words when it fails."""
    child = forked(lambda pipe: _say(pipe, json.dumps(run()).encode()), errors)
    said = child.everything()
    code = child.ended()
    if code:
        raise AssertionError(f"a child ended with {code}:\n{errors.read_text(errors='replace')[-4_000:]}")
    return json.loads(said)


def _say(pipe: int, text: bytes) -> None:
    while text:
        text = text[os.write(pipe, text) :]


def sleep(seconds: float) -> None:
    """As `time.sleep`, to the point: the last millisecond is waited for without leaving the processor."""
    end = time.perf_counter() + seconds
    time.sleep(max(0.0, seconds - 0.001))
    while time.perf_counter() < end:
        pass
