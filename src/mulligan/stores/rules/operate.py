"""What operators do with jobs: replay, cancel, purge, adopt."""

from collections.abc import Sequence

from mulligan.core.job import Adopted
from mulligan.core.record import adopted_records
from mulligan.core.settings import check_batch
from mulligan.stores.rules.consequence import Purged, Withdrawn
from mulligan.stores.rules.end import cancel_one
from mulligan.stores.rules.enqueue import holder_of, join_lane, place
from mulligan.stores.rules.row import Row, adopted_row
from mulligan.stores.rules.tx import Tx


async def replay(tx: Tx, jobs: Sequence[str], *, from_start: bool) -> list[bool]:
    """Make failed jobs pending again."""
    check_batch(len(jobs))
    await tx.jobs(jobs)
    return [await replay_one(tx, await tx.job(job), from_start=from_start) for job in jobs]


async def replay_one(tx: Tx, row: Row | None, *, from_start: bool) -> bool:
    """Put a failed job back into its first lane, unless another job holds its unique key."""
    if row is None or row.status != "failed":
        return False
    if row.unique_key is not None and row.debounce_until is None:
        if await holder_of(tx, row.key_queue, row.unique_key) not in (None, row):
            return False
        tx.take_key(row)
    row.retry_count = row.snoozes = 0
    row.replay += 1
    row.trail = ""
    if from_start:
        tx.delete_records(row)
    if row.gather is not None:
        await tx.then(Withdrawn(row.id, row.gather, row.gather_index))
    join_lane(tx, row, row.first_lane, 0.0)
    return True


async def cancel(tx: Tx, jobs: Sequence[str], reason: str) -> list[bool]:
    """End pending and running jobs."""
    check_batch(len(jobs))
    await tx.jobs(jobs)
    return [await cancel_one(tx, await tx.job(job), reason) for job in jobs]


async def purge(tx: Tx, jobs: Sequence[str]) -> list[bool]:
    """Delete ended jobs."""
    check_batch(len(jobs))
    await tx.jobs(jobs)
    return [await purge_one(tx, await tx.job(job)) for job in jobs]


async def purge_one(tx: Tx, row: Row | None) -> bool:
    """Delete the job if it has ended."""
    if row is None or not row.has_ended:
        return False
    never_arrives = None
    if row.gather is not None and row.status == "failed":
        reason = await tx.last_failure(row)
        never_arrives = Purged(row.id, row.gather, row.gather_index, reason, row.retry_count)
    tx.free_key(row)
    tx.delete(row)
    if never_arrives is not None:
        await tx.then(never_arrives)
    return True


async def adopt(tx: Tx, jobs: Sequence[Adopted]) -> list[bool]:
    """Take over jobs of another store."""
    check_batch(len(jobs))
    await tx.jobs([each.job.id for each in jobs])
    return [await adopt_one(tx, each) for each in jobs]


async def adopt_one(tx: Tx, adopted: Adopted) -> bool:
    """Take over the job, unless its id or its unique key is taken.

    A debounced job whose key is taken is stored without it.
    """
    job = adopted.job
    if await tx.job(job.id) is not None:
        return False
    keyed = job.unique_key is not None and job.status != "failed"
    if keyed and await holder_of(tx, job.key_queue, job.unique_key or "") is not None:
        if job.debounce_until is None:
            return False
        keyed = False
    row = adopted_row(tx.new, adopted, tx.next_sequence())
    if job.status == "failed":
        row.status, row.ended_at = "failed", job.ended_at
    elif not row.awaits:
        place(tx, row, row.number, job.due - tx.now)
    tx.insert(row)
    if keyed:
        tx.take_key(row)
    tx.add_history(row, adopted.history)
    for index, value in adopted.arrived.items():
        tx.add_arrival(row, index, value)
    for record in adopted_records(adopted.records, job.token, row.token):
        tx.put_record(row, record)
    if row.status == "pending" and not row.awaits:
        tx.enter(row)
    return True
