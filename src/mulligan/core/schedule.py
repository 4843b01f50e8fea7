"""A schedule: a call that runs by itself, and every rule about its ticks.

A store keeps a schedule as a record that it does not read, and replaces it only where it is still
what the caller has read. So of any number of processes one places a tick. The next tick is a
delayed job. What is decided here is a `Reschedule`: the new record, the tick to withdraw and
the ticks to place, which a store carries out in one step.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, fields, replace

from mulligan.core.checks import NAME_LIMIT, check_name, rounded
from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.flow import ROOT_LIMIT, Flow
from mulligan.core.job import NewJob, encode
from mulligan.core.reschedule import Reschedule
from mulligan.core.timing import Timing, said_by, ticks_between, timing_of

CatchUp = Literal["one", "none", "all"]
CATCH_UPS: tuple[CatchUp, ...] = ("one", "none", "all")
State = Literal["active", "paused", "undeclared"]
# How many missed ticks are made up for at most.
MOST_MISSED = 1000
# How many ticks are placed in one step at most, and how large their bodies are together.
PLACED_AT_ONCE, PLACED_BYTES = 100, 4 << 20
# A tick that is placed or made up for within this time is late, not missed.
LATE = 60.0
# Schedules that no worker has declared for so long are forgotten.
KEEP_UNDECLARED = 7 * 86_400.0
# @2026-01-31T12:00:00Z
TICK_LENGTH = 21
# Fields of a new job that each tick has anew.
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
        # Its id may come again: what follows from it is told from what followed before.
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
    if b'"flow":' not in body:
        return body
    parts = _decode_fields(body)
    flow = parts.get("flow", NOTHING)
    if bytes(flow) == b"null":
        return body
    parts["flow"] = Raw(encode(replace(_decode_flow(flow), root=job)))
    return encode(parts)


# -- edits ---------------------------------------------------------------------------------------


def put(before: Stored | None, new: Schedule, now: float) -> Reschedule:
    """Store the schedule, or give the stored one this call and timing.

    Its next tick takes the place of the one that was placed. One that is paused stays so.
    """
    if before is None:
        begun = replace(new, changed_at=now, handled=now)
        return rescheduled(begun, None, begun, now, edit=True)
    old = before.schedule
    came = settled(old, now)
    same = same_timing(old, new) and old.state == "active"
    changed = replace(
        came,
        job=new.job,
        body=new.body,
        cron=new.cron,
        every=new.every,
        timezone=new.timezone,
        catch_up=new.catch_up,
        declared=new.declared,
        undeclared=None,
        changed_at=now,
        handled=min(came.handled, now) if same or old.undeclared is not None else now,
    )
    return rescheduled(changed, before, old, now, edit=True)


def declare(before: Stored | None, new: Schedule, now: float) -> Reschedule | None:
    """Store what a task declares; None if it is stored so. Not where a stored one has its name."""
    if before is not None:
        old = before.schedule
        if not old.declared:
            return None
        same = (old.job, old.body, old.catch_up) == (new.job, new.body, new.catch_up)
        if same and same_timing(old, new) and old.undeclared is None:
            return None
    return put(before, new, now)


def pause(before: Stored, now: float) -> Reschedule | None:
    """Tick no more until it is resumed; None if it is paused."""
    old = before.schedule
    if old.paused:
        return None
    changed = replace(settled(old, now), paused=True, handled=now, changed_at=now)
    return rescheduled(changed, before, old, now, edit=True)


def resume(before: Stored, now: float) -> Reschedule | None:
    """Tick again from now on; None if it is not paused."""
    old = before.schedule
    if not old.paused:
        return None
    changed = replace(old, paused=False, handled=now, placed=None, changed_at=now)
    return rescheduled(changed, before, old, now, edit=True)


def remove(before: Stored, now: float) -> Reschedule:
    """Forget the schedule, and withdraw the tick that is placed."""
    old = before.schedule
    return Reschedule(old.name, before.record, None, withdrawn(old, now), edit=True)


def undeclared(before: Stored, now: float) -> Reschedule | None:
    """Tick no more until a worker declares it again; after a long while forget it."""
    old = before.schedule
    if old.undeclared is not None:
        return remove(before, now) if now - old.undeclared > KEEP_UNDECLARED else None
    came = settled(old, now)
    changed = replace(came, undeclared=now, handled=min(came.handled, now))
    return rescheduled(changed, before, old, now)


def same_timing(one: Schedule, other: Schedule) -> bool:
    """Whether both tick at the same times."""
    return one.timing.words == other.timing.words


def settled(schedule: Schedule, now: float) -> Schedule:
    """The schedule without a tick that is placed: one that came due has ticked."""
    if schedule.placed is None:
        return schedule
    if schedule.placed > now:
        return replace(schedule, placed=None)
    return replace(schedule, placed=None, last=schedule.placed, ticks=schedule.ticks + 1)


def withdrawn(schedule: Schedule, now: float) -> tuple[str, ...]:
    """The id of the tick that is placed and has not come due."""
    if schedule.placed is None or schedule.placed <= now:
        return ()
    return (tick_id(schedule.name, schedule.placed),)


def rescheduled(
    changed: Schedule, before: Stored | None, old: Schedule, now: float, *, edit: bool = False
) -> Reschedule:
    """The change with the ticks that follow from it, and without the one that was placed."""
    step = following(changed, now) if changed.state == "active" else None
    after, _, ticks = step or (changed, (), ())
    return Reschedule(
        changed.name,
        None if before is None else before.record,
        record_of(after),
        withdrawn(old, now),
        jobs_of(after, ticks, now),
        edit,
    )


# -- ticks ---------------------------------------------------------------------------------------


def tick(before: Stored, now: float) -> Reschedule | None:
    """What is to be placed now: missed ticks by the rule, and the next; None if nothing is."""
    old = before.schedule
    if old.state != "active":
        return None
    step = following(old, now)
    if step is None:
        return None
    after, gone, ticks = step
    ids = tuple([tick_id(old.name, each) for each in gone])
    return Reschedule(old.name, before.record, record_of(after), ids, jobs_of(after, ticks, now))


def look_again_in(schedule: Schedule, now: float, offset: float) -> float | None:
    """Seconds until `tick` has something to do; None for one that does not tick.

    Of many processes that look, each waits for its `offset`, so that one does it and the others
    find it done. That is early enough: the tick after is placed already.
    """
    if schedule.state != "active":
        return None
    timing = schedule.timing
    if schedule.waits_for_the_tick:
        return timing.after(max(now, schedule.handled)) - now
    gap = timing.after(schedule.handled) - schedule.handled
    return schedule.handled + min(offset, gap / 4) - now


def following(
    schedule: Schedule, now: float
) -> tuple[Schedule, tuple[float, ...], tuple[float, ...]] | None:
    """The schedule as it is next, which ticks to withdraw for it, and which to place."""
    timing = schedule.timing
    ahead = timing.after(now)
    if schedule.handled > now:
        if schedule.handled <= timing.after(ahead):
            return None
        # The clock was far ahead when that tick was placed, and has been set right.
        far = () if schedule.placed is None else (schedule.placed,)
        begun = replace(schedule, handled=now, placed=None)
        after, _, ticks = following(begun, now) or (begun, (), ())
        return after, far, ticks
    missed = ticks_between(timing, schedule.handled, now, MOST_MISSED)
    gone = overdue(schedule, missed, now)
    made_up = made_up_for(schedule.catch_up, missed, now)
    ticks = tuple(made_up if schedule.waits_for_the_tick else [*made_up, ahead])
    room = max(1, PLACED_BYTES // max(1, len(schedule.body)))
    ticks = ticks[: min(PLACED_AT_ONCE, room)]
    came = settled(schedule, now)
    if gone:
        came = replace(schedule, placed=None)
    if not ticks:
        handled = missed[-1] if missed else schedule.handled
        after = replace(came, handled=handled)
        return None if handled == schedule.handled and not gone else (after, gone, ())
    if len(ticks) > 1:
        came = replace(came, ticks=came.ticks + len(ticks) - 1, last=ticks[-2])
    if made_up:
        came = replace(came, late=rounded(max(0.0, now - min(ticks[-1], made_up[-1]))))
    elif schedule.placed is not None:
        came = replace(came, late=0.0)
    return replace(came, handled=ticks[-1], placed=ticks[-1]), gone, ticks


def made_up_for(catch_up: CatchUp, missed: list[float], now: float) -> list[float]:
    """The missed ticks that are placed after all."""
    match catch_up:
        case "all":
            return missed
        case "one":
            return missed[-1:]
        case _:
            return [tick for tick in missed if now - tick <= LATE]


def overdue(schedule: Schedule, missed: list[float], now: float) -> tuple[float, ...]:
    """The tick that lay ready while nobody was there, if another runs for it, or none does."""
    placed = schedule.placed
    if placed is None or schedule.catch_up == "all":
        return ()
    if schedule.catch_up == "one":
        return (placed,) if missed else ()
    return (placed,) if now - placed > LATE else ()


def jobs_of(schedule: Schedule, ticks: Iterable[float], now: float) -> tuple[NewJob, ...]:
    """The jobs of these ticks."""
    return tuple(
        [schedule.new_job(tick_id(schedule.name, t), max(0.0, rounded(t - now))) for t in ticks]
    )


def record_of(schedule: Schedule) -> bytes:
    """The schedule as a store keeps it."""
    return encode(replace(schedule, signed=None))
