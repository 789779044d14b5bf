"""Transcripts: cases with all their events in one file, to be kept, looked at, and read into another store.

JSON, a line each. The head: `{"casehub": "transcript", "format": 1, "release": "...", "case": "c1", "tenant": "default",
"definitions": {"claim": "<hash of its structure>"}, "cases": 1, "events": 9}`. Then of each case, it itself first and then
its sub-cases, a line `{"case": "c1", "definition": "claim", "structure": "...", "status": "COMPLETED", "events": 9, "inputs":
{"<idempotency key>": <position of the turn that took it>}}`, and behind it its events, as everywhere outside of stores (see
`casehub.adapters.codec`). The seal: `{"sha256": "..."}`, over all bytes before its line. So one that is cut off, or was
changed by accident, is not taken for whole; a seal is no signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json, to_json

from casehub.adapters.codec import as_json
from casehub.adapters.codec import from_json as event_from_json
from casehub.adapters.whole_file import whole_file
from casehub.errors import CaseHubError, CaseNotFoundError, FileError
from casehub.events import EVENT_TYPES, CaseEnded, CaseId, CaseStarted, Event, UnknownEvent
from casehub.folding import fold
from casehub.lookup import release
from casehub.spi import CaseStore, ListsInputs
from casehub.state import CaseState
from casehub.subcase import parent_of
from casehub.subcase_events import SubCaseStarted

FORMAT: Final = 1
"""The format of files; it rises when an older CaseHub would misunderstand a newer one."""
MOST_BYTES: Final = 1 << 30
"""Largest file that is read."""


@dataclass(frozen=True, slots=True)
class ToldCase:
    """One case as it was in its store. `inputs`: idempotency keys, with the positions of the turns that took them."""

    events: Sequence[Event]
    inputs: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def id(self) -> CaseId:
        return self.events[0].case

    @property
    def state(self) -> CaseState:
        """What its events come to."""
        return fold(self.id, self.events)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A case, first, and its sub-cases, each behind the one that started it."""

    cases: Sequence[ToldCase]

    @property
    def id(self) -> CaseId:
        return self.cases[0].id

    @property
    def tenant(self) -> str:
        return self.cases[0].events[0].tenant

    @property
    def size(self) -> int:
        """How many events there are in it."""
        return sum(len(case.events) for case in self.cases)


async def tell(store: CaseStore, case: str, tenant: str = "default") -> Transcript:
    """The transcript of a case with its sub-cases, as its store has them now. Raises `CaseNotFoundError`."""
    found: list[ToldCase] = []
    waiting = [CaseId(case)]
    while waiting:
        id = waiting.pop()
        events = await store.load(id, tenant)
        if not events:
            continue  # it was never started, or is retired
        inputs = await store.inputs(id, tenant) if isinstance(store, ListsInputs) else {}
        found.append(ToldCase(events, inputs))
        waiting += [event.child for event in reversed(events) if isinstance(event, SubCaseStarted)]
    if not found or found[0].id != case:
        raise CaseNotFoundError(f"there is no case {case!r} in {store.describe()}; list them with 'casehub case list'")
    return Transcript(found)


# ---- writing


def lines_of(transcript: Transcript) -> Iterator[bytes]:
    """The transcript, line by line, each with its end."""
    states = [case.state for case in transcript.cases]
    digest = hashlib.sha256()
    for line in _lines(transcript, states):
        digest.update(line + b"\n")
        yield line + b"\n"
    yield to_json({"sha256": digest.hexdigest()}) + b"\n"


def _lines(transcript: Transcript, states: Sequence[CaseState]) -> Iterator[bytes]:
    yield to_json(
        {
            "casehub": "transcript",
            "format": FORMAT,
            "release": release(),
            "case": transcript.id,
            "tenant": transcript.tenant,
            "definitions": {state.definition: state.structure for state in reversed(states)},
            "cases": len(transcript.cases),
            "events": transcript.size,
        }
    )
    for case, state in zip(transcript.cases, states, strict=True):
        yield to_json(_about(case, state))
        yield from map(as_json, case.events)


def _about(case: ToldCase, state: CaseState) -> dict[str, Any]:
    return {
        "case": state.id,
        "definition": state.definition,
        "structure": state.structure,
        "status": state.status,
        "events": len(case.events),
        "inputs": case.inputs,
    }


def write(path: Path, transcript: Transcript, *, over: bool = False) -> None:
    """Write a transcript to a file, whole or not at all. Raises `FileError`."""
    with whole_file(path, over=over) as part, part.open("wb") as file:
        file.writelines(lines_of(transcript))


# ---- reading


