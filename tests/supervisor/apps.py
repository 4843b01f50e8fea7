"""The app that supervised workers of the tests run."""

import asyncio
import os
import time
from pathlib import Path

from mulligan import Delays, Mulligan, Retry, Settings, current_job

app = Mulligan(
    os.environ.get("TEST_STORE", "memory://"),
    settings=Settings(lease=10.0, beat=0.2, concurrency=2),
)
HOG: list[bytes] = []


@app.task(retry=Retry(5, Delays((0.05,))))
async def hold(gate: str, ledger: str) -> int:
    """Note who runs it, then wait until the gate is there."""
    with Path(ledger).open("a") as lines:  # noqa: ASYNC230 - a few bytes
        lines.write(f"{current_job().id} {os.getpid()}\n")
    while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - another process makes it
        await asyncio.sleep(0.02)
    return os.getpid()


@app.task
def eat(mebibytes: int) -> None:
    """Occupy memory for good."""
    HOG.append(os.urandom(1 << 20) * mebibytes)


@app.task
def block(seconds: float) -> None:
    """Keep a thread busy, deaf to everything."""
    time.sleep(seconds)
