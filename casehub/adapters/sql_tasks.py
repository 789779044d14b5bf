"""Human tasks in a database: one row a task, as its last event left it, and what it takes to list them.

`offers` has a row for each user, group or everybody that may see a task that is open, and none of those that have
ended: a list of what somebody has to do costs what is open for them, however long the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter

from casehub.adapters.sql_log import LogSession
from casehub.adapters.written import to_micros
from casehub.tasks import Task, TaskQuery, TaskStatus

_NEVER: Final = 2**62
_PLACE: Final = "SELECT rank, due, no FROM tasks WHERE tenant = ? AND task = ?"
_FIRST: Final = "SELECT rank, due, no, body FROM tasks WHERE {where} ORDER BY rank, due, no LIMIT :limit"

TASK: Final = TypeAdapter(Task)


def due_of(task: Task) -> int:
    """When it is due, for its order; beyond all times where it never is."""
    return _NEVER if task.due is None else to_micros(task.due)


def body_of(task: Task) -> str:
    """The task as JSON, without the facts that somebody else keeps."""
    return TASK.dump_json(task, exclude={"facts"}).decode()


def find_tasks(session: LogSession, query: TaskQuery) -> Sequence[Task]:
    """The tasks that a query means, in its order."""
    connection = session.connection
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
    values |= {"user": query.user, "who": session.these(query.who)}
    found: list[tuple[int, int, int, str]] = []
    for status in dict.fromkeys(query.statuses) or TaskStatus:  # each comes out of an index in its order
        own = [*where, f"status = '{status}'"]
        if status.ended:
            own += ["assignee = :user"] if query.user is not None else []
        else:
            own += [session.offered] if query.user is not None or query.groups is not None else []
            own += [session.mine] if query.user is not None else []
        found += connection.execute(_FIRST.format(where=" AND ".join(own)), values).fetchall()
    found.sort(key=lambda row: row[:3])
    return [TASK.validate_json(body) for *_, body in found[: max(query.limit, 0)]]
