"""The ticker: enqueues the next tick of every periodic task, once.

The next tick is a delayed job whose id is the same in all processes. The last tick enqueued is
noted in the store. If ticks were missed while no process ran, only the latest of them is run.
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
    """The id of the job of a tick: the same in every process."""
    return f"{task}@{datetime.fromtimestamp(tick, UTC):%Y-%m-%dT%H:%M:%SZ}"


class Ticker:
    """Every worker of the app runs one; any number of them enqueue each tick once."""

    def __init__(
        self, store: Store, periodic: Sequence[Periodic], tracing: Tracing | None = None
    ) -> None:
        self._store = store
        self._tracing = tracing
        self._periodic = periodic
        self._store_retry = StoreRetry("periodic tasks")

    async def run(self) -> None:
        """Enqueue ticks until cancelled."""
        while True:
            pause = await self._store_retry.call(self.enqueue_due)
            await asyncio.sleep(pause)

    async def enqueue_due(self) -> float:
        """Enqueue the ticks that are missing; returns the seconds until the next call."""
        now = (await self._store.facts()).now
        noted = await self._store.notes(PREFIX)
        for each in self._periodic:
            last = noted.get(each.note)
            ticks = each.due(None if last is None else float(last), now)
            if ticks:
                delays = [max(0.0, tick - now) for tick in ticks]
                ids = [tick_id(each.task, tick) for tick in ticks]
                jobs = [each.make(job, delay) for job, delay in zip(ids, delays, strict=True)]
                await store_traced(self._tracing, jobs, self._store.enqueue)
                await self._store.note(each.note, repr(ticks[-1]).encode(), FOREVER)
                log.info("task %s: next at %s", each.task, ids[-1].rpartition("@")[2])
        following = min(each.schedule.after(now) for each in self._periodic)
        return min(max(following - now, SHORTEST_SLEEP), LONGEST_SLEEP)
