"""A store with a job in every state, and with things that a worker would see to.

A lost lease, a job that expired, documents and entries of other programs: who only reads must leave
all of it alone.
"""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from mulligan.app.schedules import new_schedule, put_schedule
from mulligan.core.counts import Count
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Capped
from mulligan.core.flow import Flow
from mulligan.core.job import NewJob, encode
from mulligan.core.limits import Limit
from mulligan.core.retry import Retry
from mulligan.core.worker import Worker
from mulligan.stores.contract import Store
from tests.cli.command_line import claim, fail, finish, new_job
from tests.hostile import vandal

NOW = datetime.now(UTC)


async def furnish(store: Store) -> None:
    """Bring the store into that state."""
    await store.configure("mail", QueueSettings(policy=Capped(3)))
    await store.enqueue([new_job("done"), new_job("dead"), new_job("retry"), new_job("running")])
    done, dead, retry, _ = await claim(store, 4)
    await finish(store, [done])
    await fail(store, [dead])
    await fail(store, [retry], non_retryable=False)
    await store.enqueue([new_job("lost", "lost")])
    gone = Worker("gone", "default", ("lost",), lease=0.001)
    await claim(store, 1, "lost", worker="gone")
    await store.beat(gone, [])
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    limited: dict[str, Any] = {"limits": '{"k":1}', "fairness_key": "acme"}
    names = ("limited", "waiting")
    await store.enqueue([new_job(name, "limited", **limited) for name in names])
    await claim(store, 2, "limited")
    await store.enqueue(
        [
            new_job("fresh"),
            new_job("delayed", delay=3600.0),
            new_job("due", delay=0.001),
            new_job("late", expires=0.001),
            new_job("unique", unique_key="one"),
            gathering(),
            new_job("member", gather="gathering"),
            new_job("cancelled"),
        ]
    )
    await store.cancel(["cancelled"], "not needed")
    await store.pause("paused", paused=True)
    await store.note("fleet:one", b"{}", 0.001)
    await schedule(store)
    await store.count([Count("mail", "default", "failed", 3)])


def gathering() -> NewJob:
    """A job that awaits another, as `app.gather` makes it."""
    flow = Flow("all", ("send", "send"), number=2, members=1, gathers=True)
    body = {"task": "send", "args": [], "kwargs": {}, "retry": Retry(1), "flow": flow}
    return NewJob("gathering", "mail", "send", encode(body), awaits=1)


async def schedule(store: Store) -> None:
    """Store a schedule."""
    nightly = new_schedule("nightly", new_job("tick"), "0 3 * * *", None, "Europe/Berlin", "one")
    await put_schedule(store, nightly)


def add_strangers(url: str) -> None:
    """What other programs have left for a worker to take in."""
    match urlsplit(url).scheme:
        case "redis":
            client, tag = vandal.redis(url)
            with client:
                client.rpush(f"{tag}:inbox", '{"task": "send", "args": ["a"]}', "nonsense")
        case "mongodb":
            add_documents(url)
        case _:
            pass


def add_documents(url: str) -> None:
    """Documents that mulligan has never seen, in both collections."""
    import pymongo  # noqa: PLC0415 - a driver is needed only where its server is

    client: Any = pymongo.MongoClient(url)
    with client:
        database = client[urlsplit(url).path.strip("/")]
        for collection in ("tasks", "tasks_dlq"):
            database[collection].insert_many(
                [
                    {"_id": f"{status}-{number}", "status": status, **more}
                    for status in ("pending", "processing", "done", "failed", "cancelled", "odd")
                    for number, more in enumerate(kinds())
                ]
            )


def kinds() -> list[dict[str, Any]]:
    """What documents of other programs may hold besides their status."""
    task = {"payload": {"task": "send", "args": ["x"]}}
    return [
        task,
        {},
        {"payload": {"city": "Ulm"}, "created_at": NOW, "attempts": 2, "ours": {"a": [1]}},
        {**task, "next_retry_at": NOW + timedelta(hours=1), "attempts": 1},
        {**task, "updated_at": NOW - timedelta(hours=1), "created_at": NOW - timedelta(hours=2)},
        {**task, "attempts": float("nan"), "mulligan": "mine"},
        {**task, "error": {"message": "boom", "code": 7, "at": NOW}, "max_retries": 0},
    ]
