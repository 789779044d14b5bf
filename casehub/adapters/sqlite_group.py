"""One transaction of the SQLite store: what it looks up, and how its rows are written, with one call a table."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final

from casehub.adapters.group import Group, Key, KnownCase
from casehub.adapters.sqlite_tasks import write_tasks
from casehub.adapters.written import Where

_EVENT: Final = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_KIND: Final = "INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?)"
_BEGUN: Final = "INSERT INTO cases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_CHANGED: Final = (
    "UPDATE cases SET status = ?, stalled = ?, reason = ?, version = ?, seq = ?, changed_at = ? WHERE no = ?"
)
_LONGER: Final = "UPDATE cases SET version = ?, seq = ?, changed_at = ? WHERE no = ?"
_CONSUMED: Final = "INSERT INTO inputs VALUES (?, ?, ?, ?)"
_TIMER_SET: Final = "INSERT OR REPLACE INTO timers VALUES (?, ?, ?, ?)"
_TIMER_GONE: Final = "DELETE FROM timers WHERE tenant = ? AND case_id = ? AND timer = ?"
_TIMERS_GONE: Final = "DELETE FROM timers WHERE tenant = ? AND case_id = ?"
_BOOKMARK: Final = "INSERT OR REPLACE INTO subscribers VALUES (?, ?, ?)"
_SORT_IN: Final = "INSERT INTO events_by_kind SELECT kind, seq FROM events WHERE seq > ? ORDER BY kind, seq"
_MARK: Final = "INSERT INTO marks VALUES (?, ?)"
_FIND_CASE: Final = "SELECT no, version, seq, status, stalled, reason FROM cases WHERE tenant = ? AND case_id = ?"
_FIND_KEY: Final = 'SELECT seq FROM inputs WHERE tenant = ? AND case_id = ? AND "key" = ?'


@dataclass(eq=False, kw_only=True)
class SQLiteGroup(Group):
    """The rows of one transaction on a connection."""

    connection: sqlite3.Connection

    def find_case(self, where: Where) -> KnownCase | None:
        row = self.connection.execute(_FIND_CASE, where).fetchone()
        return None if row is None else KnownCase(*row)

    def find_key(self, key: Key) -> int | None:
        row = self.connection.execute(_FIND_KEY, key).fetchone()
        return None if row is None else int(row[0])

    def flush(self) -> None:
        many, known = self.connection.executemany, self.known
        if self.kinds:
            many(_KIND, self.kinds)
        if self.events:
            many(_EVENT, self.events)
        if self.begun:
            many(_BEGUN, self.begun_rows())
        if self.changed:
            many(
                _CHANGED,
                [
                    (case.status, case.stalled, case.reason, case.version, case.seq, case.changed_at, case.no)
                    for where, case in self.changed.items()
                    if where not in self.begun
                ],
            )
        if self.longer:
            many(
                _LONGER,
                [
                    (case.version, case.seq, case.changed_at, case.no)
                    for where, case in self.longer.items()
                    if where not in self.changed
                ],
            )
        if self.keys:
            many(_CONSUMED, [(*key, seq) for key, seq in self.keys.items()])
        if self.timers:
            many(_TIMER_SET, [(*timer, due) for timer, due in self.timers.items() if due is not None])
            many(_TIMER_GONE, [timer for timer, due in self.timers.items() if due is None])
        if self.ended:
            many(_TIMERS_GONE, self.ended)
        if self.tasks:
            write_tasks(self.connection, self.tasks.values())
        if self.bookmarks:
            many(_BOOKMARK, self.bookmarks)
        if self.mark_due:
            self.connection.execute(_SORT_IN, (known.marked,))
            self.connection.execute(_MARK, (known.high, known.seq))
            known.marked = known.seq
