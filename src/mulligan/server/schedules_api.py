"""The routes that show schedules and change them."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from mulligan.app import schedules
from mulligan.core.errors import InvalidError
from mulligan.core.known_tasks import KNOWS, is_known, read_registrations
from mulligan.core.schedule import check_catch_up, check_timing
from mulligan.core.schedule_view import ScheduleView
from mulligan.engine.tracing import store_traced
from mulligan.server.jobs_api import given, new_job, present
from mulligan.server.service import Service
from mulligan.server.shapes.jobs import Enqueue, EnqueuedJob
from mulligan.server.shapes.schedules import (
    PutSchedule,
    Removed,
    ScheduleList,
    Ticks,
    TicksQuery,
)

TIMING = ("cron", "every", "timezone")


async def list_schedules(service: Service) -> ScheduleList:
    """All schedules, with their next and last ticks; those of tasks that workers declare too."""
    views = await schedules.list_schedules(service.store)
    return ScheduleList([shown(service, view) for view in views])


async def one_schedule(service: Service, schedule: str) -> ScheduleView:
    """One schedule, with its next five ticks."""
    return shown(service, await schedules.find_schedule(service.store, schedule))


async def ticks(service: Service, query: TicksQuery) -> Ticks:
    """The next ticks that a timing would give; to be looked at before it is stored."""
    cron, every, timezone = (given(getattr(query, name)) for name in TIMING)
    now = (await service.store.facts()).now
    return Ticks(schedules.preview(cron, every, timezone, now, query.count))


async def put_schedule(service: Service, schedule: str, body: PutSchedule) -> ScheduleView:
    """Store a schedule, or change the one of this name; its next tick is replaced with it."""
    said = present(body)
    cron, every, timezone = (said.pop(name, None) for name in TIMING)
    catch_up = said.pop("catch_up", None)
    if body.task is UNSET:
        if said:
            raise InvalidError(
                f"{next(iter(said))} goes with a call; name its task, or leave both out to keep the"
                " call that is stored"
            )
        change: dict[str, Any] = {}
        if (cron, every, timezone) != (None, None, None):
            change |= check_timing(schedule, cron, every, timezone)
        if catch_up is not None:
            change["catch_up"] = check_catch_up(catch_up)
        await schedules.retime_schedule(service.store, schedule, change)
    else:
        job = new_job(service, Enqueue(**said))
        if not service.declares:
            await check_known(service, body.task)
        made = schedules.new_schedule(schedule, job, cron, every, timezone, catch_up or "one")
        await schedules.put_schedule(service.store, made)
    return await one_schedule(service, schedule)


async def pause_schedule(service: Service, schedule: str) -> ScheduleView:
    """Tick no more until it is resumed; the tick that is placed is withdrawn."""
    await schedules.pause_schedule(service.store, schedule)
    return await one_schedule(service, schedule)


async def resume_schedule(service: Service, schedule: str) -> ScheduleView:
    """Undo a pause; ticks in it are not made up for."""
    await schedules.resume_schedule(service.store, schedule)
    return await one_schedule(service, schedule)


async def remove_schedule(service: Service, schedule: str) -> Removed:
    """Forget a schedule; the tick that is placed is withdrawn, and jobs that run go on."""
    await schedules.remove_schedule(service.store, schedule)
    return Removed(schedule)


async def run_schedule(
    service: Service, schedule: str, id_of: Callable[[int], str] | None
) -> EnqueuedJob:
    """Enqueue its call once, now; its ticks stay as they are."""
    job = await schedules.job_now(service.store, schedule)
    if id_of is not None:
        job = replace(job, id=id_of(0))
    [answer] = await store_traced(service.app.tracing, [job], service.store.enqueue)
    return EnqueuedJob(*answer)


async def check_known(service: Service, task: str) -> None:
    """Refuse a task that no live worker knows, where there is no app to ask."""
    now = (await service.store.facts()).now
    known = read_registrations(await service.store.notes(KNOWS))
    if any(each.is_live(now) for each in known) and not is_known(task, known, now):
        names = sorted({name for each in known if each.is_live(now) for name in each.tasks})
        raise InvalidError(f"task {task!r} is none that a live worker knows: {', '.join(names)}")


def shown(service: Service, view: ScheduleView) -> ScheduleView:
    """The schedule without secrets."""
    args, kwargs = service.redaction.call(view.task, view.args, view.kwargs)
    return replace(view, args=args, kwargs=kwargs)
