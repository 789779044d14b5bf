"""The PostgreSQL store keeps the contract of stores."""

from __future__ import annotations

import pytest

from casehub.adapters.postgres import PostgresStore
from casehub.testing.stores import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store(self, postgres_url: str) -> PostgresStore:
        return PostgresStore(postgres_url)


class TestPostgresStoreWithMarksEverywhere(StoreContract):
    """Where there are marks within every case, cases are forgotten at once, tails are short, and statements too."""

    @pytest.fixture
    def store(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
        monkeypatch.setattr("casehub.adapters.group.MARK_EVERY", 7)
        monkeypatch.setattr("casehub.adapters.group.KNOWN_CASES", 3)
        monkeypatch.setattr("casehub.adapters.sql_log.TAIL_BATCH", 10)
        monkeypatch.setattr("casehub.adapters.postgres.group.PART", 50)
        return PostgresStore(postgres_url)


class TestPostgresStoreThatReadsAlong(StoreContract):
    """Where every query means more kinds than are looked up one by one."""

    @pytest.fixture
    def store(self, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
        monkeypatch.setattr("casehub.adapters.sql_log.KINDS_MOST", 0)
        return PostgresStore(postgres_url)
