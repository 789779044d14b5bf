"""Python that a definition refers to by `module:name`: only of packages that the operator allowed."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any

from casehub.errors import SettingsError
from casehub.loader.document import Node, Scalar
from casehub.loader.mistakes import Mistakes
from casehub.lookup import object_of


class AllowedCode:
    """Finds what references name. `packages`: the modules, and with each what lies in it, that may be imported."""

    def __init__(self, packages: Iterable[str], mistakes: Mistakes) -> None:
        self.packages = tuple(packages)
        self.missing = False
        """Whether something was not found: what it would have said of a definition is not known."""
        self._mistakes = mistakes

    def find(self, node: Scalar, subject: str, text: str | None = None) -> Any:
        """The object, or None with the reason noted."""
        reference = node.text if text is None else text
        module, colon, name = reference.partition(":")
        problem: tuple[str, str] | None = None
        found: Any = None
        if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
            problem = (f"{reference!r} is no reference", "write module:name, such as loan_workers:assess")
        elif name.startswith("_"):
            problem = (f"{reference!r} is private to its module", "name something public")
        elif not self._allows(module):
            allowed = f"allowed: {', '.join(self.packages)}" if self.packages else "no code is allowed"
            problem = (
                f"{module!r} is not among the packages that the operator allows ({allowed})",
                f"start with --allow-code {module.split('.')[0]}, or name allowed code",
            )
        else:
            try:
                found = object_of(reference)
            except SettingsError as error:
                reason, _, remedy = str(error).rpartition("; ")
                problem = (reason or str(error), remedy if reason else "name something that is there")
        origin = getattr(found, "__module__", None)
        if problem is None and not (isinstance(origin, str) and self._allows(origin) and callable(found)):
            problem = (
                f"{reference!r} is not defined in allowed code"
                if callable(found)
                else f"{reference!r} is a {type(found).__name__}, and a function or a class was expected",
                "name a function or a class that an allowed module defines",
            )
        if problem is not None:
            self._mistakes.note(node.place, subject, *problem)
            self.missing = True
            return None
        return found

    def named(self, node: Node, subject: str) -> Any:
        """The object that a node names, or None with the reason noted."""
        if isinstance(node, Scalar):
            return self.find(node, subject)
        self._mistakes.note(node.place, subject, f"is {node.kind}, and module:name was expected", "write one")
        return None

    def exception(self, node: Scalar, subject: str) -> type[BaseException] | None:
        """An exception class: one of Python's own by its name, or one of allowed code."""
        found = self.find(node, subject) if ":" in node.text else getattr(builtins, node.text, None)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
        if found is not None or ":" not in node.text:
            self._mistakes.note(
                node.place,
                subject,
                f"{node.text!r} is no exception",
                "name one of Python's own, such as TimeoutError, or module:Class",
            )
        return None

    def _allows(self, module: str) -> bool:
        return any(module == package or module.startswith(f"{package}.") for package in self.packages)
