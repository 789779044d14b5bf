"""The inbox of a PostgreSQL database: what one hub has for a case that another one works, and what has become of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from pydantic_core import from_json, to_json

from casehub.adapters.input_codec import decode_input, encode_input
from casehub.adapters.postgres.claims import FREE
from casehub.adapters.postgres.connection import Connection
from casehub.errors import FactError
from casehub.events import CaseId
from casehub.inputs import Input
from casehub.sharing import Posted

KEPT: Final = "1 hour"
"""How long what has become of an input is kept; its key is kept with the case."""
MOST: Final = 1_000
"""Inputs that are looked at in one go."""

_POST: Final = """INSERT INTO inbox (post, tenant, case_id, input) VALUES (?, ?, ?, ?)
ON CONFLICT (post) DO UPDATE SET posted = now()"""
_TELL: Final = "SELECT pg_notify(channel(), 'inbox')"
_TIDY: Final = f"DELETE FROM inbox WHERE outcome IS NOT NULL AND posted < now() - interval '{KEPT}'"  # noqa: S608 - the constant above
_POSTED: Final = f"""SELECT i.post, i.case_id, i.input FROM inbox AS i JOIN cases AS c USING (tenant, case_id)
WHERE i.tenant = :tenant AND i.outcome IS NULL AND (c.owner = :hub OR {FREE.format(c="c")})
ORDER BY i.posted LIMIT :most"""  # noqa: S608 - the clause of another module
_ANSWER: Final = "UPDATE inbox SET outcome = ? WHERE post = ? AND outcome IS NULL"
_ANSWERS: Final = "SELECT post, outcome FROM inbox WHERE post = ANY(?) AND outcome IS NOT NULL"


def post_input(connection: Connection, case: CaseId, input: Input, tenant: str) -> str:
    """Put an input into the inbox: once for each key. Raises `FactError` for one that cannot be sent."""
    text = encode_input(input)
    post = to_json([tenant, case, input.key]).decode() if input.key else uuid4().hex
    connection.execute(_TIDY)
    connection.execute(_POST, (post, tenant, case, text))
    connection.execute(_TELL)
    return post


def posted_to(connection: Connection, hub: str, tenant: str) -> Sequence[Posted]:
    """What is to be answered by this hub, or by any."""
    found: list[Posted] = []
    values = {"hub": hub, "tenant": tenant, "most": MOST}
    for post, case, text in connection.execute(_POSTED, values).fetchall():
        try:
            input = decode_input(text)
        except FactError:
            continue  # of a hub of another release, for another such
        input.post = post
        found.append(Posted(post, CaseId(case), input))
    return found


def answer_post(connection: Connection, post: str, outcome: Mapping[str, Any]) -> None:
    """Say what has become of an input, unless its turn has said so."""
    connection.execute(_ANSWER, (to_json(outcome).decode(), post))
    connection.execute(_TELL)


def answers_to(connection: Connection, posts: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """What has become of these inputs."""
    return {post: from_json(outcome) for post, outcome in connection.execute(_ANSWERS, (list(posts),)).fetchall()}