def read(path: Path) -> Transcript:
    """The transcript in a file, when everything in it fits together. Raises `FileError`, which names line and reason."""
    try:
        if not path.is_file():
            raise FileError(f"{path}: it is no file; give the path of one that 'casehub case export' wrote")
        if (size := path.stat().st_size) > MOST_BYTES:
            raise FileError(f"{path}: its {size:,} bytes are more than the {MOST_BYTES:,} that are read")
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}; see that it is there and can be read") from error
    reading = _Reading(path, lines)
    try:
        return reading.transcript()
    except FileError:
        raise
    except (CaseHubError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise reading.wrong(f"{type(error).__name__}: {error}") from error


class _Reading:
    """A file as it is read, line by line."""

    def __init__(self, path: Path, lines: Sequence[bytes]) -> None:
        self._path = path
        self._lines = lines
        self._place = 0

    def wrong(self, what: str) -> FileError:
        return FileError(f"{self._path}:{self._place}: {what}; export the case again, or restore the file from a copy")

    def transcript(self) -> Transcript:
        head = self._head()
        self._check_seal()
        cases = [self._case(head) for _ in range(head["cases"])]
        if self._place != len(self._lines) - 2:
            raise self.wrong("there is more in it than its head says")
        transcript = Transcript(cases)
        if transcript.size != head["events"] or transcript.id != head["case"]:
            raise self.wrong(f"it has {transcript.size} events of case {transcript.id!r}, and its head says otherwise")
        ids = [case.id for case in cases]
        for id in ids[1:]:
            if not (id.startswith(f"{transcript.id}/") and parent_of(id) in ids) or ids.count(id) > 1:
                raise self.wrong(f"case {id!r} is no sub-case of {transcript.id!r}, or is in it twice")
        return transcript

    def _next(self) -> dict[str, Any]:
        line = self._lines[self._place]
        self._place += 1
        found = from_json(line)
        if not isinstance(found, dict):
            raise self.wrong("it is no object")
        return found

    def _head(self) -> Mapping[str, Any]:
        try:
            head = self._next()
        except ValueError:
            head = {}
        if head.get("casehub") != "transcript":
            raise FileError(f"{self._path}: it is no transcript; give a file that 'casehub case export' wrote")
        if head.get("format") != FORMAT:
            raise FileError(
                f"{self._path}: it is of format {head.get('format')}, written by CaseHub {head.get('release')}, and this "
                f"CaseHub reads format {FORMAT}; use that release, or upgrade"
            )
        return head

    def _check_seal(self) -> None:
        *content, seal, end = self._lines if len(self._lines) > 2 else (b"", b"", b"")
        digest = hashlib.sha256()
        for line in content:
            digest.update(line + b"\n")
        if end or not seal.startswith(b'{"sha256":'):
            raise FileError(f"{self._path}: it ends before its seal, so it is not whole; export the case again")
        if from_json(seal) != {"sha256": digest.hexdigest()}:
            raise FileError(
                f"{self._path}: it does not fit its seal, so it was changed or damaged; export the case again, or restore "
                "the file from a copy"
            )

    def _case(self, head: Mapping[str, Any]) -> ToldCase:
        about = self._next()
        place = self._place
        events = [self._event(about, head, number) for number in range(1, about["events"] + 1)]
        if not events or not isinstance(events[0], CaseStarted):
            raise self.wrong(f"the log of case {about.get('case')!r} does not begin with CASE_STARTED")
        self._check_turns(events, place)
        case = ToldCase(events, {str(key): int(seq) for key, seq in about["inputs"].items()})
        state = case.state
        if _about(case, state) != about:
            raise self.wrong(f"what its events come to is not what is said of case {state.id!r}")
        if state.status.ended and not isinstance(events[-1], CaseEnded):
            raise self.wrong(f"case {state.id!r} goes on behind its end")
        return case

    def _event(self, about: Mapping[str, Any], head: Mapping[str, Any], version: int) -> Event:
        line = self._lines[self._place]
        self._place += 1
        event = event_from_json(line)
        if isinstance(event, UnknownEvent) and event.type in EVENT_TYPES:
            raise self.wrong(f"this is no {event.type}")
        said = (event.case, event.definition, event.tenant, event.version)
        if said != (about["case"], about["definition"], head["tenant"], version):
            raise self.wrong(f"this is no event {version} of case {about['case']!r} of tenant {head['tenant']!r}")
        if not 0 <= event.cause < version:
            raise self.wrong(f"event {version} follows from event {event.cause}, which it cannot")
        return event

    def _check_turns(self, events: Iterable[Event], place: int) -> None:
        """Events of a turn have its time, turns and positions go up."""
        turn, seq, at = 0, 0, None
        for self._place, event in enumerate(events, place + 1):
            same = event.turn == turn and event.at == at
            if not (same or (event.turn > turn and (at is None or event.at >= at))) or event.seq <= seq:
                raise self.wrong(f"event {event.version} does not follow the one before it in turn, time and position")
            turn, seq, at = event.turn, event.seq, event.at
