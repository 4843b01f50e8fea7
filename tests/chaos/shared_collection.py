"""A plain pymongo worker and a mulligan worker on one collection: every task is done once.

`python -m tests.chaos.shared_collection`; half of the tasks are inserted by each side.
"""

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
from tests.servers import mongo_server

COUNT = 5000
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
    """Run both workers over all tasks, and count."""
    with mongo_server() as server:
        os.environ[URL] = server.url.replace("/?", "/shared?")
        producer = Mulligan(os.environ[URL])
        producer.enqueue_many(note.call(number) for number in range(COUNT // 2))
        insert_plainly(range(COUNT // 2, COUNT))
        workers = [
            subprocess.Popen([sys.executable, "-m", *command], cwd=Path(__file__).parents[2])
            for command in (
                ("tests.chaos.shared_collection", "plain"),
                ("mulligan", "worker", f"{SELF}:app", "--concurrency", "8", "--log-level", "error"),
            )
        ]
        tasks = collection("tasks")
        while tasks.count_documents({"status": {"$in": ["pending", "processing"]}}):
            time.sleep(0.5)
        for worker in workers:
            worker.terminate()
            worker.wait()
        runs = list(collection("ledger").find())
        by_status = Counter(task["status"] for task in tasks.find({}, {"status": 1}))
        times = Counter(Counter(run["number"] for run in runs).values())
        producer.close()
        report = {
            "tasks": COUNT,
            "statuses": dict(by_status),
            "runs per task": {str(runs): tasks for runs, tasks in times.items()},
            "runs by": dict(Counter(run["by"] for run in runs)),
        }
    print(json.dumps(report, indent=2))
    sys.exit(times != {1: COUNT} or by_status != {"done": COUNT})


SELF = "tests.chaos.shared_collection"

if __name__ == "__main__":
    plain_worker() if sys.argv[1:] == ["plain"] else main()
