"""The app of the run with shared limits: every job fails once, and notes when its retry ran."""

import asyncio
import os
import time

from mulligan import Budget, Delays, Mulligan, Retry, Settings, current_job

CAP, BUDGET, PER = 4, 20, 2.0

app = Mulligan(
    os.environ.get("MULLIGAN_CHAOS_URL", "memory://"),
    settings=Settings(lease=5.0, beat=1.0, concurrency=5),
)
app.queue("capped", policy=f"capped({CAP})")
app.queue("budgeted", policy="retry-first", budget=Budget(BUDGET, PER))


async def twice(seconds: float) -> list[float]:
    """Fail the first time; the second time say from when to when it ran, by the machine's clock."""
    if current_job().attempt == 1:
        raise TimeoutError("not yet")
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    await asyncio.sleep(seconds)
    return [began, time.clock_gettime(time.CLOCK_MONOTONIC)]


@app.task(queue="capped", retry=Retry(3, Delays((0.1,))))
async def capped() -> list[float]:
    """A retry of which only so many may run at a time."""
    return await twice(0.1)


@app.task(queue="budgeted", retry=Retry(3, Delays((0.1,))))
async def budgeted() -> list[float]:
    """A retry of which only so many may start in any two seconds."""
    return await twice(0.0)
