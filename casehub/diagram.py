"""A definition as a picture: bindings with the facts that lead from one to the next; as Mermaid text or as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import Final

from casehub.structure import Structure

WIDTH: Final = 150
HEIGHT: Final = 40
ACROSS: Final = 90
"""Pixels between two columns."""
DOWN: Final = 24
"""Pixels between two rows."""
LETTERS: Final = 22
"""Letters of a name that a box has room for."""


class Shape(StrEnum):
    """What a node stands for."""

    SOURCE = "source"
    BINDING = "binding"
    MILESTONE = "milestone"
    GOAL = "goal"
    COMPENSATION = "compensation"


@dataclass(frozen=True, slots=True)
class Node:
    """One box. `label`: what is written in it."""

    id: str
    label: str
    shape: Shape


@dataclass(slots=True)
class Diagram:
    """Nodes, arrows with the facts that they carry, and stages with what lies in them.

    `arrows`: from and to, and whether the fact is only tested there; `inside`: the stage of a node or a stage.
    """

    title: str
    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    arrows: dict[tuple[str, str], tuple[list[str], bool]] = field(
        default_factory=dict[tuple[str, str], tuple[list[str], bool]]
    )
    stages: dict[str, str] = field(default_factory=dict[str, str])
    inside: dict[str, str] = field(default_factory=dict[str, str])

    def mermaid(self) -> str:
        """As text for Mermaid (https://mermaid.js.org), which GitHub and GitLab draw."""
        lines = ["flowchart LR", *self._group("", 1)]
        for (origin, to), (facts, tested) in self.arrows.items():
            label = f'|"{_text(", ".join(facts))}"|' if facts else ""
            lines.append(f"    {origin} {'-.->' if tested else '-->'}{label} {to}")
        return "\n".join(lines) + "\n"

    def _group(self, stage: str, depth: int) -> Iterator[str]:
        indent = "    " * depth
        for id, node in self.nodes.items():
            if self.inside.get(id, "") == stage:
                left, right = _BRACKETS[node.shape]
                yield f'{indent}{id}{left}"{_text(node.label)}"{right}'
        for id, name in self.stages.items():
            if self.inside.get(id, "") == stage:
                yield f'{indent}subgraph {id}["{_text(name)}"]'
                yield from self._group(id, depth + 1)
                yield f"{indent}end"

    def svg(self) -> str:
        """As a picture: columns from left to right, as far as facts lead; arrows that lead back are bent below."""
        columns = self._columns()
        rows: dict[int, int] = {}
        places: dict[str, tuple[int, int]] = {}
        for id in self.nodes:
            row = rows.get(columns[id], 0)
            rows[columns[id]] = row + 1
            places[id] = (20 + columns[id] * (WIDTH + ACROSS), 50 + row * (HEIGHT + DOWN))
        width = 40 + (max(columns.values(), default=0) + 1) * (WIDTH + ACROSS) - ACROSS
        height = 70 + max(rows.values(), default=0) * (HEIGHT + DOWN)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="12">',
            '<defs><marker id="head" viewBox="0 0 10 10" refX="10" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0L10 5L0 10z" fill="#555"/></marker></defs>',
            f'<text x="20" y="26" font-size="15" font-weight="bold">{escape(self.title)}</text>',
        ]
        parts += [self._arrow(places[one], places[other], *said) for (one, other), said in self.arrows.items()]
        parts += [self._box(node, *places[id]) for id, node in self.nodes.items()]
        return "\n".join([*parts, "</svg>", ""])

    def _columns(self) -> dict[str, int]:
        """How many arrows lead to each node at most, where they lead in no ring."""
        columns = dict.fromkeys(self.nodes, 0)
        for _ in range(len(self.nodes)):  # past as many rounds, what still moves goes round
            moved = False
            for one, other in self.arrows:
                if (
                    one != other
                    and columns[other] <= columns[one] < len(self.nodes) - 1
                    and not self._leads(other, one)
                ):
                    columns[other] = columns[one] + 1
                    moved = True
            if not moved:
                break
        return columns

    def _leads(self, one: str, other: str) -> bool:
        seen, left = {one}, [one]
        while left:
            at = left.pop()
            for origin, to in self.arrows:
                if origin == at and to not in seen:
                    seen.add(to)
                    left.append(to)
        return other in seen

    def _arrow(self, one: tuple[int, int], other: tuple[int, int], facts: list[str], tested: bool) -> str:
        (x, y), (to_x, to_y) = one, other
        x, y, to_y = x + WIDTH, y + HEIGHT // 2, to_y + HEIGHT // 2
        bend = ACROSS // 2 if to_x > x else ACROSS + abs(to_y - y)
        dashes = ' stroke-dasharray="4 3"' if tested else ""
        path = f'<path d="M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}" fill="none" stroke="#555"{dashes} marker-end="url(#head)"/>'
        label = escape(_short(", ".join(facts), 18))
        return f'{path}<text x="{(x + to_x) // 2}" y="{(y + to_y) // 2 - 4}" text-anchor="middle" font-size="10" fill="#555">{label}</text>'

    def _box(self, node: Node, x: int, y: int) -> str:
        fill, radius = _FILLS[node.shape]
        stage = self.stages.get(self.inside.get(node.id, ""), "")
        inside = (
            f'<text x="{x + 4}" y="{y - 4}" font-size="10" fill="#777">{escape(_short(stage, LETTERS))}</text>'
            if stage
            else ""
        )
        return (
            f'{inside}<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{radius}" fill="{fill}" stroke="#333"/>'
            f'<text x="{x + WIDTH // 2}" y="{y + HEIGHT // 2 + 4}" text-anchor="middle"><title>{escape(node.label)}</title>'
            f"{escape(_short(node.label, LETTERS))}</text>"
        )


