"""An app with something of everything for a monitor to see."""

import os
import time

from mulligan import Delays, Exponential, JobEvent, Mulligan, Retry, current_job
from mulligan.core.budget import Budget

app = Mulligan(os.environ["TEST_STORE"])
app.queue("mail", budget=Budget(ratio=0.5))
app.queue("calls", budget=Budget(limit=600, per=60))
app.limit("provider", concurrency=100, rate=100_000)


@app.task(queue="mail", retry=Retry(2, Delays((0.05, 0.05))), limits="provider")
def send(number: int) -> int:
    """Every third fails at first."""
    time.sleep(0.01)
    if number % 3 == 0 and current_job().attempt == 1:
        raise ConnectionError("no line")
    return number


@app.task(queue="calls", retry=Retry(1, Exponential(0.05)))
async def call(number: int) -> None:
    """Fails for good."""
    raise LookupError(number)


@app.task(queue="nobody")
async def wait() -> None:
    """Waits for a worker that never comes."""


seen: list[str] = []


@app.on("success")
def broken(event: JobEvent) -> None:
    """A hook that raises now and then: what a worker logs is not read in this test."""
    seen.append(event.id)
    if len(seen) in (1, 100):
        raise ValueError("a broken hook")
