"""The app that the measured workers run."""

import asyncio
import os

from mulligan import Mulligan, Settings

URL = "MULLIGAN_RESOURCES_URL"
# What is done is soon deleted, so that the store stays as it is over a long run.
SETTINGS = Settings(lease=5, beat=1, concurrency=20, keep_done=2)
app = Mulligan(os.environ.get(URL, "memory://"), settings=SETTINGS)


@app.task
async def slow(number: int) -> int:
    """Takes its time, so that a backlog stays one."""
    await asyncio.sleep(0.2)
    return number


@app.task
async def quick(number: int) -> int:
    """Takes none."""
    return number
