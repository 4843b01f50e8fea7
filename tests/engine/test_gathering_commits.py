"""Outcomes that come in great numbers gather for a moment; a lone one is written at once."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from mulligan.core.job import Lease
from mulligan.core.outcome import Done, Outcome, Verdict
from mulligan.engine.breakers import Ending
from mulligan.engine.committer import GATHER_FOR, LONGEST_GATHER, MANY, Committer
from mulligan.engine.events import Events
from mulligan.engine.reporter import Reporter
from mulligan.stores.memory import MemoryStore
from mulligan.testing.virtual import VirtualLoop

TOOK = LONGEST_GATHER / GATHER_FOR / 2


class Slow(MemoryStore):
    """Notes when each commit was sent, and how many it wrote; each takes a while."""

    def __init__(self, took: float) -> None:
        super().__init__()
        self.took = took
        self.sent: list[tuple[float, int]] = []

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        self.sent.append((round(asyncio.get_running_loop().time(), 6), len(outcomes)))
        await asyncio.sleep(self.took)
        return ["stale"] * len(outcomes)


def play(took: float, act: Callable[[Callable[[int], None], Committer], Any]) -> Slow:
    """The store, after outcomes were added as `act` says, on a clock that only waiting moves."""

    async def main() -> Slow:
        store = Slow(took)
        reporter = Reporter(store)
        clock = asyncio.get_running_loop().time
        committer = Committer(store, reporter, Events({}, reporter, None), clock)
        running = asyncio.ensure_future(committer.run())

        def add(count: int) -> None:
            for number in range(count):
                committer.add(Done(Lease(str(number), 1), None), Ending("q", "r"))

        playing: Coroutine[Any, Any, None] = act(add, committer)
        await playing
        running.cancel()
        return store

    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def test_what_comes_after_many_is_written_together():
    async def act(add: Callable[[int], None], _committer: Committer) -> None:
        add(MANY)
        await asyncio.sleep(1.5 * TOOK)
        add(3)
        await asyncio.sleep(TOOK)
        add(4)
        await asyncio.sleep(1)

    gathered = round((1 + GATHER_FOR) * TOOK, 6)
    assert play(TOOK, act).sent == [(0.0, MANY), (gathered, 7)]


def test_it_gathers_for_a_few_milliseconds_however_long_a_commit_takes():
    async def act(add: Callable[[int], None], _committer: Committer) -> None:
        add(MANY)
        await asyncio.sleep(0.5)
        add(1)
        await asyncio.sleep(5)

    assert play(1.0, act).sent == [(0.0, MANY), (1.0 + LONGEST_GATHER, 1)]


def test_few_and_lone_outcomes_are_written_at_once():
    async def act(add: Callable[[int], None], _committer: Committer) -> None:
        add(MANY - 1)
        await asyncio.sleep(TOOK / 2)
        add(1)
        await asyncio.sleep(1)
        add(1)
        await asyncio.sleep(1)

    assert play(TOOK, act).sent == [(0.0, MANY - 1), (TOOK, 1), (round(1 + TOOK / 2, 6), 1)]


def test_nothing_gathers_while_somebody_waits_until_all_is_written():
    async def act(add: Callable[[int], None], committer: Committer) -> None:
        add(MANY)
        await asyncio.sleep(1.5 * TOOK)
        add(MANY)
        await committer.flushed()
        add(1)
        await asyncio.sleep(0)

    assert play(TOOK, act).sent[:2] == [(0.0, MANY), (round(1.5 * TOOK, 6), MANY)]
