"""The keys of a definition in YAML: what each takes and means. Reading and the JSON Schema for editors both go by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from casehub.activities import COMPLETE
from casehub.policies import OnOutcome, Refire
from casehub.schedule import CatchUp
from casehub.stage import StageFault
from casehub.subcase import Rest


class Takes(StrEnum):
    """What the value of a key is."""

    TEXT = "text"
    NAMES = "a name or a list of names"
    INTEGER = "a whole number"
    NUMBER = "a number"
    FLAG = "true or false"
    DURATION = "a duration such as 90s, 2h30m or 7d"
    WHEN = "a duration such as 2d, or a time with a time zone"
    CHOICE = "a choice"
    REFERENCE = "module:name"
    REFERENCES = "module:name, or a list of these"
    TYPE = "a type"
    SAID = "text, a list of names, or a mapping with an expression"
    TYPES = "names of facts with their types"
    BROUGHT = "names of facts, with their types or as a list"
    CONDITION = "a condition"
    CONDITIONS = "a list of conditions"
    GOAL = "a goal, or all_of or any_of with a list of goals"
    EXPRESSIONS = "names of facts with expressions"
    FUNCTIONS = "names of facts with module:name"
    CONFIDENCES = "names of facts with a number from 0 to 1"
    SCHEDULES = "a list of times"
    ANYTHING = "any value"
    ONE = "a mapping"
    MANY = "names with a mapping each"


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `choices`: of a choice; `section`: of what its mapping has; `short`: what may stand instead of it."""

    takes: Takes
    about: str
    required: bool = False
    choices: tuple[str, ...] = ()
    section: str = ""
    short: Takes | None = None


def _choice(about: str, choices: type[StrEnum]) -> Key:
    return Key(Takes.CHOICE, about, choices=tuple(each.value for each in choices))


def _computed(fixed: Takes, about: str) -> Key:
    """What stands there, or a mapping with the expression that comes to it."""
    return Key(Takes.ONE, about, section="expression", short=fixed)


MERGES: Final = ("last_writer_wins", "first_writer_wins", "fail", "deep_merge")
LANGUAGES: Final = ("cel", "jq")

_OPTIONS: Final = {
    "when": Key(Takes.CONDITION, "Its guard: it fires only while this holds."),
    "on": Key(
        Takes.ONE,
        "What makes it come up: facts that count as changed, events, signals.",
        section="trigger",
        short=Takes.NAMES,
    ),
    "refire": _choice("When it may fire again.", Refire),
    "limit": Key(Takes.INTEGER, "How often it may fire in a case."),
    "merge": Key(
        Takes.TEXT, f"What happens to a fact that changed meanwhile: {', '.join(MERGES)}, or module:function."
    ),
    "retry": Key(
        Takes.ONE,
        "How failed attempts are repeated; a number is that of attempts.",
        section="retry",
        short=Takes.INTEGER,
    ),
    "timeout": Key(Takes.DURATION, "How long an attempt may take."),
    "on_failed": _choice("What follows when an attempt fails.", OnOutcome),
    "on_declined": _choice("What follows when a worker declines.", OnOutcome),
    "on_expired": _choice("What follows when an attempt takes too long.", OnOutcome),
    "on_exhausted": _choice("What follows when nothing is left to try.", OnOutcome),
    "priority": Key(Takes.INTEGER, "For loop controls that weigh: higher comes first."),
    "cost": Key(Takes.NUMBER, "For planners: a weight without a unit."),
    "value": Key(Takes.NUMBER, "What its work is worth, for loop controls that weigh."),
    "needs": Key(Takes.NAMES, "The conditions without which it does not fire."),
    "brings": Key(Takes.NAMES, "The conditions that hold when it has completed."),
    "estimate": Key(Takes.ONE, "What an attempt is expected to charge, reserved before it runs.", section="budget"),
    "budget": Key(Takes.ONE, "What all its attempts in a case may spend.", section="budget"),
    "quarantine": Key(Takes.ONE, "When its workers are left alone, as they keep failing.", section="quarantine"),
    "compensates": Key(Takes.TEXT, "The binding whose work it undoes; then it runs for no other reason."),
}

