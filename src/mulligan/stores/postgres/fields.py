"""How this store spells the fields of a job, which core/fields.py lists.

New jobs are arrays, one for each field. Claims and jobs are rows whose columns are selected by the
names of the fields. Times are whole microseconds in the tables, and seconds here.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import asdict, astuple, replace

from mulligan.core import fields
from mulligan.core.fields import Field, fields_of
from mulligan.core.job import Adopted, Attempt, Claim, Job, NewJob
from mulligan.core.lane import Lane
from mulligan.core.record import Record, adopted_records
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
Columns = tuple[str | bytes | bool | None, ...]
Encoder = Callable[[Sequence[Any]], str | bytes | None]


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


def in_order_of(struct: type[NewJob | Claim | Job]) -> list[Field]:
    """The fields of a struct as it takes them."""
    by_name = {field.name: field for field in fields.FIELDS}
    return [by_name[name] for name in struct.__struct_fields__]


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
# The record `new_jobs`: the fields as the struct has them, and whether all leave out all options,
# but for those of lines, in which they are alike.
NEW_JOBS = {
    field.name: f"{SMALL.get(field.name, TYPES[field.kind])}[]" for field in in_order_of(NewJob)
} | {"no_options": "boolean"}
# Where there are none.
NO_JOBS: Columns = (None,) * len(NEW_JOBS)
# The options that say which line a job joins. Jobs that are alike in these, and have no others, are
# stored as quickly as those without any.
OF_LINE = ("limits", "fairness_key")
line_of = itemgetter(*(NewJob.__struct_fields__.index(name) for name in OF_LINE))
OPTIONS = [number for number, field in enumerate(in_order_of(NewJob)) if field.option]
options_of = itemgetter(*OPTIONS)
other_options_of = itemgetter(*(n for n in OPTIONS if NewJob.__struct_fields__[n] not in OF_LINE))
NO_OPTIONS = tuple(field.default for field in in_order_of(NewJob) if field.option)
# One job that leaves out all options, as `accept_one` takes it.
ONE_JOB = {
    f"in_{field.name}": SMALL.get(field.name, TYPES[field.kind])
    for field in in_order_of(NewJob)
    if not field.option
}
plain_of = itemgetter(
    *(number for number, field in enumerate(in_order_of(NewJob)) if not field.option)
)


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


def encoder(field: Field) -> Encoder:
    """What makes an array of a field: None if all leave it out, of length one if all are alike."""
    literal, default = LITERALS[field.kind], field.default

    def option(values: Sequence[Any]) -> str | None:
        if values.count(default) == len(values):
            return None
        return literal([None if value == default else value for value in values])

    def every(values: Sequence[Any]) -> str:
        return literal(alike(values))

    return option if field.option else every


ENCODERS = {field.name: encoder(field) for field in in_order_of(NewJob)}
# No two jobs have the same id, and few the same body.
PLAIN = tuple((ENCODERS | {"id": texts, "body": bytestrings}).values())
PACKED = tuple((ENCODERS | {"id": packed_texts, "body": packed_bytes}).values())

# How the fields of one job are sent: numbers in digits, all else as it is.
VALUES: dict[str, Callable[[Any], bytes]] = {
    "text": str.encode,
    "integer": lambda number: b"%d" % number,
    "bytes": bytes,
    "seconds": lambda seconds: b"%d" % micros(seconds),
}
ONE = [VALUES[field.kind] for field in plain_of(in_order_of(NewJob))]
ONE_FORMATS = [field.kind in ("text", "bytes") for field in plain_of(in_order_of(NewJob))]


def job_columns(jobs: Sequence[NewJob]) -> Columns:
    """New jobs as the values of `new_jobs`."""
    return encoded(PLAIN, jobs)


def packed_columns(jobs: Sequence[NewJob]) -> Columns:
    """As `job_columns`, for connections of psycopg."""
    return encoded(PACKED, jobs)


def one_job(job: NewJob) -> list[bytes] | None:
    """One job as the values of `accept_one`, but for the time; None if it has options."""
    values = astuple(job)
    if options_of(values) != NO_OPTIONS:
        return None
    return [encode(value) for encode, value in zip(ONE, plain_of(values), strict=True)]


def encoded(encoders: Sequence[Encoder], jobs: Sequence[NewJob]) -> Columns:
    """Every field of the jobs by its encoder."""
    fields_of_all = tuple(zip(*map(astuple, jobs), strict=True))
    columns = [encode(values) for encode, values in zip(encoders, fields_of_all, strict=True)]
    no_options = not any(other_options_of(columns))
    if no_options and any(line_of(columns)):
        limits, keys = line_of(fields_of_all)
        no_options = len(alike(limits)) == 1 and (
            len(alike(keys)) == 1 or (limits[0] is None and None not in keys)
        )
    return (*columns, no_options)


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
    known = [(), *[lane + worker for lane in lanes]]  # sources are numbered from 1
    whole = [row + known[row[1]] for row in rows]
    return list(starmap(Claim, map(in_order_of_claim, whole)))


def claim(row: Row) -> Claim:
    """A row of `reclaim`."""
    return Claim(*row)


def job(row: Row) -> Job:
    """A row of `every_job`."""
    return Job(*row)


# -- attempts and adopted jobs: JSON -------------------------------------------------------------

# What a job has only in the store that it is in.
NOT_ADOPTED = (
    *("sequence", "waits_for", "worker", "worker_region", "result", "last_failure_reason"),
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
    job: Job,
    history: Sequence[Attempt],
    arrived: Mapping[int, bytes | None],
    records: Sequence[Record],
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
        "records": [
            (
                each.key if each.kind != "log" else each.kind,
                each.number,
                micros(each.at),
                b64encode(each.value or b"").decode(),
                each.token,
            )
            for each in adopted_records(records, job.token, 0)
        ],
    }
