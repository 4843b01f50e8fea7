"""A long import that keeps a checkpoint: the next attempt goes on from there."""

import os
import sqlite3
import time
from contextlib import closing

from mulligan import Delays, Mulligan, Retry, Settings, current_job, step

# A lost worker is missed after a second, so that the proof does not take all day.
SETTINGS = Settings(lease=1.5, beat=0.3, concurrency=1)
AT_ONCE = Retry(max_retries=100, backoff=Delays((0,)))
EVERY = 25

app = Mulligan(os.environ.get("ETL_STORE"), settings=SETTINGS)


def amount_of(row: int) -> int:
    """What the source says of an order."""
    return row * 7 % 1000


def count_rows(rows: int) -> dict[str, int]:
    """The first step, which need not be done twice: how much there is to do."""
    return {"rows": rows, "sum": sum(map(amount_of, range(rows)))}


@app.task(retry=AT_ONCE)
def import_orders(rows: int, table: str, seconds: float = 0.0) -> dict[str, int]:
    """Import all orders into the table, a SQLite file."""
    job = current_job()
    source = step("count", count_rows, rows)
    first: int = job.last_checkpoint or 0
    job.log(f"attempt {job.attempt} begins at row {first}")
    with closing(sqlite3.connect(table)) as connection:
        for row in range(first, source["rows"]):
            connection.execute(
                "INSERT OR REPLACE INTO orders (id, amount) VALUES (?, ?)", (row, amount_of(row))
            )
            time.sleep(seconds)  # what a real row costs
            job.progress(row + 1, of=source["rows"], note=f"order {row}")
            if (row + 1) % EVERY == 0:
                connection.commit()
                job.checkpoint(row + 1)
        connection.commit()
    return source
