"""A whole worker on a store of its own kind, and the store without the app around it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mulligan import Mulligan, Settings
from mulligan.app.worker import new_worker, work
from mulligan.core.job import Job
from mulligan.engine.worker import Engine
from mulligan.stores.contract import Store
from tests.engine.real_engine import until

QUICK = Settings(lease=4.0, beat=0.2, concurrency=5, unknown_task_delay=0.01)


@asynccontextmanager
async def working(app: Mulligan) -> AsyncIterator[Engine]:
    """A worker of the app, drained at the end; one that dies fails the test."""
    ready: asyncio.Future[Engine] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(work(app, new_worker(app), ready.set_result))
    await asyncio.wait([ready, running], return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        running.result()
    engine = ready.result()
    try:
        yield engine
    finally:
        engine.stop()
        await running


@asynccontextmanager
async def bare(app: Mulligan) -> AsyncIterator[Store]:
    """The app's store, without its keys: as any program that may write to it has it."""
    unsigned = Mulligan(app.url)
    unsigned._memory = app._memory
    store = unsigned.make_store()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def ended(store: Store, job: str) -> Job:
    """The job, when it has ended."""
    found: list[Job] = []

    async def is_over() -> bool:
        job_now = await store.get(job)
        found[:] = [] if job_now is None else [job_now]
        return bool(found) and found[0].status in ("done", "failed", "cancelled")

    await until(is_over)
    return found[0]
