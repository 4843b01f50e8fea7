"""The workers of a test, in its process: on the virtual clock, or on a real store."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mulligan.app.resources import check_resources, entered
from mulligan.core.worker import Worker
from mulligan.engine.worker import Engine
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan


async def enter_lifespan(
    stack: AsyncExitStack, app: "Mulligan", resources: Mapping[str, Any] | None
) -> None:
    """Give the app its resources until the stack is left: by its lifespan, or these instead."""
    if resources is None:
        await stack.enter_async_context(entered(app))
        return
    check_resources(app.asked_resources, resources, "testing(resources=…)")
    app.resources = resources
    stack.callback(setattr, app, "resources", {})


def worker_of(
    app: "Mulligan", index: int, region: str, queues: Sequence[str], concurrency: int
) -> Worker:
    """The worker of a region; its id is the same in every run of the test."""
    lease = app.settings.lease
    return Worker(f"{region}-{index}", region, tuple(queues), lease, concurrency)


def engine_of(app: "Mulligan", store: Store, worker: Worker, **own: Any) -> Engine:
    """What runs the worker, with the hooks of the app."""
    settings = replace(app.settings, concurrency=worker.concurrency)
    own |= {"tracing": app.tracing, "hooks": app.event_hooks, "limits": app.declared_limits}
    return Engine(store, app.tasks, worker, settings, **own)


async def settled(engines: Sequence[Engine]) -> None:
    """Wait until all that ended is stored, and every hook was told of it."""
    for engine in engines:
        await engine.committer.flushed()
        await engine.events.told()


async def stop(engines: Sequence[Engine], working: "Sequence[asyncio.Task[None]]") -> None:
    """Stop the workers at once."""
    for engine in engines:
        engine.stop()
        engine.stop()
    await asyncio.gather(*working)
