"""The command `casehub`: an operator's and a developer's way to cases, in a terminal and in scripts.

A command's module is imported when the command is called, so that `casehub --help` and completion are quick. What is
printed is the answer, on standard output; what went wrong is one line, on the error stream, and the exit code says of
what kind (`casehub.problems`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from cyclopts import App, CycloptsError, Parameter
from pydantic_core import to_json
from rich.console import Console

from casehub.cli.slips import usage
from casehub.cli.text import note, shown
from casehub.errors import CaseHubError
from casehub.lookup import is_there, release
from casehub.problems import Exit, kind_of, problem, text_of

app = App(
    name="casehub",
    help="A reactive blackboard engine: start cases, follow them, steer them.",
    version=release,
    help_format="plaintext",
    console=Console(emoji=False, highlight=False),  # a table of all emojis takes a while to load
    default_parameter=Parameter(negative="", show_default=False),
    help_epilogue="""Begin with:
  casehub up examples.claim:claim
and, in another terminal:
  casehub case start claim document="Ada met Grace" --wait

Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 conflict or wrong status,
5 not allowed, 6 timed out, 7 not reachable or owned by another process,
8 definition invalid""",
)
case = App(
    name="case",
    help="Start, follow and steer cases.",
    help_epilogue="Each has its own --help, with examples.",
    sort_key=1,
)
events = App(
    name="events", help="Read the event log.", help_epilogue="Each has its own --help, with examples.", sort_key=2
)
definitions = App(
    name="def",
    help="Look at definitions: validate, show, draw, compare, rehearse, migrate them.",
    help_epilogue="Each has its own --help, with examples.",
    sort_key=2,
)
db = App(
    name="db", help="Look after the database.", help_epilogue="Each has its own --help, with examples.", sort_key=3
)

app.command(
    "casehub.cli.up:app", name="up", help="Work cases in this process: engine, database, control socket.", sort_key=0
)
quarantine = App(
    name="quarantine",
    help="Look after workers that keep failing.",
    help_epilogue="Each has its own --help, with examples.",
    sort_key=4,
)
letters = App(
    name="dead-letters",
    help="Look after activations that ended in a fault.",
    help_epilogue="Each has its own --help, with examples.",
    sort_key=4,
)

tasks = App(
    name="task",
    help="What people have to do: list, take, answer, hand on.",
    help_epilogue="Each has its own --help, with examples.",
    sort_key=2,
)

retention = App(
    name="retention",
    help="Retire cases that ended long ago.",
    help_epilogue="Each has its own --help, with examples.",
    sort_key=4,
)

app.command(case)
app.command(events)
app.command(definitions)
app.command(db)
app.command(
    "casehub.cli.brake:suspend_app",
    name="suspend",
    help="Pull the brake: nothing new starts in many cases.",
    sort_key=6,
)
app.command("casehub.cli.brake:resume_app", name="resume", help="Release the brake.", sort_key=7)
app.command(letters)
app.command(quarantine)
app.command(tasks)
app.command(retention)
app.command("casehub.cli.doctor:app", name="doctor", help="Look over everything that is needed.", sort_key=5)

case.command("casehub.cli.starting:start_app", name="start", help="Start a case.", sort_key=0)
case.command("casehub.cli.cases:list_app", name="list", help="List cases, the latest started first.", sort_key=1)
case.command(
    "casehub.cli.cases:show_app",
    name="show",
    help="Show a case: where it stands, its facts, what runs, and what holds it up.",
    sort_key=2,
)
case.command("casehub.cli.history:watch_app", name="watch", help="Follow a case, or all, live.", sort_key=3)
case.command("casehub.cli.verbs:signal_app", name="signal", help="Bring facts to a case from outside.", sort_key=4)
case.command(
    "casehub.cli.cases:facts_app",
    name="facts",
    help="Show the facts of a case, or one with its history or its causes.",
    sort_key=5,
)
case.command(
    "casehub.cli.cases:explain_app",
    name="explain",
    help="Say of each binding why it does, or does not, fire now.",
    sort_key=6,
)
case.command(
    "casehub.cli.planning:plan_app",
    name="plan",
    help="Show the plan of a case: focus, stages, milestones, notes, what is pending, runs, and ran.",
    sort_key=6,
)
case.command(
    "casehub.cli.planning:agenda_app",
    name="agenda",
    help="Show what a case may do next: pending items, highest priority first, then oldest.",
    sort_key=6,
)
case.command(
    "casehub.cli.deciding:decisions_app",
    name="decisions",
    help="Show what was eligible, chosen and dropped in each decision of a case, and why.",
    sort_key=6,
)
case.command(
    "casehub.cli.verbs:suspend_app",
    name="suspend",
    help="Hold a case: nothing new starts until it is resumed.",
    sort_key=7,
)
case.command("casehub.cli.verbs:resume_app", name="resume", help="Let a suspended case go on.", sort_key=8)
case.command("casehub.cli.verbs:unfault_app", name="unfault", help="Let a faulted case go on.", sort_key=8)
case.command(
    "casehub.cli.rerouting:reroute_app",
    name="reroute",
    help="Give work to another worker of its capability.",
    sort_key=8,
)
case.command(
    "casehub.cli.compensating:compensate_app",
    name="compensate",
    help="Have something undone while its case goes on.",
    sort_key=8,
)
case.command(
    "casehub.cli.verbs:stage_app",
    name="stage",
    help="Activate, complete, terminate, fault, suspend or resume one stage.",
    sort_key=9,
)
case.command(
    "casehub.cli.verbs:cancel_app",
    name="cancel",
    help="End a case, and give what runs a moment to come to its end.",
    sort_key=10,
)
case.command(
    "casehub.cli.verbs:kill_app", name="kill", help="End a case now, and wait for nothing that runs.", sort_key=11
)

case.command(
    "casehub.cli.copying:fork_app",
    name="fork",
    help="Start a case that goes on from where another one was.",
    sort_key=12,
)
case.command("casehub.cli.copying:export_app", name="export", help="Write a case to a file.", sort_key=12)
case.command("casehub.cli.copying:import_app", name="import", help="Read a case from a file.", sort_key=12)

events.command("casehub.cli.history:list_app", name="list", help="List events, oldest first.", sort_key=0)
events.command(
    "casehub.cli.history:tail_app", name="tail", help="Show the last events, and those that come.", sort_key=1
)

db.command(
    "casehub.cli.standing:status_app", name="status", help="Say what is in the database: schema, sizes, cases, owner."
)
db.command("casehub.cli.backups:backup_app", name="backup", help="Copy the database while it is in use.")
db.command(
    "casehub.cli.database:check_app", name="check", help="Read the whole database and say what is wrong with it."
)
db.command("casehub.cli.database:migrate_app", name="migrate", help="Bring the schema of the database to this version.")

retention.command("casehub.cli.retiring:plan_app", name="plan", help="Say what is due to be retired.", sort_key=0)
retention.command("casehub.cli.retiring:run_app", name="run", help="Retire what is due, now.", sort_key=1)

for _place, (_name, _help) in enumerate(
    (
        ("list", "List what people have to do, over all cases."),
        ("show", "Show a task: what it asks for, what there is to see, its form and history."),
        ("claim", "Take a task."),
        ("release", "Give a task back, so that others can take it."),
        ("assign", "Give a task to somebody, whoever has it."),
        ("delegate", "Pass a task on that you have, or may take."),
        ("complete", "Answer a task that you have, or may take."),
        ("decline", "Refuse a task."),
        ("comment", "Write something beside an open task."),
    )
):
    tasks.command(f"casehub.cli.tasks:{_name}_app", name=_name, help=_help, sort_key=_place)

quarantine.command("casehub.cli.quarantine:list_app", name="list", help="List quarantined workers.", sort_key=0)
quarantine.command(
    "casehub.cli.quarantine:release_app", name="release", help="Let a worker be called again.", sort_key=1
)
letters.command("casehub.cli.letters:list_app", name="list", help="List dead letters, the latest first.", sort_key=0)
letters.command(
    "casehub.cli.letters:show_app", name="show", help="Show a dead letter, with what it ran on.", sort_key=1
)
letters.command(
    "casehub.cli.letters:retry_app", name="retry", help="Let its binding fire again, on edited facts too.", sort_key=2
)
letters.command(
    "casehub.cli.letters:discard_app", name="discard", help="Settle the failure: nobody will try again.", sort_key=3
)

for _place, (_name, _about) in enumerate(
    {
        "validate": "Load definitions and say what is wrong with them.",
        "show": "Show everything that a definition says.",
        "diagram": "Draw a definition, as Mermaid or SVG.",
        "diff": "Say what differs between two definitions.",
        "test": "Play cases of a definition with made-up answers of its workers.",
        "schema": "Print the JSON Schema of definitions in YAML, for editors.",
    }.items()
):
    definitions.command(f"casehub.cli.definitions:{_name}_app", name=_name, help=_about, sort_key=_place)
definitions.command(
    "casehub.cli.migrating:migrate_app",
    name="migrate",
    help="Let open cases adopt the definition that there is now.",
    sort_key=9,
)

if is_there("casehub.cli.logs"):
    events.command(
        "casehub.cli.logs:export_app",
        name="export",
        help="Write events in a form that process-mining tools read.",
        sort_key=2,
    )
    app.command("casehub.cli.logs:replay_app", name="replay-log", help="Feed a real event log into cases.", sort_key=4)

app.command(
    "casehub.cli.deciding:replay_app",
    name="replay",
    help="Put the decisions of a case to another strategy, as they were put to its own.",
    sort_key=4,
)

app.register_install_completion_command(help="Install shell completion for casehub.")

_VALUED: Final = ("--db", "--config", "--output", "-o", "--app", "--by", "--allow-code")
_FLAGS: Final = ("--no-color",)
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells have it."""


