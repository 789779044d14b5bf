"""What a case belongs to beyond this system: the trace of whoever started it (W3C Trace Context, `traceparent`).

It is in the log of the case and is inherited by its sub-cases, so what is done in weeks, by other processes, can still be
told to belong together.
"""

from __future__ import annotations

import re
from typing import Final

from opentelemetry.context import get_current
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from casehub.errors import InputRefusedError

_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_HEADER: Final = "traceparent"
_PROPAGATOR: Final = TraceContextTextMapPropagator()


def trace_of(given: str | None) -> str:
    """The trace that is meant: the one given, that of the current span without one, empty for none.

    Raises `InputRefusedError` for what is no `traceparent`.
    """
    if given is None:
        if not get_current():  # no context at all, which is found out more cheaply than that there is no span
            return ""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier.get(_HEADER, "")
    if given and not _PARENT.fullmatch(given):
        raise InputRefusedError(
            f"trace {given!r:.100} is no traceparent of W3C Trace Context; write 00-<32 hex digits>-<16 hex digits>-01"
        )
    return given
