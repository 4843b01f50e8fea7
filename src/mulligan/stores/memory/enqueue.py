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
from mulligan.core.unique import debounced_due, holds_key, takes_over
from mulligan.stores.memory.fields import StoredJob
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
            if takes_over(first.new.id, new):
                debounce(state, first, new)
            return Enqueued(first.new.id, created=False)
        state.unique[key] = new.id
    stored = state.jobs[new.id] = StoredJob(new, state.next_sequence(), state.now)
    watch_expiry(state, stored)
    if not stored.awaits:
        join_lane(state, stored, new.lane, new.delay)
    return Enqueued(new.id, created=True)


def holder_of(state: State, key: tuple[str, str] | None) -> StoredJob | None:
    """The job that has the unique key, if one has it still."""
    last = None if key is None else state.jobs.get(state.unique.get(key, ""))
    return last if last is not None and holds_key(last, state.now) else None


def debounce(state: State, stored: StoredJob, new: NewJob) -> None:
    """Replace the call of a debounced job that has not started by a later one, and postpone it."""
    if stored.debounce_until is None:
        return
    stored.new = replace(stored.new, task=new.task, body=new.body)
    line, stood, stored.sequence = stored.line, stored.sequence, NOWHERE
    if line is not None:
        left(state.lines, line, stood)
    due = debounced_due(state.now, new.delay, stored.debounce_until)
    join_lane(state, stored, stored.lane, due - state.now)


def watch_expiry(state: State, stored: StoredJob) -> None:
    """End the job when it expires, unless it has started by then."""
    if stored.expires_at is not None:
        heappush(state.expiring, (stored.expires_at, state.next_sequence(), stored))


def join_lane(state: State, stored: StoredJob, lane: Lane, delay: float) -> None:
    """Put the job behind all others of the lane that are due when its delay has passed."""
    stored.sequence = state.next_sequence()
    stored.due = rounded(state.now + delay) if delay else state.now
    stored.delayed = stored.due > state.now
    stored.lane = lane
    make_claimable(state, stored)


def make_claimable(state: State, stored: StoredJob) -> None:
    """Put the job where its lane, due time and sequence say, and wake a worker for it."""
    stored.status = "pending"
    stored.worker = None
    line = stored.line
    if line is None:
        heappush(state.lanes.heaps[stored.lane], (stored.due, stored.sequence, stored))
        state.sleepers.wake_for_job(stored.lane, stored.due)
    else:
        state.lines.add(line, stored)
        joined(state.lines, line, First(stored.due, stored.sequence, costs_of(stored.new.limits)))
