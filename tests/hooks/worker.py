"""A worker in the process of a test."""

import asyncio
from typing import Any

from mulligan import Mulligan
from mulligan.app.worker import new_worker, work


async def worked(app: Mulligan, over: asyncio.Event) -> None:
    """Run a worker of the app until `over` is set."""

    async def end(engine: Any) -> None:
        async with asyncio.timeout(60):
            await over.wait()
        engine.stop()

    ends: list[asyncio.Task[None]] = []
    await work(app, new_worker(app), lambda engine: ends.append(asyncio.create_task(end(engine))))
    await asyncio.gather(*ends)
