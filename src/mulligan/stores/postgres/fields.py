"""How this store spells the fields of a job, which core/fields.py lists.

New jobs are arrays, one for each field. Claims and jobs are rows whose columns are selected by the
names of the fields. Times are whole microseconds in the tables, and seconds here.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from mulligan.core import fields
from mulligan.core.fields import Field, fields_of
from mulligan.core.job import Adopted, Attempt, Claim, Job, NewJob
from mulligan.core.lane import Lane
from mulligan.stores.postgres.arrays import (
    alike,
    bytestrings,
    flags,
    numbers,
    packed_bytes,
    packed_texts,
    texts,
)

Row = tuple[Any, ...]
Columns = tuple[str | bytes | None, ...]


def micros(seconds: float) -> int:
    """Seconds as whole microseconds."""
    return round(seconds * 1e6)


def micros_or_none(seconds: float | None) -> int | None:
    """As `micros`, where there may be no time."""
    return None if seconds is None else round(seconds * 1e6)


def plain(text: str) -> str:
    """The text without NUL, which PostgreSQL cannot store."""
    return text.replace("\0", "\ufffd")


def lane_name(lane: Lane) -> str:
    """The lane as the tables name it."""
    return f"{lane.queue}\x1f{lane.scope}\x1f{int(lane.priority)}"


# -- new jobs: an array for each field -----------------------------------------------------------

TYPES = {
    "text": "text",
    "integer": "integer",
    "flag": "boolean",
    "bytes": "bytea",
    "time": "bigint",
    "seconds": "bigint",
}
SMALL = {"priority": "smallint"}
# The record `new_jobs`.
NEW_JOBS = {
    field.name: f"{SMALL.get(field.name, TYPES[field.kind])}[]"
    for field in fields_of(fields.NEW_JOB)
}
# Where there are none.
NO_JOBS: Columns = (None,) * len(NEW_JOBS)


def integers(values: Sequence[int | None]) -> str:
    """A literal of whole numbers, also where they have names."""
    return numbers([None if value is None else int(value) for value in values])


def durations(values: Sequence[float | None]) -> str:
    """A literal of durations."""
    return numbers([micros_or_none(value) for value in values])


LITERALS: dict[str, Callable[[Sequence[Any]], str]] = {
    "text": texts,
    "integer": integers,
    "flag": flags,
    "bytes": bytestrings,
    "time": durations,
    "seconds": durations,
}


def encoder(field: Field) -> Callable[[Sequence[NewJob]], str | None]:
    """What makes an array of a field: None if all leave it out, of length one if all are alike."""
    get, literal, default = attrgetter(field.name), LITERALS[field.kind], field.default

    def option(jobs: Sequence[NewJob]) -> str | None:
        values = list(map(get, jobs))
        if values.count(default) == len(values):
            return None
        return literal([None if value == default else value for value in values])

    def every(jobs: Sequence[NewJob]) -> str:
        return literal(alike(list(map(get, jobs))))

    return option if field.is_option else every


# A job's own are its id and body.
SHARED = [encoder(field) for field in fields_of(fields.NEW_JOB) if field.name not in ("id", "body")]
OWN_FIRST = ("id", "body", *(name for name in NEW_JOBS if name not in ("id", "body")))
in_order_of_type = itemgetter(*map(OWN_FIRST.index, NEW_JOBS))


def job_columns(jobs: Sequence[NewJob]) -> Columns:
    """New jobs as the values of `new_jobs`."""
    ids, bodies = texts([job.id for job in jobs]), bytestrings([job.body for job in jobs])
    columns: Columns = in_order_of_type((ids, bodies, *[encode(jobs) for encode in SHARED]))
    return columns


def packed_columns(jobs: Sequence[NewJob]) -> Columns:
    """As `job_columns`, for connections of psycopg."""
    ids, bodies = packed_texts([job.id for job in jobs]), packed_bytes([job.body for job in jobs])
    columns: Columns = in_order_of_type((ids, bodies, *[encode(jobs) for encode in SHARED]))
    return columns


# -- claims and jobs: columns by their names -----------------------------------------------------


def column(field: Field) -> str:
    """The column of a field, times as seconds."""
    if field.kind == "time":
        return f"{field.name}::float8 / 1e6 AS {field.name}"
    return field.name


def lean_column(field: Field) -> str:
    """As `column`, with nothing for a body and a result."""
    if field.kind == "bytes":
        return ("NULL" if field.default is None else "''") + "::bytea"
    return column(field)


def in_order_of(struct: type[Claim | Job]) -> list[Field]:
    """The fields of a struct as it takes them."""
    by_name = {field.name: field for field in fields.FIELDS}
    return [by_name[name] for name in struct.__struct_fields__]


JOB = ", ".join(map(column, in_order_of(Job)))
LEAN_JOB = ", ".join(map(lean_column, in_order_of(Job)))
CLAIM = ", ".join(
    "coalesce(worker_region, region)" if field.name == "worker_region" else column(field)
    for field in in_order_of(Claim)
)

# Who claims knows the lanes of its plan and itself: the other fields are columns of `claim`.
OF_LANE = ("queue", "scope", "lane_priority")
OF_WORKER = ("worker", "worker_region", "started_at")
CLAIMED = [field for field in in_order_of(Claim) if field.name not in (*OF_LANE, *OF_WORKER)]
CLAIM_ROW = ", ".join(("ordinal", "source", *map(column, CLAIMED)))
ROW_NAMES = ("ordinal", "source", *(field.name for field in CLAIMED))
in_order_of_claim = itemgetter(
    *map((*ROW_NAMES, *OF_LANE, *OF_WORKER).index, Claim.__struct_fields__)
)


def claims(rows: Sequence[Row], lanes: Sequence[Row], worker: Row) -> list[Claim]:
    """Rows of `claim` with what the claim knows: `lanes` by source, the worker and the time."""
    return [Claim(*in_order_of_claim(row + lanes[row[1] - 1] + worker)) for row in rows]


def claim(row: Row) -> Claim:
    """A row of `reclaim`."""
    return Claim(*row)


def job(row: Row) -> Job:
    """A row of `every_job`."""
    return Job(*row)


# -- attempts and adopted jobs: JSON -------------------------------------------------------------

# What a job has only in the store that it is in.
NOT_ADOPTED = (
    *("sequence", "held", "worker", "worker_region", "result", "last_failure_reason"),
    "cancel_reason",
)


def failure_json(failure: Attempt) -> str:
    """An attempt as history keeps it."""
    encoded = msgspec.json.encode(failure)
    if b"\\u0000" in encoded:
        words = {k: plain(v) for k, v in asdict(failure).items() if isinstance(v, str)}
        encoded = msgspec.json.encode(replace(failure, **words))
    return encoded.decode()


def attempt(failure: dict[str, Any]) -> Attempt:
    """A stored attempt."""
    return msgspec.convert(failure, Attempt)


def adopted_json(jobs: Sequence[Adopted]) -> str:
    """Jobs of another store as `adopt` takes them."""
    return msgspec.json.encode([_adopted(*each) for each in jobs]).decode()


def _adopted(
    job: Job, history: Sequence[Attempt], arrived: Mapping[int, bytes | None]
) -> dict[str, Any]:
    return {
        **{
            field.name: micros_or_none(getattr(job, field.name))
            if field.kind == "time"
            else getattr(job, field.name)
            for field in fields_of(fields.JOB)
            if field.kind != "bytes" and field.name not in NOT_ADOPTED
        },
        "body64": b64encode(job.body).decode(),
        "history": [msgspec.Raw(failure_json(each).encode()) for each in history],
        "arrived": [
            (index, None if result is None else b64encode(result).decode())
            for index, result in arrived.items()
        ],
    }
