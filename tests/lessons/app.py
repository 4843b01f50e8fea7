"""The app of processes that are killed, blocked and restarted."""

import asyncio
import ctypes
import os
import signal
import time
from pathlib import Path

from mulligan import Delays, Mulligan, Retry, Settings, current_job

# Soon over, and long enough that a busy machine is not mistaken for a dead one.
LEASE = 4.0
URL, LEDGER = "MULLIGAN_LESSONS_URL", "MULLIGAN_LESSONS_LEDGER"
AT_ONCE = Retry(3, Delays((0,)))
# Calls through it hold the GIL, as a C extension may.
HOLDING_THE_GIL = ctypes.PyDLL(None)


def make_app(url: str) -> Mulligan:
    """The app on this store, with a lease that is soon over."""
    return Mulligan(url, settings=Settings(lease=LEASE, beat=0.2, concurrency=4))


app = make_app(os.environ.get(URL, "memory://"))


def note(text: str) -> None:
    """A line in the ledger, which outlives this process."""
    with Path(os.environ[LEDGER]).open("a") as ledger:
        ledger.write(f"{text}\n")


@app.task(retry=AT_ONCE)
async def hangs_once() -> int:
    """The first attempt never ends."""
    note(f"{current_job().id} attempt {current_job().attempt}")
    if current_job().attempt == 1:
        await asyncio.sleep(3600)
    return current_job().attempt


@app.task(retry=Retry(3, Delays((0.1,))))
async def stumbles() -> int:
    """Two attempts fail."""
    note(f"{current_job().id} attempt {current_job().attempt}")
    if current_job().attempt < 3:
        raise ConnectionError("away")
    return current_job().attempt


@app.task(retry=Retry(1, Delays((0,))))
async def kills() -> None:
    """Takes its process down, whoever runs it."""
    note(f"{current_job().id} attempt {current_job().attempt}")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(retry=AT_ONCE)
async def blocks_the_loop() -> int:
    """For two leases nothing else runs on the loop."""
    time.sleep(2 * LEASE)  # noqa: ASYNC251 - the point of it
    return current_job().attempt


@app.task(retry=AT_ONCE)
async def computes() -> int:
    """For two leases the interpreter is busy with this."""
    end = time.monotonic() + 2 * LEASE
    while time.monotonic() < end:
        sum(range(1000))
    return current_job().attempt


@app.task(retry=AT_ONCE)
def holds_the_gil() -> int:
    """Calls that let no other thread run for a quarter of a lease, with a breath after each."""
    for _ in range(6):
        HOLDING_THE_GIL.usleep(int(LEASE / 4 * 1_000_000))
        time.sleep(LEASE / 10)
    return current_job().attempt


@app.task(retry=Retry(0), timeout=0.3)
async def hangs() -> None:
    """Never ends by itself."""
    await asyncio.Event().wait()


@app.task(retry=Retry(0), timeout=0.3)
def hangs_in_a_thread() -> None:
    """Never ends by itself, and cannot be stopped."""
    time.sleep(3600)
