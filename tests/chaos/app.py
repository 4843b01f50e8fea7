"""The app that chaos runs: short jobs, of which some fail and a few never succeed."""

import asyncio
import os
import random

from mulligan import Exponential, Mulligan, Retry, Settings, current_job

app = Mulligan(
    os.environ.get("MULLIGAN_CHAOS_URL", "memory://"),
    settings=Settings(lease=2.0, beat=0.5, concurrency=50),
)


@app.task(queue="chaos", retry=Retry(20, Exponential(0.05, 2, 0.5)))
async def work(number: int) -> int:
    """Take a few milliseconds; fail one attempt in ten; some numbers fail every time.

    The result is the token of the lease, so that a result that was written under an old one shows.
    """
    await asyncio.sleep(random.uniform(0.001, 0.02))
    if number % 500 == 499:
        raise ValueError("this one never works")
    if random.random() < 0.1:
        raise TimeoutError(f"attempt {current_job().attempt} met a bad network")
    return current_job().token
