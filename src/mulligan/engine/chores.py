"""Chores: what every worker does for all of them, in a loop each.

The reaper reclaims what dead workers held, and decides it like any other failure. The housekeeper
promotes jobs that fell due, ends expired ones and deletes old ones. The unserved watch logs which
jobs wait that no live worker may take. The minute keeper notes what was counted by the end of each
minute. The ticker, which places the ticks of schedules, has a file of its own.
"""

import asyncio
import logging
from collections.abc import Callable
from zlib import crc32

from mulligan.core.hour import KEEP_MINUTE, MINUTE, encode, minute_key, sums_at
from mulligan.core.job import Claim
from mulligan.core.settings import BATCH_LIMIT
from mulligan.core.unserved import unserved
from mulligan.core.worker import Worker
from mulligan.engine.committer import Committer
from mulligan.engine.job_log import job_fields
from mulligan.engine.loops import StoreRetry
from mulligan.engine.slots import Slots
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
# How many jobs the reaper reclaims at a time.
BATCH = 100
# How often the housekeeper logs what is delayed.
LOG_EVERY = 60.0
# When the unserved watch looks first, and how often then.
FIRST_LOOK = 1.0
LOOK_EVERY = 30.0


class Reaper:
    """Looks every `every` seconds, and has `lost` decide what becomes of each job that it reclaims.

    If it dies with reclaimed jobs, another one reclaims them. It reclaims no more until the
    outcomes of what it has are written. If commits are held up, jobs would otherwise pile up here,
    be lost again, and count as lost once more.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker,
        committer: Committer,
        lost: Callable[[Claim], None],
        *,
        every: float,
    ) -> None:
        self._store = store
        self._worker = worker
        self._committer = committer
        self._lost = lost
        self._every = every
        self._store_retry = StoreRetry("reclaim")
        self.asking = False
        self.reclaimed = 0

    async def run(self) -> None:
        """Reclaim and decide until cancelled."""
        while True:
            self.asking = True
            claims = await self._store_retry.call(lambda: self._store.reclaim(BATCH, self._worker))
            self.asking = False
            for claim in claims:
                log.warning(
                    "job %s: worker %s stopped beating; attempt %d counts as failed",
                    claim.id,
                    claim.worker,
                    claim.attempt,
                    extra=job_fields(claim),
                )
                self.count(claim)
            if claims:
                await self._committer.flushed()
            if len(claims) < BATCH:
                await asyncio.sleep(self._every)

    def count(self, claim: Claim) -> None:
        """Have a lost attempt decided whose job was reclaimed here."""
        self._lost(claim)
        self.reclaimed += 1


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


class MinuteKeeper:
    """Notes once a minute what was counted so far; the last hour is read from these notes.

    Of all processes the first in a minute does it. `offset` is for how many seconds this one leaves
    it to others.
    """

    def __init__(self, store: Store, offset: float = 0.0) -> None:
        self._store = store
        self._offset = offset
        self._store_retry = StoreRetry("minutes")

    async def run(self) -> None:
        """Note every minute until cancelled."""
        while True:
            pause = await self._store_retry.call(self.note)
            await asyncio.sleep(pause)

    async def note(self) -> float:
        """Note this minute unless it is noted; returns the seconds until the next."""
        now = (await self._store.facts()).now
        key = minute_key(now)
        if key not in await self._store.notes(key):
            counts = await self._store.counts()
            await self._store.note(key, encode(sums_at(counts.ever, now)), KEEP_MINUTE)
        return MINUTE - now % MINUTE + self._offset


def offset_of(worker: str) -> float:
    """Seconds between 0 and 10, so that the processes of a fleet do not all ask at once."""
    return crc32(worker.encode()) % 1000 / 100


class UnservedWatch:
    """Warns once of each queue and region, and again after a worker has served it in between.

    A busy worker does not look. The metrics raise an alert in any case, and counting all that waits
    is for a store with time to spare.
    """

    def __init__(self, store: Store, slots: Slots, app: str) -> None:
        self._store = store
        self._slots = slots
        self._app = app
        self._warned: set[tuple[str, str, bool]] = set()
        self._store_retry = StoreRetry("look")

    async def run(self) -> None:
        """Look until cancelled."""
        await asyncio.sleep(FIRST_LOOK)
        while True:
            if not self._slots.holding:
                await self._store_retry.call(self.look)
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Warn of what is new since the last look."""
        found = unserved(await self._store.stats(), await self._store.facts())
        for each in found:
            if each[:3] not in self._warned:
                log.warning(
                    "%s; %s",
                    each.sentence,
                    each.remedy(self._app),
                    extra={"queue": each.queue, "region": each.region},
                )
        self._warned = {each[:3] for each in found}
