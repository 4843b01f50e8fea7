"""Accepts jobs with their unique keys, and puts them into lanes."""

from collections.abc import Sequence

from mulligan.core.checks import rounded
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.lane import Lane
from mulligan.core.settings import check_batch
from mulligan.core.unique import debounced_due, holds_key, takes_over
from mulligan.stores.rules.row import Row, new_row
from mulligan.stores.rules.tx import Tx


async def enqueue(tx: Tx, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Accept every job."""
    check_batch(len(jobs))
    await tx.jobs([job.id for job in jobs])
    await tx.holders(
        [(job.key_queue, job.unique_key) for job in jobs if job.unique_key is not None]
    )
    return [await add(tx, job) for job in jobs]


async def add(tx: Tx, new: NewJob) -> Enqueued:
    """Store the job, unless its id or its unique key is taken."""
    if await tx.job(new.id) is not None:
        return Enqueued(new.id, created=False)
    if new.unique_key is not None:
        first = await holder_of(tx, new.key_queue, new.unique_key)
        if first is not None:
            if takes_over(first.id, new):
                debounce(tx, first, new)
            return Enqueued(first.id, created=False)
    row = new_row(tx.new, new, tx.next_sequence(), tx.now)
    if not row.awaits:
        place(tx, row, row.number, new.delay)
    tx.insert(row)
    if new.unique_key is not None:
        tx.take_key(row)
    if not row.awaits:
        tx.enter(row)
    return Enqueued(new.id, created=True)


async def holder_of(tx: Tx, queue: str, key: str) -> Row | None:
    """Return the job that holds the unique key. A registration that has run out is removed."""
    last = await tx.holder(queue, key)
    if last is None or holds_key(last, tx.now):
        return last
    tx.free_key(last)
    return None


def debounce(tx: Tx, row: Row, new: NewJob) -> None:
    """Replace the call of a debounced job that has not started, and postpone it."""
    if row.debounce_until is None:
        return
    tx.leave(row)
    row.task, row.body = new.task, new.body
    join_lane(tx, row, row.lane, debounced_due(tx.now, new.delay, row.debounce_until) - tx.now)


def place(tx: Tx, row: Row, sequence: int, delay: float) -> None:
    """Set the job's position in its lane: behind all jobs that are due when its delay ends."""
    row.sequence = sequence
    row.due = rounded(tx.now + delay) if delay else tx.now
    row.delayed = row.due > tx.now


def join_lane(tx: Tx, row: Row, lane: Lane, delay: float) -> None:
    """Put the job into the lane, behind all jobs that are due when its delay ends."""
    row.lane = lane
    place(tx, row, tx.next_sequence(), delay)
    go_back(tx, row)


def go_back(tx: Tx, row: Row) -> None:
    """Make the job pending in the position that its lane, due time and sequence give."""
    row.status, row.worker, row.ended_at = "pending", None, None
    tx.enter(row)
