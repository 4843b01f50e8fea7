"""How a job ends, at whatever door."""

from collections.abc import Sequence

from mulligan.core.job import EXPIRED, Status
from mulligan.core.unique import holds_key
from mulligan.stores.rules.consequence import Missed
from mulligan.stores.rules.row import Row
from mulligan.stores.rules.tx import Tx


def end(tx: Tx, row: Row, status: Status) -> None:
    """End the job, and free its unique key unless it lasts longer than the job."""
    row.status, row.ended_at, row.worker = status, tx.now, None
    if row.has_key and not holds_key(row, tx.now):
        tx.free_key(row)
    tx.end(row)


async def cancel_one(tx: Tx, row: Row | None, reason: str) -> bool:
    """End the job as canceled, and make its lease stale; False if it is unknown or has ended."""
    if row is None or row.has_ended:
        return False
    ran = row.status == "processing"
    if not ran:
        tx.leave(row)
    row.token += 1
    row.cancel_reason = reason
    end(tx, row, "cancelled")
    if ran:
        tx.release(row)
    await tell_gathering(tx, row, ran=ran)
    return True


async def tell_gathering(tx: Tx, row: Row, *, ran: bool) -> None:
    """State that a canceled job will never be done, if another gathers it."""
    if row.gather is not None:
        reason = row.cancel_reason or ""
        index, retry_count = row.gather_index, row.retry_count
        await tx.then(Missed(row.id, row.gather, index, reason, retry_count, ran))


async def expire(tx: Tx, job: str) -> None:
    """End a job that a claim found expired. `tell_expired` follows when the claim is complete."""
    for row in await known(tx, [job]):
        tx.leave(row)
        row.cancel_reason = EXPIRED
        end(tx, row, "cancelled")


async def tell_expired(tx: Tx, jobs: Sequence[str]) -> None:
    """Notify the gatherings of jobs that a claim found expired."""
    for row in await known(tx, jobs):
        await tell_gathering(tx, row, ran=False)


async def known(tx: Tx, jobs: Sequence[str]) -> list[Row]:
    """Return the jobs that are stored."""
    return [row for row in await tx.jobs(jobs) if row is not None]
