"""Stores for tests: each made empty, apart from all others, and removed when the test is over."""

import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from msgspec.structs import replace

from mulligan import Mulligan
from mulligan.app.using import Prepared
from mulligan.core.reschedule import Reschedule
from mulligan.core.shards import CARD, Card, write_card
from mulligan.stores import make_store, may_be_sharded
from mulligan.stores.contract import Store
from tests.databases import url_variable

STORES = ("memory", "sqlite", "redis", "postgres", "mongo")
# Four shards of memory, of an app that had one store before: what a test names lives in the first.
SHARDS = "memory://?shards=4"
START = 1_000_000.0


class VirtualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let this much time pass."""
        self.now += seconds


def require(name: str) -> None:
    """Note that a test runs on the store, or skip it with the reason why it cannot."""
    from tests.databases import plugin  # noqa: PLC0415 - pytest wants to import a plugin first

    spec = find_spec(f"mulligan.stores.{name}")
    if spec is None or spec.origin is None:
        pytest.skip(f"store {name}: there is no module mulligan.stores.{name}")
    if name in ("memory", "sqlite"):
        plugin.note(name)
    elif name == "shards":
        plugin.note("memory")
    else:
        plugin.server_url(name)


@asynccontextmanager
async def fresh_url(name: str, folder: Path) -> AsyncIterator[str]:
    """The URL of an empty place for a store, which is removed afterwards."""
    require(name)
    mark = secrets.token_hex(6)
    server = os.environ.get(url_variable(name), "")
    match name:
        case "memory":
            yield "memory://"
        case "shards":
            yield SHARDS
        case "sqlite":
            yield f"sqlite:///{folder / f'{mark}.db'}"
        case "redis":
            yield with_query(server, prefix=f"test:{mark}")
            remove_keys(server, f"test:{mark}")
        case "postgres":
            yield with_query(server, schema=f"t_{mark}")
            drop_schema(server, f"t_{mark}")
        case "mongo":
            yield urlsplit(server)._replace(path=f"/t_{mark}").geturl()
            drop_database(server, f"t_{mark}")


@asynccontextmanager
async def handle(url: str, clock: Callable[[], float]) -> AsyncIterator[Store]:
    """An open store at the URL, closed afterwards."""
    store = make_store(url, clock=clock)
    if may_be_sharded(url):
        await first_alone(store)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def first_alone(store: Any) -> None:
    """Have the first shard be the whole app until the store is opened: that has the app grow."""
    first = store.shards.all[0].store
    await first.open()
    await first.reschedule(Reschedule(CARD, None, write_card(Card("test", 0, 1, 1))))


def with_query(url: str, **more: str) -> str:
    """The URL with these parameters added."""
    parts = urlsplit(url)
    query = [*parse_qsl(parts.query), *more.items()]
    return parts._replace(query=urlencode(query)).geturl()


def remove_keys(server: str, prefix: str) -> None:
    """Delete what a test left in Redis, whether or not the store puts a hash tag around it."""
    import redis  # noqa: PLC0415 - a driver is needed only where its server is

    with redis.Redis.from_url(server, socket_timeout=60) as client:
        for pattern in (f"{prefix}*", f"{{{prefix}}}*"):
            for keys in batched(client.scan_iter(pattern, count=1000)):
                client.delete(*keys)


def batched(keys: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The keys, a thousand at a time."""
    while part := list(islice(keys, 1000)):
        yield part


def drop_schema(server: str, schema: str) -> None:
    """Drop what a test left in PostgreSQL."""
    import psycopg  # noqa: PLC0415 - a driver is needed only where its server is
    from psycopg import sql  # noqa: PLC0415

    with psycopg.connect(server, autocommit=True) as connection:
        statement = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema))
        connection.execute(statement)


def drop_database(server: str, database: str) -> None:
    """Drop what a test left in MongoDB."""
    import pymongo  # noqa: PLC0415 - a driver is needed only where its server is

    client: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(server)
    with client, suppress(pymongo.errors.OperationFailure):
        client.drop_database(database)


def calls_for(app: Mulligan, calls: Iterable[Prepared[Any]]) -> list[Prepared[Any]]:
    """The calls as if `app`, which a test made for another store, had declared their tasks."""
    return [replace(call, app=app) for call in calls]
