"""Walks a plan, and leases jobs to workers."""

from math import inf
from typing import TYPE_CHECKING

from mulligan.core.answers import Claimed
from mulligan.core.job import EXPIRED, Claim
from mulligan.core.lane import Lane
from mulligan.core.plan import Cap, ClaimPlan, Limit, Source, walk
from mulligan.core.settings import check_batch
from mulligan.core.worker import Worker
from mulligan.stores.memory import commit, workers
from mulligan.stores.memory.state import State

if TYPE_CHECKING:
    from mulligan.stores.memory.fields import Record


def claim(state: State, plan: ClaimPlan, worker: Worker) -> Claimed:
    """Walk the plan; a worker that got less than its demand is remembered as sleeping."""
    check_batch(plan.demand)
    with state.lock:
        now = state.tick()
        workers.keep(state, worker)
        if plan.epoch != state.epoch:
            return Claimed([], stale=True)
        lines = ClaimLines(state, worker)
        walked = walk(plan, lines, now, state.lanes.heaps.keys())
        if len(walked.taken) < plan.demand:
            until = now + walked.again_in if walked.again_in is not None else inf
            state.sleepers.add(worker.id, plan, until)
        else:
            state.sleepers.remove(worker.id)
            if state.sleepers.someone_sleeps:
                workers.wake_for_lanes(state, plan.lanes)
        for expired in lines.expired:
            commit.cancel_awaiting(state, expired, ran=False)
        return Claimed(walked.taken, walked.left, walked.again_in)


class ClaimLines:
    """The lanes and limits of the store as one claim of a worker takes from them.

    Who awaits one that is found `expired` is told when the walk is over.
    """

    __slots__ = ("expired", "head", "now", "state", "worker")

    def __init__(self, state: State, worker: Worker) -> None:
        self.state = state
        self.worker = worker
        self.now = state.now
        self.head = state.lanes.head
        self.expired: list[Record] = []

    def waits(self, source: Source) -> float:
        """How long a job must have been due; nothing where the source yields and nobody sleeps."""
        if source.yields and not self.state.sleepers.any_sooner(source, self.worker.id):
            return 0.0
        return source.waited

    def room(self, limit: Limit) -> int:
        """How many more starts the limit allows now."""
        return self.state.limits.room(limit, self.now)

    def reopens_in(self, limit: Limit) -> float | None:
        """Seconds until a closed limit opens by itself."""
        return self.state.limits.reopens_in(limit, self.now)

    def take(self, lane: Lane, limits: tuple[Limit, ...]) -> Claim | None:
        """Lease the first job of the lane; None if it has expired or its key has no room."""
        state = self.state
        record = state.lanes.pop(lane)
        if record.has_expired(self.now):
            record.cancel_reason = EXPIRED
            commit.end(state, record, "cancelled")
            commit.release(state, record, record.key)
            self.expired.append(record)
            return None
        key = record.key
        if key is not None:
            if state.limits.used(key) >= record.new.concurrency_limit:
                state.limits.hold_back(key, record)
                return None
            state.limits.charge(key, record)
        for limit in limits:
            if isinstance(limit, Cap):
                state.limits.charge(limit.key, record)
            else:
                state.limits.count(limit, self.now)
        if record.retry_count:
            record.last_retry_at = self.now
        record.started_at = self.now
        return workers.lease(state, record, self.worker)
