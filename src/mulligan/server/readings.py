"""Readings of the store for the status routes; those of large stores are kept for a moment.

Most stores count what waits, and a million jobs take a tenth of a second or more. Somebody who asks
every second, or ten who do, would keep the store busy with counting.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from mulligan.app.overview import StoreReading, read_limits, read_store
from mulligan.core.limits import LimitView
from mulligan.core.stats import Stats
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.server")
# With fewer jobs waiting, counting is quick: every request reads the store anew,
MANY = 50_000
# unless a reading took this long, as with very many queues.
SLOW = 0.1
# A kept reading that is older is read anew while it still serves,
KEPT = 1.0
# and one that is older than this serves nobody.
LONGEST = 3.0
# A reading that took long serves for as long as it took before it is read anew: so the store is not
# counted all the time. When it is so many times as old, it serves nobody.
TIMES, MOST_TIMES = 2.0, 4.0


# A store may sort all of its limits to list some. MANY of them are read anew only when the last
# list is LIMITS_TIMES as old as reading it took.
MANY_LIMITS, LIMITS_TIMES = 500, 50.0


class KeptLimits(NamedTuple):
    """Limits as they were read, when reading began, and how long it took."""

    limits: list[LimitView]
    at: float
    took: float


class Kept(NamedTuple):
    """A reading of a large store, when it began, and how long it took."""

    reading: StoreReading
    at: float
    took: float


class Readings:
    """Reads the store; with MANY jobs or more waiting, a reading serves others for a while."""

    def __init__(
        self,
        store: Store,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        many: int = MANY,
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._many = many
        self._kept: Kept | None = None
        self._limits: KeptLimits | None = None
        self._changes = 0
        self.refreshing: asyncio.Task[StoreReading] | None = None

    async def recent(self) -> StoreReading:
        """A reading: of now, or of a large store one at most LONGEST seconds old.

        One that took long may be MOST_TIMES as old as that.
        """
        kept = self._kept
        age = 0.0 if kept is None else self._monotonic() - kept.at
        if kept is None or age >= max(LONGEST, MOST_TIMES * kept.took):
            return await self.newest()
        if age >= max(KEPT, TIMES * kept.took) and (
            self.refreshing is None or self.refreshing.done()
        ):
            self.refreshing = asyncio.ensure_future(self.newest())
            self.refreshing.add_done_callback(log_error)
        return kept.reading

    async def newest(self) -> StoreReading:
        """A reading of now, which serves others if the store is large."""
        at, changes = self._monotonic(), self._changes
        reading = await read_store(self._store, await self._read_limits())
        took = self._monotonic() - at
        large = jobs_waiting(reading.stats) >= self._many or took >= SLOW
        self._kept = Kept(reading, at, took) if large and changes == self._changes else None
        return reading

    async def _read_limits(self) -> list[LimitView]:
        kept, at, changes = self._limits, self._monotonic(), self._changes
        if kept is not None and at - kept.at < LIMITS_TIMES * kept.took:
            return kept.limits
        limits = await read_limits(self._store)
        many = len(limits) >= MANY_LIMITS and changes == self._changes
        self._limits = KeptLimits(limits, at, self._monotonic() - at) if many else None
        return limits

    def forget(self) -> None:
        """Something was changed through this server: the next request must see it."""
        self._kept = self._limits = None
        self._changes += 1

    def stop(self) -> None:
        """End a reading that is under way for nobody."""
        if self.refreshing is not None:
            self.refreshing.cancel()


class Computed:
    """A document of the newest reading, computed once for all who ask, in a thread.

    The loop goes on meanwhile: workers' heartbeats are answered.
    """

    def __init__(self, compute: Callable[[StoreReading], dict[str, Any]]) -> None:
        self._compute = compute
        self._reading: StoreReading | None = None
        self._computing: asyncio.Future[dict[str, Any]] | None = None

    async def of(self, reading: StoreReading) -> dict[str, Any]:
        """The document of this reading."""
        if self._computing is None or reading is not self._reading:
            self._reading = reading
            self._computing = asyncio.ensure_future(asyncio.to_thread(self._compute, reading))
        return await asyncio.shield(self._computing)


def jobs_waiting(stats: Stats) -> int:
    """How many jobs had to be counted."""
    return sum(each.ready + each.delayed for each in stats.lanes)


def log_error(refreshing: "asyncio.Task[StoreReading]") -> None:
    """Log that a reading failed for which nobody waited."""
    if not refreshing.cancelled() and refreshing.exception() is not None:
        log.warning("status: %s", refreshing.exception())
