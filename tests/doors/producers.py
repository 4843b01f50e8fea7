"""Programs that enqueue without the app: each door, by nothing but the store's own driver."""

import json
import sqlite3
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pymongo
import redis

from mulligan import Mulligan
from mulligan.server.application import make_application
from mulligan.server.guard import Guard
from mulligan.server.service import Service

# What a producer says of a job: task, args, id, and perhaps retry, priority, timeout.
Said = dict[str, Any]


async def python(app: Mulligan, said: Said) -> None:
    """The app itself, with which all others are compared."""
    options = {name: value for name, value in said.items() if name not in ("task", "args")}
    await app.tasks[said["task"]].using(**options).aenqueue(*said["args"])


async def http(app: Mulligan, said: Said) -> None:
    """A server that was started with a store and no app."""
    store = app.make_store()
    if not app.url.startswith("memory:"):
        await store.open()
    try:
        service = Service(store, Mulligan(app.url), Guard(None), declares=False)
        transport = httpx.ASGITransport(make_application(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.post("/api/jobs", json=said)
            assert answer.status_code == 200, answer.text
    finally:
        if not app.url.startswith("memory:"):
            await store.close()


async def redis_inbox(app: Mulligan, said: Said) -> None:
    """A document that is pushed to the inbox of Redis."""
    (prefix,) = parse_qs(urlsplit(app.url).query)["prefix"]
    with redis.Redis.from_url(app.url.partition("?")[0]) as client:
        client.rpush(f"{{{prefix}}}:inbox", json.dumps(said))


async def sqlite_inbox(app: Mulligan, said: Said) -> None:
    """A row that is inserted into the inbox of SQLite."""
    row = as_columns(said)
    marks = ", ".join("?" for _ in row)
    with sqlite3.connect(app.url.removeprefix("sqlite:///")) as connection:
        connection.execute(
            f"INSERT INTO inbox ({', '.join(row)}) VALUES ({marks})",  # noqa: S608 - own names
            list(row.values()),
        )
    connection.close()


async def postgres_inbox(app: Mulligan, said: Said) -> None:
    """A row that is inserted into the inbox of PostgreSQL."""
    row = as_columns(said)
    marks = ", ".join("%s" for _ in row)
    inserted(app, f"INSERT INTO inbox ({', '.join(row)}) VALUES ({marks})", row)  # noqa: S608


async def postgres_function(app: Mulligan, said: Said) -> None:
    """A call of the function `enqueue` in PostgreSQL."""
    row = as_columns(said)
    marks = ", ".join(f"{name} => %s" for name in row)
    inserted(app, f"SELECT enqueue({marks})", row)


async def mongo_document(app: Mulligan, said: Said) -> None:
    """A document that is inserted into the collection of MongoDB."""
    document: Said = {
        "_id": said["id"],
        "status": "pending",
        "payload": {"task": said["task"], "args": said["args"]},
    }
    document |= {name: said[name] for name in ("retry", "priority") if name in said}
    client: pymongo.MongoClient[Said] = pymongo.MongoClient(app.url)
    with client:
        client.get_default_database()["tasks"].insert_one(document)


def inserted(app: Mulligan, statement: str, row: Said) -> None:
    """Have PostgreSQL do it, in the app's schema."""
    (schema,) = parse_qs(urlsplit(app.url).query)["schema"]
    with psycopg.connect(app.url.partition("?")[0], options=f"-csearch_path={schema}") as it:
        it.execute(statement.encode(), list(row.values()))


def as_columns(said: Said) -> Said:
    """As SQL takes it: lists and objects as JSON."""
    return {
        name: json.dumps(value) if name in ("args", "retry") else value
        for name, value in said.items()
    }


DOORS: dict[str, tuple[str, Callable[..., Any]]] = {
    **{
        f"http-{store}": (store, http)
        for store in ("memory", "sqlite", "redis", "postgres", "mongo")
    },
    "redis-inbox": ("redis", redis_inbox),
    "sqlite-inbox": ("sqlite", sqlite_inbox),
    "postgres-inbox": ("postgres", postgres_inbox),
    "postgres-function": ("postgres", postgres_function),
    "mongo-document": ("mongo", mongo_document),
}
