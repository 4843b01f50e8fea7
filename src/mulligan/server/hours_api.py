"""The routes that show when delayed jobs fall due, and the last hour."""

from collections import Counter

from mulligan.app.hour import last_hour
from mulligan.core.hour import HOUR
from mulligan.core.page import Selection
from mulligan.server.jobs_api import given, newest
from mulligan.server.service import Service
from mulligan.server.shapes.hours import DelayedHours, Hour, HourQuery, HoursQuery, TasksHour

HOURS = 24


async def hours(service: Service, query: HoursQuery) -> DelayedHours:
    """Delayed jobs by the hour in which they fall due, counted among the newest 5,000 pending."""
    now = (await service.store.stats()).now
    wanted = Selection(status="pending", queue=given(query.queue))
    jobs, complete = await newest(service.store, wanted)
    waits = [job.due - now for job in jobs if job.due > now and not job.awaits]
    counts = Counter(min(int(wait // HOUR), HOURS) for wait in waits)
    return DelayedHours([counts[hour] for hour in range(HOURS)], counts[HOURS], len(jobs), complete)


async def hour(service: Service, query: HourQuery) -> Hour:
    """The last hour by the minute: attempts that ended, their runtimes, and waits of fresh jobs."""
    found = await last_hour(service.store)
    return Hour(found.intervals(given(query.queue), given(query.task)))


async def tasks_hour(service: Service) -> TasksHour:
    """Every task that has run, by queue: its rate, runtimes and types of failure in this hour."""
    return TasksHour((await last_hour(service.store)).tasks())
