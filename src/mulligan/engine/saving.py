"""Time saved by priority, measured: how much later a retry would have started in the fresh line.

For a sample of retries, one a second at most, the job that was last in the fresh line when the
retry fell due is looked up, and watched until it starts.
"""

import asyncio
from typing import NamedTuple

from mulligan.core.job import ENDED, Claim, Job
from mulligan.core.lane import Lane, Priority
from mulligan.core.tallying import SAVED, SAVED_SECONDS
from mulligan.stores.contract import Count, Store

SAMPLE_EVERY = 1.0
MOST_WATCHED = 5


class Watched(NamedTuple):
    """A retry that started, and the job behind which it would have stood."""

    queue: str
    region: str
    started_at: float
    last: str


class Savings:
    """The retries of the sample, until it is known what each saved."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sample: Claim | None = None
        self._sampled_at = -SAMPLE_EVERY
        self._watched: list[Watched] = []

    @property
    def waiting(self) -> bool:
        """Whether something is still to be measured."""
        return bool(self._watched)

    def watch(self, claim: Claim) -> None:
        """Take the retry into the sample, if it is time for another."""
        now = asyncio.get_running_loop().time()
        if self._sample is None and claim.lane.is_retry and now - self._sampled_at >= SAMPLE_EVERY:
            self._sample, self._sampled_at = claim, now

    async def measured(self) -> list[Count]:
        """What was saved by retries of which it is known by now."""
        await self._look_up()
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

    async def _look_up(self) -> None:
        claim, self._sample = self._sample, None
        if claim is not None and len(self._watched) < MOST_WATCHED:
            line = Lane(claim.queue, claim.region, Priority.NORMAL)
            last = await self._store.tail(line, claim.due)
            if last is not None:
                self._watched.append(
                    Watched(claim.queue, claim.worker_region, claim.started_at, last)
                )


def is_waiting(job: Job) -> bool:
    """Whether it has not started yet."""
    return job.started_at is None and job.status not in ENDED
