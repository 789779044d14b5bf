"""The keys of definitions in the format of CaseHub for Java: those that its documents show, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from casehub.loader.vocabulary import Key, Takes
from casehub.policies import Merge, OnOutcome, deep_merge, fail, first_writer_wins, last_writer_wins

MERGES: Final[dict[str, Merge]] = {
    "LAST_WRITER_WINS": last_writer_wins, "FIRST_WRITER_WINS": first_writer_wins, "FAIL": fail, "DEEP_MERGE": deep_merge,
}  # fmt: skip
OUTCOMES: Final = {"REROUTE": OnOutcome.REROUTE, "FAULT": OnOutcome.FAULT_ITEM}


def _text(about: str, *, required: bool = False) -> Key:
    return Key(Takes.TEXT, about, required)


def _one(about: str, *, required: bool = False) -> Key:
    return Key(Takes.ONE, about, required)


def _choice(about: str, *choices: str) -> Key:
    return Key(Takes.CHOICE, about, choices=choices)


KEYS: Final[Mapping[str, Mapping[str, Key]]] = {
    "definition": {
        "dsl": _text("The version of the format.", required=True),
        "namespace": _text("The namespace of the name.", required=True),
        "name": _text("The name.", required=True),
        "version": _text("The version of the definition.", required=True),
        "expressionLang": _choice("The language of expressions.", "jq"),
        "spec": _one("What the definition says.", required=True),
    },
    "spec": {
        "planningStrategy": _text("What decides; here a loop control does."),
        **{key: Key(Takes.MANY, "A list.") for key in ("capabilities", "workers", "bindings", "milestones", "goals")},
        "completion": _one("What completes a case."),
        "authorization": _one("Who may do what; here not enforced."),
    },
    "authorization": {"read": Key(Takes.NAMES, "Roles."), "admin": Key(Takes.NAMES, "Roles.")},
    "capability": {
        "name": _text("The name.", required=True),
        "inputProjection": _text("What a worker gets."),
        "outputProjection": _text("The facts of what it returns."),
    },
    "worker": {
        "name": _text("The name.", required=True),
        "capabilities": Key(Takes.NAMES, "What it is able to do.", required=True),
        "executionPolicy": _one("Time limit and retries."),
    },
    "executionPolicy": {"timeoutMs": Key(Takes.INTEGER, "Milliseconds."), "retries": _one("Retries.")},
    "retries": {
        "maxAttempts": Key(Takes.INTEGER, "The first among them."),
        "delayMs": Key(Takes.INTEGER, "Milliseconds."),
    },
    "binding": {
        "name": _text("The name.", required=True),
        "on": _one("Its trigger.", required=True),
        "when": _text("Its guard."),
        "capability": _text("What does it."),
        "humanTask": _one("Who does it."),
        "subCase": _one("The case that does it."),
        "outcomePolicy": _one("What follows a bad outcome."),
        "conflictResolverStrategy": _choice("How facts are merged.", *MERGES),
    },
    "on": {"contextChange": Key(Takes.ANYTHING, "A change of facts."), "schedule": _one("A time.")},
    "contextChange": {"filter": _text("A condition.")},
    "schedule": {"cron": _text("A cron expression of Quartz.", required=True), "timezone": _text("Its time zone.")},
    "outcomePolicy": {
        "onDecline": _choice("", *OUTCOMES),
        "onFailure": _choice("", *OUTCOMES),
        "maxRerouteAttempts": Key(Takes.INTEGER, "How many other workers are tried."),
    },
    "humanTask": {
        "title": _text("What is asked for.", required=True),
        "candidateGroups": Key(Takes.NAMES, "Who may take it."),
        "expiresIn": _text("A span of ISO 8601."),
        "outcomes": Key(Takes.NAMES, "The answers.", required=True),
        "outputMapping": _text("The facts of the answer.", required=True),
    },
    "subCase": {
        "namespace": _text("The namespace of its name.", required=True),
        "name": _text("Its name, and that of its file.", required=True),
        "version": _text("Its version.", required=True),
        "groupId": _text("What a group of them is called."),
        "totalInGroup": Key(Takes.INTEGER, "How many are started."),
        "requiredCount": Key(Takes.INTEGER, "How many have to complete."),
        "onThresholdReached": _choice("What becomes of the others then.", "KEEP", "CANCEL"),
        "inputMapping": _text("What they start with."),
        "outputMapping": _text("The fact that is made of one of theirs."),
    },
    "milestone": {
        "name": _text("The name.", required=True),
        "condition": _text("When it is reached.", required=True),
        "slaDuration": _text("A span of ISO 8601."),
        "slaStartFrom": _choice("", "CASE_CREATED", "MILESTONE_ACTIVATED"),
    },
    "goal": {
        "name": _text("The name.", required=True),
        "condition": _text("When it is reached.", required=True),
        "kind": _choice("", "success", "failure"),
    },
    "completion": {"failure": _one("What faults a case."), "success": _one("What completes a case.")},
    "expression": {"anyOf": Key(Takes.MANY, "Goals."), "allOf": Key(Takes.MANY, "Goals.")},
}
