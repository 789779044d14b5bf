"""Expressions in jq (https://jqlang.org), run in a process of their own.

jq holds Python's lock, cannot be interrupted and sees the environment: so it runs outside, with an empty environment and
a bound on its time, and the words by which it would read anything but the facts are refused. To jq a fact that is not
there is `null`, so a program never waits for one; it reads the facts whose names stand in it as fields.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from casehub.loader.expressions import ExpressionError
from casehub.values import Plain

PATIENCE: Final = 2.0
"""Seconds after which an answer is not waited for, on a machine that has no time for the process."""
STARTING: Final = 10.0
"""Seconds that the process may take to start."""
MAX_ANSWER: Final = 4_194_304
"""Bytes of an answer."""
EXACT: Final = 2**53
"""The largest whole number that jq keeps as it is."""
REFUSED: Final = frozenset(
    [
        "env",
        "input",
        "inputs",
        "input_filename",
        "input_line_number",
        "import",
        "include",
        "halt",
        "halt_error",
        "debug",
        "stderr",
        "modulemeta",
        "get_search_list",
        "$ENV",
        "$__prog_args",
    ]
)
_WHOLE: Final = frozenset(
    [
        "keys",
        "keys_unsorted",
        "length",
        "to_entries",
        "with_entries",
        "map",
        "map_values",
        "del",
        "paths",
        "leaf_paths",
        "any",
        "all",
        "add",
        "getpath",
        "tostream",
        "values",
        "type",
        "tojson",
        "walk",
        "recurse",
    ]
)
"""Functions that look at all facts where nothing is piped into them."""
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"')
_WORD = re.compile(r"\$?[A-Za-z_]\w*")
_PLACE = re.compile(r"line (\d+), column (\d+)")


class JqError(Exception):
    """What is wrong with a program: line, column, reason and remedy."""

    def __init__(self, line: int, column: int, reason: str, remedy: str) -> None:
        self.place = (line, column)
        self.reason = reason
        self.remedy = remedy
        super().__init__(reason)


@dataclass(slots=True)
class JqProgram:
    """A program that has been compiled once. All that it reads is optional."""

    source: str
    reads: tuple[str, ...]
    optional: frozenset[str]

    @property
    def apart(self) -> bool:
        return True

    def compute(self, facts: Mapping[str, Plain]) -> Plain:
        _check_exact(facts, self.source)
        answer = _PROCESS.ask({"program": self.source, "input": dict(facts)})
        if "error" in answer:
            raise ExpressionError(f"{self.source!r} cannot be evaluated: {answer['error']}")
        results = answer["results"]
        if len(results) != 1:
            raise ExpressionError(
                f"{self.source!r} has {'several results' if results else 'no result'}, and one is needed"
            )
        found: Plain = results[0]
        return found


def compiled(source: str, facts: Iterable[str]) -> JqProgram:
    """The program of a text. Raises `JqError`."""
    blanked = _blanked(source)
    if (comment := blanked.find("#")) >= 0:  # where it ends is jq's to say, and what hides behind it
        raise JqError(*_at(source, comment), "has a comment, or a '#' beside an interpolation", "comment it in YAML")
    for match in _WORD.finditer(blanked):
        if match[0] in REFUSED and blanked[: match.start()].rstrip()[-1:] != ".":
            raise JqError(
                *_at(source, match.start()), f"has {match[0]!r}, which reads or does more than facts", "leave it out"
            )
    answer = _PROCESS.ask({"program": source})
    if "error" in answer:
        place = _PLACE.search(answer["error"])
        line, column = (int(place[1]), int(place[2])) if place else (1, 1)
        said = re.sub(r" at <top-level>.*", "", answer["error"].removeprefix("jq: error: ").splitlines()[0])
        raise JqError(line, column, f"is not jq: {said}", "see https://jqlang.org/manual")
    reads = _reads(source, blanked, tuple(facts))
    return JqProgram(source, reads, frozenset(reads))


def _blanked(source: str) -> str:
    """A program with its texts blanked, so that what is left is code. What interpolates is code as a whole: a text in it
    may stand within another one, and only jq knows which quote ends which."""
    return source if "\\(" in source else _TEXT.sub(lambda match: "~" * len(match[0]), source)


def _reads(source: str, blanked: str, facts: tuple[str, ...]) -> tuple[str, ...]:
    """The facts whose names stand in the program as fields or texts; all, where it looks at the whole."""
    for match in re.finditer(r"\.\.|\.(?![\w~\"\[.])|[A-Za-z_]\w*", blanked):
        before = blanked[: match.start()].rstrip()[-1:]
        if match[0] in (".", "..") or (match[0] in _WHOLE and before not in ("|", ".", "$")):
            return facts
    named = {*re.findall(r"\.\s*([A-Za-z_]\w*)", source), *(json_text(text) for text in _TEXT.findall(source))}
    return tuple(fact for fact in facts if fact in named)


def json_text(text: str) -> str:
    """What a text in quotes says; itself where it is more than a text."""
    try:
        return str(json.loads(text))
    except ValueError:
        return text


def _at(source: str, at: int) -> tuple[int, int]:
    return source.count("\n", 0, at) + 1, at - (source.rfind("\n", 0, at) + 1) + 1


def _check_exact(value: Any, source: str) -> None:
    """Raise `ExpressionError` for a whole number of which jq would lose digits."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, int) and abs(each) > EXACT:
            raise ExpressionError(f"{source!r} cannot be evaluated: jq would lose digits of {each}; make it text")
        left.extend(each.values() if isinstance(each, Mapping) else each if isinstance(each, list) else ())


class _Process:
    """The process, which is started when it is first asked, and again after it has ended itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Its answer. Raises `ExpressionError` when there is none in time."""
        with self._lock:
            process = self._process
            patience = PATIENCE
            if process is None or process.poll() is not None or self._owner != os.getpid():
                process = self._start()
                patience = STARTING
            try:
                answer = self._exchange(process, json.dumps(question).encode() + b"\n", time.monotonic() + patience)
            except (OSError, TimeoutError) as error:
                self._end()
                raise ExpressionError(
                    f"{question['program']!r} cannot be evaluated: it takes too long, or too much memory, for an expression"
                ) from error
        found: dict[str, Any] = json.loads(answer)
        return found

    def _start(self) -> subprocess.Popen[bytes]:
        self._end()
        self._owner = os.getpid()
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter and a file of this package
            [sys.executable, "-I", str(Path(__file__).with_name("jq_process.py"))],
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], line: bytes, until: float) -> bytes:
        if process.stdin is None or process.stdout is None:
            raise OSError("the process has no pipes")
        process.stdin.write(line)
        process.stdin.flush()
        answer, waiting = bytearray(), select.poll()
        waiting.register(process.stdout, select.POLLIN)
        while not answer.endswith(b"\n"):
            if not waiting.poll(max(0.0, until - time.monotonic()) * 1_000):
                raise TimeoutError
            part = os.read(process.stdout.fileno(), 65_536)
            if not part or len(answer) > MAX_ANSWER:
                raise OSError("the process has ended")
            answer += part
        return bytes(answer)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not sent to it any more
                    continue

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()


_PROCESS: Final = _Process()
atexit.register(_PROCESS.close)
