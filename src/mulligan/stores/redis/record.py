"""What jobs record about themselves, as record.lua and records.lua write and give it."""

from collections.abc import Sequence

from mulligan.core.job import Job
from mulligan.core.record import (
    STEP,
    Record,
    Recording,
    RecordVerdict,
    adopted_records,
    is_left_out,
    kind_of,
)
from mulligan.stores.redis.connection import Run, Value
from mulligan.stores.redis.fields import float_text, token_texts


async def record(run: Run, recordings: Sequence[Recording], worker: str) -> list[RecordVerdict]:
    """Keep records of jobs that this worker likely holds."""
    values: list[Value] = []
    for lease, records in recordings:
        values += (lease.job, *token_texts([lease.token]), len(records))
        for each in records:
            values += (short_key(each), each.number, each.value or b"")
    return ["recorded" if kept else "stale" for kept in await run("record", worker, *values)]


def records_of(cells: Sequence[bytes | int], most: int | None) -> list[Record]:
    """What records.lua gave, in order."""
    found = []
    for key, head, size, value in zip(*[iter(cells)] * 4, strict=True):
        kind, name = kind_of(bytes_text(key) + (":" if key == b"log" else ""))
        token, number, at = bytes_text(head).split()
        given = None if is_left_out(kind, int(size), most) else value
        found.append(Record(kind, int(number), given, name, int(token), float(at), int(size)))
    return sorted(found, key=lambda each: (each.order, each.key))


def adopted_values(job: Job, records: Sequence[Record]) -> list[Value]:
    """Records of a job of another store, for adopt.lua; tokens are counted from the job's own."""
    values: list[Value] = []
    for each in adopted_records(records, job.token, 0):
        at = float_text(each.at)
        values += (short_key(each), each.number, each.token, at, each.value or b"")
    return values


def short_key(record: Record) -> str:
    """The key of a record; a log line is known by its position in a list."""
    return STEP + record.name if record.kind == "step" else record.kind


def bytes_text(value: bytes | int) -> str:
    """The text of a cell."""
    return value.decode() if isinstance(value, bytes) else str(value)
