"""The housekeeper: promotes jobs that fell due, ends expired ones, deletes old ones."""

import asyncio
import logging

from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
# How often it logs what is delayed.
LOG_EVERY = 60.0


class Housekeeper:
    """Works for all queues; every worker runs one. No job depends on it being on time."""

    def __init__(self, store: Store, *, every: float, keep_done: float) -> None:
        self._store = store
        self._every = every
        self._keep_done = keep_done
        self._store_retry = StoreRetry("housekeeping")
        self._logged_at = 0.0

    async def run(self) -> None:
        """Promote and prune until cancelled, without pause while batches are full."""
        while True:
            promoted = await self._store_retry.call(lambda: self._store.promote(BATCH_LIMIT))
            pruned = await self._store_retry.call(
                lambda: self._store.prune(self._keep_done, BATCH_LIMIT)
            )
            await self._log_delayed()
            if max(promoted, pruned) < BATCH_LIMIT:
                await asyncio.sleep(self._every)

    async def _log_delayed(self) -> None:
        """Log from time to time how many jobs of each queue are delayed."""
        now = asyncio.get_running_loop().time()
        if now - self._logged_at < LOG_EVERY or not log.isEnabledFor(logging.INFO):
            return
        self._logged_at = now
        stats = await self._store_retry.call(self._store.stats)
        for queue, delayed in sorted(stats.delayed.items()):
            log.info(
                "queue %s: %d delayed, %d of them ready, %d within the hour",
                queue,
                delayed.total,
                delayed.ready_now,
                delayed.ready_in_hour,
            )
