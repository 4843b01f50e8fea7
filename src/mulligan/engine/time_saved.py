"""Time saved by priority, measured: how much later a retry would have started as a fresh job.

At most one retry a second is sampled. The job that was last in the fresh lane when the retry fell
due is looked up at once, before the lane moves on, and watched until it starts.
"""

import asyncio
from typing import NamedTuple

from mulligan.core.counts import SAVED, SAVED_SECONDS, Count
from mulligan.core.job import ENDED, Claim, Job
from mulligan.core.lane import ANYWHERE, Lane, Priority
from mulligan.stores.contract import Store

SAMPLE_EVERY = 1.0
MOST_WATCHED = 5


class Watched(NamedTuple):
    """A retry that started, and the `last` job that a fresh lane would have started before it."""

    queue: str
    region: str
    started_at: float
    last: str


class TimeSaved:
    """Keeps the sampled retries until it is known how much time each saved."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looking: asyncio.Task[None] | None = None
        self._sampled_at = -SAMPLE_EVERY
        self._watched: list[Watched] = []

    @property
    def waiting(self) -> bool:
        """Whether a sampled retry is not measured yet."""
        return bool(self._watched) or self._looking is not None

    def watch(self, claim: Claim) -> None:
        """Sample the retry if the last sample is long enough ago."""
        loop = asyncio.get_running_loop()
        if self._looking is not None or len(self._watched) >= MOST_WATCHED:
            return
        if claim.lane.is_retry and loop.time() - self._sampled_at >= SAMPLE_EVERY:
            self._sampled_at = loop.time()
            self._looking = loop.create_task(self._look_up(claim))

    async def measured(self) -> list[Count]:
        """The counts of the retries whose saved time is known by now."""
        looking, self._looking = self._looking, None
        if looking is not None:
            await looking
        counts: list[Count] = []
        waiting: list[Watched] = []
        for each in self._watched:
            job = await self._store.get(each.last)
            if job is not None and is_waiting(job):
                waiting.append(each)
            elif job is not None and job.started_at is not None and job.retry_count == 0:
                saved = job.started_at - each.started_at
                counts.append(Count(each.queue, each.region, SAVED, 1))
                counts.append(Count(each.queue, each.region, SAVED_SECONDS, saved))
        self._watched = waiting
        return counts

    async def _look_up(self, claim: Claim) -> None:
        last = await self._last_fresh(claim)
        if last is not None:
            self._watched.append(Watched(claim.queue, claim.worker_region, claim.started_at, last))

    async def _last_fresh(self, claim: Claim) -> str | None:
        """The last fresh job that would have started before the retry, had it been fresh too.

        A region takes fresh jobs of its own lane and of the lane for any region, in order of time.
        """
        found = []
        for scope in {ANYWHERE, claim.region}:
            lane = Lane(claim.queue, scope, Priority.NORMAL)
            last = await self._store.tail(lane, claim.due)
            if last is not None:
                found.append(last)
        if len(found) < 2:  # noqa: PLR2004 - nothing to compare
            return found[0] if found else None
        jobs = [job for each in found if (job := await self._store.get(each)) is not None]
        return max(jobs, key=lambda job: (job.due, job.sequence)).id if jobs else None


def is_waiting(job: Job) -> bool:
    """Whether the job has not started yet."""
    return job.started_at is None and job.status not in ENDED
