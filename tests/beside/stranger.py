"""A program that knows of mulligan what stores/mongodb.md says, and has only pymongo.

    python stranger.py URL DATABASE insert COUNT     inserts tasks with a field of its own
    python stranger.py URL DATABASE work COUNT       pops so many: finishes one, puts back the next
    python stranger.py URL DATABASE hold COUNT       pops so many and keeps them
    python stranger.py URL DATABASE fail COUNT       pops so many and marks them failed

It prints the ids of what it had, one a line.
"""

import sys
import time
from datetime import UTC, datetime, timedelta

import pymongo

DEADLINE = 60


def now():
    """The date of this moment."""
    return datetime.now(UTC)


def insert(tasks, count):
    """Insert tasks, some of which may not start for a moment."""
    documents = [
        {
            "_id": f"theirs-{number}",
            "payload": {"task": "ask", "args": [number]},
            "status": "pending",
            "created_at": now(),
            "updated_at": now(),
            "attempts": 0,
            "next_retry_at": now() + timedelta(seconds=0.2) if number % 5 == 0 else None,
            "customer": {"name": f"c{number}", "tags": ["a", {"b": number}]},
        }
        for number in range(count)
    ]
    tasks.insert_many(documents)
    return [each["_id"] for each in documents]


def pop(tasks):
    """Take the next task that is due, waiting for one."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        found = tasks.find_one_and_update(
            {
                "status": "pending",
                "$or": [{"next_retry_at": None}, {"next_retry_at": {"$lte": now()}}],
            },
            {"$set": {"status": "processing", "updated_at": now()}},
            sort=[("created_at", 1)],
        )
        if found is not None:
            return found
        time.sleep(0.01)
    raise TimeoutError("nothing to pop")


def work(tasks, count):
    """Finish one, put the next one back as failed, and so on."""
    had = []
    for number in range(count):
        task = pop(tasks)
        had.append(task["_id"])
        if number % 2 == 0:
            change = {"$set": {"status": "done", "updated_at": now()}}
        else:
            error = {"message": "not today", "code": "E7", "at": now()}
            fields = {"status": "pending", "updated_at": now(), "error": error}
            fields["next_retry_at"] = now() + timedelta(seconds=3)
            change = {"$set": fields, "$inc": {"attempts": 1}}
        tasks.update_one({"_id": task["_id"]}, change)
    return had


def hold(tasks, count):
    """Take tasks and never come back to them."""
    return [pop(tasks)["_id"] for _ in range(count)]


def fail(tasks, count):
    """Take tasks and give up on them."""
    had = hold(tasks, count)
    error = {"message": "broken", "code": "E9", "at": now()}
    for key in had:
        change = {"status": "failed", "updated_at": now(), "error": error}
        tasks.update_one({"_id": key}, {"$set": change})
    return had


def main():
    """Do what the arguments say."""
    url, database, what, count = sys.argv[1:]
    doing = {"insert": insert, "work": work, "hold": hold, "fail": fail}[what]
    connected: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(url)
    with connected as client:
        for key in doing(client[database]["tasks"], int(count)):
            print(key)  # noqa: T201 - it is what the caller reads


if __name__ == "__main__":
    main()
