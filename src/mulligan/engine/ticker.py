"""The ticker: sees to it that the next tick of every periodic task is enqueued, once.

The next tick is always a delayed job, under an id that all processes give it alike. What was placed
last is noted in the store: ticks that were missed while no process was alive are made up for by
one run, of the latest of them.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from mulligan.core.periodic import PREFIX, Periodic
from mulligan.engine.store_retry import StoreRetry
from mulligan.engine.tracing import Tracing, store_traced
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
FOREVER = 10 * 365 * 86_400.0
LONGEST_SLEEP, SHORTEST_SLEEP = 60.0, 0.01


def tick_id(task: str, tick: float) -> str:
    """The id of the job of a tick."""
    return f"{task}@{datetime.fromtimestamp(tick, UTC):%Y-%m-%dT%H:%M:%SZ}"


class Ticker:
    """Every worker of the app runs one; that several do so changes nothing."""

    def __init__(
        self, store: Store, periodic: Sequence[Periodic], tracing: Tracing | None = None
    ) -> None:
        self._store = store
        self._tracing = tracing
        self._periodic = periodic
        self._store_retry = StoreRetry("periodic tasks")

    async def run(self) -> None:
        """Place ticks until cancelled."""
        while True:
            pause = await self._store_retry.call(self.place)
            await asyncio.sleep(pause)

    async def place(self) -> float:
        """Enqueue what is due to be; seconds until there is more to do."""
        now = (await self._store.facts()).now
        placed = await self._store.notes(PREFIX)
        for each in self._periodic:
            noted = placed.get(each.note)
            ticks = each.due(None if noted is None else float(noted), now)
            if ticks:
                delays = [max(0.0, tick - now) for tick in ticks]
                ids = [tick_id(each.task, tick) for tick in ticks]
                jobs = [each.make(job, delay) for job, delay in zip(ids, delays, strict=True)]
                await store_traced(self._tracing, jobs, self._store.enqueue)
                await self._store.note(each.note, repr(ticks[-1]).encode(), FOREVER)
                log.info("task %s: next at %s", each.task, ids[-1].rpartition("@")[2])
        ahead = min(each.schedule.after(now) for each in self._periodic)
        return min(max(ahead - now, SHORTEST_SLEEP), LONGEST_SLEEP)
