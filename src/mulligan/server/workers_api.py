"""The routes that show one worker, and have it drain or stop."""

from typing import Any

import msgspec

from mulligan.app.overview import RUNNING_LIMIT, overview
from mulligan.core.checks import check_name
from mulligan.core.page import Selection
from mulligan.core.worker_notes import KEEP_ORDER, ORDER, Order, encode, read_order
from mulligan.server.problems import Refusal
from mulligan.server.service import Service
from mulligan.server.shapes.status import Ordered, WorkerDetail


async def one_worker(service: Service, worker: str) -> WorkerDetail:
    """One worker: its process, what it was ordered to do, and the jobs that it runs now."""
    found = await known(service, worker)
    running = await service.store.page(Selection(status="processing"), RUNNING_LIMIT)
    order = read_order(await service.store.notes(ORDER + worker), worker)
    jobs = [service.redaction.job(job) for job in running.jobs if job.worker == worker]
    return msgspec.convert({**found, "order": order, "jobs": jobs}, WorkerDetail)


async def drain(service: Service, worker: str) -> Ordered:
    """Have a worker start nothing more, and exit when what it runs has ended."""
    return await ordered(service, worker, "drain")


async def stop(service: Service, worker: str) -> Ordered:
    """Have a worker exit at once; the jobs that it runs are cut off and run again elsewhere."""
    return await ordered(service, worker, "stop")


async def ordered(service: Service, worker: str, order: Order) -> Ordered:
    """Leave the order where the worker looks for it, within seconds."""
    found = await known(service, worker)
    if found["about"] is None:
        raise Refusal(
            "invalid",
            f"worker {worker!r} takes no orders: it is not alive, or no mulligan worker process;"
            " stop it where it runs",
        )
    await service.store.note(ORDER + worker, encode(order), KEEP_ORDER)
    return Ordered(worker, order)


async def known(service: Service, worker: str) -> dict[str, Any]:
    """The worker in the overview; refused if there is none."""
    check_name("worker", worker)
    for found in (await overview(service.store))["workers"]:
        if found["id"] == worker:
            return dict(found)
    raise Refusal("unknown", f"no worker {worker!r} is known; it may have left")
