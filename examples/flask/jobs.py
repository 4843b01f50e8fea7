"""The jobs: imported by the web application, which enqueues, and by workers, which run them."""

import time

from mulligan import Exponential, Mulligan, Retry

app = Mulligan()  # MULLIGAN_STORE, or else a SQLite file in this folder


@app.task(retry=Retry(max_retries=3, backoff=Exponential(0.5, max=10)))
def report(month: str) -> dict[str, str]:
    """Make the report of a month, which takes a while."""
    if not month.isdigit():
        raise ValueError(f"month {month!r} must be a number")
    time.sleep(1)
    return {"month": month, "total": f"{int(month) * 100} EUR"}
