"""The threads that ask a database: who has waited longest is answered first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from casehub.adapters.readers import Reader, Readers

T = TypeVar("T")


class Ledger(Reader[list[int]]):
    """Has the numbers of those that were answered, in this order."""

    def __init__(self) -> None:
        self.served: list[int] = []

    def answer(self, question: Callable[[list[int]], T]) -> T:
        return question(self.served)

    def close(self) -> None: ...


async def test_of_a_hundred_who_ask_again_and_again_nobody_is_overtaken_twice_by_the_same() -> None:
    """S078. Counted in answers to others, so that it does not depend on how fast the machine is."""
    ledger = Ledger()
    readers = Readers("readers", lambda: ledger, threads=1)

    async def ask_on(number: int) -> None:
        for _ in range(20):
            await readers.ask(lambda served: served.append(number))

    await asyncio.gather(*(ask_on(number) for number in range(100)))
    await readers.close()
    rounds = [ledger.served[at : at + 100] for at in range(0, 2_000, 100)]
    assert [sorted(each) for each in rounds] == [list(range(100))] * 20
    last = dict.fromkeys(range(100), -1)
    waits = list[int]()
    for at, number in enumerate(ledger.served):
        waits.append(at - last[number])
        last[number] = at
    assert max(waits) < 3 * sum(waits) / len(waits)
