"""The guide leaves no key out, and its cases play; that its definitions load is looked at with all pages."""

from __future__ import annotations

import re
from pathlib import Path

from casehub.loader import loads
from casehub.loader.document import read
from casehub.loader.mistakes import Mistakes
from casehub.loader.rehearsal import Rehearsal
from casehub.loader.vocabulary import SECTIONS

GUIDE = (Path(__file__).parent.parent.parent / "docs" / "guides" / "yaml.md").read_text(encoding="utf-8")
CASES = re.findall(r"^```yaml cases\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


async def test_the_cases_of_the_guide_play() -> None:
    order = loads(re.search(r'write_text\("""(.*?)"""\)', GUIDE, re.DOTALL)[1])  # type: ignore[index]  # it is there
    mistakes = Mistakes("order.test.yaml")
    for rehearsed in await Rehearsal(read(CASES[0], mistakes), mistakes).play(order):
        assert rehearsed.problems == [], rehearsed.name


def test_the_guide_has_every_key() -> None:
    words = set(re.findall(r"\w+", GUIDE))
    assert [key for keys in SECTIONS.values() for key in keys if key not in words] == []
