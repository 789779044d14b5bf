"""A security incident. What cannot be undone is planned, and people approve it before it is done.

Blocking an address passes by itself, isolating a machine takes two people of the security team, and the process may end
while they think about it: here it does.
"""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from casehub import ActionEvent, CaseDefinition, CaseHub, Gate, Planned, WorkerExecution


@dataclass
class Block:
    address: str


@dataclass
class Isolation:
    host: str
    because: str


async def block(action: Block) -> str:
    return f"{action.address} is blocked"


async def isolate(action: Isolation, execution: WorkerExecution) -> str:
    # The firewall does what it has done for this key already only once.
    return f"{action.host} is isolated, once for {execution.idempotency_key}"


def is_ours(action: Block) -> bool:
    return action.address.startswith("10.")


incident = CaseDefinition("incident", goal="report")


@incident.worker(writes="blocked", gate=Gate(block, risk=is_ours, groups=["secops"]))
async def stop_attacker(attacker: str) -> Planned[Block]:
    return Planned(Block(attacker), f"Block {attacker}")


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
