"""Outlines of definitions, what differs between two, and diagrams."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from casehub import (
    Budget,
    CaseDefinition,
    Compensation,
    Limits,
    MilestoneReached,
    Quarantine,
    Retry,
    Signal,
    absent,
    deep_merge,
    every,
    present,
)
from casehub.diagram import diagram_of
from casehub.outline import differences, outline
from casehub.validation import build


def definition(change: Callable[[CaseDefinition], object] = lambda d: None, **options: object) -> CaseDefinition:
    d = CaseDefinition("d", goal="b", signals={"s": int}, **options)  # type: ignore[arg-type]  # options of this test

    @d.worker(writes="b")
    async def one(a: int) -> int:
        return a

    change(d)
    return d


async def two(b: int) -> str:
    return ""


def test_an_outline_says_everything_and_leaves_defaults_out() -> None:
    d = definition(
        lambda d: (
            d.worker(
                writes="c",
                name="two",
                when=absent("s"),
                on=["b", MilestoneReached, Signal("s"), every("15m")],
                refire="always",
                limit=3,
                merge=deep_merge,
                retry=Retry(2),
                timeout="90s",
                on_failed="ignore",
                priority=1,
                cost=2.0,
                estimate=Budget(calls=1),
                budget=Budget(tokens=5),
                quarantine=Quarantine(),
            )(two),
            d.milestone("m", present("b"), entry=present("a"), sla="2h"),
            d.goal("g", present("c"), failure=True),
            d.stage("st", "one", "m", entry=present("a"), exit=present("s"), optional=["m"], autocomplete=False),
        ),
        budget=Budget(money=2),
        limits=Limits(firings=7),
        protected=["a"],
    )
    found = outline(build(d))
    assert found["definition"]["d"] == {
        "goal": "b",
        "budget": "Budget(calls=None, tokens=None, money=2, per=None)",
        "limits": {"firings": 7},
        "protected": ["a"],
    }
    assert found["input"] == {"a": {"type": "int"}}
    assert found["signal"] == {"s": {"type": "int"}}
    assert found["binding"]["one"] == {"reads": ["a"], "writes": {"b": "int"}}
    full = found["binding"]["two"]
    assert full["on"] == ["b", "event MILESTONE_REACHED", "signal s", "every 15m"]
    assert (full["refire"], full["limit"], full["merge"], full["timeout"]) == ("always", 3, "deep_merge", "1m30s")
    assert (full["when"], full["on failed"], full["priority"], full["cost"]) == ("absent('s')", "ignore", 1, 2.0)
    assert {"retry", "estimate", "budget", "quarantine"} <= full.keys()
    assert found["milestone"]["m"] == {"when": "present('b')", "entry": "present('a')", "sla": "2h"}
    assert found["goal"]["g"] == {"when": "present('c')", "failure": True}
    assert found["stage"]["st"] == {
        "members": ["one", "m"],
        "entry": "present('a')",
        "exit": "present('s')",
        "optional": ["m"],
        "autocomplete": False,
    }


def test_differences_name_what_was_added_removed_and_changed() -> None:
    before = outline(build(definition(lambda d: d.milestone("m", present("b"), sla="2h"))))
    now = outline(build(definition(lambda d: (d.worker(writes="c")(two), d.milestone("m", present("b"), sla="1h")))))
    assert [(each.kind, each.name, each.change, dict(each.details)) for each in differences(before, now)] == [
        ("binding", "two", "added", {}),
        ("milestone", "m", "changed", {"sla": ("2h", "1h")}),
    ]
    assert next((each.name, each.change) for each in differences(now, before)) == ("two", "removed")
    assert differences(before, before) == []


@pytest.fixture
def drawn() -> CaseDefinition:
    return definition(
        lambda d: (
            d.worker(writes="c", when=absent("s"))(two),
            d.milestone('the "first" <one>', present("b")),
            d.stage("inner", "two"),
            d.stage("outer", "one", "inner"),
        )
    )


def test_a_diagram_in_mermaid_has_boxes_arrows_and_stages(drawn: CaseDefinition) -> None:
    assert diagram_of(build(drawn)).mermaid() == (
        """flowchart LR
    f0(["a"])
    f1(["s"])
    m0{{"the #quot;first#quot; #lt;one#gt;"}}
    g0(("b"))
    subgraph s1["outer"]
        b0["one"]
        subgraph s0["inner"]
            b1["two"]
        end
    end
    f0 --> b0
    b0 -->|"b"| b1
    f1 -.-> b1
    b0 -.->|"b"| m0
    b0 -.->|"b"| g0
"""
    )


def test_a_diagram_in_svg_is_a_picture_of_the_same(drawn: CaseDefinition) -> None:
    diagram = diagram_of(build(drawn))
    root = ElementTree.fromstring(diagram.svg())
    space = "{http://www.w3.org/2000/svg}"
    boxes = [(int(box.attrib["x"]), int(box.attrib["y"])) for box in root.iter(f"{space}rect")]
    assert len(boxes) == len(set(boxes)) == len(diagram.nodes)
    assert len(list(root.iter(f"{space}path"))) == len(diagram.arrows) + 1  # and the arrow's head
    width, height = int(root.attrib["width"]), int(root.attrib["height"])
    assert all(x + 150 <= width and y + 40 <= height for x, y in boxes)


def test_a_ring_of_bindings_is_drawn() -> None:
    d = CaseDefinition("ring", signals=["stop"], done_when=present("stop"))

    @d.worker(writes="b")
    async def forth(a: int) -> int:
        return a

    @d.worker(writes="a")
    async def back(b: int, a: int = 0) -> int:
        return b

    drawn = diagram_of(build(d))
    assert 'b1 -->|"a"| b0' in drawn.mermaid()
    assert "f0 -.-> done" in drawn.mermaid()
    ElementTree.fromstring(drawn.svg())


async def take_back(b: int) -> None: ...


def test_what_undoes_something_is_said_and_drawn_as_that() -> None:
    d = definition(lambda d: d.worker(compensates="one")(take_back), compensation=Compensation(["cancelled"], "2h"))
    found = outline(build(d))
    assert found["binding"]["take_back"]["compensates"] == "one"
    assert found["definition"]["d"]["compensation"] == "on CANCELLED within 2h"
    drawn = diagram_of(build(d))
    assert 'b1[["take_back"]]' in drawn.mermaid()
    assert 'b0 -.->|"undone by, b"| b1' in drawn.mermaid()
    assert "#fee" in drawn.svg()
    (other,) = differences(found, outline(build(definition(lambda d: d.worker(compensates="one")(take_back)))))
    assert other.details == {"compensation": ("on CANCELLED within 2h", None)}


def test_a_stage_that_somebody_activates_says_so() -> None:
    found = outline(build(definition(lambda d: d.stage("st", "one", manual=True))))
    assert found["stage"]["st"]["manual"] is True
