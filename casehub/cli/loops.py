"""Loop controls as settings name them: `module:factory` for all definitions, `name=module:factory` for one; strategies."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from casehub.errors import SettingsError, did_you_mean
from casehub.lookup import object_of, planning
from casehub.loops import Loops
from casehub.spi import LoopControl

_VERBS: Final = ("immediate", "handles", "deadline", "initial", "apply", "react", "settle", "gate", "view", "select")


def loops_named(setting: str, definitions: Collection[str]) -> Loops | None:
    """The loop controls that a setting names, separated by commas; None where it names none.

    Raises `SettingsError` for what is no loop control, a definition that there is not, and one that is named twice.
    """
    found: dict[str, LoopControl] = {}
    for name, reference in _named(setting):
        if name and name not in definitions:
            raise SettingsError(
                f"--loop {name}={reference}: there is no definition {name!r}; {did_you_mean(name, definitions)}"
            )
        if name in found:
            whose = f"definition {name!r}" if name else "all definitions"
            raise SettingsError(f"--loop {setting}: it names two loop controls for {whose}; leave one")
        found[name] = loop_of(reference)
    if "" not in found:
        return found or None
    rest = found.pop("")
    return {name: found.get(name, rest) for name in definitions} if found else rest


def _named(setting: str) -> Iterator[tuple[str, str]]:
    """Definition, empty for all, and reference."""
    for part in filter(None, (each.strip() for each in setting.split(","))):
        name, equals, reference = part.partition("=")
        yield (name.strip(), reference.strip()) if equals else ("", part)


def loop_of(reference: str) -> LoopControl:
    """The loop control that `module:factory` makes, or is; a planning strategy is put into one.

    Raises `SettingsError` for what is neither.
    """
    return _control(reference, "--loop", "a loop control or a planning strategy")


def strategy_of(reference: str) -> LoopControl:
    """The loop control that asks the strategy that `module:Class` makes, or is; a loop control is taken as it is.

    Raises `SettingsError` for what is neither.
    """
    return _control(reference, "--strategy", "a planning strategy")


def _control(reference: str, option: str, what: str) -> LoopControl:
    found = _made(reference, option, what)
    if all(hasattr(found, name) for name in _VERBS):
        control: LoopControl = found
        return control
    try:
        return planning(found)
    except SettingsError as error:
        raise SettingsError(f"{option} {reference}: {error}") from None


def _made(reference: str, option: str, what: str) -> Any:
    """What a reference names, or what that gives when it is called."""
    found = object_of(reference)
    if not isinstance(found, type) and (callable(getattr(found, "select", None)) or not callable(found)):
        return found
    try:
        return found()
    except Exception as error:
        raise SettingsError(
            f"{option} {reference}: making it raised {type(error).__name__}: {error}; "
            f"name something that takes no arguments and gives {what}"
        ) from error
