"""The proof: an import whose worker is killed again and again, and what the table holds.

python -m examples.etl.run --rows 1000 --kills 10
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mulligan import JobHandle

ROOT = Path(__file__).parents[2]
LOOK_EVERY = 0.02
JOB = "import"


def main() -> int:
    """Run the import, kill its worker on the way, and look."""
    asked = arguments()
    with tempfile.TemporaryDirectory() as home:
        os.environ["ETL_STORE"] = store = asked.store or f"sqlite:///{home}/jobs.db"
        table = f"{home}/orders.db"
        with closing(sqlite3.connect(table)) as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
        print(f"mulligan watch {JOB} --store {store}", flush=True)
        begins = killed_on_the_way(asked, table)
        return 0 if shown(begins, table, asked) else 1


def killed_on_the_way(asked: argparse.Namespace, table: str) -> list[int]:
    """Kill the worker each time that the import has come so much further; where attempts began."""
    from examples.etl.app import app, import_orders  # noqa: PLC0415 - by then it has its store

    app.purge([JOB])
    job = import_orders.using(id=JOB).enqueue(asked.rows, table, asked.seconds)
    share = asked.rows / (asked.kills + 1)
    for kill in range(1, asked.kills + 1):
        worker = started()
        while not has_come(job, kill, kill * share):
            if worker.poll() is not None or job.status == "done":
                raise SystemExit(f"the worker ended by itself before kill {kill}")
            time.sleep(LOOK_EVERY)
        worker.kill()
        worker.wait()
    worker = started()
    job.result(timeout=300)
    worker.terminate()
    worker.wait()
    begins = begun(job)
    app.purge([JOB])
    app.close()
    return begins


def has_come(job: JobHandle[Any], attempts: int, rows: float) -> bool:
    """Whether so many attempts have begun, and so many rows are imported."""
    progress = job.records().progress
    return len(begun(job)) >= attempts and progress is not None and progress.done >= rows


def begun(job: JobHandle[Any]) -> list[int]:
    """The rows at which attempts began."""
    lines = [line.text for line in job.records().log if line.text.startswith("attempt ")]
    return [int(line.rpartition(" ")[2]) for line in lines]


def started() -> "subprocess.Popen[bytes]":
    """A worker."""
    command = [sys.executable, "-m", "mulligan", "worker", "examples.etl.app:app"]
    return subprocess.Popen(  # noqa: S603 - a command of our own making
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def shown(begins: list[int], table: str, asked: argparse.Namespace) -> bool:
    """Print what came of it; whether it is right. A busy machine may lose a lease by itself."""
    from examples.etl.app import amount_of  # noqa: PLC0415 - as above

    with closing(sqlite3.connect(table)) as connection:
        count, total = connection.execute("SELECT count(*), sum(amount) FROM orders").fetchone()
    out = Console()
    out.print(f"attempts began at rows {', '.join(map(str, begins))}", soft_wrap=True)
    told = Table("", "is", "must be", "")
    total_wanted = sum(map(amount_of, range(asked.rows)))
    lost = len(begins) - 1
    rows: list[tuple[str, int, int, bool]] = [
        ("rows in the table", count, asked.rows, count == asked.rows),
        ("sum of their amounts", total, total_wanted, total == total_wanted),
        (
            "attempts that began again from the first row",
            begins.count(0) - 1,
            0,
            begins.count(0) == 1,
        ),
        ("attempts lost with their workers, at least", lost, asked.kills, lost >= asked.kills),
    ]
    for what, found, must, right in rows:
        told.add_row(what, str(found), str(must), "✓" if right else "✗")
    out.print(told)
    return all(right for *_, right in rows)


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="the store's URL; a SQLite file of its own if not given")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.005, help="what a row takes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
