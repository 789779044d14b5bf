"""How SQLite is asked for events: the statements that need its own SQL, and what keeps it on the right index."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic_core import to_json

from casehub.adapters.sql_log import RANGE, SURE, LogSession, Meaning
from casehub.lifecycle import CaseStatus

# The plus keeps SQLite from looking kinds up in an index where the rows that are read anyway are few.
_KIND: Final = "+e.kind IN (SELECT value FROM json_each(:kinds))"
_CASE: Final = "e.case_no IN (SELECT value FROM json_each(:cases))"
# By kind: the first of each kind up to the mark, and the first behind the mark; to sort all there are would cost the log.
_FIRST_BY_KIND: Final = (
    "e.seq IN (SELECT i.seq FROM json_each(:kinds) AS k CROSS JOIN events_by_kind AS i ON i.kind = k.value AND i.seq IN ("
    "SELECT i.seq FROM {source} WHERE i.kind = k.value AND {sorted} ORDER BY i.seq {order} LIMIT :limit) "
    "UNION ALL SELECT seq FROM ("
    "SELECT e.seq FROM events AS e WHERE e.seq > :mark AND {unsorted} ORDER BY e.seq {order} LIMIT :limit))"
)
_COUNT_BY_KIND: Final = (
    "SELECT {group}, sum(number) FROM (SELECT {column} AS {group}, count(*) AS number FROM {source} "
    "WHERE i.kind IN (SELECT value FROM json_each(:kinds)) AND {sorted} GROUP BY 1 "
    "UNION ALL SELECT e.{group}, count(*) FROM events AS e WHERE e.seq > :mark AND {unsorted} GROUP BY 1) GROUP BY 1"
)
_SORTED: Final = "events_by_kind AS i"
_SORTED_EVENTS: Final = "events_by_kind AS i CROSS JOIN events AS e ON e.seq = i.seq"
# An index has those that carry a confidence, and they alone.
_SURE_BY_KIND: Final = (
    "e.seq IN (SELECT s.seq FROM events AS s INDEXED BY events_by_confidence "
    "WHERE s.kind IN (SELECT value FROM json_each(:kinds)) AND s.confidence IS NOT NULL AND {sure})"
)
_OFFERED: Final = (
    "no IN (SELECT task_no FROM offers WHERE tenant = :tenant AND who IN (SELECT value FROM json_each(:who)))"
)
_MINE: Final = (
    "(assignee = :user OR (assignee = '' AND NOT EXISTS "
    "(SELECT 1 FROM json_each(body, '$.declined_by') AS d WHERE d.value = :user)))"
)


class Session(LogSession):
    """Asks a SQLite database."""

    connection: sqlite3.Connection
    begin = "BEGIN"
    events = (
        'SELECT e.seq, c.case_id, e.kind, e.version, e.turn, e.at, e."by", e.cause, e.body '
        "FROM events AS e CROSS JOIN cases AS c ON c.no = e.case_no WHERE {where} ORDER BY e.seq {order} LIMIT :limit"
    )
    of_kinds = _KIND
    of_cases = _CASE
    ordered = "case_id"
    offered = _OFFERED
    mine = _MINE

    def give_up(self) -> None:
        with suppress(sqlite3.Error):  # nothing was written
            self.connection.execute("COMMIT")

    def these(self, values: Sequence[int] | Sequence[str]) -> Any:
        return to_json(values).decode()

    def of_statuses(self, statuses: Sequence[CaseStatus]) -> str:
        named = ", ".join(f"'{status}'" for status in statuses)
        return f"+status IN ({named})"

    def first_of_kinds(self, meaning: Meaning, order: str) -> str:
        return _FIRST_BY_KIND.format(order=order, **self._clauses(meaning))

    def count_of_kinds(self, meaning: Meaning, group: str) -> str:
        by_kind = group == "kind"
        column = "i.kind" if by_kind else f"e.{group}"
        return _COUNT_BY_KIND.format(group=group, column=column, **self._clauses(meaning, not by_kind))

    def sure_of_kinds(self, where: str) -> str:
        return f"{_SURE_BY_KIND.format(sure=SURE.format(e='s'))} AND {where}"

    def _clauses(self, meaning: Meaning, source_needed: bool = False) -> dict[str, str]:
        """The parts of the statements that look by kind."""
        return {
            "source": _SORTED_EVENTS if meaning.more or source_needed else _SORTED,
            "sorted": RANGE.format(e="i") + meaning.more,
            "unsorted": f"{meaning.where} AND {_KIND}",
        }
