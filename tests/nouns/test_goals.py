"""Goal expressions."""

from __future__ import annotations

import pytest

from casehub import GoalExpression, all_of, any_of
from casehub.goals import as_expression


@pytest.mark.parametrize(
    ("expression", "reached", "satisfied"),
    [
        (as_expression("a"), {"a"}, True),
        (as_expression("a"), {"b"}, False),
        (all_of("a", "b"), {"a"}, False),
        (all_of("a", "b"), {"a", "b", "c"}, True),
        (any_of("a", "b"), {"b"}, True),
        (any_of("a", "b"), set(), False),
        (any_of("a", all_of("b", any_of("c", "d"))), {"b", "d"}, True),
        (any_of("a", all_of("b", any_of("c", "d"))), {"b"}, False),
    ],
)
def test_an_expression_is_satisfied_by_enough_goals(
    expression: GoalExpression, reached: set[str], satisfied: bool
) -> None:
    assert expression.satisfied(reached) is satisfied


def test_goals_come_in_the_order_they_are_written() -> None:
    assert any_of("z", all_of("b", "a"), "z").goals == ("z", "b", "a", "z")


@pytest.mark.parametrize(
    ("expression", "empty"),
    [
        (all_of(), True),
        (any_of(), True),
        (any_of("a", all_of()), True),
        (all_of("a"), False),
        (as_expression("a"), False),
    ],
)
def test_an_expression_knows_whether_a_part_of_it_is_empty(expression: GoalExpression, empty: bool) -> None:
    assert expression.empty is empty


def test_an_expression_is_written_as_people_write_it() -> None:
    assert str(any_of("a", all_of("b", "c"))) == "any_of(a, all_of(b, c))"


def test_expressions_are_values() -> None:
    assert all_of("a", "b") == all_of("a", "b")
    assert all_of("a", "b") != any_of("a", "b")
    assert as_expression(any_of("a")) == any_of("a")
