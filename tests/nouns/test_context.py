"""The context: a read-only mapping of facts, by name and by type."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from casehub import ABSENT, CaseContext, Fact
from casehub.values import FactType

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclass
class Finding:
    text: str


@dataclass
class Grave(Finding):
    level: int = 3


def fact(name: str, value: Any, stamp: int, by: str = "user:ada", *, hidden: bool = False) -> Fact:
    return Fact(name, value, stamp, by, 0, NOON, hidden=hidden)


def context(*facts: Fact, **types: Any) -> CaseContext:
    return CaseContext({f.name: f for f in facts}, {name: FactType(kind) for name, kind in types.items()}, 9)


FOUND = context(
    fact("early", {"text": "a"}, 2, "worker:scan"),
    fact("late", {"text": "c", "level": 5}, 8, "worker:dig"),
    fact("note", "n", 5),
    fact("gone", ABSENT, 6),
    fact("secret", {"text": "s"}, 9, hidden=True),
    early=Finding,
    late=Grave,
    note=str,
    gone=Finding,
    secret=Finding,
)


def test_it_is_a_mapping_of_the_visible_facts_in_the_order_of_their_last_writing() -> None:
    assert list(FOUND) == ["early", "note", "late"]
    assert len(FOUND) == 3
    assert dict(FOUND) == {"early": Finding("a"), "note": "n", "late": Grave("c", 5)}
    assert FOUND.get("gone") is None
    assert repr(FOUND).startswith("CaseContext({'early': Finding(text='a')")


@pytest.mark.parametrize("name", ["gone", "secret", "nothing"])
def test_deleted_hidden_and_unknown_facts_are_not_there(name: str) -> None:
    assert name not in FOUND
    with pytest.raises(KeyError, match=f"no fact '{name}'"):
        FOUND[name]
    with pytest.raises(KeyError, match=f"no fact '{name}'"):
        FOUND.fact(name)


def test_a_missing_fact_names_the_nearest() -> None:
    with pytest.raises(KeyError, match="did you mean 'note'"):
        FOUND["notes"]


def test_a_type_is_the_latest_fact_of_it_or_of_a_subtype() -> None:
    assert FOUND[Finding] == Grave("c", 5)
    assert FOUND[Grave] == Grave("c", 5)
    assert FOUND.last(Finding) == Grave("c", 5)
    assert Finding in FOUND


def test_a_type_that_no_visible_fact_has_is_not_there() -> None:
    only_hidden = context(fact("secret", {"text": "s"}, 9, hidden=True), secret=Finding)
    assert only_hidden.last(Finding) is None
    assert Finding not in only_hidden
    with pytest.raises(KeyError, match="no fact of type Finding; facts: none"):
        only_hidden[Finding]


def test_all_of_a_type_come_oldest_first() -> None:
    assert FOUND.all_of_type(Finding) == [Finding("a"), Grave("c", 5)]
    assert FOUND.all_of_type(Grave) == [Grave("c", 5)]


def test_a_builtin_type_finds_the_facts_that_declare_it() -> None:
    assert FOUND[str] == "n"
    assert FOUND.all_of_type(int) == []


def test_the_last_result_is_what_a_worker_wrote_last() -> None:
    assert FOUND.last_result == Grave("c", 5)
    assert context(fact("note", "n", 5)).last_result is None


def test_a_fact_tells_its_author_and_stamp() -> None:
    late = FOUND.fact("late")
    assert (late.author, late.by, late.stamp, late.at, late.visible) == ("dig", "worker:dig", 8, NOON, True)
    assert fact("x", 1, 1, by="engine").author == "engine"


def test_hiding_gives_a_child_view_without_these_facts() -> None:
    child = FOUND.hiding("late")
    assert "late" not in child
    assert list(child) == ["early", "note"]
    assert child[Finding] == Finding("a")
    assert "late" in FOUND
    with pytest.raises(KeyError):
        child.fact("late")


def test_what_a_parent_hides_stays_hidden_in_its_children() -> None:
    grandchild = FOUND.hiding("late").hiding("note")
    assert list(grandchild) == ["early"]
    assert list(FOUND.hiding("late").hiding()) == ["early", "note"]


def test_hiding_a_fact_that_is_not_there_yet_hides_it_when_it_comes() -> None:
    facts = {"a": fact("a", 1, 1)}
    child = CaseContext(facts).hiding("b")
    facts["b"] = fact("b", 2, 2)
    assert list(child) == ["a"]


def test_changing_a_value_changes_nothing_in_the_context() -> None:
    plain = context(fact("a", {"rows": [1]}, 1))
    plain["a"]["rows"].append(2)
    assert plain["a"] == {"rows": [1]}
    FOUND["early"].text = "changed"
    assert FOUND["early"] == Finding("a")


def test_it_cannot_be_written_to() -> None:
    with pytest.raises(TypeError):
        FOUND["note"] = "x"  # type: ignore[index]  # on purpose
    with pytest.raises(TypeError):
        del FOUND["note"]  # type: ignore[attr-defined]  # on purpose


def test_a_fact_without_a_declared_type_is_plain() -> None:
    assert context(fact("a", {"x": 1}, 1))["a"] == {"x": 1}
