"""Numbered steps that make the schema of a database, and what a check of a database comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from casehub.errors import SchemaError


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema. A released one is never edited: databases remember its hash."""

    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. `fault`: something is broken; otherwise it is advice."""

    fault: bool
    text: str


def version_of(applied: Sequence[tuple[int, str, str]], migrations: Sequence[Migration], database: str) -> int:
    """The version that migrations (number, name, hash, in order) have brought a database to; 0 for none.

    Raises `SchemaError` when the database is newer, or was made by other migrations.
    """
    known = {step.version: step for step in migrations}
    for version, name, digest in applied:
        if version not in known:
            raise SchemaError(
                f"{database}: its schema is version {applied[-1][0]} ({applied[-1][1]}), and this CaseHub knows versions up to "
                f"{migrations[-1].version}; upgrade CaseHub, or use another database"
            )
        if known[version].sha256 != digest:
            raise SchemaError(
                f"{database}: migration {version} ({name}) is not the one of this CaseHub; use the release that made the "
                "database, or restore a backup"
            )
    return applied[-1][0] if applied else 0
