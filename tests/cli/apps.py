"""Apps for tests of the command line: one in memory, one on the store that the test names."""

import logging
import os
import time
from pathlib import Path

from mulligan import Delays, Mulligan, Retry, Settings, current_job

app = Mulligan("memory://")
not_an_app = "text"


@app.task(queue="mail")
async def send(to: str, times: int = 1, *, subject: str = "") -> str:
    return f"{to} {times} {subject}"


@app.task
def add(a: int, b: int) -> int:
    return a + b


filed = Mulligan(
    os.environ.get("TEST_STORE", "memory://"),
    # A lease that a busy machine keeps, and that is over soon enough.
    settings=Settings(lease=4.0, beat=0.2, concurrency=4, abandoned_limit=1),
)


@filed.task(retry=Retry(3, Delays((0.05,))))
def hold(fifo: str) -> str:
    """Say that it runs, then wait until the test writes; a retry answers at once."""
    job = current_job()
    print(f"held by {job.worker_region}, attempt {job.attempt}", flush=True)  # noqa: T201
    return Path(fifo).read_text() if job.attempt == 1 else "answered"


@filed.task(timeout=0.05, retry=Retry(0))
def outlive() -> None:
    """Run on long after the timeout."""
    time.sleep(60)


@filed.task
async def quick() -> str:
    print("quick", flush=True)  # noqa: T201
    logging.getLogger("click").info("a library's line")
    logging.getLogger("click").warning("a library's warning")
    logging.getLogger(__name__).info("a line of the task")
    return "done"