def main(tokens: Sequence[str] | None = None) -> None:
    """The console script: run a command and exit with its code."""
    code = run(sys.argv[1:] if tokens is None else tokens)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
    sys.exit(code)


def run(tokens: Sequence[str]) -> int:
    """Run a command; its exit code. What is expected to go wrong is told in a line."""
    tokens = ordered(tokens)
    try:
        result = app(
            list(tokens),
            exit_on_error=False,
            print_error=False,
            verbose=False,
            result_action="return_value",
            backend="asyncio",
        )
        return result if isinstance(result, int) else Exit.OK
    except BaseException as error:
        return _ended_by(_alone(error), tokens)


def ordered(tokens: Sequence[str]) -> list[str]:
    """The words with common options that stand before the command put behind it, where it takes them."""
    rest, moved = list(tokens), list[str]()
    while rest and rest[0].partition("=")[0] in (*_VALUED, *_FLAGS):
        words = 1 if "=" in rest[0] or rest[0] in _FLAGS else 2
        moved += rest[:words]
        rest = rest[words:]
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *moved, *rest[end:]]


def _ended_by(error: BaseException, tokens: Sequence[str]) -> int:
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else Exit.FAILED
    if isinstance(error, BrokenPipeError):  # `| head` has seen enough
        return Exit.OK
    if isinstance(error, CycloptsError):
        error = usage(error)
    if not isinstance(error, CaseHubError | TimeoutError | PermissionError):
        raise error
    if _wants_json(tokens):
        note(to_json(problem(error)).decode())
    else:
        note("\n".join(shown(line) for line in f"error: {text_of(error)}".splitlines()))
    return kind_of(error).exit


def _alone(error: BaseException) -> BaseException:
    """The one error in a group of one, which task groups make."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _wants_json(tokens: Sequence[str]) -> bool:
    """Whether the output is for programs, of words that may be wrong."""
    for place, word in enumerate(tokens):
        name, _, value = word.partition("=")
        if name in ("-o", "--output") and (value or "".join(tokens[place + 1 : place + 2])) in ("json", "ndjson"):
            return True
        if word in ("-ojson", "-ondjson"):
            return True
    return False
