"""Mistakes with what jobs record."""

from typing import Any

from mulligan.core.job import Lease
from mulligan.core.outcome import Again
from mulligan.core.record import RecordVerdict
from mulligan.engine.attempt_records import Known
from mulligan.engine.recorder import Recorder
from mulligan.stores.rules import commit, record
from tests.dst.zoo.cage import plant

record_one = record.record_one
commit_one = commit.commit_one


@plant(record, "record_one")
async def stale_record_accepted(tx: Any, lease: Lease, records: Any, stored: Any) -> RecordVerdict:
    """What a worker records is kept by the job alone, not by the token."""
    row = await tx.job(lease.job)
    held = row is not None and row.status == "processing"
    return await record_one(tx, row.lease if held else lease, records, stored)


@plant(Recorder, "read")
async def steps_not_handed_on(self: Any, job: str) -> Known:
    """A later attempt is not told which steps were recorded."""
    return Known({}, None)


@plant(commit, "commit_one")
async def records_dropped_with_the_attempt(tx: Any, outcome: Any) -> Any:
    """A failed attempt takes along what was recorded."""
    verdict = await commit_one(tx, outcome)
    if verdict == "written" and isinstance(outcome, Again):
        tx.delete_records(await tx.job(outcome.lease.job))
    return verdict


@plant(record, "record_one")
async def answered_before_it_is_kept(
    tx: Any, lease: Lease, records: Any, stored: Any
) -> RecordVerdict:
    """Every other step is answered as recorded, and not kept."""
    kept = [(key, each) for key, each in records if each.kind != "step" or each.number % 2]
    return await record_one(tx, lease, kept, stored)
