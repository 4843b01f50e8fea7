"""The app that runs: each attempt leaves a line in a file, so that it is known how often it ran."""

import asyncio
import os

from mulligan import Mulligan, Settings

URL, RUNS = "MULLIGAN_FAILOVER_URL", "MULLIGAN_FAILOVER_RUNS"

app = Mulligan(
    os.environ.get(URL, "memory://"), settings=Settings(lease=4.0, beat=0.5, concurrency=50)
)
runs = os.open(os.environ.get(RUNS, os.devnull), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@app.task
async def work(number: int) -> int:
    """A short job."""
    await asyncio.sleep(0.001)
    os.write(runs, b"%d\n" % number)
    return number
