"""Named crash points: places in the engine at which a process is killed, from within and to the point.

The engine knows nothing of them. A point is an attribute that a forked process replaces before it begins: the replacement
counts calls, and at the one that is meant kills the process before it calls, or after.

    python -m tests.chaos points --store sqlite --only "after the commit, before it is published"
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Literal, NoReturn

from tests.chaos.forks import HungError, answer_of, forked
from tests.chaos.lives import Life, Place
from tests.chaos.records import Deed

Store = Literal["sqlite", "postgresql"]
HIT: Final = b"hit"
"""What a process says with its last breath."""
LIMIT: Final = 30.0
"""Seconds in which a point has to be hit."""


@dataclass(frozen=True, slots=True)
class Point:
    """`where`: `module:attribute`, the attribute of a class where there is a dot in it. `nth`: which call; of a generator,
    which of its values. `given`: a text that one of the call's arguments is. `leaves`: the hub is drained and left, which
    is what leads there. `store`: the only one that comes there."""

    name: str
    where: str
    when: Literal["before", "after"] = "before"
    nth: int = 1
    given: str = ""
    leaves: bool = False
    store: Store | None = None


ENGINE: Final = "casehub.engine"
SQLITE: Final = "casehub.adapters"
POSTGRES: Final = "casehub.adapters.postgres"

POINTS: Final = (
    Point("amid the migration", "casehub.adapters.sqlite_schema:_statements", "after", 4, store="sqlite"),
    Point("before the migration", f"{POSTGRES}.schema:schema_sql", store="postgresql"),
    Point("after the migration, SQLite", "casehub.adapters.sqlite_writer:migrate", "after", store="sqlite"),
    Point("after the migration, PostgreSQL", f"{POSTGRES}.writer:migrate", "after", store="postgresql"),
    Point("before it joins the hubs", f"{POSTGRES}.hubs:Membership.join", store="postgresql"),
    Point("as one of the hubs, before anything else", f"{POSTGRES}.hubs:Membership.join", "after", store="postgresql"),
    Point("before it renews its lease", f"{POSTGRES}.hubs:Membership._look", nth=2, store="postgresql"),
    Point("after it has renewed its lease, and put out others", f"{POSTGRES}.hubs:Membership._look", "after", 2, store="postgresql"),
    Point("before a case is claimed", f"{POSTGRES}:claim_case", store="postgresql"),
    Point("after a case is claimed", f"{POSTGRES}:claim_case", "after", store="postgresql"),
    Point("before a case is given back", f"{POSTGRES}:release_case", store="postgresql"),
    Point("after a case is given back", f"{POSTGRES}:release_case", "after", store="postgresql"),
    Point("cases that nobody has are found", f"{POSTGRES}:orphans_of", "after", store="postgresql"),
    Point("before it leaves the hubs", f"{POSTGRES}.hubs:Membership._leave", leaves=True, store="postgresql"),
    Point("an input comes in", f"{ENGINE}.pump:Pump._enter", nth=5),
    Point("a turn is decided", f"{ENGINE}.live:LiveCase.take", "after", nth=5),
    Point("before turns are committed", f"{ENGINE}.pump:commit", nth=4),
    Point("before a turn is encoded", "casehub.adapters.writer:prepare", nth=4),
    Point("after a turn is encoded", "casehub.adapters.writer:prepare", "after", nth=4),
    Point("before a group begins, SQLite", "casehub.adapters.sqlite_writer:SQLiteDatabase.transact", nth=4, store="sqlite"),
    Point("before a group begins, PostgreSQL", f"{POSTGRES}.writer:PostgresDatabase.transact", nth=4, store="postgresql"),
    Point("a group has begun, SQLite", "casehub.adapters.sqlite_writer:decide", nth=4, store="sqlite"),
    Point("a group is decided, PostgreSQL", f"{POSTGRES}.writer:decide", "after", nth=4, store="postgresql"),
    Point("before rows are written", "casehub.adapters.sqlite_group:SQLiteGroup.flush", nth=4, store="sqlite"),
    Point("amid the rows, after those of tasks", "casehub.adapters.sqlite_group:write_tasks", "after", store="sqlite"),
    Point("amid the rows", f"{POSTGRES}.group:_records", "after", nth=9, store="postgresql"),
    Point("after the rows, before the commit, SQLite", "casehub.adapters.sqlite_group:SQLiteGroup.flush", "after", 4, store="sqlite"),
    Point("after the rows, before the commit, PostgreSQL", f"{POSTGRES}.connection:Connection.execute", nth=4, given="COMMIT", store="postgresql"),
    Point("after the commit, before it is known", "casehub.adapters.group:Group.settle", nth=4),
    Point("after the commit, before it is published", "casehub.adapters.writer:Writer._settle", nth=4),
    Point("before the log moves into the database", "casehub.adapters.sqlite_writer:SQLiteDatabase.checkpoint", leaves=True, store="sqlite"),
    Point("after the log has moved into the database", "casehub.adapters.sqlite_writer:SQLiteDatabase.checkpoint", "after", leaves=True, store="sqlite"),
    Point("after it is published, before its caller hears", "casehub.bus:Bus.publish", "after", nth=4),
    Point("after it is published, before what it starts", f"{ENGINE}.pump:Pump.finish", nth=4),
    Point("after what it starts is known", f"{ENGINE}.pump:Pump.finish", "after", nth=4),
    Point("before a worker", f"{ENGINE}.executor:Attempt.run", nth=3),
    Point("before a worker's function", f"{ENGINE}.executor:LocalExecutor.run", nth=3),
    Point("in a worker, after its effect", "tests.chaos.load:World.effect", "after", nth=3),
    Point("after a worker's function", f"{ENGINE}.executor:LocalExecutor.run", "after", nth=2),
    Point("after a worker, before its result is posted", f"{ENGINE}.executor:Attempt.run", "after", nth=2),
    Point("a timer has come due", "casehub.residents:Residents.timer_due"),
    Point("a timer is posted", "casehub.residents:Residents.timer_due", "after"),
    Point("due timers are read, SQLite", "casehub.adapters.sql_store:SqlStore.due", "after", nth=2, store="sqlite"),
    Point("due timers are read, PostgreSQL", f"{POSTGRES}:PostgresStore.due", "after", nth=2, store="postgresql"),
    Point("before cases are recovered", "casehub.residents:Residents.resume", store="sqlite"),
    Point("before cases of others are taken over", "casehub.fleet:Fleet._take_over", store="postgresql"),
    Point("amid recovery, a case is folded", "casehub.residents:restore", "after"),
    Point("amid recovery, a case is loaded", "casehub.residents:Residents._load", "after"),
    Point("after cases are recovered", "casehub.residents:Residents.resume", "after", store="sqlite"),
    Point("after cases of others are taken over", "casehub.fleet:Fleet._take_over", "after", store="postgresql"),
    Point("a deliberation begins", f"{ENGINE}.deliberation:Deliberations.start"),
    Point("a strategy has answered", f"{ENGINE}.deliberation:Asking.run", "after"),
    Point("the answer of a strategy is taken", f"{ENGINE}.deliberation:Deliberations.answer"),
    Point("before a sub-case is started", "casehub.family:Family._start"),
    Point("after a sub-case is started", "casehub.family:Family._start", "after"),
    Point("before a parent hears of an end", "casehub.family:Family._tell"),
    Point("after a parent has heard of an end", "casehub.family:Family._tell", "after"),
    Point("before a subscriber's position is kept", "casehub.subscribers:Subscriber.keep"),
    Point("after a subscriber's position is kept", "casehub.subscribers:Subscriber.keep", "after"),
    Point("a person's answer is recorded", "casehub.worklist:Worklist._take", "after"),
    Point("before a drain", "casehub.hub:CaseHub.drain", leaves=True),
    Point("after a drain", "casehub.hub:CaseHub.drain", "after", leaves=True),
    Point("what runs is called off", "casehub.residents:Residents.call_off", leaves=True),
    Point("before the store is closed", "casehub.adapters.sql_store:SqlStore.close", leaves=True),
    Point("the writer has ended", "casehub.adapters.writer:Writer.close", "after", leaves=True),
)  # fmt: skip


def points(store: Store) -> Sequence[Point]:
    """Those that a store comes to."""
    return [point for point in POINTS if point.store in (None, store)]


def target(point: Point) -> tuple[Any, str, Any]:
    """Whose attribute a point replaces, its name, and what it is. Raises `AttributeError` where there is none."""
    module, _, path = point.where.partition(":")
    owner: Any = import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name, getattr(owner, name)


def install(point: Point, die: Callable[[], object]) -> None:
    """Replace the attribute of a point, so that `die` is called there."""
    owner, name, original = target(point)
    calls = 0

    def meant(arguments: Sequence[Any]) -> bool:
        nonlocal calls
        calls += not point.given or point.given in arguments
        return calls == point.nth and (not point.given or point.given in arguments)

    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def replaced(*arguments: Any, **options: Any) -> Any:
            if point.when == "before" and meant(arguments):
                die()
            answer = await original(*arguments, **options)
            if point.when == "after" and meant(arguments):
                die()
            return answer

    elif inspect.isgeneratorfunction(original) and point.when == "after":

        @functools.wraps(original)
        def replaced(*arguments: Any, **options: Any) -> Iterator[Any]:
            for value in original(*arguments, **options):
                if meant(arguments):
                    die()
                yield value

    else:

        @functools.wraps(original)
        def replaced(*arguments: Any, **options: Any) -> Any:
            if point.when == "before" and meant(arguments):
                die()
            answer = original(*arguments, **options)
            if point.when == "after" and meant(arguments):
                die()
            return answer

    setattr(owner, name, replaced)


@dataclass(slots=True)
class Crashes:
    """What came of crashing at each point. `missed`: those that nothing came to."""

    store: str
    seed: int
    hit: list[str] = field(default_factory=list[str])
    missed: list[str] = field(default_factory=list[str])
    found: dict[str, Any] = field(default_factory=dict[str, Any])


def crash_at(place: Place, store: str, chosen: Sequence[Point], seed: int) -> Crashes:
    """Crash at one point after the other, each life on what the last one left; then let everything end well."""
    crashes, journal, life = Crashes(store, seed), place.journal(), Life.of(place)
    deeds: dict[str, Deed] = {}
    chance = random.Random(seed)
    for number, point in enumerate(chosen):
        of_hub = chance.getrandbits(32)
        known = list(deeds.values())

        def live(
            pipe: int, point: Point = point, name: str = f"p{number}", of_hub: int = of_hub, known: list[Deed] = known
        ) -> None:
            def die() -> NoReturn:
                os.write(pipe, HIT)
                os.kill(os.getpid(), signal.SIGKILL)
                raise SystemExit  # never

            install(point, die)
            if point.leaves:
                life.and_leave(name, of_hub, known)
            else:
                life.under_load(name, of_hub, known, lambda word: None)

        child = forked(live, place.errors)
        try:
            hit = child.everything(LIMIT) == HIT and child.ended() == -signal.SIGKILL
        except HungError:
            hit = False
        (crashes.hit if hit else crashes.missed).append(point.name)
        journal.catch_up(deeds)
    crashes.found = answer_of(lambda: life.to_the_end(list(deeds.values())), place.errors)
    return crashes
