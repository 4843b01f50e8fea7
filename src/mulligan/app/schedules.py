"""Schedules of an app: put, paused, resumed, removed, listed and run, while workers run."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mulligan.app.handle import JobHandle
from mulligan.app.ids import new_id
from mulligan.app.using import Prepared, refuse_other_app
from mulligan.core.checks import Seconds, check_name
from mulligan.core.errors import InvalidError, UnknownScheduleError
from mulligan.core.job import NewJob
from mulligan.core.known_tasks import DECLARES, KNOWS, read_declared, read_registrations
from mulligan.core.reschedule import Reschedule
from mulligan.core.schedule import (
    CatchUp,
    Schedule,
    Stored,
    check_catch_up,
    check_template,
    check_timing,
    read_schedules,
    template,
)
from mulligan.core.schedule_view import SHOWN_TICKS, ScheduleView, view_of
from mulligan.core.ticks import pause, put, remove, resume
from mulligan.core.timing import ticks_after, timing_of
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

# How often a change is decided again because another process changed the schedule first.
TRIES = 100
# The id of a job that `run_now` enqueues ends in so many digits of a new id.
RUN_DIGITS = 14
Decide = Callable[[Stored | None, float], Reschedule | None]


class Schedules:
    """The schedules of the app's store, those of its tasks and of other apps among them."""

    def __init__(self, app: "Mulligan") -> None:
        self._app = app

    async def aput(
        self,
        name: str,
        call: Prepared[Any],
        *,
        cron: str | None = None,
        every: Seconds | None = None,
        timezone: str | None = None,
        catch_up: CatchUp = "one",
    ) -> ScheduleView:
        """Store a schedule, or replace the one of this name; as `put`."""
        schedule = self._made(name, call, cron, every, timezone, catch_up)
        await self._app.store_limits()
        await self._app.access.acall(lambda store: put_schedule(store, schedule))
        return await self._found(name)

    def put(
        self,
        name: str,
        call: Prepared[Any],
        *,
        cron: str | None = None,
        every: Seconds | None = None,
        timezone: str | None = None,
        catch_up: CatchUp = "one",
    ) -> ScheduleView:
        """Have the call run by itself: `put("acme", report.call(7), cron="0 9 * * *")`.

        By a `cron` expression in a `timezone` (UTC), or `every` so many seconds. Missed ticks are
        made up for by `one` run, by `all` (at most 1,000) or by `none`. It is stored when this
        returns, and its next tick is placed; a schedule of this name is replaced, with its next
        tick, in the same step. Its jobs have the options of the call: `report.using(…).call(7)`.
        """
        return self._app.run(
            lambda: self.aput(
                name, call, cron=cron, every=every, timezone=timezone, catch_up=catch_up
            )
        )

    async def apause(self, name: str) -> None:
        """Tick no more until it is resumed; the tick that is placed is withdrawn."""
        await self._app.access.acall(lambda store: pause_schedule(store, name))

    def pause(self, name: str) -> None:
        """Tick no more until it is resumed; the tick that is placed is withdrawn."""
        self._app.run(lambda: self.apause(name))

    async def aresume(self, name: str) -> None:
        """Tick again. Ticks that would have been in the pause are not made up for."""
        await self._app.access.acall(lambda store: resume_schedule(store, name))

    def resume(self, name: str) -> None:
        """Tick again. Ticks that would have been in the pause are not made up for."""
        self._app.run(lambda: self.aresume(name))

    async def aremove(self, name: str) -> None:
        """Forget the schedule; the tick that is placed is withdrawn. Jobs that run go on."""
        await self._app.access.acall(lambda store: remove_schedule(store, name))

    def remove(self, name: str) -> None:
        """Forget the schedule; the tick that is placed is withdrawn. Jobs that run go on."""
        self._app.run(lambda: self.aremove(name))

    async def alist(self) -> list[ScheduleView]:
        """All of them, by name."""
        return await self._app.access.acall(list_schedules)

    async def aget(self, name: str) -> ScheduleView | None:
        """The schedule of this name; None if there is none."""
        found = [each for each in await self.alist() if each.name == name]
        return found[0] if found else None

    def get(self, name: str) -> ScheduleView | None:
        """The schedule of this name; None if there is none."""
        return self._app.run(lambda: self.aget(name))

    async def arun_now(self, name: str) -> JobHandle[Any]:
        """Enqueue its call once, now; its ticks stay as they are."""
        job = await self._app.access.acall(lambda store: job_now(store, name))
        answer = await self._app.asend_one(job)
        return JobHandle(self._app, answer.id, answer.created)

    def run_now(self, name: str) -> JobHandle[Any]:
        """Enqueue its call once, now; its ticks stay as they are."""
        return self._app.run(lambda: self.arun_now(name))

    def preview(
        self,
        *,
        cron: str | None = None,
        every: Seconds | None = None,
        timezone: str | None = None,
        count: int = SHOWN_TICKS,
    ) -> list[datetime]:
        """The next ticks that this timing would give, by this machine's clock."""
        check_timing("preview", cron, every, timezone)
        ticks = preview(cron, every, timezone, datetime.now(UTC).timestamp(), count)
        return [datetime.fromtimestamp(tick, UTC) for tick in ticks]

    async def _found(self, name: str) -> ScheduleView:
        found = await self.aget(name)
        if found is None:
            raise unknown(name, [])
        return found

    def _made(  # noqa: PLR0917 - what `put` takes
        self,
        name: str,
        call: object,
        cron: str | None,
        every: Seconds | None,
        timezone: str | None,
        catch_up: object,
    ) -> Schedule:
        if not isinstance(call, Prepared):
            raise InvalidError(
                f"schedule {name!r}: {call!r} is no call; give one, such as report.call(7)"
            )
        refuse_other_app(call.job.task, call.app, self._app)
        return new_schedule(name, call.job, cron, every, timezone, catch_up)

    # Last in the class: its name is that of the type.
    def list(self) -> list[ScheduleView]:
        """All of them, by name."""
        return self._app.run(self.alist)


