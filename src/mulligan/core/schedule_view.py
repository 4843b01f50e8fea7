"""A schedule as readers see it: in Python, on the command line, over HTTP."""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.errors import UNREADABLE
from mulligan.core.known_tasks import Registration, is_known
from mulligan.core.retry import Retry, encode_retry
from mulligan.core.schedule import CatchUp, Schedule, State
from mulligan.core.timing import ticks_after

# How many ticks to come are shown.
SHOWN_TICKS = 5

# A retry policy that nobody chose.
USUAL = msgspec.json.decode(encode_retry(Retry()))


class ScheduleView(Struct, frozen=True):
    """A schedule and its state. Times are the store's, in seconds since 1970.

    `state` is active, paused, or undeclared: no live worker declares it. `options` are those of
    its jobs that are not what is usual. `ticks` is how many have come, `late` by how many seconds
    the last was placed too late. `next_ticks` are the next five. `problem` is what keeps its
    jobs from running, if anything does.
    """

    name: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    queue: str
    options: dict[str, Any]
    cron: str | None
    every: float | None
    timezone: str | None
    catch_up: CatchUp
    state: State
    declared: bool
    next_tick: float | None
    next_ticks: list[float]
    last_tick: float | None
    ticks: int
    late: float
    changed_at: float
    problem: str | None = None

    @property
    def timing(self) -> str:
        """When it ticks, in words."""
        if self.cron is None:
            return f"every {self.every:g} s"
        return self.cron if self.timezone in (None, "UTC") else f"{self.cron} {self.timezone}"


def view_of(
    schedule: Schedule, now: float, known: Iterable[Registration], live: Collection[str]
) -> ScheduleView:
    """The schedule at this moment.

    `known` are the tasks that workers have registered, `live` the schedules that live ones declare.
    """
    if schedule.declared and schedule.name not in live and schedule.undeclared is None:
        schedule = replace(schedule, undeclared=now)
    args, kwargs = schedule.arguments
    first = schedule.next_tick(now)
    ticks = [] if first is None else [first, *ticks_after(schedule.timing, first, SHOWN_TICKS - 1)]
    came_due = schedule.placed is not None and schedule.placed <= now
    return ScheduleView(
        name=schedule.name,
        task=schedule.task,
        args=args,
        kwargs=kwargs,
        queue=str(schedule.job.get("queue", "")),
        options=options_of(schedule),
        cron=schedule.cron,
        every=schedule.every,
        timezone=schedule.timezone,
        catch_up=schedule.catch_up,
        state=schedule.state,
        declared=schedule.declared,
        next_tick=first,
        next_ticks=ticks,
        last_tick=schedule.last_tick(now),
        ticks=schedule.ticks + came_due,
        late=schedule.late,
        changed_at=schedule.changed_at,
        problem=problem_of(schedule, now, known),
    )


def options_of(schedule: Schedule) -> dict[str, Any]:
    """The options of its jobs, by name, where they are not what is usual."""
    found = {k: v for k, v in schedule.job.items() if k not in ("task", "queue")}
    try:
        body = msgspec.json.decode(schedule.body)
    except UNREADABLE:
        return found
    said = {name: body.get(name) for name in ("retry", "timeout")} if isinstance(body, dict) else {}
    return found | {name: value for name, value in said.items() if value not in (None, USUAL)}


def problem_of(schedule: Schedule, now: float, known: Iterable[Registration]) -> str | None:
    """Why its jobs would not run; None if nothing keeps them from it."""
    known = list(known)
    if schedule.state != "active" or not any(each.is_live(now) for each in known):
        return None
    if is_known(schedule.task, known, now):
        return None
    return (
        f"schedule {schedule.name!r} runs task {schedule.task!r}, which no live worker knows;"
        " start a worker of its app, or remove the schedule"
    )


def problems(views: Iterable[ScheduleView]) -> list[str]:
    """What an operator should know of schedules, one sentence each."""
    return [view.problem for view in views if view.problem is not None]
