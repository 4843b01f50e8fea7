"""Accepts jobs, and puts them into lanes."""

from collections.abc import Sequence
from heapq import heappush

from msgspec.structs import replace

from mulligan.core.checks import rounded
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.lane import Lane
from mulligan.core.limits import costs_of
from mulligan.core.lines import First, joined, left
from mulligan.core.settings import check_batch
from mulligan.core.unique import debounced_due, holds_key
from mulligan.stores.memory.fields import Record
from mulligan.stores.memory.state import State

# The sequence of a job that stands in no lane.
NOWHERE = -1


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
        key = new.key_queue, new.unique_key
        first = holder_of(state, key)
        if first is not None:
            if new.debounce_max is not None:
                debounce(state, first, new)
            return Enqueued(first.new.id, created=False)
        state.unique[key] = new.id
    record = state.jobs[new.id] = Record(new, state.next_sequence(), state.now)
    watch_expiry(state, record)
    if not record.awaits:
        join_lane(state, record, new.lane, new.delay)
    return Enqueued(new.id, created=True)


def holder_of(state: State, key: tuple[str, str] | None) -> Record | None:
    """The job that has the unique key, if one has it still."""
    last = None if key is None else state.jobs.get(state.unique.get(key, ""))
    return last if last is not None and holds_key(last, state.now) else None


def debounce(state: State, record: Record, new: NewJob) -> None:
    """Replace the call of a debounced job that has not started by a later one, and postpone it."""
    if record.debounce_until is None:
        return
    record.new = replace(record.new, task=new.task, body=new.body)
    line, stood, record.sequence = record.line, record.sequence, NOWHERE
    if line is not None:
        left(state.lines, line, stood)
    due = debounced_due(state.now, new.delay, record.debounce_until)
    join_lane(state, record, record.lane, due - state.now)


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
    line = record.line
    if line is None:
        heappush(state.lanes.heaps[record.lane], (record.due, record.sequence, record))
        state.sleepers.wake_for_job(record.lane, record.due)
    else:
        state.lines.add(line, record)
        joined(state.lines, line, First(record.due, record.sequence, costs_of(record.new.limits)))
