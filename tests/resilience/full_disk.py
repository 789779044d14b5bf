"""A hub on a file system that is full: run as a program, in a folder of its own.

`python -m tests.resilience.full_disk FOLDER` fills the disk by signals, says what still works, makes room by removing
`FOLDER/ballast`, and goes on. One line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import structlog

from casehub import CaseDefinition, CaseHub, ContextChanged
from casehub.errors import StoreUnavailableError
from tests.staging import eventually


def definition() -> CaseDefinition:
    return CaseDefinition("d", goal="done", signals=["note", "done"])


async def main(folder: Path) -> dict[str, Any]:
    path, ballast = folder / "c.db", folder / "ballast"
    ballast.write_bytes(b"x" * 2_000_000)
    d = definition()
    async with CaseHub(d, store=f"sqlite:///{path}", patience="300ms") as hub:
        case = await hub.start(d, case_id="c")
        accepted, refused = list[int](), 0
        for n in range(10_000):
            try:
                await case.signal(note=f"{n} {'x' * 20_000}", key=f"k{n}")
            except StoreUnavailableError:
                refused = n
                break
            accepted.append(n)
        reads = [len(await hub.cases()), await hub.log.position()]
        trouble = hub.runtime.outage.trouble
        ballast.unlink()

        async def again() -> bool:
            with suppress(StoreUnavailableError):
                await case.signal(note=f"{refused} {'x' * 20_000}", key=f"k{refused}")
                return True
            return False

        await eventually(again)
        await case.signal(done=True)
        written = [
            int(str(e.facts["note"]).split()[0]) for e in await case.log.query(ContextChanged) if "note" in e.facts
        ]
    with closing(sqlite3.connect(path)) as connection:
        (integrity,) = connection.execute("PRAGMA integrity_check").fetchone()
    return {
        "accepted": len(accepted), "lost": sorted(set(accepted) - set(written)), "twice": len(written) - len(set(written)),
        "refused": refused, "reads": reads, "trouble": trouble, "integrity": integrity,
    }  # fmt: skip


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    sys.stdout.write(json.dumps(asyncio.run(main(Path(sys.argv[1])))))
