"""A family's holiday: workers prepare it, a plan within the budget is booked, and a dear one is put to the vote.

Everybody in the family is asked by a task of their own (`each=`), and who does not answer in two days abstains. A plan
that is voted down leads to the next wish. Nobody wrote that loop down: it follows from who reads what.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from casehub import ABSENT, CaseDefinition, ContextChanged, HumanTask
from casehub.testing import CaseTestKit


@dataclass
class Offer:
    place: str
    price: int


@dataclass
class Forecast:
    place: str
    weather: str


@dataclass
class Plan:
    place: str
    price: int
    why: str


@dataclass
class Vote:
    yes: bool
    remark: str = ""


WISHES = ["Iceland", "Portugal", "the garden"]
PRICES = {"Iceland": 1100, "Portugal": 650, "the garden": 0}
WEATHER = {"Iceland": "12 degrees", "Portugal": "27 degrees", "the garden": "rain"}

holiday = CaseDefinition("holiday", goal="booking", facts={"votes": list[Vote | None]})  # None: abstained


# ---- what workers prepare, side by side


@holiday.worker(writes="place")
async def suggest(rejected: list[str] | None = None) -> str:
    """The first wish that has not been voted down."""
    return next(place for place in WISHES if place not in (rejected or []))


@holiday.worker(writes="limit")
async def look_at_savings(savings: int) -> int:
    return savings // 2


@holiday.worker(writes="forecast")
async def look_at_weather(place: str) -> Forecast:
    return Forecast(place, WEATHER[place])


@holiday.worker(writes="offer")
async def ask_for_price(place: str, family: list[str]) -> Offer:
    return Offer(place, PRICES[place] * len(family))


def are_about_the_same(place: str, offer: Offer, forecast: Forecast) -> bool:
    """A new place is there before its price and its weather are; until then there is nothing to propose."""
    return offer.place == forecast.place == place


@holiday.worker(writes="plan", when=are_about_the_same)
async def propose(offer: Offer, forecast: Forecast) -> Plan:
    return Plan(offer.place, offer.price, forecast.weather)


# ---- what the family decides


def is_dear(plan: Plan, limit: int) -> bool:
    return plan.price > limit


@holiday.human_task(writes="votes", each="family", when=is_dear, on_expired="ignore")
def vote(member: str, plan: Plan) -> HumanTask[Vote]:
    return HumanTask(f"{member}: {plan.place} for {plan.price}, {plan.why}?", Vote, users=[member], expires="2d")


@holiday.worker(writes=["votes", "agreed", "rejected"])
async def count(plan: Plan, votes: list[Vote | None], rejected: list[str] | None = None) -> Mapping[str, object]:
    """A majority of the votes that were cast; votes that are counted are gone, so that none counts for another plan."""
    cast = [vote for vote in votes if vote is not None]
    if sum(vote.yes for vote in cast) * 2 > len(cast):
        return {"votes": ABSENT, "agreed": plan.place}
    return {"votes": ABSENT, "rejected": [*(rejected or []), plan.place]}


def is_settled(plan: Plan, limit: int, agreed: str = "") -> bool:
    return not is_dear(plan, limit) or agreed == plan.place


@holiday.worker(writes="booking", when=is_settled)
async def book(plan: Plan) -> str:
    return f"{plan.place} for {plan.price}"


# ---- as it went, on a clock that moves when it is told to


async def main() -> None:
    async with CaseTestKit(holiday) as kit:

        @kit.hub.on(ContextChanged, case="holiday-1")
        async def tell(event: ContextChanged) -> None:
            for name in ("plan", "votes", "agreed", "rejected"):
                if name in event.facts:
                    print(f"{event.at:%d %b} {name}: {event.facts[name]}")

        async def answer(**votes: bool) -> None:
            await kit.settle()
            for member, yes in votes.items():
                (task,) = await kit.hub.tasks.list(user=member)
                await kit.hub.tasks.complete(task.id, Vote(yes), by=f"user:{member}")

        case = await kit.start(holiday, family=["ada", "ben", "cleo", "dan"], savings=5000)
        await answer(ada=True, ben=False, cleo=False, dan=False)
        await answer(ada=True, cleo=True, dan=False)
        await kit.advance("2d")  # Ben has not answered
        print((await case.completed())["booking"])


if __name__ == "__main__":
    asyncio.run(main())
