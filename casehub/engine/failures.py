"""Attempts that end badly: what is said of one, and what follows by its binding's policy."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

from casehub.activation import Activation
from casehub.binding import Binding, Worker
from casehub.engine.attempts import next_attempt
from casehub.engine.quarantine import suspended
from casehub.errors import Declined, Permanent
from casehub.events import (
    Event,
    TimerId,
    TimerSet,
    WorkerExecutionDeclined,
    WorkerExecutionExpired,
    WorkerExecutionFailed,
)
from casehub.inputs import Returned
from casehub.policies import OnOutcome
from casehub.state import CaseState

NO_SEED: Final = random.Random(0)  # noqa: S311 - jitter needs no secret
"""Draws the jitter of retries for what follows from events; an input's is drawn by the seed of its hub."""


def failed(
    state: CaseState, chance: random.Random, binding: Binding, activation: Activation, input: Returned,
    error: BaseException | None, *, permanent: bool = False,
) -> Iterator[Event]:  # fmt: skip
    """How an attempt ended badly, and what follows by the binding's policy; without an error it expired.

    `chance` draws the jitter of its retry; a `permanent` failure is not tried again.
    """
    policy = binding.policy
    retry = policy.retry
    if error is None:
        wanted = policy.outcomes.expired
        repeatable = issubclass(TimeoutError, retry.on)
    elif isinstance(error, Declined):
        wanted = policy.outcomes.declined
        repeatable = True
    else:
        wanted = policy.outcomes.failed
        repeatable = not permanent and not isinstance(error, Permanent) and isinstance(error, retry.on)
    then, other = _then(state, wanted, activation, binding, repeatable)
    again = then in (OnOutcome.RETRY, OnOutcome.REROUTE)
    common: dict[str, Any] = {
        "binding": activation.binding,
        "activation": activation.id,
        "worker": activation.worker,
        "attempt": input.attempt,
        "settled": not again,
        "then": then.value,
        "charges": input.charges,
        "by": input.author or f"worker:{activation.worker}",
    }
    if error is None:
        yield WorkerExecutionExpired(limit=input.expired or 0.0, **common)
    elif isinstance(error, Declined):
        yield WorkerExecutionDeclined(reason=without(error.reason, input.secrets), **common)
    else:
        yield WorkerExecutionFailed(
            error=type(error).__name__,
            message=without(message_of(error), input.secrets),
            permanent=not repeatable,
            **common,
        )
    if then is OnOutcome.RETRY:
        due = input.at + retry.delay(activation.attempt - activation.interruptions, chance)
        yield TimerSet(timer=TimerId(f"retry:{activation.id}"), due=due)
    elif other is not None and state.status.working:
        yield next_attempt(activation, other.name)


def _then(
    state: CaseState, wanted: OnOutcome, activation: Activation, binding: Binding, repeatable: bool
) -> tuple[OnOutcome, Worker | None]:
    """What follows, and the worker that takes over where one does."""
    if wanted is OnOutcome.REROUTE:
        left_out = {*state.firing(binding.name).excluded, activation.worker}
        others = [
            worker for worker in binding.workers if worker.name not in left_out and not suspended(state, worker.name)
        ]
        other = next(iter(others), None)
        return (binding.policy.outcomes.exhausted, None) if other is None else (wanted, other)
    if wanted is OnOutcome.RETRY and (
        not repeatable or activation.attempt - activation.interruptions >= binding.policy.retry.attempts
    ):
        return binding.policy.outcomes.exhausted, None
    return wanted, None


def without(text: str, secrets: Sequence[str]) -> str:
    """A text in which secrets stand no more."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return text


def message_of(error: BaseException) -> str:
    """What an error says, as text that any store can write."""
    try:
        text = str(error) or type(error).__name__
    except Exception as broken:
        text = f"its text raised {type(broken).__name__}"
    text = text.encode("utf-8", "replace").decode().replace("\0", "")
    return text if len(text) <= 2_000 else text[:1_997] + "..."
