"""How human tasks are written to a SQLite database; `sql_tasks` says what is kept of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from casehub.adapters.sql_tasks import body_of, due_of
from casehub.tasks import Task

_FIND: Final = "SELECT no FROM tasks WHERE tenant = ? AND task = ?"
_CREATED: Final = """INSERT INTO tasks (tenant, case_id, task, definition, binding, status, assignee, rank, due, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_CHANGED: Final = "UPDATE tasks SET status = ?, assignee = ?, rank = ?, due = ?, body = ? WHERE no = ?"
_OFFER: Final = "INSERT INTO offers VALUES (?, ?, ?)"
_NO_OFFERS: Final = "DELETE FROM offers WHERE task_no = ?"


def write_tasks(connection: sqlite3.Connection, tasks: Iterable[Task]) -> None:
    """Keep these tasks as they are now, within the transaction that is open."""
    for task in tasks:
        due, body = due_of(task), body_of(task)
        found = connection.execute(_FIND, (task.tenant, task.id)).fetchone()
        if found is None:
            row = (task.tenant, task.case, task.id, task.definition, task.binding, task.status, task.assignee)
            no = connection.execute(_CREATED, (*row, -task.priority, due, body)).lastrowid
        else:
            (no,) = found
            connection.execute(_CHANGED, (task.status, task.assignee, -task.priority, due, body, no))
            connection.execute(_NO_OFFERS, (no,))
        if not task.status.ended:
            connection.executemany(_OFFER, [(task.tenant, who, no) for who in task.seen_by])
