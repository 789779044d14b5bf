"""An adverse event in a clinical trial: deadlines that count from when the sponsor became aware, whatever came later.

A suspected, unexpected reaction has to be with the regulator 15 days after awareness, 7 if it threatens life. The event
here looks harmless at first. On the third day a laboratory regrades it, everything that was concluded is concluded
anew, and of the 7 days only 4 are left. Time is virtual, so the two weeks take no time.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from casehub import (
    CaseDefinition,
    HumanTask,
    HumanTaskCreated,
    HumanTaskEvent,
    HumanTaskExpired,
    absent,
    after,
    any_of,
    present,
)
from casehub.testing import CaseTestKit


@dataclass
class Report:
    patient: str
    reaction: str
    grade: int  # 1 mild, 2 moderate, 3 severe, 4 life-threatening, 5 fatal (CTCAE)
    expected: bool  # it is listed in the investigator's brochure
    aware: datetime  # when the sponsor first heard of it


@dataclass
class Review:
    suspected: bool  # the medicine may have caused it
    reason: str = ""


@dataclass
class Duty:
    days: int
    until: datetime


@dataclass
class Submission:
    receipt: str


REVIEWED_WITHIN = {1: "7d", 2: "7d", 3: "24h", 4: "24h", 5: "1h"}

adverse_event = CaseDefinition("adverse-event", goal=any_of("submission", "closed"), signals={"report": Report})


@adverse_event.human_task(writes="review")
def assess(report: Report) -> HumanTask[Review]:
    """A physician says whether the medicine is suspected; a report that changes is assessed again."""
    return HumanTask(
        f"Did the medicine cause the {report.reaction} (grade {report.grade}) of {report.patient}?",
        Review,
        groups=["physicians"],
        due=REVIEWED_WITHIN[report.grade],
    )


def is_reportable(report: Report, review: Review) -> bool:
    return report.grade >= 3 and not report.expected and review.suspected


@adverse_event.worker(writes="duty", when=is_reportable)
async def derive_duty(report: Report, review: Review) -> Duty:
    days = 7 if report.grade >= 4 else 15
    return Duty(days, report.aware + timedelta(days=days))


@adverse_event.human_task(writes="submission")
def submit(report: Report, duty: Duty) -> HumanTask[Submission]:
    """An absolute deadline: it is where it is, however late the task was created."""
    return HumanTask(
        f"Submit the {report.reaction} of {report.patient} to the regulator",
        Submission,
        groups=["regulatory affairs"],
        due=duty.until - timedelta(days=2),
        escalate=duty.until - timedelta(days=1),
        escalate_to=["heads of safety"],
        deadline=duty.until,
    )


@adverse_event.worker(writes="breach", on=HumanTaskExpired)
async def report_breach(report: Report, duty: Duty) -> str:
    return f"not submitted by {duty.until:%d %B}, {duty.days} days after awareness"


adverse_event.goal("breach reported", when=present("breach"), failure=True)


@adverse_event.worker(writes="closed", on=after("30d", since="review"), when=absent("duty"))
async def close(report: Report) -> str:
    return f"no duty to report in 30 days of follow-up, grade {report.grade}"


# ---- as it went


async def main() -> None:
    start = datetime(2030, 3, 1, 9, tzinfo=UTC)
    async with CaseTestKit(adverse_event, start=start) as kit:

        @kit.hub.on(HumanTaskEvent)
        async def tell(event: HumanTaskEvent) -> None:
            what = f": {event.title}" if isinstance(event, HumanTaskCreated) else f" by {event.by}"
            print(f"{event.at:%d %b %H:%M} {event.name} {event.binding}{what}")

        case = await kit.start(adverse_event, report=Report("P-017", "rash", 2, expected=False, aware=start))
        await kit.advance("2h")
        review = Review(suspected=False, reason="a new soap")
        await kit.hub.tasks.complete(f"{case.id}/assess/1", review, by="user:ada")
        print(f"{kit.clock.now():%d %b %H:%M} {(await case.explain('close'))[0].text}")

        await kit.advance("3d")
        worse = Report("P-017", "toxic epidermal necrolysis", 4, expected=False, aware=start)
        await case.signal(report=worse, by="laboratory")
        await kit.hub.tasks.complete(f"{case.id}/assess/2", Review(suspected=True), by="user:ada")
        await kit.settle()
        duty = (await case.context())[Duty]
        print(f"{kit.clock.now():%d %b %H:%M} {duty.days} days from awareness: until {duty.until:%d %b %H:%M}")

        await kit.advance("3d")  # nobody takes it
        (task,) = await kit.hub.tasks.list(user="grace", groups=["heads of safety"])
        await kit.hub.tasks.complete(task.id, Submission("EV-2030-118"), by="user:grace", groups=["heads of safety"])
        print((await case.completed())[Submission].receipt)


if __name__ == "__main__":
    asyncio.run(main())
