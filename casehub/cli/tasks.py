"""Commands for human tasks: `task list` and `task show` read the file; the others act on a task, as somebody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.adapters.codec import as_dict
from casehub.cli.application import hub_of
from casehub.cli.desk import desk, known
from casehub.cli.happening import COLUMNS, told
from casehub.cli.options import Acting, Common, Session, Working
from casehub.cli.output import progress
from casehub.cli.text import compact
from casehub.cli.words import answer_of, task_statuses_of
from casehub.control_tasks import RemoteWorklist, task_json
from casehub.errors import SettingsError, TaskNotFoundError
from casehub.events import CaseId
from casehub.hub import CaseHub
from casehub.humantask import person_of
from casehub.query import EventQuery, concrete
from casehub.record import read_case
from casehub.task_events import HumanTaskEvent, TaskId
from casehub.tasks import Task, TaskQuery
from casehub.worklist import OPEN, Worklist, case_of, shown_with, with_form

Id = Annotated[str, Parameter(help="The task: CASE/BINDING/NUMBER.")]
Groups = Annotated[
    list[str] | None,
    Parameter(name="--group", negative="", help="A group that who acts is in; several times for several. Not checked without."),
]  # fmt: skip
Key = Annotated[str, Parameter(help="Makes it safe to repeat.")]
Tasks = Worklist | RemoteWorklist

list_app = App(
    name="list",
    help_epilogue="""Examples:
  casehub task list
  casehub task list --user ada --group underwriters
  casehub task list --group underwriters --status open
  casehub task list --status completed --user ada -o ndjson
  casehub task list --after ID            # the next page""",
)


@list_app.default
async def list_tasks(
    *,
    user: Annotated[str | None, Parameter(help="Only what this person has or, with --group, may take.")] = None,
    group: Annotated[list[str] | None, Parameter(name="--group", negative="", help="Only what is for this group.")] = None,
    status: Annotated[list[str] | None, Parameter(help="Only these, or all; open and claimed by default.")] = None,
    definition: Annotated[str | None, Parameter(help="Only of cases of this definition.")] = None,
    binding: Annotated[str | None, Parameter(help="Only of this binding.")] = None,
    case: Annotated[str | None, Parameter(help="Only of this case.")] = None,
    limit: Annotated[int, Parameter(help="At most this many.", show_default=True)] = 50,
    after: Annotated[str | None, Parameter(help="The id of the task to go on behind.")] = None,
    common: Common | None = None,
) -> None:  # fmt: skip
    """List what people have to do, over all cases, the most urgent first."""
    session = Session(common)
    if limit < 1:
        raise SettingsError(f"--limit {limit}: at least 1")
    query = TaskQuery(
        tenant=session.settings.tenant,
        user=None if user is None else person_of(user),
        groups=None if group is None else tuple(group),
        statuses=OPEN if status is None else task_statuses_of(status),
        definition=definition,
        binding=binding,
        case=None if case is None else CaseId(case),
        after=None if after is None else TaskId(after),
        limit=limit + 1,
    )
    async with session.reading() as store:
        found = await store.log.tasks(query)
    more = found[limit - 1].id if len(found) > limit else None
    columns = ("task", "status", "assignee", "for", "priority", "due", "title")
    session.printer.items(map(_plain, found[:limit]), columns, _row, more=more, empty="no tasks")
    if more is not None:
        session.printer.say(f"more with: {session.hint('task list')} --after {more}")


def _plain(task: Task) -> dict[str, Any]:
    """A task of a list, for programs: without what `task show` adds."""
    return {name: value for name, value in task_json(task).items() if name not in ("form", "facts")}


def _row(item: Mapping[str, Any]) -> Sequence[object]:
    due = f"{str(item['due'])[:16]}Z".replace("T", " ") if item["due"] else ""
    late = f"{due} (overdue)" if item["overdue"] else due
    return (item["id"], item["status"], item["assignee"], _candidates(item), item["priority"], late, item["title"])


