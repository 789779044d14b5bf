"""What there is in a database, counted: for people who look after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from casehub.adapters.group import POSITION
from casehub.adapters.sql_log import CASE_COLUMNS, LogSession, summary_of
from casehub.adapters.written import from_micros
from casehub.lifecycle import CaseStatus
from casehub.query import CaseSummary
from casehub.spi import Retired

_BY_STATUS: Final = "SELECT status, count(*) FROM cases GROUP BY status"
_FIRST: Final = "SELECT min(no) FROM cases WHERE status = ?"
_CASE: Final = f"SELECT {CASE_COLUMNS} FROM cases WHERE no = ?"  # noqa: S608 - names of columns
_RETIRED: Final = "SELECT coalesce(sum(cases), 0), coalesce(sum(events), 0), max(ran_at) FROM retired"
_COUNT: Final = "SELECT count(*) FROM {table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A database in figures, over all tenants. `sizes` in bytes; `rows` by table; `cases` by status; `position`: the last."""

    sizes: Mapping[str, int]
    rows: Mapping[str, int]
    cases: Mapping[CaseStatus, int]
    position: int
    oldest_open: CaseSummary | None
    retired: Retired


def take(session: LogSession, sizes: Mapping[str, int], tables: Sequence[str]) -> Inventory:
    """Count what there is, all of it from one snapshot of the database."""
    ask = session.connection.execute
    by_status = {CaseStatus(status): int(count) for status, count in ask(_BY_STATUS).fetchall()}
    open = [ask(_FIRST, (status,)).fetchone()[0] for status in by_status if not status.ended]
    oldest = min((no for no in open if no is not None), default=None)
    cases, events, ran_at = ask(_RETIRED).fetchone()
    return Inventory(
        sizes=sizes,
        rows={table: int(ask(_COUNT.format(table=table)).fetchone()[0]) for table in sorted(tables)},
        cases={status: by_status[status] for status in CaseStatus if status in by_status},
        position=int(ask(POSITION).fetchone()[0]),
        oldest_open=None if oldest is None else summary_of(ask(_CASE, (oldest,)).fetchone()),
        retired=Retired(int(cases), int(events), None if ran_at is None else from_micros(ran_at)),
    )
