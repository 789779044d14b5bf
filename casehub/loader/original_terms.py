"""Parts of definitions in the original's format that need no more than themselves: triggers, policies, times, completion."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

from casehub.binding import Trigger
from casehub.goals import GoalExpression, all_of, any_of
from casehub.loader.document import Mapping, Node, Scalar, Sequence
from casehub.loader.expressions import Condition, Program
from casehub.loader.mistakes import instead
from casehub.loader.original_keys import KEYS, OUTCOMES
from casehub.loader.quartz import QuartzError, crontab_of, duration_of
from casehub.loader.sections import Section, SectionReader
from casehub.policies import PolicyOptions, Retry
from casehub.schedule import cron
from casehub.sentry import Sentry

_NUMBER: Final = r"(?:0|[1-9]\d*)"
_FORMAT: Final = re.compile(rf"0\.1\.{_NUMBER}")
_VERSION: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
"""A version as https://semver.org has it."""


class TermReader:
    """Reads these parts."""

    def __init__(self, sections: SectionReader) -> None:
        self._sections = sections

    def read(self, node: Node, name: str, subject: str) -> Section | None:
        """A mapping by its section of the keys."""
        section = self._sections.section(node, name, subject, KEYS[name])
        self._sections.lost |= section is None or bool(set(section.node.values) - set(KEYS[name]))
        return section

    def trigger(
        self, section: Section, program: Callable[[Section, str, str], Program]
    ) -> tuple[Trigger, list[Sentry]]:
        """The trigger of a binding, and the conditions that stand in it."""
        node = section.value("on") if "on" in section else Mapping(section.node.place)
        on = self.read(node, "on", f"{section.subject}.on")
        if on is None or len(on.values) != 1:
            if on is not None and not set(on.node.values) - set(KEYS["on"]):
                self._sections.mistakes.note(
                    node.place, f"{section.subject}.on", "is no trigger", "give one of contextChange and schedule"
                )
            return Trigger(), []
        if "schedule" in on:
            when = self.read(on.value("schedule"), "schedule", f"{on.subject}.schedule")
            if when is None or "cron" not in when:
                return Trigger(), []
            try:
                schedule = cron(crontab_of(when.get("cron")), tz=when.get("timezone", "UTC"))
            except QuartzError as error:
                self._sections.mistakes.note(when.value("cron").place, f"{when.subject}.cron", str(error), error.remedy)
                return Trigger(), []
            for reason, remedy in schedule.mistakes():
                place = when.value("timezone" if "time zone" in reason and "timezone" in when else "cron").place
                self._sections.mistakes.note(place, when.subject, reason, remedy)
            return Trigger(times=(schedule,)), []
        change = on.value("contextChange")
        if isinstance(change, Scalar) and change.value is None:
            return Trigger(), []
        found = self.read(change, "contextChange", f"{on.subject}.contextChange")
        return Trigger(), [
            Condition(program(found, "filter", "true"))
        ] if found is not None and "filter" in found else []

    def versions(self, top: Section) -> None:
        """Note a format that is another one, and a version that is none."""
        for key, form, reason, remedy in (
            ("dsl", _FORMAT, "is no version of the format that is read here", 'write dsl: "0.1.0"'),
            ("version", _VERSION, "is no version", "write three numbers, such as 1.0.0 (https://semver.org)"),
        ):
            if key in top and not form.fullmatch(top.get(key)):
                self._sections.mistakes.note(top.value(key).place, key, f"{top.get(key)!r} {reason}", remedy)

    def outcomes(self, section: Section, options: PolicyOptions, others: int) -> None:
        """What follows bad outcomes, as options of the binding. `others`: how many workers it could be passed on to."""
        if "outcomePolicy" in section:
            policy = self.read(section.value("outcomePolicy"), "outcomePolicy", f"{section.subject}.outcomePolicy")
            if policy is not None:
                if "onDecline" in policy:
                    options["on_declined"] = OUTCOMES[policy.get("onDecline")]
                if "onFailure" in policy:
                    options["on_failed"] = OUTCOMES[policy.get("onFailure")]
                if policy.get("maxRerouteAttempts", others) < others:
                    self._sections.mistakes.note(
                        policy.value("maxRerouteAttempts").place, f"{policy.subject}.maxRerouteAttempts",
                        f"allows {policy.get('maxRerouteAttempts')}, and each of {others} other workers is tried once",
                        "give that number or a larger one, or take the capability from a worker",
                    )  # fmt: skip

    def execution(self, worker: Section, options: PolicyOptions) -> None:
        """The time limit and the retries of a worker, as options of its binding."""
        if "executionPolicy" not in worker:
            return
        policy = self.read(worker.value("executionPolicy"), "executionPolicy", f"{worker.subject}.executionPolicy")
        if policy is None:
            return
        if "timeoutMs" in policy:
            options["timeout"] = f"{policy.get('timeoutMs')}ms"
        retries = (
            self.read(policy.value("retries"), "retries", f"{policy.subject}.retries") if "retries" in policy else None
        )
        if retries is not None:
            wait = f"{retries.get('delayMs', 10_000)}ms"
            made = self._sections.noting(
                retries, lambda: Retry(retries.get("maxAttempts", 3), wait, 1, wait, jitter=False)
            )
            if made is not None:
                options["retry"] = made

    def span(self, section: Section, key: str) -> str | None:
        """A span of time as durations are written here."""
        if key not in section:
            return None
        try:
            return duration_of(section.get(key))
        except QuartzError as error:
            self._sections.mistakes.note(section.value(key).place, f"{section.subject}.{key}", str(error), error.remedy)
            return None

    def completion(self, spec: Section, kind: str, goals: Collection[str]) -> GoalExpression | None:
        """The goals that a kind of completion joins."""
        if "completion" not in spec:
            return None
        completion = self.read(spec.value("completion"), "completion", "spec.completion")
        if completion is None or kind not in completion:
            return None
        return self._joined(completion.value(kind), f"spec.completion.{kind}", goals)

    def _joined(self, node: Node, subject: str, known: Collection[str]) -> GoalExpression | None:
        section = self.read(node, "expression", subject)
        if section is None or len(section.values) != 1:
            if section is not None and not set(section.node.values) - set(KEYS["expression"]):
                self._sections.mistakes.note(node.place, subject, "joins no goals", "give one of anyOf and allOf")
            return None
        key = next(iter(section.values))
        goals = section.value(key)
        if not isinstance(goals, Sequence) or not goals.items:
            self._sections.expected(goals, f"{subject}.{key}", "a list of goals")
            return None
        parts = [
            self._sections.text(each, subject) if isinstance(each, Scalar) else self._joined(each, subject, known)
            for each in goals.items
        ]
        for each in goals.items:
            if isinstance(each, Scalar) and each.text not in known:
                self._sections.mistakes.note(
                    each.place, f"{subject}.{key}", f"{each.text!r} is no goal", instead(each.text, known)
                )
        join = any_of if key == "anyOf" else all_of
        return join(*(part for part in parts if part is not None))
