"""A plain pymongo worker and a mulligan worker on one collection: every task is done once.

`python -m tests.chaos.shared_collection`; half of the tasks are inserted by each side.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pymongo import MongoClient, ReturnDocument

from mulligan import Mulligan
from tests.databases import mongo_server
from tests.store_kit import calls_for

URL = "MULLIGAN_SHARED_URL"

app = Mulligan(os.environ.get(URL, "memory://"))


def collection(name: str) -> Any:
    """A collection in the database of the app."""
    client: MongoClient[dict[str, Any]] = MongoClient(os.environ[URL])
    return client.get_default_database()[name]


@app.task
def note(number: int) -> int:
    """Write down that the task ran, and who ran it."""
    ran(number, "mulligan")
    return number


def ran(number: int, by: str) -> None:
    """One line in the ledger per run."""
    collection("ledger").insert_one({"number": number, "by": by})


def plain_worker() -> None:
    """What another program does: pop, run, finish, until nothing has been there for a while."""
    tasks = collection("tasks")
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < 2:
        now = datetime.now(UTC)
        ready = {"$or": [{"next_retry_at": None}, {"next_retry_at": {"$lte": now}}]}
        task = tasks.find_one_and_update(
            {"status": "pending", **ready},
            {"$set": {"status": "processing", "updated_at": now}},
            sort=[("created_at", 1)],
            return_document=ReturnDocument.AFTER,
        )
        if task is None:
            time.sleep(0.02)
            continue
        ran(task["payload"]["args"][0], "pymongo")
        finished = {"status": "done", "updated_at": datetime.now(UTC)}
        tasks.update_one({"_id": task["_id"], "status": "processing"}, {"$set": finished})
        idle_since = time.monotonic()


def insert_plainly(numbers: range) -> None:
    """What another program does to enqueue."""
    now = datetime.now(UTC)
    collection("tasks").insert_many(
        [
            {
                "payload": {"task": "note", "args": [number]},
                "status": "pending",
                "created_at": now,
                "updated_at": now,
                "attempts": 0,
                "next_retry_at": None,
            }
            for number in numbers
        ]
    )


def main() -> None:
    """Run both workers over all tasks; exit 1 unless each was done once."""
    parser = argparse.ArgumentParser(prog=f"python -m {SELF}")
    parser.add_argument("--url", help="a database that is there, and empty")
    parser.add_argument("--tasks", type=int, default=5000)
    options = parser.parse_args()
    if options.url:
        report = run(options.url, options.tasks)
    else:
        with mongo_server() as server:
            report = run(server.url.replace("/?", "/shared?"), options.tasks)
    print(json.dumps(report, indent=2))
    once, done = {"1": options.tasks}, {"done": options.tasks}
    sys.exit(report["runs per task"] != once or report["statuses"] != done)


def run(url: str, count: int) -> dict[str, Any]:
    """Have both sides insert and both work, and count."""
    os.environ[URL] = url
    producer = Mulligan(url)
    calls = [note.call(number) for number in range(count // 2)]
    producer.enqueue_many(calls_for(producer, calls))
    insert_plainly(range(count // 2, count))
    workers = [
        subprocess.Popen([sys.executable, "-m", *command], cwd=Path(__file__).parents[2])
        for command in (
            (SELF, "plain"),
            ("mulligan", "worker", f"{SELF}:app", "--concurrency", "8", "--log-level", "error"),
        )
    ]
    tasks = collection("tasks")
    while tasks.count_documents({"status": {"$in": ["pending", "processing"]}}):
        time.sleep(0.2)
    for worker in workers:
        worker.terminate()
        worker.wait()
    runs = list(collection("ledger").find())
    by_status = Counter(task["status"] for task in tasks.find({}, {"status": 1}))
    times = Counter(Counter(run["number"] for run in runs).values())
    producer.close()
    return {
        "tasks": count,
        "statuses": dict(by_status),
        "runs per task": {str(runs): tasks for runs, tasks in times.items()},
        "runs by": dict(Counter(run["by"] for run in runs)),
    }


SELF = "tests.chaos.shared_collection"

if __name__ == "__main__":
    plain_worker() if sys.argv[1:] == ["plain"] else main()
