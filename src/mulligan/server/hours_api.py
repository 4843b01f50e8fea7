"""The route that shows when delayed jobs fall due."""

from collections import Counter

from mulligan.core.page import Selection
from mulligan.server.jobs_api import given, newest
from mulligan.server.service import Service
from mulligan.server.shapes.hours import DelayedHours, HoursQuery

HOURS = 24
HOUR = 3600.0


async def hours(service: Service, query: HoursQuery) -> DelayedHours:
    """Delayed jobs by the hour in which they fall due, counted among the newest 5,000 pending."""
    now = (await service.store.stats()).now
    wanted = Selection(status="pending", queue=given(query.queue))
    jobs, complete = await newest(service.store, wanted)
    waits = [job.due - now for job in jobs if job.due > now and not job.awaits]
    counts = Counter(min(int(wait // HOUR), HOURS) for wait in waits)
    return DelayedHours([counts[hour] for hour in range(HOURS)], counts[HOURS], len(jobs), complete)
