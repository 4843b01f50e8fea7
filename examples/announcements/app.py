"""Announcements of companies: classified by an AI service, uploaded, analysed for investors.

Three stages in three queues. The service times out, breaks off and answers "Error" now and then;
workers are killed. What reaches the tables is every announcement, once, with a real category.
"""

import os
import sqlite3
from typing import Any, Literal, TypedDict, cast

from examples.announcements.database import RECORD, Database
from examples.announcements.service import ask
from mulligan import Exponential, Mulligan, Retry, Settings

STORE = os.environ.get("ANNOUNCEMENTS_STORE", "sqlite:///announcements.db")
SERVICE = os.environ.get("ANNOUNCEMENTS_SERVICE", "http://127.0.0.1:8765")

# A worker that is killed is missed after three seconds; in production fifteen are plenty.
app = Mulligan(STORE, settings=Settings(lease=3, beat=1, concurrency=20))
database = Database(STORE)
app.queue("ai", policy="weighted(retry=0.5)")
PATIENT = Retry(max_retries=50, backoff=Exponential(0.2, max=2))


class Classified(TypedDict):
    """An announcement and what it is about; there is no category "Error"."""

    id: int
    category: Literal["earnings", "merger", "management", "product"]


class Analysed(Classified):
    """And what investors are told."""

    advice: str


# The first argument is the connection of the transaction that finishes the sink's own job: its
# row and the end of the job are written together or not at all. SQLite's is given to a plain
# function, PostgreSQL's to a coroutine function.
if STORE.startswith("sqlite"):

    @app.sink(queue="records", transactional=True, retry=PATIENT)
    def record(connection: sqlite3.Connection, result: Analysed, key: str) -> None:
        """Write the row; nothing in the table forbids a second one."""
        connection.execute(RECORD.sqlite, (result["id"], result["category"], result["advice"], key))

else:
    from psycopg import AsyncConnection

    @app.sink(queue="records", transactional=True, retry=PATIENT)
    async def record(connection: AsyncConnection[Any], result: Analysed, key: str) -> None:
        """Write the row; nothing in the table forbids a second one."""
        row = (result["id"], result["category"], result["advice"], key)
        await connection.execute(RECORD.postgres, row)


@app.task(queue="ai", accept=True, retry=PATIENT, timeout=5)
def classify(number: int) -> Classified:
    """Ask the service. accept=True refuses what is not Classified, an "Error" above all."""
    return cast("Classified", {"id": number, "category": ask(SERVICE, number, timeout=0.5)})


@app.task(queue="uploads", retry=PATIENT)
def upload(item: Classified) -> Classified:
    """Write to a table by an upsert: it may run twice, and the row is there once."""
    database.upload(item["id"], item["category"])
    return item


@app.task(queue="analysis", retry=PATIENT, sink=record)
def analyse(item: Classified) -> Analysed:
    """What to tell investors."""
    advice = {"earnings": "read it", "merger": "call a lawyer"}.get(item["category"], "wait")
    return {"id": item["id"], "category": item["category"], "advice": advice}


pipeline = classify | upload | analyse
