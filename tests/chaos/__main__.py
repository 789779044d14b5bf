"""The harness as a program, which prints what it found as JSON; each test that fails names the command that repeats it.

python -m tests.chaos kills --store sqlite --rounds 200 --seed 7
python -m tests.chaos points --store sqlite --only "before a worker"
python -m tests.chaos kills --store postgresql://test@127.0.0.1:5432/postgres --rounds 200 --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.disk import fill_up
from tests.chaos.kills import kill_loop
from tests.chaos.lives import Life, Place
from tests.chaos.points import crash_at, points
from tests.chaos.stepped import STEPS, step


@dataclass(slots=True)
class Moment:
    """A hub that lives in this very process, for one commit, so that something else can happen to it."""

    found: dict[str, Any] = field(default_factory=lambda: dict[str, Any](problems={}))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("harness", choices=["kills", "points", "stepped", "disk", "moment"])
    parser.add_argument("--store", default="sqlite", help="sqlite, or the URL of a PostgreSQL schema that is empty")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--beside", type=int, default=0, help="of kills: how many other hubs work the store meanwhile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the run's files are left; by default they are removed")
    parser.add_argument("--only", action="append", help="of the points, the one of this name; may be given again")
    parser.add_argument("--disk", type=Path, help="a small file system to fill")
    parser.add_argument("--name", default="moment", help="of a moment: what its deed is called after")
    parser.add_argument("--last", action="store_true", help="of moments: let everything come to its end, and check it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        url = f"sqlite:///{folder}/cases.db" if asked.store == "sqlite" else asked.store
        place = Place(folder, url)
        if asked.disk:
            place = Place(folder, f"sqlite:///{asked.disk}/cases.db")
        if asked.harness == "disk":
            run: Any = fill_up(place, asked.disk, asked.seed)
        elif asked.harness == "moment":
            run = Moment()
            if asked.last:
                run.found = Life.of(place).to_the_end(place.journal().deeds())
            else:
                asyncio.run(Life.of(place).once(asked.name))
        elif asked.harness == "stepped":
            run = step(
                place, asked.store, [point for point in STEPS if not asked.only or point.name in asked.only], asked.seed
            )
        elif asked.harness == "kills":
            run = kill_loop(place, asked.store, asked.rounds, asked.seed, asked.beside)
        else:
            chosen = points("sqlite" if asked.store == "sqlite" else "postgresql")
            run = crash_at(
                place,
                asked.store,
                [point for point in chosen if not asked.only or point.name in asked.only],
                asked.seed,
            )
    sys.stdout.write(json.dumps(asdict(run)) + "\n")
    return 1 if run.found["problems"] or getattr(run, "missed", ()) else 0


if __name__ == "__main__":
    sys.exit(main())