_SCHEDULE: Final = {
    "after": Key(Takes.DURATION, "Once, a span after the binding has come into force."),
    "at": Key(
        Takes.TEXT, "Once, at a moment such as 2030-01-01T09:00:00Z, or at the one that a fact of this name holds."
    ),
    "every": Key(Takes.DURATION, "Again and again, a span apart."),
    "cron": Key(Takes.TEXT, "At the times of a cron expression: minute, hour, day of month, month, day of week."),
    "tz": Key(Takes.TEXT, "The time zone of cron, such as Europe/Berlin; UTC without it."),
    "since": Key(Takes.TEXT, "The fact or milestone that after is counted from."),
    "catch_up": _choice("What becomes of times that nobody could take.", CatchUp),
}

SECTIONS: Final[Mapping[str, Mapping[str, Key]]] = {
    "definition": {
        "case": Key(Takes.TEXT, "The name of the definition.", required=True),
        "title": Key(Takes.TEXT, "What people call it."),
        "expressions": Key(Takes.CHOICE, "The language of expressions that do not say theirs.", choices=LANGUAGES),
        "inputs": Key(Takes.TYPES, "The facts that a case starts with."),
        "facts": Key(Takes.TYPES, "The types of facts that workers write."),
        "signals": Key(Takes.BROUGHT, "Facts that somebody may bring later."),
        "external": Key(Takes.BROUGHT, "Facts that other systems bring later."),
        "resources": Key(Takes.REFERENCES, "Async generators that open what workers share."),
        "serializers": Key(
            Takes.REFERENCES, "Classes, or functions without parameters, of what stores some facts otherwise."
        ),
        "upcasts": Key(Takes.FUNCTIONS, "Functions that make of old values of a fact what its type reads."),
        "workers": Key(Takes.MANY, "What is done: code, or facts computed by expressions.", section="worker"),
        "bindings": Key(Takes.MANY, "Conditions under which a worker of a capability runs.", section="binding"),
        "conditions": Key(
            Takes.MANY, "Conditions that workers need and bring.", section="named_condition", short=Takes.CONDITION
        ),
        "milestones": Key(Takes.MANY, "What is reached on the way.", section="milestone", short=Takes.CONDITION),
        "goals": Key(Takes.MANY, "What a case is for.", section="goal", short=Takes.CONDITION),
        "stages": Key(Takes.MANY, "Parts of a case that are entered, worked and left.", section="stage"),
        "goal": Key(Takes.GOAL, "What completes a case."),
        "done_when": Key(Takes.CONDITION, "A condition that completes a case, instead of goals."),
        "at_quiescence": Key(Takes.FLAG, "Whether a case completes when nothing is left to do."),
        "budget": Key(Takes.ONE, "What a case may spend.", section="budget"),
        "limits": Key(Takes.ONE, "Bounds of a case.", section="limits"),
        "compensation": Key(Takes.ONE, "When a case undoes what it did.", section="compensation"),
        "protected": Key(Takes.NAMES, "Facts that clearing the context leaves."),
        "flags": Key(Takes.NAMES, "Facts that mark a case for somebody's attention."),
        "activities": Key(Takes.MANY, "What the activities of another system's log mean here.", section="activity"),
        "strict": Key(Takes.FLAG, "Whether a fact that is read has to be written by somebody."),
    },
    "worker": {
        "run": Key(Takes.REFERENCE, "The Python function that does it, of a package that the operator allows."),
        "set": Key(Takes.EXPRESSIONS, "Facts with the expressions that they become; no code is needed."),
        "ask": Key(
            Takes.ONE, "The task for people, or the function that says it.", section="ask", short=Takes.REFERENCE
        ),
        "case": Key(Takes.ONE, "The cases of another definition that do it.", section="case"),
        "writes": Key(Takes.NAMES, "The fact that the result becomes, or the facts that a returned mapping may hold."),
        "each": Key(Takes.TEXT, "A list of whose elements each gets the work, as the first parameter of the function."),
        "as": Key(Takes.TEXT, "What a task for people that is written out calls an element of 'each'."),
        "need": Key(Takes.INTEGER, "How many of the elements have to be done; all without it."),
        "rest": _choice("What becomes of the others then.", Rest),
        "gate": Key(Takes.ONE, "What holds the action that it plans until people have approved it.", section="gate"),
        "capability": Key(Takes.TEXT, "Makes it one of several alternatives for the bindings that ask for it."),
        **_OPTIONS,
    },
    "ask": {
        "title": Key(Takes.SAID, "What is asked for, in a line; or an expression.", required=True),
        "form": Key(Takes.TYPE, "The type of the answer: what the person fills in.", required=True),
        "shows": Key(Takes.NAMES, "The facts that are shown with it; it waits for them, but for those with a '?'."),
        "groups": Key(Takes.SAID, "Whose members may take it; or an expression."),
        "users": Key(Takes.SAID, "Who may take it; or an expression."),
        "description": Key(Takes.SAID, "What there is to know; or an expression."),
        "priority": _computed(Takes.INTEGER, "Higher comes first; or an expression."),
        "due": _computed(Takes.WHEN, "When it should be done; it only reminds; or an expression."),
        "follow_up": _computed(
            Takes.WHEN, "When somebody should have looked at it; it only reminds; or an expression."
        ),
        "expires": _computed(Takes.DURATION, "After what span it is too late; or an expression."),
        "deadline": Key(Takes.SAID, "The time at which it is too late; or an expression. The earliest counts."),
        "escalate": _computed(Takes.WHEN, "When others may take it too; or an expression."),
        "escalate_to": Key(Takes.SAID, "The groups of these others."),
    },
    "case": {
        "definition": Key(Takes.TEXT, "The path of their definition, from this file.", required=True),
        "start": Key(Takes.EXPRESSIONS, "What one starts with: facts with expressions."),
        "starts": Key(Takes.TEXT, "What several start with: an expression that comes to a list of objects."),
        "takes": Key(Takes.TEXT, "The fact of theirs that is the result; that of 'writes' without it."),
        "need": Key(Takes.INTEGER, "How many of several have to complete; all without it."),
        "rest": _choice("What becomes of the others then.", Rest),
        "wait": Key(Takes.FLAG, "Whether it waits for them at all."),
    },
    "gate": {
        "perform": Key(Takes.REFERENCE, "The Python function that carries the action out; with set there is none."),
        "risk": Key(
            Takes.ONE,
            "What says whether it is held: an expression of the action, or a Python function; without it every action is.",
            section="expression",
            short=Takes.REFERENCE,
        ),
        "title": Key(Takes.SAID, "With set: what is planned, in a line; or an expression."),
        "approvals": Key(Takes.INTEGER, "How many people have to approve it."),
        "groups": Key(Takes.NAMES, "Whose members may approve it."),
        "users": Key(Takes.NAMES, "Who may approve it."),
        "priority": Key(Takes.INTEGER, "Higher comes first."),
        "due": Key(Takes.DURATION, "When it should be decided; it only reminds."),
        "expires": Key(Takes.DURATION, "When it is too late to approve it."),
        "escalate": Key(Takes.DURATION, "When others may approve it too."),
        "escalate_to": Key(Takes.NAMES, "The groups of these others."),
        "patience": Key(Takes.DURATION, "How long the function of 'risk' may take."),
    },
    "expression": {
        "cel": Key(Takes.TEXT, "An expression in CEL."),
        "jq": Key(Takes.TEXT, "An expression in jq."),
    },
    "binding": {
        "capability": Key(Takes.TEXT, "What its workers are able to do.", required=True),
        **_OPTIONS,
    },
    "trigger": {
        **_SCHEDULE,
        "times": Key(Takes.SCHEDULES, "Several times that trigger it."),
        "facts": Key(Takes.NAMES, "The facts whose change counts."),
        "events": Key(
            Takes.NAMES, "Events that trigger it, such as MILESTONE_REACHED, or STAGE_COMPLETED of an extension."
        ),
        "signals": Key(Takes.NAMES, "Signals whose arrival triggers it, whatever they bring."),
        "faulted": Key(Takes.NAMES, "Bindings, the failure of which triggers it."),
    },
    "schedule": _SCHEDULE,
    "named_condition": {
        "when": Key(Takes.CONDITION, "What it is; without it, what the fact of its name says: true or false."),
    },
    "milestone": {
        "when": Key(Takes.CONDITION, "It is reached when this holds.", required=True),
        "entry": Key(Takes.CONDITION, "It is awaited from when this holds; the start without it."),
        "sla": Key(Takes.DURATION, "How long it may take from there."),
    },
    "goal": {
        "when": Key(Takes.CONDITION, "It is reached when this holds for the first time.", required=True),
        "failure": Key(Takes.FLAG, "Whether reaching it faults the case."),
    },
    "stage": {
        "members": Key(Takes.NAMES, "Workers, bindings, milestones and stages that belong to it.", required=True),
        "entry": Key(Takes.CONDITION, "When it may become active."),
        "exit": Key(Takes.CONDITION, "When it is terminated."),
        "optional": Key(Takes.NAMES, "Members that its completion does not wait for."),
        "companions": Key(Takes.NAMES, "Members that are called off when it completes."),
        "autocomplete": Key(Takes.FLAG, "Whether it completes when everything required has settled."),
        "manual": Key(Takes.FLAG, "Whether it waits for somebody to activate it when its entry holds."),
        "on_fault": _choice("What a required member that faults does to it.", StageFault),
    },
    "retry": {
        "attempts": Key(Takes.INTEGER, "How many, the first among them."),
        "wait": Key(Takes.DURATION, "The wait before the second."),
        "factor": Key(Takes.NUMBER, "What each further wait is multiplied by."),
        "maximum": Key(Takes.DURATION, "The longest wait."),
        "jitter": Key(Takes.FLAG, "Whether waits are drawn evenly from zero."),
        "crashes": Key(Takes.INTEGER, "After how many ends of the process under it an activation is given up."),
        "on": Key(Takes.NAMES, "Exceptions that are retried: names of Python's own, or module:Class."),
    },
    "budget": {
        "calls": Key(Takes.INTEGER, "Calls of workers."),
        "tokens": Key(Takes.NUMBER, "Tokens."),
        "money": Key(Takes.NUMBER, "Money."),
        "per": Key(Takes.CHOICE, "A day (UTC) instead of the whole case.", choices=("day",)),
    },
    "quarantine": {
        "failures": Key(Takes.INTEGER, "After how many failures."),
        "within": Key(Takes.DURATION, "The span that these lie in."),
        "release": Key(Takes.DURATION, "How long it lasts."),
    },
    "compensation": {
        "on": Key(Takes.NAMES, "Before which ends: FAULTED, CANCELLED; both without it."),
        "deadline": Key(Takes.DURATION, "How long it may take."),
    },
    "limits": {
        "firings_per_binding": Key(Takes.INTEGER, "How often a binding may fire."),
        "firings": Key(Takes.INTEGER, "How often bindings may fire in all."),
        "events": Key(Takes.INTEGER, "How long the log may get."),
        "concurrency": Key(Takes.INTEGER, "How many activations may be in flight."),
        "inbox": Key(Takes.INTEGER, "How many inputs may wait."),
        "depth": Key(Takes.INTEGER, "How many cases may be around a sub-case."),
    },
    "activity": {
        "signal": Key(Takes.TEXT, "The signal that it is."),
        "worker": Key(Takes.TEXT, "The worker whose result it is."),
        "value": Key(Takes.REFERENCE, "The Python function that makes the value of the logged event."),
        "transition": Key(Takes.TEXT, f"The step in its life that counts; '{COMPLETE}' without it."),
    },
    "condition": {
        "present": Key(Takes.NAMES, "These facts are there."),
        "absent": Key(Takes.NAMES, "None of these facts is there."),
        "reached": Key(Takes.NAMES, "These milestones are achieved."),
        "holds": Key(Takes.NAMES, "These named conditions hold."),
        "confident": Key(Takes.CONFIDENCES, "The authors of these facts are at least so sure of them, from 0 to 1."),
        "all": Key(Takes.CONDITIONS, "All of these conditions hold."),
        "any": Key(Takes.CONDITIONS, "One of these conditions holds."),
        "not": Key(Takes.CONDITION, "This condition does not hold."),
        "cel": Key(Takes.TEXT, "An expression in CEL."),
        "jq": Key(Takes.TEXT, "An expression in jq."),
        "run": Key(Takes.REFERENCE, "A Python function of facts."),
    },
}
