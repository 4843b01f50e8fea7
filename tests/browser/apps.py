"""An app whose jobs do what a test, or a picture, needs to see."""

import asyncio
import json
import os
from pathlib import Path
from typing import Literal

from msgspec import Struct

from mulligan import (
    Budget,
    Exponential,
    Fail,
    Mulligan,
    Retry,
    Settings,
    astep,
    current_job,
    each,
)

SETTINGS = Settings(lease=3.0, beat=0.5)
SOON = Retry(max_retries=3, backoff=Exponential(0.3, 2, 5, "none"))

app = Mulligan(os.environ.get("TEST_STORE", "memory://"), settings=SETTINGS)
app.queue("questions", policy="balanced", budget=Budget(1000, per=60))
app.queue("billing", policy="weighted(retry=0.2)")


@app.task(queue="questions", retry=SOON)
async def ask(
    question: str, seconds: float = 0.0, fails_in: str = "", failures: int = 0
) -> dict[str, str]:
    """Answer after a while; in one region, and the first few times, fail."""
    await asyncio.sleep(seconds)
    region = current_job().worker_region
    if region == fails_in or current_job().attempt <= failures:
        raise TimeoutError(f"the service in {region} did not answer within {seconds} s")
    return {"question": question, "answer": f"Yes, said {region}."}


@app.task(queue="billing", retry=Retry(max_retries=0))
async def charge(customer: str, mended: str = "") -> str:
    """Fail for good, until the file exists."""
    if mended and Path(mended).exists():  # noqa: ASYNC240 - it is a test that makes the file
        return f"charged {customer}"
    raise Fail(f"no such customer: {customer}")


@app.task(queue="reports", retry=Retry(max_retries=0))
async def parse(text: str) -> object:
    """Fail in a library, unless it is JSON."""
    return json.loads(text)


@app.task(queue="reports", retry=SOON)
async def import_rows(rows: int, seconds: float = 0.0, failures: int = 0) -> int:
    """Import rows in steps, saying how far it is."""
    job = current_job()
    source = await astep("download", download, rows)
    await astep("check", check, source)
    begin = await job.alast_checkpoint() or 0
    for row in range(begin, rows):
        job.progress(row, of=rows, note=f"row {row}")
        if row % 10 == 0:
            job.log(f"importing row {row} of {source['file']}")
            await job.acheckpoint(row)
        await asyncio.sleep(seconds)
        if job.attempt <= failures and row > begin + rows // 4:
            raise ConnectionError("the database went away")
    job.progress(rows, of=rows, note="done")
    return rows


def download(rows: int) -> dict[str, object]:
    """What a first step gives."""
    return {"file": "orders.csv", "rows": rows, "password": "hunter2"}


def check(source: dict[str, object]) -> str:
    """What a second one does."""
    return f"{source['rows']} rows are sound"


class Parcel(Struct):
    """A parcel; its weight may be left out."""

    street: str
    grams: int = 100


@app.task(queue="reports")
async def ship(parcel: Parcel, size: Literal["small", "large"] | None = None) -> str:
    """Send it."""
    return f"{size} to {parcel.street}"


@app.task(queue="reports")
async def collect(topic: str) -> list[str]:
    """Find pages."""
    return [f"{topic}, page {number}" for number in (1, 2, 3)]


@app.task(queue="reports")
async def read(page: str) -> str:
    """Read one."""
    return page.upper()


@app.task(queue="reports")
async def summarise(pages: list[str]) -> str:
    """Make one of many."""
    return "; ".join(pages)


report = collect | each(read) | summarise
