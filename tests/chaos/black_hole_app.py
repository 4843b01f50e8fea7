"""The app of the black hole: attempts in region US fail at once while there is an outage.

Each attempt notes when it ran, where, and how it ended, by the clock of the machine.
"""

import asyncio
import os
import time
from pathlib import Path

from mulligan import Exponential, Mulligan, Retry, Settings, current_job

FOLDER = Path(os.environ.get("MULLIGAN_CHAOS_FOLDER", "."))
NOTES, OUTAGE = FOLDER / "attempts", FOLDER / "outage"
FAILS_AFTER, TAKES = 0.0025, 0.1
SLOTS = 4

app = Mulligan(
    os.environ.get("MULLIGAN_CHAOS_URL", "memory://"), settings=Settings(concurrency=SLOTS)
)


@app.task(queue="ask", retry=Retry(3, Exponential(2, 2, 60, jitter="none")))
async def ask(number: int) -> int:
    """Answer after a while, but in US fail at once during the outage."""
    region, began = current_job().worker_region, time.monotonic()
    failing = region == "US" and OUTAGE.exists()
    await asyncio.sleep(FAILS_AFTER if failing else TAKES)
    with NOTES.open("a") as notes:
        notes.write(f"{region} {began} {time.monotonic()} {'failed' if failing else 'done'}\n")
    if failing:
        raise ConnectionError("US is out of order")
    return number
