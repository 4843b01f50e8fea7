"""A store that writes down what is asked of it and what it answers."""

import os
import time
import zlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from mulligan.core.answers import Beat, Claimed
from mulligan.core.counts import Count
from mulligan.core.decide import policy_of
from mulligan.core.errors import StoreUnavailableError
from mulligan.core.facts import QueueSettings
from mulligan.core.gather import results_of
from mulligan.core.health import Breaker, Health
from mulligan.core.job import Adopted, Claim, Enqueued, Lease, NewJob
from mulligan.core.limits import Limit, costs_of
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Later,
    Limited,
    LimitUse,
    Outcome,
    Returned,
    Verdict,
)
from mulligan.core.page import Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.record import Record, Recording, RecordVerdict
from mulligan.core.reschedule import Reschedule
from mulligan.core.worker import Worker
from mulligan.stores.batches import batch_by_batch
from mulligan.stores.contract import CommitsInTransaction, Store
from tests.history import events
from tests.history.events import Ending, Event, How, Kept, New, Past, Taken
from tests.history.journal import Clerk, Journal

T = TypeVar("T")
PAGE = 500
HOWS: dict[type, How] = {
    Done: "done",
    Again: "again",
    Later: "later",
    Dead: "dead",
    Returned: "returned",
    Limited: "returned",
    Cancelled: "cancelled",
}


