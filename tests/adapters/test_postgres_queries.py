"""Queries of the PostgreSQL store cost what they answer, however long the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from casehub.adapters.postgres import PostgresStore
from casehub.adapters.postgres.connection import Connection
from casehub.adapters.postgres.log import Session
from casehub.testing.event_logs import committed, opened
from tests.adapters.test_sqlite_queries import FLAT, fastest, turns_of


async def build(store: PostgresStore, cases: int) -> None:
    """A log of that many cases of twenty events, which lie between each other."""
    async with opened(store):
        for first in range(0, cases, 250):
            for turns in zip(*[turns_of(number) for number in range(first, first + 250)], strict=True):
                await committed(store, *turns)


@contextmanager
def asking(store: PostgresStore) -> Iterator[Session]:
    connection = Connection(store.place)
    connection.run("ANALYZE events; ANALYZE cases")
    yield Session(connection)
    connection.close()


@pytest.mark.slow
async def test_answers_take_no_longer_from_a_log_ten_times_as_long(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await build(store, 250)
    with asking(store) as session:
        short = {name: fastest(question, session, 30) for name, question in FLAT.items()}
        connection = session.connection
        connection.run(f"DROP SCHEMA {store.place.schema} CASCADE")
    await build(store, 2_500)
    with asking(store) as session:
        ratios = {name: fastest(question, session, 30) / short[name] for name, question in FLAT.items()}
    assert {name: round(ratio, 1) for name, ratio in ratios.items() if ratio > 3} == {}