def _candidates(item: Mapping[str, Any]) -> str:
    return ", ".join((*item["users"], *item["groups"])) or "anybody"


show_app = App(
    name="show",
    help_epilogue="""The form of the answer is shown where the definition is known: give --app.

Examples:
  casehub task show ID
  casehub task show ID --app examples.loan:loan -o json""",
)


@show_app.default
async def show_task(id: Id, /, *, common: Working | None = None) -> None:
    """Show a task: what it asks for, what there is to see with it, its form and its history."""
    session = Session(common)
    settings, printer = session.settings, session.printer
    case = case_of(id)
    async with session.reading() as store:
        with known(session, case):
            record = await read_case(store, case, settings.tenant)
        found = await store.log.tasks(TaskQuery(tenant=settings.tenant, task=TaskId(id), limit=1))
        if not found:
            raise TaskNotFoundError(f"case {case!r} has no task {id!r}; list them with '{session.hint('task list')}'")
        types = concrete([HumanTaskEvent])
        events = await store.log.query(EventQuery(types=types, tenant=settings.tenant, case=case))
    history = [event for event in events if isinstance(event, HumanTaskEvent) and event.task == id]
    (task,) = found
    worked = session.worked
    if worked.app:
        hub = hub_of(worked.app, "memory://", loop=worked.loop, allow_code=worked.allow_code)
        task = with_form(task, hub.registry)
    item = {**task_json(task), "facts": shown_with(task, record.state)}
    if not printer.for_people:
        printer.document({**item, "history": [as_dict(event) for event in history]})
        return
    about: list[tuple[str, object]] = [("task", task.id), ("title", task.title), ("status", task.status)]
    about += [(name, item[name]) for name in ("description", "assignee", "delegator", "reason") if item[name]]
    about += [("for", _candidates(item)), ("priority", task.priority)]
    times = ("created_at", "due", "follow_up", "escalates", "expires")
    about += [(name.removesuffix("_at").replace("_", " "), value) for name in times if (value := getattr(task, name))]
    about += [("fact", f"{name} = {compact(value, 100)}") for name, value in item["facts"].items()]
    about += [("field", line) for line in _fields(task.form)]
    about += [("answer", compact(task.answer, 0))] if task.answer is not None else []
    printer.table(("", ""), about, heading=False)
    printer.say("")
    printer.items(map(as_dict, history), COLUMNS, told)


def _fields(form: Mapping[str, Any]) -> list[str]:
    """The fields of a form, a line each, in words."""
    needed = form.get("required", ())
    return [
        f"{name}: {field.get('type', 'see -o json')}{'' if name in needed else ', optional'}{_said(field)}"
        for name, field in form.get("properties", {}).items()
    ]


def _said(field: Mapping[str, Any]) -> str:
    return f" - {field['description']}" if field.get("description") else ""


claim_app = App(
    name="claim",
    help_epilogue="""Example:
  casehub task claim ID --by user:ada --group underwriters""",
)


@claim_app.default
async def claim_task(id: Id, /, *, group: Groups = None, key: Key = "", common: Acting | None = None) -> None:
    """Take a task."""
    session = Session(common)
    await _act(session, id, lambda tasks: tasks.claim(id, by=session.by, groups=group, key=key))


release_app = App(
    name="release",
    help_epilogue="""Example:
  casehub task release ID --by user:ada""",
)


@release_app.default
async def release_task(id: Id, /, *, key: Key = "", common: Acting | None = None) -> None:
    """Give a task back, so that others can take it."""
    session = Session(common)
    await _act(session, id, lambda tasks: tasks.release(id, by=session.by, key=key))


assign_app = App(
    name="assign",
    help_epilogue="""Example:
  casehub task assign ID grace --by user:boss""",
)


