"""A pull request: reviews that are cases of their own, of which two have to approve, and a merge that is undone.

What the change touches decides which reviews there are. Each is offered to those who know the area, and who declines
leaves it to the others (`on_declined="reroute"`). With two approvals the other reviews are called off; once two cannot
come together any more, the request is closed. A merge that breaks the build is taken back.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from casehub import (
    CaseDefinition,
    HumanTask,
    HumanTaskCreated,
    HumanTaskDeclined,
    SubCaseEnded,
    WorkerExecutionDeclined,
    WorkerExecutionExpired,
    any_of,
)
from casehub.testing import CaseTestKit

KNOWS = {
    "security": ["ada", "grace"],
    "database": ["edsger"],
    "frontend": ["mary", "joan"],
    "style": ["joan", "barbara"],
}


@dataclass
class Verdict:
    approved: bool
    remark: str = "looks good"


class Repository:
    """Stands in for a repository and its build."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.breaks = breaks
        self.main = ["initial"]

    async def merge(self, title: str) -> str:
        if title not in self.main:  # a merge that is repeated after a crash merges nothing
            self.main.append(title)
        return title

    async def build(self) -> bool:
        return not self.breaks

    async def revert(self, title: str) -> None:
        self.main = [each for each in self.main if each != title]


# ---- a review, which faults when changes are asked for

review = CaseDefinition("review", goal="approval")
review.goal("changes requested", when=lambda verdict: not verdict.approved, failure=True)


@review.human_task(writes="verdict", on_declined="reroute", on_exhausted="fault_case")
def look_at(title: str, area: str) -> HumanTask[Verdict]:
    return HumanTask(f"{title}: {area}", Verdict, users=KNOWS[area], due="1d")


@review.worker(writes="approval", when=lambda verdict: verdict.approved)
async def approve(area: str, verdict: Verdict) -> str:
    return f"{area} {verdict.remark}"


# ---- the pull request

pull_request = CaseDefinition("pull-request", goal=any_of("released", "reverted", "closed"))


@pull_request.resource
async def repository() -> AsyncIterator[Repository]:
    yield Repository()


@pull_request.worker(writes="areas")
async def analyse(files: list[str]) -> list[str]:
    return sorted({"style", *(file.partition("/")[0] for file in files)} & set(KNOWS))


@pull_request.worker(writes="tested", each="files")
async def test(file: str) -> str:
    return f"{file} passes its tests"


@pull_request.sub_case(review, writes="approvals", takes="approval", need=2, timeout="14d")
def have_reviewed(title: str, areas: list[str]) -> list[dict[str, str]]:
    return [{"title": title, "area": area} for area in areas]


@pull_request.worker(writes="closed", on=[WorkerExecutionDeclined, WorkerExecutionExpired])
async def close(title: str) -> str:
    """Too few can still approve, which is what declines an activation of several sub-cases; or they take too long."""
    return f"{title} is closed"


@pull_request.worker(writes="commit")
async def merge(title: str, approvals: list[str], tested: list[str], repository: Repository) -> str:
    return await repository.merge(title)


@pull_request.worker(writes="built")
async def build(commit: str, repository: Repository) -> bool:
    return await repository.build()


@pull_request.worker(writes="released", when=lambda built: built)
async def release(commit: str, built: bool) -> str:
    return f"{commit} is released"


@pull_request.worker(writes="reverted", when=lambda built: not built)
async def revert(commit: str, repository: Repository) -> str:
    await repository.revert(commit)
    return f"{commit} broke the build and is taken back"


# ---- as it went


async def main() -> None:
    async with CaseTestKit(pull_request) as kit:
        kit.replace(repository, Repository(breaks=True))

        @kit.hub.on(HumanTaskCreated, HumanTaskDeclined, SubCaseEnded)
        async def tell(event: HumanTaskCreated | HumanTaskDeclined | SubCaseEnded) -> None:
            if isinstance(event, HumanTaskCreated):
                print(f"{event.title}: for {' or '.join(event.users)}")
            elif isinstance(event, HumanTaskDeclined):
                print(f"declined by {event.by}: {event.reason}")
            elif event.binding == "have_reviewed":
                print(f"{event.child} is {event.status}: {event.reason}")

        files = ["database/schema.sql", "security/tokens.py"]
        case = await kit.start(pull_request, title="New login", files=files, case_id="pr-7")
        await kit.settle()
        database, security, style = (f"pr-7/have_reviewed/1.{number}/look_at/1" for number in (1, 2, 3))
        await kit.hub.tasks.decline(security, "not my cipher", by="user:ada")
        await kit.hub.tasks.complete(database, Verdict(False, "where is the index?"), by="user:edsger")
        await kit.hub.tasks.complete(style, Verdict(True), by="user:joan")
        await kit.settle()
        print((await case.explain("have_reviewed"))[0])
        await kit.hub.tasks.complete(security, Verdict(True), by="user:grace")
        context = await case.completed()
        print(context["approvals"], context["reverted"], sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
