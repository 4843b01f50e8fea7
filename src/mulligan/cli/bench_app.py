"""The app that `mulligan bench` measures: tasks that do nothing but note the time."""

import asyncio
import os
import time

from mulligan import Mulligan, Retry, RetryAfter, current_job

app = Mulligan(os.environ.get("MULLIGAN_BENCH_URL", "memory://"))
app.queue("bench", policy="balanced")
app.queue("storm", policy=os.environ.get("MULLIGAN_BENCH_POLICY", "balanced"))


@app.task(queue="bench")
async def noop(_number: int) -> None:
    """Do nothing on the loop."""


@app.task(queue="bench")
def plain_noop(_number: int) -> None:
    """Do nothing in a thread."""


@app.task(queue="bench")
async def stamp() -> float:
    """Return when it started."""
    return time.time()


@app.task(queue="bench", retry=Retry(1))
async def late(delay: float) -> float:
    """Fail once and ask for this delay; then return when the retry started."""
    now = time.time()
    if current_job().attempt == 1:
        raise RetryAfter(delay)
    return now


@app.task(queue="storm", retry=Retry(1))
async def storm(*, fails: bool) -> float:
    """Work for two milliseconds; if asked to, fail once with half a second of delay."""
    now = time.time()
    await asyncio.sleep(0.002)
    if fails and current_job().attempt == 1:
        raise RetryAfter(0.5)
    return now
