"""A schedule: a call that runs by itself, as a store keeps it, and what it is made of.

A store keeps a schedule as a record that it does not read. When it ticks, and what an edit of it
changes, is in `core/ticks.py`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, fields, replace

from mulligan.core.checks import NAME_LIMIT, check_name
from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.flow import ROOT_LIMIT, Flow
from mulligan.core.job import FLOW, NewJob, encode
from mulligan.core.timing import Timing, said_by, timing_of

CatchUp = Literal["one", "none", "all"]
CATCH_UPS: tuple[CatchUp, ...] = ("one", "none", "all")
State = Literal["active", "paused", "undeclared"]
# @2026-01-31T12:00:00Z
TICK_LENGTH = 21
# Fields of a new job that differ for each tick.
OWN = {"id", "body", "delay"}
# What makes other jobs follow from a job, with ids that derive from its own.
FOLLOWS = ("flow", "sink", "on_dead")
NOTHING = Raw(b"null")


class Schedule(Struct, frozen=True, omit_defaults=True):
    """A stored schedule. Times are the store's, in seconds since 1970.

    `job` has the fields of its jobs by name, and `body` is theirs. Every tick up to `handled` was
    placed or skipped; `placed` is that tick if it was placed as a job. `ticks` counts those that
    came due, `last` is the newest of them, and `late` by how many seconds it was placed too
    late. A declared one that no live worker declares is `undeclared` since then. `signed` is the
    signature of the whole.
    """

    name: str
    job: dict[str, Any]
    body: Raw
    cron: str | None = None
    every: float | None = None
    timezone: str | None = None
    catch_up: CatchUp = "one"
    paused: bool = False
    declared: bool = False
    changed_at: float = 0.0
    handled: float = 0.0
    placed: float | None = None
    last: float | None = None
    late: float = 0.0
    ticks: int = 0
    undeclared: float | None = None
    signed: str | None = None

    @property
    def timing(self) -> Timing:
        """When it ticks."""
        return known_timing(self.cron, self.every, self.timezone)

    @property
    def state(self) -> State:
        """Whether it ticks."""
        if self.paused:
            return "paused"
        return "active" if self.undeclared is None else "undeclared"

    @property
    def task(self) -> str:
        """The task of its jobs."""
        return str(self.job["task"])

    @property
    def waits_for_the_tick(self) -> bool:
        """Whether a tick is placed when it comes, since its unique key may be taken until then."""
        return self.job.get("unique_key") is not None

    @property
    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of its calls."""
        try:
            found = msgspec.json.decode(self.body)
            return found.get("args", []), found.get("kwargs", {})
        except (*UNREADABLE, AttributeError):
            return [], {}

    def next_tick(self, now: float) -> float | None:
        """When it ticks next; None while it does not."""
        if self.state != "active":
            return None
        return (
            self.placed
            if self.placed is not None and self.placed > now
            else (self.timing.after(now))
        )

    def last_tick(self, now: float) -> float | None:
        """When it ticked last; None if it never has."""
        return self.placed if self.placed is not None and self.placed <= now else self.last

    def new_job(self, job: str, delay: float) -> NewJob:
        """Its job of this id; its expiry counts from when the delay is over."""
        made = msgspec.convert({"id": job, "body": b"", **self.job}, NewJob)
        expires = None if made.expires is None else made.expires + delay
        return replace(made, body=body_of(bytes(self.body), job), delay=delay, expires=expires)


class Stored(NamedTuple):
    """A schedule, and its record as the store has it."""

    schedule: Schedule
    record: bytes


_decode = msgspec.json.Decoder(Schedule).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_flow = msgspec.json.Decoder(Flow).decode


@lru_cache(maxsize=1024)
def known_timing(cron: str | None, every: float | None, timezone: str | None) -> Timing:
    """The timing of a stored schedule; to read a cron expression takes a while."""
    timing = timing_of(cron, every, timezone)
    if timing is None:
        raise InvalidError("a stored schedule has neither cron nor every; remove it")
    return timing


