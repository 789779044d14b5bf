"""The verbs of the control socket: each is one of the hub's or of a case, called for whoever is connected."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anyio import to_thread
from pydantic import validate_call

from casehub.case import Wait
from casehub.control_tasks import TaskVerb, act
from casehub.errors import InputRefusedError, UnknownNameError, did_you_mean
from casehub.events import EVENT_TYPES, CaseId, Event
from casehub.hub import CaseHub
from casehub.retention import Retention
from casehub.stage import StageVerb
from casehub.stepping import Stepper
from casehub.transcript import read
from casehub.values import shown


class Verbs:
    """What may be asked of a hub, by name. Arguments are checked against the annotations."""

    def __init__(self, hub: CaseHub) -> None:
        self._hub = hub
        self.stepper = Stepper(hub)
        self.table: dict[str, Callable[..., Any]] = {
            name: validate_call(getattr(self, name))
            for name in (
                "bring_in",
                "cancel",
                "compensate",
                "completed",
                "context",
                "discard_letter",
                "explain",
                "fork",
                "info",
                "kill",
                "migrate",
                "plan",
                "quiescent",
                "pull_brake",
                "release_brake",
                "release_worker",
                "reroute",
                "resume",
                "retire",
                "retry_letter",
                "signal",
                "stage",
                "start",
                "status",
                "step",
                "suspend",
                "task",
                "unfault",
                "watch",
            )
        }

    async def info(self) -> Mapping[str, Any]:
        runtime = self._hub.runtime
        return {
            "parked": dict(self._hub.parked),
            "snapshots_refused": dict(self._hub.snapshots.refused),
            "working": runtime.working,
            "store": runtime.outage.trouble,
            "waiting": runtime.outage.waiting if runtime.outage.trouble else 0,
            "draining": runtime.draining,
        }

    async def start(
        self,
        definition: str,
        facts: dict[str, Any],
        case_id: str | None = None,
        goal: str | None = None,
        by: str = "user",
        step: bool = False,
    ) -> str:
        if definition not in self._hub.registry:
            raise UnknownNameError(
                f"this worker process has no definition {definition!r}; {did_you_mean(definition, self._hub.definitions)}"
            )
        start = self.stepper.start if step else self._hub.start
        return (await start(definition, facts, case_id=case_id, goal=goal, by=by)).id

    async def step(self, case: str) -> Mapping[str, Any] | None:
        step = await self.stepper.step(self._hub.case(case))
        return None if step is None else step.as_dict()

    async def status(self, case: str) -> str:
        return await self._hub.case(case).status()

    async def context(self, case: str) -> Mapping[str, Any]:
        state = await self._hub.case(case).state()
        return {fact.name: shown(fact.value) for fact in state.facts.values() if fact.visible}

    async def explain(self, case: str, binding: str | None = None) -> Sequence[Mapping[str, Any]]:
        return [
            {"binding": each.binding, "verdict": each.verdict, "text": each.text, "facts": dict(each.facts)}
            for each in await self._hub.case(case).explain(binding)
        ]

    async def plan(self, case: str) -> Mapping[str, Any] | None:
        plan = await self._hub.case(case).plan()
        return None if plan is None else asdict(plan)

    async def completed(self, case: str, timeout: str | None = None, wait_through_stall: bool = False) -> None:
        await self._hub.case(case).completed(timeout, wait_through_stall=wait_through_stall)

    async def quiescent(self, case: str, timeout: str | None = None) -> None:
        await self._hub.case(case).quiescent(timeout)

    async def signal(
        self, case: str, facts: dict[str, Any], name: str | None = None, by: str = "user", reason: str = "",
        key: str = "", expected: int | None = None, wait: Wait = "turn", timeout: str | None = None,
    ) -> None:  # fmt: skip
        what = facts if name is None else name
        if name is not None and facts:
            raise InputRefusedError("a signal is a name alone, or facts; send two")
        await self._hub.case(case).signal(
            what, by=by, reason=reason, key=key, expected=expected, wait=wait, timeout=timeout
        )

    async def suspend(self, case: str, by: str = "user", reason: str = "") -> None:
        await self._hub.case(case).suspend(by=by, reason=reason)

    async def resume(self, case: str, by: str = "user", reason: str = "") -> None:
        await self._hub.case(case).resume(by=by, reason=reason)

    async def reroute(self, case: str, binding: str, to: str, by: str, reason: str) -> None:
        await self._hub.case(case).reroute(binding, to=to, by=by, reason=reason)

    async def unfault(self, case: str, facts: dict[str, Any], by: str, reason: str, retry: bool) -> None:
        await self._hub.case(case).unfault(facts, by=by, reason=reason, retry=retry)

    async def stage(
        self, case: str, stage: str, act: StageVerb, by: str = "user", reason: str = "", key: str = ""
    ) -> None:
        await self._hub.case(case).stage(stage).steer(act, by=by, reason=reason, key=key)

    async def cancel(self, case: str, by: str = "user", reason: str = "", grace: str = "5s") -> None:
        await self._hub.case(case).cancel(by=by, reason=reason, grace=grace)

    async def kill(self, case: str, by: str = "user", reason: str = "") -> None:
        await self._hub.case(case).kill(by=by, reason=reason)

    async def compensate(self, case: str, what: str, by: str = "user", reason: str = "") -> None:
        await self._hub.case(case).compensate(what, by=by, reason=reason)

    async def retry_letter(self, letter: str, facts: dict[str, Any], by: str = "user", reason: str = "") -> None:
        await self._hub.dead_letters.retry(letter, facts, by=by, reason=reason)

    async def pull_brake(
        self, definition: str | None = None, worker: str | None = None, by: str = "user", reason: str = ""
    ) -> int:
        return await self._hub.brake.pull(definition, worker=worker, by=by, reason=reason)

    async def release_brake(
        self, definition: str | None = None, worker: str | None = None, by: str = "user", reason: str = ""
    ) -> int:
        return await self._hub.brake.release(definition, worker=worker, by=by, reason=reason)

    async def release_worker(self, definition: str, worker: str, by: str = "user", reason: str = "") -> None:
        await self._hub.quarantine.release(definition, worker, by=by, reason=reason)

    async def migrate(self, definition: str) -> Sequence[Mapping[str, Any]]:
        return [asdict(each) for each in await self._hub.migrate(definition)]

    async def fork(
        self, case: str, at: str | None = None, facts: dict[str, Any] | None = None, fork_id: str | None = None,
        by: str = "user", reason: str = "",
    ) -> str:  # fmt: skip
        return (await self._hub.fork(case, at, facts, fork_id=fork_id, by=by, reason=reason)).id

    async def bring_in(self, path: str, case_id: str | None = None, dry_run: bool = False) -> Mapping[str, Any]:
        transcript = await to_thread.run_sync(read, Path(path))
        return asdict(await self._hub.bring_in(transcript, case_id=case_id, dry_run=dry_run))

    async def retire(self, after: str, archive: str | None = None) -> Mapping[str, Any]:
        return asdict(await self._hub.retention.run(Retention(after, archive)))

    async def discard_letter(self, letter: str, by: str = "user", reason: str = "") -> None:
        await self._hub.dead_letters.discard(letter, by=by, reason=reason)

    async def task(
        self, do: TaskVerb, task: str, by: str, groups: list[str] | None = None, key: str = "", to: str = "",
        text: str = "", answer: Any = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        return await act(self._hub.tasks, do, task, by, groups, key, to, text, answer)

    async def watch(
        self, names: Sequence[str] = (), case: str | None = None, after: int | None = None
    ) -> AsyncIterator[Event]:
        for name in names:
            if name not in EVENT_TYPES:
                raise UnknownNameError(f"there is no event {name!r}; {did_you_mean(name, EVENT_TYPES)}")
        kinds = [EVENT_TYPES[name] for name in names] or [Event]
        with self._hub.watch(*kinds, case=None if case is None else CaseId(case), after=after) as events:
            async for event in events:
                yield event
