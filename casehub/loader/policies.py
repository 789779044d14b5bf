"""The options of a binding: guard, merge, retries, budgets."""

from __future__ import annotations

from typing import Any, Final, cast

from casehub.loader.code import AllowedCode
from casehub.loader.conditions import ConditionReader
from casehub.loader.document import Mapping, Node, Scalar
from casehub.loader.mistakes import instead
from casehub.loader.sections import Section, SectionReader
from casehub.loader.triggers import TriggerReader
from casehub.policies import Budget, Merge, Quarantine, Retry, deep_merge, fail, first_writer_wins, last_writer_wins

_MERGES: Final[dict[str, Merge]] = {
    "last_writer_wins": last_writer_wins, "first_writer_wins": first_writer_wins, "fail": fail, "deep_merge": deep_merge,
}  # fmt: skip
_PLAIN_OPTIONS: Final = (
    "refire",
    "limit",
    "timeout",
    "on_failed",
    "on_declined",
    "on_expired",
    "on_exhausted",
    "priority",
    "cost",
    "value",
    "needs",
    "brings",
    "compensates",
)


class PolicyReader:
    """Reads what bindings say beyond what they read and write."""

    def __init__(self, sections: SectionReader, code: AllowedCode) -> None:
        self._sections = sections
        self._code = code
        self._triggers = TriggerReader(sections)

    def options(self, section: Section, conditions: ConditionReader) -> dict[str, Any]:
        """The options of a binding, as `policy_of` takes them, with `when` and `on`."""
        subject = section.subject
        found = section.only(*_PLAIN_OPTIONS)
        if "when" in section:
            found["when"] = conditions.condition(section.value("when"), f"{subject}.when")
        if "on" in section:
            found["on"] = self._triggers.trigger(section.value("on"), f"{subject}.on")
        if "merge" in section:
            node = cast("Scalar", section.value("merge"))
            merge = _MERGES.get(node.text)
            if merge is None and ":" in node.text:
                merge = self._code.find(node, f"{subject}.merge")
            elif merge is None:
                self._sections.mistakes.note(
                    node.place, f"{subject}.merge", f"{node.text!r} is no choice", instead(node.text, _MERGES)
                )
            if merge is not None:
                found["merge"] = merge
        if "retry" in section:
            retry = self._retry(section.value("retry"), f"{subject}.retry")
            if retry is not None:
                found["retry"] = retry
        for key in ("estimate", "budget"):
            budget = self.budget(section, key)
            if budget is not None:
                found[key] = budget
        quarantine = self._sections.one(section, "quarantine", "quarantine")
        if quarantine is not None:
            found["quarantine"] = self._sections.noting(quarantine, lambda: Quarantine(**quarantine.values))
        limit = found.get("limit")
        if limit is not None and limit < 1:
            self._sections.mistakes.note(
                section.value("limit").place,
                f"{subject}.limit",
                f"is {limit}, and 1 is the least",
                "leave the binding out if it must not fire",
            )
            del found["limit"]
        return found

    def _retry(self, node: Node, subject: str) -> Retry | None:
        if isinstance(node, Scalar) and isinstance(node.value, int) and not isinstance(node.value, bool):
            section = Section(Mapping(node.place), subject, {"attempts": node.value})
        else:
            read = self._sections.section(node, "retry", subject)
            if read is None:
                return None
            section = read
        values = dict(section.values)
        if "on" in values:
            found = [
                self._code.exception(each, f"{subject}.on")
                for each in self._sections.names(section.value("on"), f"{subject}.on")
            ]
            values["on"] = tuple(each for each in found if each is not None)
        return self._sections.noting(section, lambda: Retry(**values))

    def budget(self, section: Section, key: str) -> Budget | None:
        """The budget under a key, if there is one that can be."""
        found = self._sections.one(section, key, "budget")
        return None if found is None else self._sections.noting(found, lambda: Budget(**found.values))