def read_schedules(records: Mapping[str, bytes]) -> dict[str, Stored]:
    """The schedules of a store by name, without records that cannot be read."""
    found: dict[str, Stored] = {}
    for name in sorted(records):
        try:
            schedule = _decode(records[name])
            schedule.timing.after(0.0)
        except (*UNREADABLE, InvalidError, AttributeError):
            continue
        found[name] = Stored(schedule, records[name])
    return found


def tick_id(name: str, tick: float) -> str:
    """The id of the job of a tick: the same in every process."""
    return f"{name}@{datetime.fromtimestamp(tick, UTC):%Y-%m-%dT%H:%M:%SZ}"


# -- what a schedule is made of ------------------------------------------------------------------


def template(job: NewJob) -> tuple[dict[str, Any], Raw]:
    """The fields of a schedule's jobs, and their body, from a job that its call makes."""
    told = {each.name for each in fields(NewJob) if each.required}
    defaults = {each.name: each.default for each in fields(NewJob) if not each.required}
    said = {
        name: value
        for name, value in asdict(job).items()
        if name not in OWN and (name in told or value != defaults[name])
    }
    parts = _decode_fields(job.body)
    if any(bytes(parts.get(name, NOTHING)) != b"null" for name in FOLLOWS):
        # The id may be used again later; a life tells the jobs that follow from each use apart.
        parts["named"] = Raw(b"true")
        return said, Raw(encode(parts))
    return said, Raw(job.body)


def check_schedule_name(name: str, *, followed: bool) -> None:
    """Refuse a name that leaves no room for the ids of ticks, and of what follows from them."""
    check_name("schedule", name)
    most = (ROOT_LIMIT if followed else NAME_LIMIT) - TICK_LENGTH
    if len(name) > most:
        raise InvalidError(
            f"schedule {name[:40]!r} has a name of {len(name)} characters; use at most {most}, as"
            " its jobs are named after it"
        )


def check_template(name: str, job: NewJob) -> None:
    """Refuse a name without room for the ids of ticks, and options that ticks cannot have."""
    check_schedule_name(name, followed=any(f'"{each}":'.encode() in job.body for each in FOLLOWS))
    if job.debounce_max is not None:
        raise InvalidError(
            f"schedule {name!r}: its call is debounced, and the schedule alone says when it runs;"
            " leave out debounce="
        )
    if job.delay:
        raise InvalidError(
            f"schedule {name!r}: its call has a delay of {job.delay:g} s, and the schedule alone"
            " says when it runs; leave out delay= and run_after="
        )
    if job.awaits or job.gather is not None:
        raise InvalidError(f"schedule {name!r}: its call is part of a gather; schedule a task")


def check_catch_up(value: object) -> CatchUp:
    """What becomes of missed ticks."""
    if value not in CATCH_UPS:
        raise InvalidError(f"catch_up {value!r} is not one of {', '.join(CATCH_UPS)}")
    return value


def check_timing(name: str, cron: str | None, every: Any, timezone: str | None) -> dict[str, Any]:
    """The words of a timing as a schedule has them; refuses what never ticks, or says nothing."""
    timing = timing_of(cron, every, timezone)
    if timing is None:
        raise InvalidError(
            f"schedule {name!r} has neither cron nor every; give one of them, such as"
            " cron='0 9 * * *' or every=300"
        )
    return said_by(timing)


def body_of(body: bytes, job: str) -> bytes:
    """The body of the job of this id: the jobs of a chain are named after the first of them."""
    if FLOW not in body:
        return body
    parts = _decode_fields(body)
    flow = parts.get("flow", NOTHING)
    if bytes(flow) == b"null":
        return body
    parts["flow"] = Raw(encode(replace(_decode_flow(flow), root=job)))
    return encode(parts)


def record_of(schedule: Schedule) -> bytes:
    """The schedule as a store keeps it."""
    return encode(replace(schedule, signed=None))
