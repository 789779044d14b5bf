"""What people type, made into what is meant: facts, statuses, kinds of event; a slip names the nearest right word."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from casehub.errors import FactError, InputRefusedError, SettingsError, did_you_mean, nearest
from casehub.events import EVENT_TYPES
from casehub.jsontext import read_json
from casehub.lifecycle import CaseStatus
from casehub.plain import plain
from casehub.query import concrete
from casehub.tasks import TaskStatus


def facts_of(given: Sequence[str], option: str) -> dict[str, Any]:
    """Facts from `name=value` words. The value is JSON; what is no JSON is text, so quotes can be left out.

    Raises `SettingsError` for a word without `=`, a name twice, and JSON that is cut off; `FactError` or `LimitError`
    for a value that no fact can have.
    """
    facts: dict[str, Any] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"{option} {word!r}: write name=value, such as amount=12.5 or name='\"Ada\"'")
        name = name.strip()
        if name in facts:
            raise SettingsError(f"{option} {word!r}: {name!r} is given twice; once is enough")
        facts[name] = _value(text, f"{option} {name}")
    return facts


def _value(text: str, where: str) -> Any:
    try:
        return plain(read_json(text), where)
    except ValueError as error:
        if text[:1] in ("{", "[", '"'):
            raise SettingsError(f"{where}: {text!r} begins like JSON and is none: {error}; mend it") from None
        return plain(text, where)


@contextmanager
def meant(facts: Mapping[str, Any]) -> Iterator[None]:
    """Say how a value that was read as JSON is given as text, where the fact is text."""
    try:
        yield
    except (FactError, InputRefusedError) as error:
        if "the fact's type is str" in str(error):
            for name, value in facts.items():
                if f"{name!r}: " in str(error) and not isinstance(value, str):
                    raise type(error)(
                        f"{error}; as text it is {name}='{to_json(to_json(value).decode()).decode()}'"
                    ) from None
        raise


def data_of(source: str) -> dict[str, Any]:
    """Facts from a file with a JSON object, `-` for standard input.

    Raises `SettingsError`, and `FactError` or `LimitError` for values that no fact can have.
    """
    where = "standard input" if source == "-" else source
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        found = plain(read_json(text), where)
    except OSError as error:
        raise SettingsError(f"--data {source}: {error.strerror}; give a file that can be read, or - ") from None
    except ValueError as error:
        raise SettingsError(f"--data {source}: {where} is no JSON: {error}; mend it") from None
    if not isinstance(found, dict):
        raise SettingsError(f"--data {source}: {where} holds {type(found).__name__}; write an object, names to values")
    return found


def statuses_of(given: Iterable[str]) -> tuple[CaseStatus, ...]:
    """Statuses by name, in any case, several separated by commas."""
    found: dict[CaseStatus, None] = {}
    for word in given:
        for name in word.replace(",", " ").split():
            try:
                found[CaseStatus(name.upper())] = None
            except ValueError:
                known = [str(status) for status in CaseStatus]
                raise SettingsError(
                    f"--status {name}: there is no such status; {did_you_mean(name.upper(), known)}"
                ) from None
    return tuple(found)


def task_statuses_of(given: Iterable[str]) -> tuple[TaskStatus, ...]:
    """Statuses of tasks by name, in any case, several separated by commas; `all` for all of them."""
    found: dict[TaskStatus, None] = {}
    known = [str(status) for status in TaskStatus]
    for word in given:
        for name in word.replace(",", " ").split():
            if name.lower() == "all":
                return ()
            if name.upper() not in known:
                raise SettingsError(
                    f"--status {name}: there is no such status; {did_you_mean(name.upper(), [*known, 'ALL'])}"
                )
            found[TaskStatus(name.upper())] = None
    return tuple(found)


def answer_of(fields: Sequence[str], data: str | None, value: str | None) -> Any:
    """The answer to a task, of `name=value` words, or of a file, or as it is. Raises `SettingsError`."""
    if (bool(fields), data is not None, value is not None).count(True) != 1:
        raise SettingsError("an answer is name=value words, or --data FILE, or --value; give one of them")
    if value is not None:
        return _value(value, "--value")
    if len(fields) == 1 and "=" not in fields[0]:
        raise SettingsError(
            f"field {fields[0]!r}: write name=value, such as approved=true; to a form without fields, --value {fields[0]!r}"
        )
    return facts_of(fields, "field") if data is None else data_of(data)


def event_types_of(given: Iterable[str], in_log: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Names in the log of kinds of event, by name or class (`CONTEXT_CHANGED`, `ContextChanged`), subtypes included.

    `in_log`: names that are known besides those of the classes that are loaded.
    """
    by_word = {_folded(name): name for name in EVENT_TYPES} | {_folded(name): name for name in in_log or {}}
    found: dict[str, None] = {}
    for word in given:
        for each in word.replace(",", " ").split():
            name = by_word.get(_folded(each))
            if name is None:
                known = sorted(set(EVENT_TYPES) | set(in_log or {}))
                raise SettingsError(f"--type {each}: there is no such event; {_near(each, known)}")
            kind = EVENT_TYPES.get(name)
            found.update(dict.fromkeys((name,) if kind is None else concrete((kind,))))
    return tuple(found)


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _near(word: str, known: Sequence[str]) -> str:
    """The nearest of many names, by what they look like without case and underscores."""
    folded = {_folded(name): name for name in known}
    guess = nearest(_folded(word), folded)
    return f"known: {', '.join(known)}" if guess is None else f"did you mean {folded[guess]!r}?"
