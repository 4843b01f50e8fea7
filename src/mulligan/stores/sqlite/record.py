"""What jobs record about themselves while they run."""

from collections.abc import Iterable, Sequence

from mulligan.core.job import Job
from mulligan.core.record import Record, Recording, RecordVerdict, adopted_records, kind_of, stamped
from mulligan.core.settings import LOG_LIMIT, check_batch
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("record")
_HELD = SQL["held"]
_ADD = SQL["add"]
_TRIM = SQL["trim"]
_LIST = SQL["list"]
_DROP = SQL["drop"]
_DELETE = SQL["delete"]


def record(tx: Transaction, recordings: Sequence[Recording]) -> list[RecordVerdict]:
    """Keep each recording whose lease is still held."""
    check_batch(len(recordings))
    return [record_one(tx, each) for each in recordings]


def record_one(tx: Transaction, recording: Recording) -> RecordVerdict:
    """Keep the records, unless the lease is no longer held."""
    job, token = recording.lease
    if tx.db.execute(_HELD, (job, token)).fetchone() is None:
        return "stale"
    add(tx, job, [stamped(each, token, tx.now) for each in recording.records])
    return "recorded"


def add(tx: Transaction, job: str, records: Iterable[Record]) -> None:
    """Keep records of the job, which are stamped."""
    rows = [
        (job, each.key, each.token, each.number, each.at, each.value or b"") for each in records
    ]
    tx.db.executemany(_ADD, rows)
    if any(key.startswith("log:") for _, key, *_ in rows):
        tx.db.execute(_TRIM, {"job": job, "keep": LOG_LIMIT})


def records(tx: Transaction, job: str, most: int | None) -> list[Record]:
    """What the job has recorded, oldest first."""
    return [
        Record(kind_of(key)[0], number, value, kind_of(key)[1], token, at, size)
        for key, token, number, at, value, size in tx.db.execute(_LIST, {"job": job, "most": most})
    ]


def take_over(tx: Transaction, job: Job, token: int, adopted: Sequence[Record]) -> None:
    """Keep what the job has recorded in another store."""
    if adopted:
        add(tx, job.id, adopted_records(adopted, job.token, token))


def drop(tx: Transaction, job: str) -> None:
    """Forget all but the log."""
    tx.db.execute(_DROP, (job,))


def delete(tx: Transaction, jobs: str) -> None:
    """Forget what these jobs have recorded, which are a JSON array."""
    tx.db.execute(_DELETE, (jobs,))
