"""What jobs record about themselves while they run."""

from collections.abc import Sequence

from mulligan.core.record import Record, Recording, RecordVerdict, kind_of, stamped
from mulligan.core.settings import LOG_LIMIT
from mulligan.stores.postgres.arrays import bytestrings, numbers, texts
from mulligan.stores.postgres.database import Database


async def record(database: Database, recordings: Sequence[Recording]) -> list[RecordVerdict]:
    """Keep each recording whose lease is still held."""
    sent = [stamped(each, lease.token, 0.0) for lease, records in recordings for each in records]
    [[answers]] = await database.call(
        "keep_records",
        ids=texts([lease.job for lease, _ in recordings]),
        tokens=numbers([lease.token for lease, _ in recordings]),
        counts=numbers([len(records) for _, records in recordings]),
        keys=texts([each.key for each in sent]),
        numbers=numbers([each.number for each in sent]),
        contents=bytestrings([each.value or b"" for each in sent]),
        log_limit=LOG_LIMIT,
    )
    return ["recorded" if held else "stale" for held in answers]


async def records(database: Database, job: str, most: int | None) -> list[Record]:
    """What the job has recorded, oldest first."""
    found = []
    for key, token, number, at, value, size in await database.call("records", in_id=job, most=most):
        kind, name = kind_of(key)
        found.append(Record(kind, number, value, name, token, at / 1e6, size))
    return found