@assign_app.default
async def assign_task(
    id: Id, to: Annotated[str, Parameter(help="Who gets it.")], /, *, key: Key = "", common: Acting | None = None
) -> None:
    """Give a task to somebody, whoever has it."""
    session = Session(common)
    await _act(session, id, lambda tasks: tasks.assign(id, to, by=session.by, key=key))


delegate_app = App(
    name="delegate",
    help_epilogue="""Example:
  casehub task delegate ID grace --by user:ada""",
)


@delegate_app.default
async def delegate_task(
    id: Id,
    to: Annotated[str, Parameter(help="Who gets it.")],
    /,
    *,
    group: Groups = None,
    key: Key = "",
    common: Acting | None = None,
) -> None:
    """Pass a task on that you have, or may take."""
    session = Session(common)
    await _act(session, id, lambda tasks: tasks.delegate(id, to, by=session.by, groups=group, key=key))


complete_app = App(
    name="complete",
    help_epilogue="""An answer that does not fit the form is refused field by field, and the task
stays as it was. Without a running 'casehub up' the case is worked here until
it rests.

Examples:
  casehub task complete ID approved=true why="as agreed" --by user:ada
  casehub task complete ID --data answer.json
  casehub task complete ID --value 3              # a form without fields""",
)


@complete_app.default
async def complete_task(
    id: Id,
    /,
    *fields: Annotated[str, Parameter(help="A field of the form: name=value, the value as JSON or text.")],
    data: Annotated[str | None, Parameter(help="The answer in a file with JSON; - for standard input.")] = None,
    value: Annotated[str | None, Parameter(help="The whole answer, as JSON or text.")] = None,
    group: Groups = None,
    key: Key = "",
    common: Acting | None = None,
) -> None:
    """Answer a task that you have, or may take."""
    session = Session(common)
    answer = answer_of(fields, data, value)

    def answered(tasks: Tasks) -> Awaitable[Task]:
        return tasks.complete(id, answer, by=session.by, groups=group, key=key)

    await _act(session, id, answered, works=True)


decline_app = App(
    name="decline",
    help_epilogue="""What follows is the definition's to say. Without a running 'casehub up' the
case is worked here until it rests.

Example:
  casehub task decline ID --reason "not my client" --by user:ada""",
)


@decline_app.default
async def decline_task(
    id: Id,
    /,
    *,
    reason: Annotated[str, Parameter(help="Why; it is kept in the log.")] = "",
    group: Groups = None,
    key: Key = "",
    common: Acting | None = None,
) -> None:
    """Refuse a task."""
    session = Session(common)
    await _act(session, id, lambda tasks: tasks.decline(id, reason, by=session.by, groups=group, key=key), works=True)


comment_app = App(
    name="comment",
    help_epilogue="""Example:
  casehub task comment ID "see page 3" --by user:ada""",
)


@comment_app.default
async def comment_task(
    id: Id, text: Annotated[str, Parameter(help="What to say.")], /, *, key: Key = "", common: Acting | None = None
) -> None:
    """Write something beside an open task."""
    session = Session(common)
    await _act(session, id, lambda tasks: tasks.comment(id, text, by=session.by, key=key))


async def _act(session: Session, id: str, verb: Callable[[Tasks], Awaitable[Task]], *, works: bool = False) -> None:
    case = case_of(id)
    async with desk(session) as at:
        if isinstance(at.hub, CaseHub) and not works:
            await at.hub.drain("0s")  # nothing of the case is to be started for the time of the verb
        with known(session, case):
            task = await verb(at.hub.tasks)
            if isinstance(at.hub, CaseHub) and works:
                with progress(f"case {case}: working"):
                    await at.hub.case(case).quiescent()
        record = await at.record(case)
    printer = session.printer
    if not printer.for_people:
        printer.document(_plain(task))
    else:
        who = f", {task.assignee}" if task.assignee else ""
        stands = "stalled" if record.state.stalled else record.state.status
        printer.say(f"task {task.id}: {task.status}{who}; case {case}: {stands}")
