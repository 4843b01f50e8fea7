"""A thousand jobs at concurrency 100, one of which kills its process."""

import asyncio
import os
import signal

from mulligan import Exponential, Mulligan, Retry, Settings, current_job

CONCURRENCY = 100
CROWD = 80
under_way: set[int] = set()
crowded = asyncio.Event()

app = Mulligan(
    os.environ.get("MULLIGAN_COLLATERAL_URL", "memory://"),
    settings=Settings(concurrency=CONCURRENCY),
)


@app.task(retry=Retry(5, Exponential(0.05, 1)))
async def work(number: int, *, deadly: bool = False) -> int:
    """Take a little while. The deadly one strikes in a crowd, and at once when it is retried."""
    if deadly:
        if current_job().retry_count == 0:
            await crowded.wait()
        os.kill(os.getpid(), signal.SIGKILL)
    under_way.add(number)
    if len(under_way) >= CROWD:
        crowded.set()
    await asyncio.sleep(0.1)
    under_way.discard(number)
    if len(under_way) < CROWD:
        crowded.clear()
    return number
