"""What every process of the system does for all: reclaim what dead workers held, and keep house."""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mulligan.core.periodic import Periodic
from mulligan.core.settings import Settings
from mulligan.core.worker import Worker
from mulligan.engine import Engine
from mulligan.engine.cancel import cancelled
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.server")
LOOK_EVERY = 1.0


@asynccontextmanager
async def upkeep(
    store: Store, settings: Settings, periodic: Sequence[Periodic]
) -> AsyncIterator[None]:
    """Go on with it until the block ends."""
    doing = asyncio.ensure_future(keep_up(store, settings, periodic))
    doing.add_done_callback(say_if_failed)
    try:
        yield
    finally:
        await cancelled([doing])


async def keep_up(store: Store, settings: Settings, periodic: Sequence[Periodic]) -> None:
    """Be a worker of no queue, which is never given a job and does everything else.

    Where no worker has ever been there is nothing to do, and no region to be in.
    """
    region = await first_region(store)
    name = f"serve-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    worker = Worker(id=name, region=region, queues=(), lease=settings.lease)
    await Engine(store, {}, worker, settings, periodic=periodic).run()


def say_if_failed(doing: "asyncio.Task[None]") -> None:
    """It ends by itself only through a defect; requests are answered all the same."""
    if not doing.cancelled() and doing.exception() is not None:
        log.error("upkeep ended; leave it to workers", exc_info=doing.exception())


async def first_region(store: Store) -> str:
    """The first region that there is, as soon as there is one."""
    store_retry = StoreRetry("facts")
    while True:
        facts = await store_retry.call(store.facts)
        if facts.regions:
            return facts.regions[0].name
        await asyncio.sleep(LOOK_EVERY)
