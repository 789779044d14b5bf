"""A security incident. What cannot be undone is planned, and people approve it before it is done.

What is logged never waits, blocking an address passes by itself unless others are likely to be behind it too, isolating
a machine always takes two people of the security team, and the process may end while they think about it: here it does. What is behind an address a model says, and rules where the model is away; where
neither can, a person looks.
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from casehub import ActionEvent, CaseDefinition, CaseHub, Faulted, Gate, HumanTask, Planned, Quarantine, WorkerExecution


@dataclass
class Block:
    address: str
    shared: float  # how likely it is that others are behind this address too


@dataclass
class Note:
    text: str


@dataclass
class Isolation:
    host: str
    because: str


async def block(action: Block) -> str:
    return f"{action.address} is blocked"


async def isolate(action: Isolation, execution: WorkerExecution) -> str:
    # The firewall does what it has done for this key already only once.
    return f"{action.host} is isolated, once for {execution.idempotency_key}"


async def log(action: Note) -> str:
    return action.text


def hits_others(action: Block) -> bool | str:
    return f"shared with others at {action.shared}" if action.shared > 0.8 else False


def never(action: Note) -> bool:
    return False


SHARED = {"203.0.113.9": 0.1, "203.0.113.80": 0.9}

incident = CaseDefinition("incident", goal="report")


@incident.worker(writes="shared", capability="enrichment")
async def enrich_by_model(attacker: str) -> float:
    raise ConnectionError("the model is away")


@incident.worker(writes="shared", capability="enrichment")
async def enrich_by_rules(attacker: str) -> float:
    return SHARED[attacker]


incident.binding(
    "enrich",
    capability="enrichment",
    on_failed="reroute",
    quarantine=Quarantine(failures=3, within="10m", release="1h"),  # of one implementation; the other takes over
)


@incident.human_task(writes="shared", on=Faulted("enrich"))
def look_up(attacker: str) -> HumanTask[float]:
    return HumanTask(f"How likely are others behind {attacker}?", float, groups=["secops"], due="4h")


@incident.worker(writes="blocked", gate=Gate(block, risk=hits_others, groups=["secops"]))
async def stop_attacker(attacker: str, shared: float) -> Planned[Block]:
    return Planned(Block(attacker, shared), f"Block {attacker}")


@incident.worker(writes="logged", gate=Gate(log, risk=never))
async def keep_log(host: str, attacker: str) -> Planned[Note]:
    return Planned(Note(f"{host} talked to {attacker}"), "Keep it in the log")


@incident.worker(writes="isolated", gate=Gate(isolate, groups=["secops"], approvals=2, expires="4h"))
async def contain(host: str, attacker: str) -> Planned[Isolation]:
    return Planned(Isolation(host, f"it talks to {attacker}"), f"Isolate {host}")


@incident.worker(writes="report")
async def report(blocked: str, isolated: str) -> str:
    return f"{blocked}; {isolated}"


async def main(store: str) -> None:
    async with CaseHub(incident, store=store) as hub:
        case = await hub.start(incident, host="web-1", attacker="203.0.113.9", case_id="i-1")
        await case.quiescent()
        print((await case.context())["blocked"])
        (first, _) = await hub.tasks.list(user="ada", groups=["secops"])
        print(first.title, (await hub.tasks.get(first.id)).facts["action"])
        await hub.tasks.complete(first.id, {"approved": True}, by="user:ada")

    async with CaseHub(incident, store=store) as hub:  # another process, later
        (second,) = await hub.tasks.list(user="joan", groups=["secops"])
        await hub.tasks.complete(second.id, {"approved": True}, by="user:joan")
        case = hub.case("i-1")
        print((await case.completed())["report"])
        for event in await case.log.query(ActionEvent, binding="contain"):
            print(event.name, event.by)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(f"sqlite:///{Path(folder, 'cases.db')}"))