# -- operations on a store, which the command line and the server use too ------------------------


def new_schedule(  # noqa: PLR0917 - what `put` takes
    name: str,
    job: NewJob,
    cron: str | None,
    every: Any,
    timezone: str | None,
    catch_up: object,
) -> Schedule:
    """A schedule that runs this job, checked."""
    check_template(name, job)
    words = check_timing(name, cron, every, timezone)
    said, body = template(job)
    return Schedule(name, said, body, **words, catch_up=check_catch_up(catch_up))


async def change_schedule(store: Store, name: str, decide: Decide) -> None:
    """Decide and store a change; decide again whenever another process was first."""
    for _ in range(TRIES):
        records = await store.schedules()
        # Not before: by an earlier time the ticks lie too far ahead, as after a clock's change.
        now = (await store.facts()).now
        before = read_schedules(records).get(name)
        if before is None and name in records:
            raise InvalidError(
                f"schedule {name!r}: what is stored of it cannot be read; remove it with: mulligan"
                f" schedules remove {name}"
            )
        change = decide(before, now)
        if change is None or await store.reschedule(change):
            return
    raise InvalidError(f"schedule {name!r} was changed by others all the time; try again")


async def put_schedule(store: Store, schedule: Schedule) -> None:
    """Store the schedule, or replace the one of its name; not one that a task declares."""

    def decide(before: Stored | None, now: float) -> Reschedule:
        if before is not None:
            refuse_declared(before, "put")
        return put(before, schedule, now)

    await change_schedule(store, schedule.name, decide)


async def retime_schedule(store: Store, name: str, change: dict[str, Any]) -> None:
    """Give a stored schedule another timing or rule for missed ticks; its call stays."""

    def decide(before: Stored | None, now: float) -> Reschedule:
        known = known_or_refused(before, name)
        refuse_declared(known, "put")
        return put(known, replace(known.schedule, **change), now)

    await change_schedule(store, name, decide)


async def pause_schedule(store: Store, name: str) -> None:
    """Tick no more until it is resumed."""
    await change_schedule(store, name, lambda b, now: pause(known_or_refused(b, name), now))


async def resume_schedule(store: Store, name: str) -> None:
    """Tick again."""
    await change_schedule(store, name, lambda b, now: resume(known_or_refused(b, name), now))


async def remove_schedule(store: Store, name: str) -> None:
    """Forget the schedule; not one that a live worker declares."""

    def decide(before: Stored | None, now: float) -> Reschedule:
        known = known_or_refused(before, name)
        if known.schedule.undeclared is None:
            refuse_declared(known, "removed")
        return remove(known, now)

    records = await store.schedules()
    if name in records and name not in read_schedules(records):
        await store.reschedule(Reschedule(name, records[name], None, edit=True))
        return
    await change_schedule(store, name, decide)


async def list_schedules(store: Store) -> list[ScheduleView]:
    """All schedules, by name."""
    stored = read_schedules(await store.schedules())
    if not stored:
        return []
    now = (await store.facts()).now
    known = read_registrations(await store.notes(KNOWS))
    live = read_declared(await store.notes(DECLARES))
    return [view_of(schedule, now, known, live) for schedule, _ in stored.values()]


async def find_schedule(store: Store, name: str) -> ScheduleView:
    """The schedule of this name; refused if there is none."""
    views = await list_schedules(store)
    for view in views:
        if view.name == name:
            return view
    raise unknown(name, [view.name for view in views])


async def job_now(store: Store, name: str) -> NewJob:
    """A job of the schedule beside its ticks."""
    stored = read_schedules(await store.schedules())
    if name not in stored:
        raise unknown(name, list(stored))
    return stored[name].schedule.new_job(f"{name}@now-{new_id()[-RUN_DIGITS:]}", 0.0)


def preview(
    cron: str | None, every: Any, timezone: str | None, now: float, count: int = SHOWN_TICKS
) -> list[float]:
    """The next ticks that a timing would give."""
    timing = timing_of(cron, every, timezone)
    return [] if timing is None else ticks_after(timing, now, count)


def known_or_refused(before: Stored | None, name: str) -> Stored:
    """The stored schedule; refused if there is none."""
    check_name("schedule", name)
    if before is None:
        raise unknown(name, [])
    return before


def unknown(name: str, known: list[str]) -> UnknownScheduleError:
    """The error for a name that no schedule has; it lists those that there are."""
    there = f"there are: {', '.join(known)}" if known else "see: mulligan schedules list"
    return UnknownScheduleError(f"no schedule {name!r} is stored; {there}")


def refuse_declared(before: Stored, what: str) -> None:
    """Refuse to change what a task declares: its worker would store it anew."""
    schedule = before.schedule
    if schedule.declared:
        raise InvalidError(
            f"schedule {schedule.name!r} is declared by its task and cannot be {what}; change cron="
            " or every= of the task, pause it, or use another name"
        )
