"""The chores that every process does for the store: reclaiming, and housekeeping."""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mulligan.core.schedule import Schedule
from mulligan.core.settings import Settings
from mulligan.core.worker import Worker
from mulligan.engine.loops import StoreRetry, cancel_tasks
from mulligan.engine.worker import Engine
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.server")
LOOK_EVERY = 1.0


@asynccontextmanager
async def housekeeping(
    store: Store, settings: Settings, declared: Sequence[Schedule]
) -> AsyncIterator[None]:
    """Do the chores in the background until the block ends."""
    doing = asyncio.ensure_future(keep_house(store, settings, declared))
    doing.add_done_callback(say_if_failed)
    try:
        yield
    finally:
        await cancel_tasks([doing])


async def keep_house(store: Store, settings: Settings, declared: Sequence[Schedule]) -> None:
    """Run a worker of no queue, which gets no jobs and does all the chores.

    It starts once the store has had a worker: before that there are no chores and no region.
    """
    region = await first_region(store)
    name = f"serve-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    worker = Worker(id=name, region=region, queues=(), lease=settings.lease)
    await Engine(store, {}, worker, settings, declared=declared).run()


def say_if_failed(doing: "asyncio.Task[None]") -> None:
    """Log a bug that ended the chores; requests are answered all the same."""
    if not doing.cancelled() and doing.exception() is not None:
        log.error("housekeeping ended; leave it to workers", exc_info=doing.exception())


async def first_region(store: Store) -> str:
    """The first region of the store, as soon as there is one."""
    store_retry = StoreRetry("facts")
    while True:
        facts = await store_retry.call(store.facts)
        if facts.regions:
            return facts.regions[0].name
        await asyncio.sleep(LOOK_EVERY)
