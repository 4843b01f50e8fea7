"""Stores what running jobs record about themselves."""

from collections.abc import Sequence

from mulligan.core.job import Lease
from mulligan.core.record import Record, Recording, RecordVerdict, stamped
from mulligan.core.settings import check_batch
from mulligan.stores.rules.tx import RecordKey, Tx

# The store keeps the newest record of these kinds, and the first one of all others.
NEWEST = ("progress", "checkpoint")
Stored = dict[RecordKey, tuple[int, int]]
Keyed = list[tuple[RecordKey, Record]]


async def record(tx: Tx, recordings: Sequence[Recording]) -> list[RecordVerdict]:
    """Store each recording whose lease is still held."""
    check_batch(len(recordings))
    await tx.jobs([each.lease.job for each in recordings])
    keyed = [keyed_records(each, tx.now) for each in recordings]
    stored = await tx.recorded([key for each in keyed for key, _ in each])
    return [
        await record_one(tx, each.lease, new, stored)
        for each, new in zip(recordings, keyed, strict=True)
    ]


def keyed_records(recording: Recording, now: float) -> Keyed:
    """Return the records as the store keeps them, each with its job and key."""
    job, token = recording.lease
    stamps = [stamped(each, token, now) for each in recording.records]
    return [((job, each.key), each) for each in stamps]


async def record_one(tx: Tx, lease: Lease, records: Keyed, stored: Stored) -> RecordVerdict:
    """Store the records, unless the lease is no longer held."""
    row = await tx.job(lease.job)
    if row is None or not row.is_held_by(lease):
        return "stale"
    logged = False
    for key, each in records:
        before = stored.get(key)
        if before is None or (each.kind in NEWEST and each.order > before):
            stored[key] = each.order
            tx.put_record(row, each)
            logged = logged or each.kind == "log"
    if logged:
        tx.trim_log(row)
    return "recorded"