def recorded(
    store: Store,
    journal: Journal,
    process: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Store:
    """The store, with every operation that changes what becomes of jobs written to the journal.

    Not `promote`, which does what a claim would have done, nor what is said in notes.
    A history begins with an empty store.

    `process` must be different for each process of a history (its number, if not given). `clock`
    must be the same for all of them: the monotonic clock is, on one machine; a store on an
    injected clock is recorded by that.
    """
    clerk = Clerk(journal, process or str(os.getpid()), clock)
    return cast("Store", Recorder(store, clerk))


class Recorder:
    """Passes each operation on. What only reads goes by without a word."""

    # Plain code would enqueue past the recorder; so it runs the coroutine.
    enqueue_here = None

    def __init__(self, store: Store, clerk: Clerk) -> None:
        self.store = store
        self.clerk = clerk

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Write down the jobs, and which of them were there before."""
        event = events.Enqueue(jobs=[new(job) for job in jobs])
        event.answers = answers = await self._ask(event, lambda: self.store.enqueue(jobs))
        return self._told(event, answers)

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Write down each batch by itself: each is stored as a whole or not at all."""
        return await batch_by_batch(self.enqueue, jobs)

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        """Write down the jobs, each with its past, and which of them were taken over."""
        event = events.Enqueue(jobs=[adopted(each) for each in jobs])
        answers = await self._ask(event, lambda: self.store.adopt(jobs))
        taken_over = zip(jobs, answers, strict=True)
        event.answers = [Enqueued(each.job.id, created=answer) for each, answer in taken_over]
        return self._told(event, answers)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        """Write down what was taken, and which kinds of work were left."""
        event = events.Claim(worker=worker, demand=plan.demand)
        claimed = await self._ask(event, lambda: self.store.claim(plan, worker))
        event.taken = [taken(claim) for claim in claimed.claims]
        kinds = zip(plan.groups, claimed.left, strict=False)
        event.left = [(group.queue, group.kind) for group, left in kinds if left]
        event.stale = claimed.stale
        if len(claimed.claims) < plan.demand and not claimed.stale:
            event.emptied = [s.lane for s in plan.sources if not s.waited and not s.limits]
        return self._told(event, claimed)

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        """Write down what was reclaimed, from whom."""
        event = events.Reclaim(worker=worker)
        claims = await self._ask(event, lambda: self.store.reclaim(limit, worker))
        event.taken = [taken(claim) for claim in claims]
        return self._told(event, claims)

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write down each outcome and its verdict."""
        event = events.Commit(endings=[ending(outcome) for outcome in outcomes])
        verdicts = await self._ask(event, lambda: self.store.commit(outcomes))
        event.verdicts = verdicts
        return self._told(event, verdicts)

    async def commit_within(self, outcome: Done, work: Callable[[Any], Any]) -> Verdict:
        """Write it down as a commit of one."""
        event = events.Commit(endings=[ending(outcome)])
        store = cast("CommitsInTransaction", self.store)
        verdict = await self._ask(event, lambda: store.commit_within(outcome, work))
        event.verdicts = [verdict]
        return self._told(event, verdict)

    async def record(self, recordings: Sequence[Recording]) -> list[RecordVerdict]:
        """Write down which steps were recorded, and the verdicts."""
        event = events.Record(recordings=[(lease, steps_in(each)) for lease, each in recordings])
        event.verdicts = verdicts = await self._ask(event, lambda: self.store.record(recordings))
        return self._told(event, verdicts)

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        """Write down what the worker held and what it had lost."""
        event = events.Beat(worker=worker, holding=sorted(holding))
        beat = await self._ask(event, lambda: self.store.beat(worker, holding))
        event.lost = sorted(beat.lost)
        return self._told(event, beat)

    async def leave(self, worker: Worker) -> None:
        """Write down who left."""
        event = events.Leave(worker=worker.id)
        await self._ask(event, lambda: self.store.leave(worker))
        self.clerk.end(event)

    async def prune(self, keep_done: float, limit: int) -> int:
        """Write down how many were deleted."""
        event = events.Prune(keep_done=keep_done)
        event.pruned = pruned = await self._ask(event, lambda: self.store.prune(keep_done, limit))
        return self._told(event, pruned)

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        """Write down the settings."""
        event = events.Configure(queue=queue, settings=settings)
        await self._ask(event, lambda: self.store.configure(queue, settings))
        self.clerk.end(event)

    async def pause(self, queue: str, *, paused: bool) -> None:
        """Write down which queue."""
        event = events.Pause(queue=queue, paused=paused)
        await self._ask(event, lambda: self.store.pause(queue, paused=paused))
        self.clerk.end(event)

    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        """Write down the limit."""
        event = events.SetLimit(name=name, limit=limit, declared=declared)
        await self._ask(event, lambda: self.store.set_limit(name, limit, declared=declared))
        self.clerk.end(event)

    async def pause_limit(self, name: str, seconds: float, *, at_least: bool = False) -> None:
        """Write down which limit, for how long."""
        event = events.PauseLimit(name=name, seconds=seconds, at_least=at_least)
        await self._ask(event, lambda: self.store.pause_limit(name, seconds, at_least=at_least))
        self.clerk.end(event)

    async def spend(self, name: str, cost: int) -> None:
        """Let it through: what jobs spend is not held to anything."""
        await self.store.spend(name, cost)

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        """Write down what was counted."""
        event = events.Report(counts=list(counts))
        return self._told(event, await self._ask(event, lambda: self.store.count(counts)))

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        """Write down the breaker as it was and as it was to be, and whether it was replaced."""
        event = events.Switch(queue=queue, region=region, before=before, after=after)
        operation = partial(self.store.switch, queue, region, before, after)
        event.done = done = await self._ask(event, operation)
        return self._told(event, done)

    async def reschedule(self, change: Reschedule) -> bool:
        """Write down the change; of its ticks nobody is told which were placed or withdrawn."""
        if change.withdraw:
            self._untold(events.Operate(what="withdraw", jobs=list(change.withdraw)))
        if change.place:
            self._untold(events.Enqueue(jobs=[new(job) for job in change.place]))
        event = events.Reschedule(
            name=change.name,
            before=None if change.before is None else change.before.decode(),
            after=None if change.after is None else change.after.decode(),
            placed=[job.id for job in change.place],
            withdrawn=list(change.withdraw),
            edit=change.edit,
        )
        event.done = done = await self._ask(event, lambda: self.store.reschedule(change))
        return self._told(event, done)

    async def replay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        """Write down which were revived."""
        event = events.Operate(what="replay", jobs=list(jobs), from_start=from_start)
        operation = partial(self.store.replay, jobs, from_start=from_start)
        event.answers = answers = await self._ask(event, operation)
        return self._told(event, answers)

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        """Write down which were ended."""
        event = events.Operate(what="cancel", jobs=list(jobs))
        event.answers = answers = await self._ask(event, lambda: self.store.cancel(jobs, reason))
        return self._told(event, answers)

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Write down which were deleted."""
        event = events.Operate(what="purge", jobs=list(jobs))
        event.answers = answers = await self._ask(event, lambda: self.store.purge(jobs))
        return self._told(event, answers)

    async def _ask(self, event: Event, operation: Callable[[], Awaitable[T]]) -> T:
        self.clerk.begin(event)
        try:
            return await operation()
        except BaseException as error:
            self.clerk.end(event, error)
            raise

    def _untold(self, event: Event) -> None:
        """Write down what may happen from now on, and nobody is told whether it did."""
        self.clerk.begin(event)
        self.clerk.end(event, StoreUnavailableError("nobody is told"))

    def _told(self, event: Event, answer: T) -> T:
        self.clerk.end(event)
        return answer


async def take_stock(store: Store, *, rest: bool) -> events.Stock:
    """Read all that is stored, for the end of a history; `rest` says that nothing should be left.

    Nobody may use the store meanwhile. The event is for `Clerk.note`, or to be appended last.
    """
    stats = await store.stats()
    stock = events.Stock(jobs=[], rest=rest)
    stock.waiting = sum(lane.ready + lane.delayed for lane in stats.lanes)
    stock.gathering = sum(stats.gathering.values())
    stock.running = sum(stats.running.values())
    for (_, status), ended in stats.ended.items():
        stock.endings[status] = stock.endings.get(status, 0) + ended
    found = await store.counts()
    stock.counts = [Count(*place, value) for place, value in found.ever.items()]
    after: str | None = None
    while True:
        page = await store.page(Selection(), PAGE, after)
        for job in page.jobs:
            history = await store.history(job.id) if job.last_failure_reason is not None else []
            failures = [(each.number, each.type, each.message) for each in history]
            counts = (job.token, job.retry_count, job.replay, job.snoozes)
            result = checksum(job.result)
            stock.jobs.append(Kept(job.id, job.status, job.queue, *counts, failures, result))
        after = page.after
        if after is None:
            return stock


def new(job: NewJob) -> New:
    """The job as a history keeps it."""
    policy = policy_of(job.body)
    return New(
        job.id,
        job.queue,
        job.task,
        job.region,
        job.priority,
        job.delay,
        0 if policy is None else policy.retry.max_retries,
        None if job.unique_key is None else (job.key_queue, job.unique_key),
        dict(costs_of(job.limits)),
        job.fairness_key,
        job.expires,
        job.awaits,
        job.gather,
        job.gather_index,
        keep=job.keep,
        return_exceptions=job.return_exceptions,
        debounce_max=job.debounce_max,
        unique_for=job.unique_for,
        body=None if job.debounce_max is None else checksum(job.body),
    )


def adopted(each: Adopted) -> New:
    """The job of another store as a history keeps it; one that ran there waits here.

    When it expires is told by that store's clock: here it may at any time.
    """
    job = each.job
    policy = policy_of(job.body)
    past = Past(
        "failed" if job.status == "failed" else "pending",
        job.lane,
        job.replay,
        job.retry_count,
        job.snoozes,
        [(attempt.number, attempt.type, attempt.message) for attempt in each.history],
        list(results_of(each.arrived)),
    )
    return New(
        job.id,
        job.queue,
        job.task,
        job.region,
        job.priority,
        max_retries=0 if policy is None else policy.retry.max_retries,
        key=None if job.unique_key is None else (job.key_queue, job.unique_key),
        limits=dict(costs_of(job.limits)),
        fairness_key=job.fairness_key,
        expires=None if job.expires_at is None else 0.0,
        awaits=job.awaits + len(results_of(each.arrived)),
        gather=job.gather,
        gather_index=job.gather_index,
        past=past,
        keep=job.keep,
        return_exceptions=job.return_exceptions,
    )


def steps_in(records: Sequence[Record]) -> list[str]:
    """The names of the steps among the records."""
    return [each.name for each in records if each.kind == "step"]


def taken(claim: Claim) -> Taken:
    """The claim as a history keeps it."""
    return Taken(
        claim.id,
        claim.token,
        claim.lane,
        claim.due,
        claim.started_at,
        claim.retry_count,
        claim.replay,
        claim.snoozes,
        claim.worker,
        checksum(claim.body),
    )


def ending(outcome: Outcome) -> Ending:
    """The outcome as a history keeps it."""
    job, token = outcome.lease
    how = HOWS[type(outcome)]
    match outcome:
        case Again(_, lane, delay, failure, _, free, use):
            said = (failure.number, failure.type, failure.message)
            return with_use(Ending(job, token, how, delay, lane, *said, free=free), use)
        case Later(_, delay, use):
            return with_use(Ending(job, token, how, delay), use)
        case Dead(_, failure, following, use):
            said = (failure.number, failure.type, failure.message)
            follow = [new(each) for each in following]
            return with_use(Ending(job, token, how, 0.0, None, *said, follow), use)
        case Done(_, result, following, hands_on, use):
            follow = [new(each) for each in following]
            sum_ = checksum(result)
            done = Ending(job, token, how, next=follow, result=sum_, hands_on=hands_on)
            return with_use(done, use)
        case Limited(_, limits, key):
            return Ending(job, token, how, limits=dict(costs_of(limits)), fairness_key=key)
        case _:
            return Ending(job, token, how)


def with_use(ending: Ending, use: LimitUse | None) -> Ending:
    """The outcome with what its attempt says of limits."""
    if use is None:
        return ending
    said: dict[str, Any] = {"spent": dict(use.spent), "pauses": dict(use.pauses)}
    return replace(ending, **said, retry_after=use.retry_after)


def checksum(result: bytes | None) -> int | None:
    """What a history keeps of a result: the same in every process."""
    return None if result is None else zlib.crc32(result)
