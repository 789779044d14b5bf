"""Human tasks in a SQLite database: one row a task, as its last event left it, and what it takes to list them.

`offers` has a row for each user, group or everybody that may see a task that is open, and none of those that have
ended: a list of what somebody has to do costs what is open for them, however long the history.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import to_json

from casehub.adapters.written import to_micros
from casehub.tasks import Task, TaskQuery, TaskStatus

_NEVER: Final = 2**62
_FIND: Final = "SELECT no FROM tasks WHERE tenant = ? AND task = ?"
_CREATED: Final = """INSERT INTO tasks (tenant, case_id, task, definition, binding, status, assignee, rank, due, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_CHANGED: Final = "UPDATE tasks SET status = ?, assignee = ?, rank = ?, due = ?, body = ? WHERE no = ?"
_OFFER: Final = "INSERT INTO offers VALUES (?, ?, ?)"
_NO_OFFERS: Final = "DELETE FROM offers WHERE task_no = ?"
_PLACE: Final = "SELECT rank, due, no FROM tasks WHERE tenant = ? AND task = ?"
_FIRST: Final = "SELECT rank, due, no, body FROM tasks WHERE {where} ORDER BY rank, due, no LIMIT :limit"
_OFFERED: Final = (
    "no IN (SELECT task_no FROM offers WHERE tenant = :tenant AND who IN (SELECT value FROM json_each(:who)))"
)
_MINE: Final = (
    "(assignee = :user OR (assignee = '' AND NOT EXISTS "
    "(SELECT 1 FROM json_each(body, '$.declined_by') AS d WHERE d.value = :user)))"
)

_form: Final = TypeAdapter(Task)


def write_tasks(connection: sqlite3.Connection, tasks: Iterable[Task]) -> None:
    """Keep these tasks as they are now, within the transaction that is open."""
    for task in tasks:
        due = _NEVER if task.due is None else to_micros(task.due)
        body = _form.dump_json(task, exclude={"facts"}).decode()
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


def find_tasks(connection: sqlite3.Connection, query: TaskQuery) -> Sequence[Task]:
    """The tasks that a query means, in its order."""
    values: dict[str, Any] = {"tenant": query.tenant, "limit": max(query.limit, 0)}
    where = ["tenant = :tenant"]
    for column, value in (("task", query.task), ("case_id", query.case), ("definition", query.definition), ("binding", query.binding)):  # fmt: skip
        if value is not None:
            where.append(f"{column} = :{column}")
            values[column] = value
    if query.after is not None:
        place = connection.execute(_PLACE, (query.tenant, query.after)).fetchone()
        if place is None:
            return []
        where.append("(rank, due, no) > (:rank, :due, :no)")
        values |= dict(zip(("rank", "due", "no"), place, strict=True))
    values |= {"user": query.user, "who": to_json(query.who).decode()}
    found: list[tuple[int, int, int, str]] = []
    for status in dict.fromkeys(query.statuses) or TaskStatus:  # each comes out of an index in its order
        own = [*where, f"status = '{status}'"]
        if status.ended:
            own += ["assignee = :user"] if query.user is not None else []
        else:
            own += [_OFFERED] if query.user is not None or query.groups is not None else []
            own += [_MINE] if query.user is not None else []
        found += connection.execute(_FIRST.format(where=" AND ".join(own)), values).fetchall()
    found.sort(key=lambda row: row[:3])
    return [_form.validate_json(body) for *_, body in found[: max(query.limit, 0)]]
