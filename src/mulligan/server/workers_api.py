"""The routes that show one worker, and have it drain or stop."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mulligan.app.orders import find_worker, leave_order
from mulligan.app.overview import RUNNING_LIMIT
from mulligan.core.job import Job
from mulligan.core.page import Selection
from mulligan.core.worker import ORDER, Order, read_order
from mulligan.server.jobs_api import PAGE_BYTES
from mulligan.server.problems import Refusal
from mulligan.server.service import Service, size_of
from mulligan.server.shapes.jobs import JobView
from mulligan.server.shapes.status import Ordered, WorkerDetail

# How many of a worker's jobs are shown with their arguments.
WHOLE = 100


async def one_worker(service: Service, worker: str) -> WorkerDetail:
    """One worker: its process, what it was ordered to do, and the jobs that it runs now."""
    found = await known(service, worker)
    processing = Selection(status="processing")
    running = await service.store.page(processing, RUNNING_LIMIT, bodies=False)
    order = read_order(await service.store.notes(ORDER + worker), worker)
    jobs = await with_bodies(service, [job for job in running.jobs if job.worker == worker])
    return msgspec.convert({**found, "order": order, "jobs": jobs}, WorkerDetail)


async def with_bodies(service: Service, running: Sequence[Job]) -> list[JobView]:
    """The jobs as readers see them; those after the first 100, or 2 MB, without arguments."""
    left = PAGE_BYTES
    views = []
    async with service.reading_bodies():
        for at, job in enumerate(running):
            shown = at < WHOLE and left > 0
            found = (await service.store.get(job.id) if shown else None) or job
            left -= size_of(found)
            views.append(await service.job_view(found))
    return views


async def drain(service: Service, worker: str) -> Ordered:
    """Have a worker start nothing more, and exit when what it runs has ended."""
    return await ordered(service, worker, "drain")


async def stop(service: Service, worker: str) -> Ordered:
    """Have a worker exit at once; the jobs that it runs are cut off and run again elsewhere."""
    return await ordered(service, worker, "stop")


async def ordered(service: Service, worker: str, order: Order) -> Ordered:
    """Leave the order where the worker looks for it, within seconds."""
    await leave_order(service.store, await known(service, worker), order)
    return Ordered(worker, order)


async def known(service: Service, worker: str) -> dict[str, Any]:
    """The worker in the overview; refused if there is none."""
    found = await find_worker(service.store, worker)
    if found is None:
        raise Refusal("unknown", f"no worker {worker!r} is known; it may have left")
    return found
