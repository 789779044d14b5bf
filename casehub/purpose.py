"""What one case is for, where whoever starts it says so: a goal or a fact, instead of what its definition asks for."""

from __future__ import annotations

from casehub.errors import InputRefusedError, did_you_mean
from casehub.goals import GoalExpression, OneGoal
from casehub.sentry import Present, Sentry
from casehub.state import CaseState
from casehub.structure import Structure

Wanted = str | type
"""A goal or a fact by its name, or the one fact of a type."""


def purpose_of(structure: Structure, wanted: Wanted) -> str:
    """The goal or fact that is meant. Raises `InputRefusedError` for none, and for a type that several facts have."""
    if isinstance(wanted, str):
        known = {*structure.goals, *structure.types}
        if wanted not in known:
            raise InputRefusedError(
                f"definition {structure.name!r} has no goal or fact {wanted!r}; {did_you_mean(wanted, known)}"
            )
        return wanted
    fitting = [name for name, kind in structure.types.items() if kind.is_a(wanted)]
    if len(fitting) != 1:
        found = f"{len(fitting)} facts of type {wanted.__name__}: {', '.join(fitting)}; name one" if fitting else (
            f"no fact of type {wanted.__name__}; name one of {', '.join(sorted({*structure.goals, *structure.types}))}"
        )  # fmt: skip
        raise InputRefusedError(f"definition {structure.name!r} has {found}")
    return fitting[0]


def completion_of(state: CaseState, structure: Structure) -> GoalExpression | None:
    """What completes a case: its own purpose, or what its definition asks for."""
    return OneGoal(state.purpose) if state.purpose else structure.completion


def criterion(structure: Structure, goal: str) -> Sentry:
    """What reaches a goal; a fact is one that is reached once it is there."""
    declared = structure.goals.get(goal)
    return Present(goal) if declared is None else declared.when
