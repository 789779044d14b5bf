"""Planning systems in a short hand: `a, !b` is a set of needs, `s -> a, !b @1.5` an action."""

from __future__ import annotations

import re

from blackboard_ext.goap.system import Action, Goal


def needs(text: str) -> dict[str, bool]:
    return {word.lstrip("!"): not word.startswith("!") for word in re.findall(r"!?[\w]+", text)}


def action(text: str) -> Action:
    """`name: needs -> brings @cost +value`."""
    name, _, rest = text.partition(":")
    what, *figures = re.split(r"(?=[@+])", rest)
    before, _, after = what.partition("->")
    cost = sum(float(figure[1:]) for figure in figures if figure[0] == "@")
    value = sum(float(figure[1:]) for figure in figures if figure[0] == "+")
    return Action(name=name.strip(), needs=needs(before), brings=needs(after), cost=cost, value=value)


def actions(text: str) -> list[Action]:
    """One a line, or several with `;` between them."""
    return [action(each) for each in re.split(r"[;\n]", text) if each.strip()]


def goal(text: str, name: str = "", value: float = 0.0) -> Goal:
    return Goal(name=name or text, needs=needs(text), value=value)
