"""What a reaper does when it cannot write what became of the jobs that it has reclaimed."""

import asyncio
import random
from typing import Any

from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import NewJob
from mulligan.core.worker import Worker
from mulligan.engine.cancel import cancel_tasks
from mulligan.engine.committer import Committer
from mulligan.engine.facts_cell import FactsCell
from mulligan.engine.reaper import BATCH, Reaper
from mulligan.engine.reporter import Reporter
from mulligan.stores.memory import MemoryStore
from tests.engine.running import until
from tests.store_kit import VirtualClock

JOBS = 2 * BATCH + 50
DEAD = Worker("dead", concurrency=JOBS)


class HeldUp(MemoryStore):
    """A store whose commits are held up, by somebody's lock perhaps, until they are let go."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock=clock)
        self.asked = asyncio.Event()
        self.free = asyncio.Event()

    async def commit(self, *args: Any) -> Any:
        """Wait first."""
        self.asked.set()
        await self.free.wait()
        return await super().commit(*args)


async def test_it_reclaims_no_more_while_what_it_reclaimed_is_not_written():
    clock = VirtualClock()
    store = HeldUp(clock)
    await store.enqueue([NewJob(f"j{number}", "default", "t", b"{}") for number in range(JOBS)])
    cell = FactsCell()
    facts = cell.current = (await store.beat(DEAD, [])).facts
    await store.claim(plan_claim(JOBS, "default", [("default", Carry())], facts), DEAD)
    clock.advance(2 * DEAD.lease)
    committer = Committer(store, Reporter(store), asyncio.get_running_loop().time)
    reaper = Reaper(
        store,
        Worker("w"),
        lambda claim: claim,
        committer,
        facts=cell,
        every=0.001,
        chance=random.Random(1),
    )
    loops = [asyncio.ensure_future(committer.run()), asyncio.ensure_future(reaper.run())]
    try:
        await store.asked.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert reaper.reclaimed == BATCH
        store.free.set()

        async def all_written() -> bool:
            return committer.written == JOBS

        await until(all_written)
    finally:
        await cancel_tasks(loops)
