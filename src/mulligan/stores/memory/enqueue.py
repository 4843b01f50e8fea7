"""Accepts jobs, and puts them into lanes."""

from collections.abc import Sequence
from heapq import heappush

from mulligan.core.checks import rounded
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.lane import Lane
from mulligan.core.settings import check_batch
from mulligan.stores.memory.fields import Record
from mulligan.stores.memory.state import State


def enqueue(state: State, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Accept every job."""
    check_batch(len(jobs))
    with state.lock:
        state.tick()
        return [add(state, job) for job in jobs]


def add(state: State, new: NewJob) -> Enqueued:
    """Store the job, unless its id or its unique key is stored already."""
    if new.id in state.jobs:
        return Enqueued(new.id, created=False)
    if new.unique_key is not None:
        first = state.unique.get((new.key_queue, new.unique_key))
        if first is not None:
            return Enqueued(first, created=False)
        state.unique[new.key_queue, new.unique_key] = new.id
    record = state.jobs[new.id] = Record(new, state.next_sequence(), state.now)
    watch_expiry(state, record)
    if not record.awaits:
        join_lane(state, record, new.lane, new.delay)
    return Enqueued(new.id, created=True)


def watch_expiry(state: State, record: Record) -> None:
    """End the job when it expires, unless it has started by then."""
    if record.expires_at is not None:
        heappush(state.expiring, (record.expires_at, state.next_sequence(), record))


def join_lane(state: State, record: Record, lane: Lane, delay: float) -> None:
    """Put the job behind all others of the lane that are due when its delay has passed."""
    record.sequence = state.next_sequence()
    record.due = rounded(state.now + delay) if delay else state.now
    record.delayed = record.due > state.now
    record.lane = lane
    make_claimable(state, record)


def make_claimable(state: State, record: Record) -> None:
    """Put the job where its lane, due time and sequence say, and wake a worker for it."""
    record.status = "pending"
    record.worker = None
    record.held = False
    heappush(state.lanes.heaps[record.lane], (record.due, record.sequence, record))
    state.sleepers.wake_for_job(record.lane, record.due)
