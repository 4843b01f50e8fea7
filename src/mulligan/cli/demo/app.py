"""The app of the demo: tenants ask questions in three regions, one of which has a bad network."""

import asyncio
import os
import random
import signal
import sys
import threading
from pathlib import Path

from mulligan import Exponential, Mulligan, Retry, Settings, current_job

URL, SEED, LEDGER = "MULLIGAN_DEMO_URL", "MULLIGAN_DEMO_SEED", "MULLIGAN_DEMO_LEDGER"
QUEUE = "questions"
TIMEOUTS_IN_US, ERRORS = 0.4, 0.06
# Short, so that jobs of a killed worker are retried during the demo.
SETTINGS = Settings(lease=2.0, beat=0.5, concurrency=1)
RETRY = Retry(max_retries=4, backoff=Exponential(0.2, 2, 1, "full"))

app = Mulligan(os.environ.get(URL, "sqlite:///mulligan-demo.db"), settings=SETTINGS)


def is_answer(value: dict[str, str]) -> bool:
    """Whether it answers the question; "Error" does not, although the service returned it."""
    return value["answer"] != "Error"


@app.task(queue=QUEUE, retry=RETRY, accept=is_answer)
async def ask(question: str, seconds: float) -> dict[str, str]:
    """Ask a remote service."""
    job = current_job()
    note(f"{job.id} {job.token} {job.attempt} {job.worker_region}")
    chance = random.Random(f"{os.environ.get(SEED, '')}/{job.id}").random()
    await asyncio.sleep(seconds if job.attempt == 1 else min(seconds, 0.2))
    if not question:
        raise ValueError("the question is empty")
    if job.attempt == 1 and job.worker_region == "US" and chance < TIMEOUTS_IN_US:
        raise TimeoutError("the network timed out")
    if job.attempt == 1 and chance > 1 - ERRORS:
        return {"answer": "Error"}
    return {"answer": f"{question} Yes, said {job.worker_region}."}


def note(line: str) -> None:
    """Record that an attempt started, for the demo to count."""
    path = os.environ.get(LEDGER)
    if path:
        with Path(path).open("a") as ledger:
            ledger.write(f"{line}\n")


def leave_with_parent() -> None:
    """Stop when the demo's process is gone, which closes its end of the pipe."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGKILL)


if LEDGER in os.environ and not sys.stdin.isatty():
    threading.Thread(target=leave_with_parent, daemon=True).start()
