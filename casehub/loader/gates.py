"""Gates: what stands under `gate:` of a worker whose function plans actions."""

from __future__ import annotations

from typing import Any, Final

from casehub.gate import Gate
from casehub.loader.code import AllowedCode
from casehub.loader.sections import Section, SectionReader

_PLAIN: Final = (
    "approvals", "groups", "users", "priority", "due", "expires", "escalate", "escalate_to", "patience",
)  # fmt: skip


class GateReader:
    """Reads gates."""

    def __init__(self, sections: SectionReader, code: AllowedCode) -> None:
        self._sections = sections
        self._code = code

    def gate(self, section: Section) -> Gate[Any] | None:
        """The gate of a worker, if there is one that can be. What is wrong with it is noted."""
        found = self._sections.one(section, "gate", "gate")
        if found is None:
            return None
        if "run" not in section:
            self._sections.mistakes.note(
                section.node.keys["gate"].place, section.subject, "has 'gate' without a function that plans an action",
                "give run: module:function, which returns Planned(action, title)",
            )  # fmt: skip
            return None
        perform, risk = (
            self._code.named(found.value(key), f"{found.subject}.{key}") if key in found else None
            for key in ("perform", "risk")
        )
        if perform is None or ("risk" in found and risk is None):
            return None
        return self._sections.noting(found, lambda: Gate(perform, risk=risk, **found.only(*_PLAIN)))
