"""The housekeeper: promotes what fell due, ends what expired, deletes what is old."""

import asyncio
import logging

from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
# How often it says what is delayed.
TELL_EVERY = 60.0


class Housekeeper:
    """Any worker does it for all; no job depends on it being on time."""

    def __init__(self, store: Store, *, every: float, keep_done: float) -> None:
        self._store = store
        self._every = every
        self._keep_done = keep_done
        self._store_retry = StoreRetry("housekeeping")
        self._told_at = 0.0

    async def run(self) -> None:
        """Keep house until cancelled, without pause while there is a full batch to do."""
        while True:
            promoted = await self._store_retry.call(lambda: self._store.promote(BATCH_LIMIT))
            pruned = await self._store_retry.call(
                lambda: self._store.prune(self._keep_done, BATCH_LIMIT)
            )
            await self._tell()
            if max(promoted, pruned) < BATCH_LIMIT:
                await asyncio.sleep(self._every)

    async def _tell(self) -> None:
        """Say from time to time what is delayed, by queue."""
        now = asyncio.get_running_loop().time()
        if now - self._told_at < TELL_EVERY or not log.isEnabledFor(logging.INFO):
            return
        self._told_at = now
        stats = await self._store_retry.call(self._store.stats)
        for queue, delayed in sorted(stats.delayed.items()):
            log.info(
                "queue %s: %d delayed, %d of them ready, %d within the hour",
                queue,
                delayed.total,
                delayed.ready_now,
                delayed.ready_in_hour,
            )
