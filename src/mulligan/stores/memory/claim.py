"""Walks a plan, and leases jobs to workers."""

from collections.abc import KeysView, Mapping
from math import inf

from mulligan.core.answers import Claimed
from mulligan.core.at_once import at_once
from mulligan.core.job import EXPIRED, Claim
from mulligan.core.lane import Lane
from mulligan.core.limits import FOREVER
from mulligan.core.lines import (
    NO_KEY,
    Line,
    advance,
    lacks,
    left,
    next_at,
    next_line,
    set_aside,
    started,
    take_turn,
)
from mulligan.core.plan import Cap, ClaimPlan, Limit, Source, walk
from mulligan.core.settings import check_batch
from mulligan.core.worker import Worker
from mulligan.stores.memory import workers
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.rows import Rows
from mulligan.stores.memory.state import State
from mulligan.stores.rules.end import end, tell_gathering

NO_WEIGHTS: Mapping[str, float] = {}


def claim(state: State, plan: ClaimPlan, worker: Worker) -> Claimed:
    """Walk the plan; a worker that got less than its demand is remembered as sleeping."""
    check_batch(plan.demand)
    with state.lock:
        now = state.tick()
        workers.keep(state, worker)
        if plan.epoch != state.epoch:
            return Claimed([], stale=True)
        state.sleepers.remove(worker.id)  # the walk must not wake its own worker
        if state.lines.lanes:
            for lane in state.lines.lanes.keys() & set(plan.lanes):
                advance(state.lines, lane)
        lanes = ClaimLanes(state, plan, worker)
        walked = walk(plan, lanes, now, occupied(state))
        if len(walked.taken) < plan.demand:
            until = now + walked.again_in if walked.again_in is not None else inf
            state.sleepers.add(worker.id, plan, until)
        elif state.sleepers.someone_sleeps:
            workers.wake_for_lanes(state, plan.lanes)
        for expired in lanes.expired:
            at_once(tell_gathering(Rows(state), expired, ran=False))
        return Claimed(walked.taken, walked.left, walked.again_in)


def occupied(state: State) -> KeysView[Lane]:
    """The lanes in which there may be jobs."""
    lanes = state.lanes.heaps.keys()
    return dict.fromkeys([*lanes, *state.lines.lanes]).keys() if state.lines.lanes else lanes


class ClaimLanes:
    """The lanes and limits of the store as one claim of a worker takes from them.

    Who awaits one that is found `expired` is told when the walk is over.
    """

    __slots__ = ("expired", "head", "now", "plan", "state", "worker")

    def __init__(self, state: State, plan: ClaimPlan, worker: Worker) -> None:
        self.state = state
        self.plan = plan
        self.worker = worker
        self.now = state.now
        self.expired: list[StoredJob] = []
        # A claim makes no lines, so that where there are none the lanes alone are asked.
        self.head = self.head_with_lines if state.lines.lanes else state.lanes.head

    def head_with_lines(self, lane: Lane) -> tuple[float, int] | None:
        """(due, sequence) of the job that is next in the lane, due or not."""
        first = self.state.lanes.head(lane)
        if lane not in self.state.lines.lanes:
            return first
        line = self.next_line(lane)
        if line is not None:
            return line.due, line.sequence
        at = next_at(self.state.lines, lane)
        if first is None:
            return None if at == FOREVER else (at, 0)
        return min(first, (at, 0))

    def next_line(self, lane: Lane) -> Line | None:
        """The line of the lane that is next; None if no line is ready, or the lane itself is."""
        lines = self.state.lines
        first = self.state.lanes.head(lane)
        return next_line(lines, lane, first if first and first[0] <= self.now else None)

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
        """Lease the next job of the lane; None if it has expired, or a limit has no room."""
        state = self.state
        if lane not in state.lines.lanes:
            return self.start(state.lanes.pop(lane), limits)
        line = self.next_line(lane)
        if line is None:
            claim = self.start(state.lanes.pop(lane), limits)
            if claim is not None:
                take_turn(state.lines, lane, NO_KEY, self.weight(lane, NO_KEY))
            return claim
        name = lacks(state.lines, line)
        if name is not None and not state.lines.first(line.name).has_expired(self.now):
            set_aside(state.lines, line, name)
            return None
        stored = state.lines.pop(line.name)
        claim = self.start(stored, limits)
        if claim is None:
            left(state.lines, line.name, stored.sequence)
        else:
            started(state.lines, line, self.weight(lane, line.name.key))
        return claim

    def weight(self, lane: Lane, key: str) -> float:
        """How many turns a key has for each of one with weight 1."""
        return self.plan.weights.get(lane.queue, NO_WEIGHTS).get(key, 1.0)

    def start(self, stored: StoredJob, limits: tuple[Limit, ...]) -> Claim | None:
        """Lease a job that was taken out, and charge all limits; None if it has expired."""
        state = self.state
        if stored.has_expired(self.now):
            stored.cancel_reason = EXPIRED
            end(Rows(state), stored, "cancelled")
            self.expired.append(stored)
            return None
        if stored.limits is not None:
            state.limits.start(stored, self.now)
        for limit in limits:
            if isinstance(limit, Cap):
                state.limits.charge(limit.key, stored)
            else:
                state.limits.count(limit, self.now)
        if stored.retry_count:
            stored.last_retry_at = self.now
        stored.started_at = self.now
        return workers.lease(state, stored, self.worker)
