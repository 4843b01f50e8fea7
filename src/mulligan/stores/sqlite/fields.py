"""A job's fields as this store spells them: lists of columns, rows to write, rows that were read.

All of it follows from the table of fields. A new field of a job that is only kept needs a column of
`job`, one of the view `jobs`, and a line in `are_alike` of enqueue.py.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET

from mulligan.core.fields import JOB, NEW_JOB, OPTIONS, Field, fields_of, names_of
from mulligan.core.job import Attempt, Claim, Job, NewJob, first_token
from mulligan.core.lane import Lane
from mulligan.core.worker import Worker

Row = tuple[Any, ...]
BYTES = {*names_of(JOB, "bytes")}


def listed(names: Sequence[str]) -> str:
    """Columns as a statement lists them."""
    return ", ".join(names)


def marks(names: Sequence[str]) -> str:
    """A parameter for each column."""
    return ", ".join("?" * len(names))


def as_json(value: Any) -> str:
    """The value as text for json_each; newer releases of SQLite would misread bytes."""
    return msgspec.json.encode(value).decode()


# -- a new job is written ----------------------------------------------------------------------

# What the store makes of a new job; its body and priority are of kinds that SQLite takes quickly.
MADE = (
    *("number", "scope", "lane_priority", "due", "sequence", "delayed", "token", "created_at"),
    *("priority", "body"),
)
# What is kept as it was said; durations are not, but the times that they make.
SAID = tuple(
    field.name
    for field in fields_of(NEW_JOB)
    if not field.option and field.kind != "seconds" and field.name not in MADE
)
PLAIN_COLUMNS = (*MADE, *SAID)

said_of = attrgetter(*SAID)
options_of = attrgetter(*OPTIONS)
DEFAULTS = {field.name: field.default for field in fields_of(NEW_JOB)}
NO_OPTIONS = tuple(DEFAULTS[name] for name in OPTIONS)


def plain_row(job: NewJob, number: int, due: float, now: float) -> Row:
    """The columns of every job; SQLite binds a bytearray and a plain int in a third of the time."""
    priority, sequence = int(job.priority), 0 if job.awaits else number
    # fmt: off
    return (
        number, job.region, priority, due, sequence, due > now, first_token(number), now,
        priority, bytearray(job.body), *said_of(job),
    )
    # fmt: on


# The columns in which jobs that are alike differ; in all others they are the same.
OWN = ("number", "id", "body")
_FROM_OWN = {**{name: name for name in OWN}, "sequence": "number", "token": "number * ?"}
ALIKE_LIST = ", ".join(_FROM_OWN.get(name, "?") for name in PLAIN_COLUMNS)
SAID_ALIKE = tuple(name for name in SAID if name not in OWN)
said_alike_of = attrgetter(*SAID_ALIKE)


def alike_rows(rows: int) -> str:
    """The columns in which jobs that are alike differ, as the rows of VALUES."""
    return ", ".join([f"({marks(OWN)})"] * rows)


def shared_row(job: NewJob, due: float, now: float, tokens_per_life: int) -> Row:
    """What jobs that are alike have in common, for `ALIKE_LIST`."""
    priority = int(job.priority)
    made = (job.region, priority, due, due > now, tokens_per_life, now, priority)
    return (*made, *said_alike_of(job))


# -- a claim is read ---------------------------------------------------------------------------

# What the walk looks at, before what its claim says: rows compare by (due, sequence).
WALKED = ("due", "sequence", "number", "special")
# What a claim says of the lane, and of who claims; the rest is in the row of the job.
OF_LANE = ("queue", "scope", "lane_priority")
OF_WORKER = ("worker", "worker_region", "started_at")
CLAIMED = tuple(
    name for name in Claim.__struct_fields__ if name not in (*WALKED, *OF_LANE, *OF_WORKER)
)


def of_job(name: str) -> str:
    """The column of `job` as it is read."""
    return f"CAST(job.{name} AS BLOB)" if name in BYTES else f"job.{name}"


CLAIMED_LIST = ", ".join("job.token + 1" if name == "token" else of_job(name) for name in CLAIMED)


def claims_of(lane: Lane, rows: Sequence[Row], worker: Worker, now: float) -> list[Claim]:
    """Rows of `WALKED` and `CLAIMED`, as claims of the worker.

    They are taken apart by name: to put them in order by their indexes takes twice as long. A new
    field of Claim raises ValueError here until it has a name too.
    """
    queue, scope, lane_priority = lane
    me, region = worker.id, worker.region
    # fmt: off
    return [
        Claim(
            id_, token, queue, task, body, own, priority, scope, lane_priority, due,
            retry_count, replay, snoozes, me, region, now, trail, limits,
        )
        for (
            due, _, _, _,
            id_, token, task, body, own, priority, retry_count, replay, snoozes, trail,
            limits,
        ) in rows
    ]
    # fmt: on


# What the claim of a reclaimed job takes from the row of its lease.
_OF_RUNNING = {
    "token": "running.token + 1",
    "worker": "running.worker",
    "worker_region": "coalesce(running.worker_region, job.region)",
    "started_at": "coalesce(running.started_at, 0.0)",
}
RECLAIMED_LIST = ", ".join(
    _OF_RUNNING.get(name) or of_job(name) for name in Claim.__struct_fields__
)


# -- a job is read -----------------------------------------------------------------------------


def shown(field: Field) -> str:
    """The column of the view `jobs`; bytes only where :bodies are asked for."""
    if field.kind != "bytes":
        return field.name
    nothing = "x''" if field.default is UNSET else "NULL"
    return f"CASE WHEN :bodies THEN CAST({field.name} AS BLOB) ELSE {nothing} END"


_BY_NAME = {field.name: field for field in fields_of(JOB)}
JOB_LIST = ", ".join(shown(_BY_NAME[name]) for name in Job.__struct_fields__)
_FLAGS = tuple(map(Job.__struct_fields__.index, names_of(JOB, "flag")))


def job_of(row: Row) -> Job:
    """The row of `JOB_LIST` as readers see it."""
    values = list(row)
    for index in _FLAGS:
        values[index] = bool(values[index])
    return Job(*values)


# -- an attempt --------------------------------------------------------------------------------

ATTEMPT_COLUMNS = Attempt.__struct_fields__
_SAID_ATTEMPT = tuple(name for name in ATTEMPT_COLUMNS if name != "ended_at")
ATTEMPT_ROW = ("job", "ended_at", *_SAID_ATTEMPT)

said_attempt_of = attrgetter(*_SAID_ATTEMPT)


def attempt_row(job: str, failure: Attempt, ended_at: float | None) -> Row:
    """The attempt as its table keeps it."""
    return (job, ended_at, *said_attempt_of(failure))
