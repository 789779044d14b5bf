"""What a snapshot keeps of a case, as two lines of JSON, and how a case is brought back from it.

The first line says what the second one is: `schema`, `shape` and `control` (what the state and the control state of its
loop control look like), `sha256` of the second line, `seq` (the global position of the last event), `structure`. The
second line has the state and the control state. No class, module or function is named in it, and nothing but the fields
of the state's own classes is made of it.

What is not as it has to be is refused with the reason: the log has it all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from casehub.dataform import form_of
from casehub.envelope import UnknownEvent
from casehub.errors import FactError, SnapshotError
from casehub.events import CaseId
from casehub.spi import KeepsControl, LoopControl
from casehub.state import CaseState

CONTENT_TYPE: Final = "application/vnd.casehub.case+ndjson"
SCHEMA: Final = 1
"""Raised when the fold makes something else of the same events. What the state looks like is in `shape`."""

_FORM: Final = form_of(CaseState)
_SHAPE: Final = sha256(_FORM.shape.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Kept:
    """A case as a snapshot has it: its state, and the global position of the last event that is in it."""

    state: CaseState
    seq: int


def control_of(loop: LoopControl) -> str | None:
    """What the control state of a loop control looks like; empty where there is none, None where it cannot be kept."""
    if isinstance(loop, KeepsControl):
        return loop.control_form
    return None if loop.handles else ""


def keep(state: CaseState, loop: LoopControl, seq: int) -> bytes | None:
    """The state of a case at the end of its log, whose last event is at `seq`; None where it can only be folded.

    That is with a loop control whose control state cannot be kept, and with events of a kind that this process does not
    know: one that does folds more of them. Raises `FactError` for a control state that is not plain.
    """
    control = control_of(loop)
    if control is None or UnknownEvent.name in state.occurrences:
        return None
    held = loop.dump_control(state.control) if isinstance(loop, KeepsControl) else None
    try:
        body = to_json({"state": _FORM.plain(replace(state, control=None)), "control": held}, inf_nan_mode="constants")
    except PydanticSerializationError as error:
        raise FactError(
            f"control state of {type(loop).__name__} is not plain: {error}; mend its dump_control"
        ) from None
    head = {
        "schema": SCHEMA,
        "shape": _SHAPE,
        "control": control,
        "sha256": sha256(body).hexdigest(),
        "seq": seq,
        "structure": state.structure,
    }
    return b"%s\n%s\n" % (to_json(head), body)


def bring_back(payload: bytes, case: CaseId, tenant: str, loop: LoopControl) -> Kept:
    """The case that `keep` kept. Raises `SnapshotError` with the reason for what is of another schema, or damaged."""
    line, _, body = payload.partition(b"\n")
    head = _parsed(line)
    if not isinstance(head, dict) or type(seq := head.get("seq")) is not int:
        raise SnapshotError("its first line says nothing of what is in it")
    for what, mine in (("schema", SCHEMA), ("shape", _SHAPE), ("control", control_of(loop))):
        if head.get(what) != mine:
            raise SnapshotError(f"its {what} is {head.get(what)!r:.40}, and this CaseHub's is {mine!r:.40}")
    body = body.removesuffix(b"\n")
    if head.get("sha256") != sha256(body).hexdigest():
        raise SnapshotError("its checksum does not fit what is in it")
    data = _parsed(body)
    try:
        state: CaseState = _FORM.load(data["state"])
        if isinstance(loop, KeepsControl):
            state.control = loop.load_control(data["control"])
    except Exception as error:  # the loop control's own code may raise anything
        raise SnapshotError(f"what is in it is no case: {type(error).__name__}: {error}") from error
    if (state.id, state.tenant) != (case, tenant):
        raise SnapshotError(f"it is of case {state.id!r} of {state.tenant!r}")
    return Kept(state, seq)


def _parsed(line: bytes) -> Any:
    try:
        return from_json(line)
    except ValueError as error:
        raise SnapshotError(f"it is no JSON: {error}") from None