_BRACKETS: Final[Mapping[Shape, tuple[str, str]]] = {
    Shape.SOURCE: ("([", "])"), Shape.BINDING: ("[", "]"), Shape.MILESTONE: ("{{", "}}"), Shape.GOAL: ("((", "))"),
    Shape.COMPENSATION: ("[[", "]]"),
}  # fmt: skip
_FILLS: Final[Mapping[Shape, tuple[str, int]]] = {
    Shape.SOURCE: ("#eef", 20), Shape.BINDING: ("#fff", 4), Shape.MILESTONE: ("#ffd", 12), Shape.GOAL: ("#dfd", 20),
    Shape.COMPENSATION: ("#fee", 4),
}  # fmt: skip


def diagram_of(structure: Structure) -> Diagram:
    """The diagram of a definition."""
    found = Diagram(structure.definition.title)
    bindings = {name: f"b{place}" for place, name in enumerate(structure.bindings)}
    stages = {name: f"s{place}" for place, name in enumerate(structure.stages)}
    found.stages = {id: name for name, id in stages.items()}
    ids: dict[str, str] = {**bindings, **stages}
    written = structure.written()
    read = {name for binding in structure.bindings.values() for name in binding.reads}
    read.update(name for milestone in structure.milestones.values() for name in milestone.when.reads)
    read.update(name for goal in structure.goals.values() for name in goal.when.reads)
    if structure.done_when is not None:
        read.update(structure.done_when.reads)
    sources = {name: f"f{place}" for place, name in enumerate(dict.fromkeys((*structure.inputs, *structure.brought)))}
    for name, id in sources.items():
        if name in read:
            found.nodes[id] = Node(id, name, Shape.SOURCE)
    for name, id in bindings.items():
        undoes = structure.bindings[name].compensates
        found.nodes[id] = Node(id, name, Shape.COMPENSATION if undoes else Shape.BINDING)
        if undoes in bindings:
            found.arrows[bindings[undoes], id] = (["undone by"], True)

    def lead(reads: Mapping[str, bool], to: str) -> None:
        for name, tested in reads.items():
            if name in sources:
                found.arrows.setdefault((sources[name], to), ([], tested))
            for writer in structure.writers(name) if name in written else ():
                facts, _ = found.arrows.setdefault((bindings[writer.name], to), ([], tested))
                if name not in facts:
                    facts.append(name)

    for name, binding in structure.bindings.items():
        own = {fact for worker in binding.workers for fact in worker.reads}
        lead({fact: fact not in own for fact in binding.reads}, bindings[name])
    for place, each in enumerate(structure.milestones.values()):
        ids[each.name] = id = f"m{place}"
        found.nodes[id] = Node(id, each.name, Shape.MILESTONE)
        lead(dict.fromkeys(sorted(each.when.reads), True), id)
    for place, goal in enumerate(structure.goals.values()):
        id = f"g{place}"
        found.nodes[id] = Node(id, f"{goal.name} (failure)" if goal.failure else goal.name, Shape.GOAL)
        lead(dict.fromkeys(sorted(goal.when.reads), True), id)
    if structure.done_when is not None:
        found.nodes["done"] = Node("done", "done", Shape.GOAL)
        lead(dict.fromkeys(sorted(structure.done_when.reads), True), "done")
    found.inside = {ids[member]: stages[stage] for member, stage in structure.stage_of.items() if member in ids}
    return found


def _text(label: str) -> str:
    return (
        label.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;").replace("\n", " ")
    )


def _short(label: str, letters: int) -> str:
    return label if len(label) <= letters else f"{label[: letters - 1]}…"
