"""Whose a case is in a PostgreSQL database: each statement is one compare-and-set, in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from casehub.adapters.postgres.connection import LOST, Connection, Place
from casehub.adapters.readers import Reader
from casehub.errors import StoreUnavailableError
from casehub.events import CaseId
from casehub.sharing import Elsewhere
from casehub.spi import Claim

T = TypeVar("T")

FREE: Final = "NOT EXISTS (SELECT FROM hubs AS o WHERE o.boot = {c}.owner)"
"""Whether no hub that there is has a case."""
_ENDED: Final = "('COMPLETED', 'FAULTED', 'CANCELLED')"

_CLAIM: Final = f"""UPDATE cases AS c SET owner = h.boot, epoch = c.epoch + 1 FROM hubs AS h
WHERE h.boot = :hub AND c.tenant = :tenant AND c.case_id = :case AND (:ended OR c.status NOT IN {_ENDED})
    AND (c.owner = h.boot OR (NOT h.draining AND {FREE.format(c="c")})) RETURNING c.epoch"""  # noqa: S608 - the clauses above
_WHOSE: Final = """SELECT c.epoch, c.owner, c.status, coalesce(h.name, ''), h.boot IS NOT NULL AND NOT EXISTS (
    SELECT FROM pg_stat_activity AS a WHERE a.pid = h.pid AND coalesce(a.backend_start, h.began) = h.began)
FROM cases AS c
LEFT JOIN hubs AS h ON h.boot = c.owner WHERE c.tenant = :tenant AND c.case_id = :case"""
_RELEASE: Final = "UPDATE cases SET owner = '' WHERE tenant = ? AND case_id = ? AND owner = ? AND epoch = ?"
_LEAD: Final = f"""INSERT INTO leads AS l SELECT :tenant, :name, boot FROM hubs WHERE boot = :hub
ON CONFLICT (tenant, name) DO UPDATE SET owner = excluded.owner
WHERE l.owner = excluded.owner OR {FREE.format(c="l")} RETURNING l.owner"""  # noqa: S608 - the clauses above
_ORPHANS: Final = f"""SELECT c.case_id FROM cases AS c
WHERE c.tenant = ? AND c.status IN ('STARTING', 'RUNNING') AND {FREE.format(c="c")} ORDER BY c.no"""  # noqa: S608 - the clauses above


def claim_case(
    connection: Connection, hub: str, case: CaseId, tenant: str, *, ended: bool = False
) -> Claim | Elsewhere:
    """Take a case up for a hub. A case that is not there has epoch 0, and so has the claim."""
    values = {"hub": hub, "tenant": tenant, "case": case, "ended": ended}
    row = connection.execute(_CLAIM, values).fetchone()
    if row is not None:
        return Claim(hub, row[0])
    row = connection.execute(_WHOSE, {"tenant": tenant, "case": case}).fetchone()
    if row is None:
        return Claim(hub)
    epoch, owner, status, name, gone = row
    if status in _ENDED and not ended:
        return Claim(hub, epoch)  # nothing is written to it but by who asks for it as such
    return Elsewhere(name, gone) if owner != hub else Elsewhere("")


def lead_as(connection: Connection, hub: str, name: str, tenant: str) -> bool:
    """Whether a hub is the one that follows the log under a name, from now on or already."""
    return connection.execute(_LEAD, {"tenant": tenant, "name": name, "hub": hub}).fetchone() is not None


def release_case(connection: Connection, claim: Claim, case: CaseId, tenant: str) -> None:
    connection.execute(_RELEASE, (tenant, case, claim.hub, claim.epoch))


def orphans_of(connection: Connection, tenant: str) -> Sequence[CaseId]:
    return [CaseId(case) for (case,) in connection.execute(_ORPHANS, (tenant,)).fetchall()]


class Claimant(Reader[Connection]):
    """A session on the server that claims, made when it is needed and again when it has ended."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._connection: Connection | None = None

    def answer(self, question: Callable[[Connection], T]) -> T:
        """Asked once more where the session was lost: to claim twice is to have one claim, the later one."""
        try:
            try:
                return question(self._connected())
            except LOST:
                self.close()
                return question(self._connected())
        except LOST as error:
            self.close()
            said = " ".join(str(error).split())
            raise StoreUnavailableError(
                f"{self._place}: {said}; see that the server runs and can be reached"
            ) from error

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._place)
            # What follows from a claim is written behind it: a crash of the server takes a claim with nothing on it.
            self._connection.execute("SET synchronous_commit TO off")
        return self._connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
