"""Commands that look at the decisions of a case: `case decisions`, and `replay`, which puts them to another strategy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import App, Parameter

from casehub.cli.application import registry_of, structure_of
from casehub.cli.desk import known
from casehub.cli.loops import strategy_of
from casehub.cli.options import Common, Session, Working
from casehub.cli.output import Printer, progress
from casehub.decision import DecisionReplay
from casehub.errors import SettingsError, UnknownNameError
from casehub.hindsight import replay_decisions
from casehub.problems import Exit
from casehub.record import read_case

decisions_app = App(
    name="decisions",
    help_epilogue="""Examples:
  casehub case decisions ID
  casehub case decisions ID 3             # one, with all there is to it
  casehub case decisions ID -o json""",
)


@decisions_app.default
async def decisions_of_case(
    id: Annotated[str, Parameter(help="The case.")],
    number: Annotated[int | None, Parameter(help="One decision; all without it.")] = None,
    /,
    *,
    common: Common | None = None,
) -> None:
    """Show what was eligible, chosen and dropped in each decision of a case, and why."""
    session = Session(common)
    async with session.reading() as store:
        with known(session, id):
            record = await read_case(store, id, session.settings.tenant)
    decisions = record.decisions()
    if number is None:
        session.printer.items(
            (each.as_dict() for each in decisions),
            ("no", "time", "status", "eligible", "chosen", "seconds", "why"),
            _row,
            empty=f"no decision: {_UNASKED}",
        )
        return
    for decision in decisions:
        if decision.number == number:
            _one(session.printer, decision.as_dict())
            return
    raise UnknownNameError(f"case {id!r} has no decision {number}; it has {len(decisions)} of them")


_UNASKED = "no loop control that awaits was asked, so all that was eligible ran"


def _row(decision: Mapping[str, Any]) -> Sequence[object]:
    why = [decision["rationale"], decision["error"], *_outcomes(decision)]
    return (
        decision["number"],
        decision["at"],
        decision["status"],
        ", ".join(decision["eligible"]),
        ", ".join(decision["chosen"]),
        f"{decision['seconds']:.3g}",
        "; ".join(filter(None, why)),
    )


def _outcomes(decision: Mapping[str, Any]) -> Iterable[str]:
    yield from (f"dropped {name}: {reason}" for name, reason in decision["dropped"].items())
    yield from (f"forced {name}: {reason}" for name, reason in decision["forced"].items())


def _one(printer: Printer, decision: Mapping[str, Any]) -> None:
    """Print one decision with all there is to it."""
    if not printer.for_people:
        printer.document(decision)
        return
    about: list[tuple[str, object]] = [
        ("decision", decision["number"]),
        ("began", decision["at"]),
        ("took", f"{decision['seconds']:.3g} s"),
        ("status", decision["status"]),
    ]
    about += [(name.replace("_", " "), ", ".join(decision[name])) for name in _NAMES if decision[name]]
    about += [(what, text) for what in ("rationale", "error") if (text := decision[what])]
    about += [("", outcome) for outcome in _outcomes(decision)]
    about += [("about a stall", reason) for reason in decision["stalled"]]
    about += [("asked", _asked(inquiry)) for inquiry in decision["inquiries"]]
    if decision["inquiries_left_out"]:
        about.append(("asked", f"{decision['inquiries_left_out']} times more, which are not kept"))
    printer.table(("", ""), about, heading=False)


_NAMES = ("eligible", "chosen", "not_chosen", "fired")


def _asked(inquiry: Mapping[str, Any]) -> str:
    given = ", ".join([*inquiry["kinds"], *(f"{name}={value}" for name, value in inquiry["arguments"].items())])
    return f"{inquiry['verb']}({given}) as of {inquiry['as_of']}"


replay_app = App(
    name="replay",
    help_epilogue="""Examples:
  casehub replay ID --strategy mine.strategies:Cautious --app examples.loan:loan
  casehub replay ID --strategy blackboard_ext.strategies:OneAtATime -o json""",
)


@replay_app.default
async def replay(
    id: Annotated[str, Parameter(help="The case.")],
    /,
    *,
    strategy: Annotated[str, Parameter(help="The strategy, or what makes it: module:Class.")],
    common: Working | None = None,
) -> int:
    """Put the decisions of a case to another strategy, as they were put to its own.

    Queries of the strategy are answered as of the positions at which the decisions were taken. Shows the first
    difference, and ends with exit code 1 if there is one. Nothing is written.
    """
    session = Session(common)
    worked = session.worked
    if not worked.app:
        raise SettingsError("to replay decisions, the definition is needed; give --app module:attribute")
    loop = strategy_of(strategy)
    async with session.reading() as store:
        with known(session, id):
            record = await read_case(store, id, session.settings.tenant)
        registry = registry_of(worked.app, worked.allow_code)
        structure = structure_of(registry, worked.app, record.state)
        with progress(f"replaying {id}"):
            found = await replay_decisions(record.events, structure, loop, store.log, registry.versions)
    if not found.compared:
        raise UnknownNameError(
            f"case {id!r} has no decision that was answered, so there is nothing to replay; see 'casehub case decisions {id}'"
        )
    _show(session, found, strategy)
    return Exit.OK if found.agrees else Exit.FAILED


def _show(session: Session, found: DecisionReplay, strategy: str) -> None:
    printer = session.printer
    difference = found.difference
    passed_over = f"; {found.skipped} without an answer passed over" if found.skipped else ""
    if not printer.for_people:
        told: dict[str, Any] = {"strategy": strategy, "agrees": found.agrees, **asdict(found)}
        if difference is not None:
            told["difference"]["recorded"] = difference.recorded.as_dict()
        printer.document(told)
    elif difference is None:
        printer.say(f"{strategy} takes the same {found.compared} decisions{passed_over}")
    else:
        printer.say(f"{strategy} decides otherwise; before that, {found.compared - 1} the same{passed_over}")
        printer.say("")
        for line in str(difference).splitlines():
            printer.say(line)
        printer.say("")
        printer.say(f"all of it: {session.hint(f'case decisions {found.case} {difference.recorded.number}')}")
