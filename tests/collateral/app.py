"""A thousand jobs at concurrency 100, one of which kills its process."""

import asyncio
import os
import signal

from mulligan import Exponential, Mulligan, Retry, Settings

app = Mulligan(
    os.environ.get("MULLIGAN_COLLATERAL_URL", "memory://"),
    settings=Settings(lease=1.0, beat=0.3, concurrency=100),
)


@app.task(retry=Retry(5, Exponential(0.05, 1)))
async def work(number: int, *, deadly: bool = False) -> int:
    """Take a little while, so that a hundred are under way at a time.

    The deadly one takes longer, so that what its worker claimed and gave back is written by then.
    """
    await asyncio.sleep(1.0 if deadly else 0.02)
    if deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return number
