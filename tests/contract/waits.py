"""Whether a wait ends early. What should wake is awaited; what should not is given its time."""

import asyncio

from mulligan.core.worker import Worker
from mulligan.stores.contract import Store

# Longer than any machine takes to ring; who is not rung sleeps so long.
LONGEST_WAIT = 30.0
GLANCE = 0.08


async def woken(store: Store, worker: Worker) -> bool:
    """Whether the worker was rung, or is before long."""
    return await slept(store, worker, LONGEST_WAIT) < LONGEST_WAIT


async def undisturbed(store: Store, worker: Worker) -> bool:
    """Whether the worker sleeps for as long as it meant to."""
    return await slept(store, worker, GLANCE) >= GLANCE * 0.9


async def slept(store: Store, worker: Worker, seconds: float) -> float:
    """How long the wait took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await store.wait(worker, seconds)
    return loop.time() - began
