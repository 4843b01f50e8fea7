"""The reporter: counts what the worker does, reports it to the store, and switches breakers.

Counts are reported once a second while there are any, and at once if they open or close a breaker
or say how a probe went. A report whose reply was lost is not sent again: counts may miss a second,
and are never doubled.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from mulligan.core.counts import (
    SAVED,
    SAVED_SECONDS,
    STALE,
    SUCCEEDED,
    Count,
    as_probe,
    at_end,
    at_start,
    outcome_word,
)
from mulligan.core.errors import StoreError
from mulligan.core.facts import Facts
from mulligan.core.health import Health, Probe, judge
from mulligan.core.job import ENDED, Claim, Job
from mulligan.core.lane import ANYWHERE, Lane, Priority
from mulligan.core.outcome import Done, Outcome, Result, Verdict
from mulligan.engine.bounded_counts import LimitNames, TaskTimes
from mulligan.engine.breakers import Breakers, Ending
from mulligan.engine.lost_leases import LostLeases
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
EVERY = 1.0
# If several workers switch one breaker at once, all but one of them try again.
TRIES = 3
# How often a retry is sampled for the time it saved, and how many samples may be open.
SAMPLE_EVERY = 1.0
MOST_WATCHED = 5


def ending_of(claim: Claim, result: Result, outcome: Outcome, facts: Facts) -> Ending:
    """What the end of the attempt counts as."""
    names = at_end(claim, result, outcome)
    return Ending(claim.queue, claim.worker_region, names, as_probe(claim, names, facts))


class Reporter:
    """Collects counts on the worker's loop and sends them to the store."""

    def __init__(
        self, store: Store, breakers: Breakers | None = None, limits: Collection[str] = ()
    ) -> None:
        self._store = store
        self._limits = LimitNames(limits)
        self.breakers = breakers or Breakers()
        self._counts: dict[tuple[str, str, str], float] = defaultdict(float)
        self._probes: dict[tuple[str, str], list[Probe]] = defaultdict(list)
        self.lost_leases = LostLeases(store)
        self._time_saved = TimeSaved(store)
        self._times = TaskTimes()
        self._any = asyncio.Event()
        self._at_once = asyncio.Event()

    def started(self, claim: Claim) -> None:
        """Count the start of an attempt."""
        queue, region = claim.queue, claim.worker_region
        for name, value in at_start(claim):
            self._counts[queue, region, name] += value
        if claim.limits is not None:
            for name in self._limits.counts(claim.limits):
                self._counts[queue, region, name] += 1
        if claim.retry_count:
            self._time_saved.watch(claim)
        else:
            self._times.waited(queue, region, claim.started_at - claim.due)
        self._any.set()

    def ran(self, claim: Claim, result: Result, outcome: Outcome, seconds: float) -> None:
        """Measure an attempt that ended so; also one whose outcome turns out to be stale."""
        # at once for most, since this is done for every attempt
        word = SUCCEEDED if isinstance(outcome, Done) else outcome_word(claim, result, outcome)
        if word is not None:
            self._times.ran(claim.queue, claim.worker_region, claim.task, word, seconds)

    def count(self, queue: str, region: str, name: str) -> None:
        """Count one under this name."""
        self._counts[queue, region, name] += 1
        self._any.set()

    def ended(self, ending: Ending) -> None:
        """Have the breakers count an attempt whose outcome is not written yet."""
        self.breakers.ended(ending)

    def answered(self, ending: Ending, verdict: Verdict, times: int = 1) -> None:
        """Count outcomes that the store has written, or refused as stale."""
        queue, region = ending.queue, ending.region
        if verdict == "stale":
            self._counts[queue, region, STALE] += times
            self.breakers.forget(ending, times)
        else:
            for name in ending.names:
                self._counts[queue, region, self._times.bounded(name)] += times
            if ending.probe is not None:
                self._probes[queue, region] += [ending.probe] * times
        self._any.set()
        if self.breakers.unconfirmed:
            self._at_once.set()

    async def run(self) -> None:
        """Report until cancelled; sends nothing while there is nothing to report."""
        while True:
            await self._any.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self._at_once.wait()
            self._at_once.clear()
            await self.report()

    async def report(self) -> None:
        """Report what was counted since the last report."""
        with contextlib.suppress(StoreError, OSError):  # the committer logs that it is away
            for queue, region, name, value in await self._time_saved.measured():
                self._counts[queue, region, name] += value
            if not self._time_saved.waiting:
                self._any.clear()
            counts = [Count(*key, value) for key, value in self._counts.items()]
            counts += self._times.take()
            probes, self._probes = self._probes, defaultdict(list)
            self._counts.clear()
            if not counts:
                return
            self.breakers.reported(counts)
            health = await self._store.count(counts)
            switched = [await self._judge(key, known, probes[key]) for key, known in health.items()]
            changed = any(switched) or self.breakers.unconfirmed
            self.breakers.settle(health, await self._store.facts() if changed else None)

    async def _judge(self, key: tuple[str, str], health: Health, probes: list[Probe]) -> bool:
        """Switch the breaker of a queue and region if its health says so; whether it did."""
        queue, region = key
        enforced = True
        if health.breaker.open:
            enforced = (await self._store.facts()).is_open(queue, region)
        for _ in range(TRIES):
            after = judge(health, probes, enforced=enforced)
            if after == health.breaker:
                return False
            if await self._store.switch(queue, region, health.breaker, after):
                log_switched(queue, region, health, opened=after.open)
                return True
            health = (await self._store.facts()).health_of(queue, region)
        return False


def log_switched(queue: str, region: str, health: Health, *, opened: bool) -> None:
    """Log that a breaker opened or closed."""
    if opened and not health.breaker.open:
        log.warning(
            "queue %s: breaker of region %s opens: %d of %d recent attempts failed",
            queue,
            region,
            health.failed,
            health.succeeded + health.failed,
        )
    elif health.breaker.open and not opened:
        log.info("queue %s: breaker of region %s closes", queue, region)


class Watched(NamedTuple):
    """A retry that started, and the `last` job that a fresh lane would have started before it."""

    queue: str
    region: str
    started_at: float
    last: str


class TimeSaved:
    """Measures time saved by priority: how much later a retry would have started as a fresh job.

    At most one retry a second is sampled. The job that was last in the fresh lane when the retry
    fell due is looked up at once, before the lane moves on, and watched until it starts.
    """

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
        for scope in dict.fromkeys((ANYWHERE, claim.region)):
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
