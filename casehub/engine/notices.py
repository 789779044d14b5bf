"""What a hub tells a case before the case takes anything else: that it is held, that workers of it are left alone.

What holds for a whole hub is so in the log of each case, and told when it matters: a case at rest costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from casehub.engine.brake import Brake
from casehub.engine.quarantine import Ward
from casehub.inputs import HoldWorkers, Input, ReleaseWorker, Start
from casehub.spi import Clock
from casehub.state import CaseState


def notices(brake: Brake, ward: Ward, clock: Clock, state: CaseState, definition: str, input: Input) -> Iterator[Input]:
    """The inputs that a case takes before this one; a `Start` carries them itself.

    Each is asked for after the one before it has been taken. Raises `InputRefusedError` for an input that the brake
    forbids.
    """
    hold = brake.hold(state, definition, input) if brake.on else None
    if hold is not None:
        yield hold
    workers = ward.missing(definition, state.quarantined, clock.now()) if ward.held else {}
    if isinstance(input, Start):
        input.quarantined = workers
    elif workers and state.version:
        yield HoldWorkers(workers=workers, at=input.at)
    if state.quarantined and not state.status.ended and not isinstance(input, ReleaseWorker):
        for worker in [name for name, until in state.quarantined.items() if until is None]:
            if (definition, worker) not in ward.held:  # it was resumed when nobody could tell this case
                yield ReleaseWorker(worker=worker, by="engine", at=input.at)
