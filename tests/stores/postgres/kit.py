"""What tests of the PostgreSQL store need: connections beside it, and the plans of the server."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest
import sqlalchemy

from mulligan.core.errors import StoreError
from mulligan.core.limits import Limit
from mulligan.stores.postgres import PostgresStore
from tests.contract.builders import ANN, again, claim, done, job, jobs
from tests.databases._server import until


class opened:  # noqa: N801 - reads as a word
    """An open store on the server's own clock."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url)

    async def __aenter__(self) -> PostgresStore:
        await self.store.open()
        return self.store

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()


async def use_everything(url: str) -> None:
    """Whatever workers, producers, operators and readers do with a store."""
    async with opened(url) as store:
        await store.set_limit("k", Limit(concurrency=3), declared=True)
        await store.enqueue(jobs("a", "b", "c"))
        await store.enqueue(
            [job("d", limits='{"k":1}'), job("e", unique_key="k", fairness_key="f")]
        )
        await store.enqueue_all(jobs(*(f"many-{n}" for n in range(2500))))
        with pytest.raises(StoreError, match="refused"):
            await store._database.pool.run("SELECT 1 / 0")
        held = (await claim(store, demand=9)).claims
        assert len(held) == 9
        assert await store.commit([done(held[0])]) == ["written"]
        assert await store.commit([again(held[1]), done(held[2], b"1", *jobs("next"))])
        await store.commit_within(done(held[3]), lambda each: each.execute("SELECT 1"))
        await store.beat(ANN, [each.lease for each in held[4:]])
        await store.promote(9)
        await store.prune(3600.0, 9)
        await store.doctor()
        watch = await store.watch("b", lambda: None)
        watch.close()
    reader = PostgresStore(url)
    await reader.open(read_only=True)
    try:
        assert await reader.get("b") is not None
        await reader.stats()
        with pytest.raises(StoreError, match="read-only transaction"):
            await reader.pause("default", paused=True)
        await reader.doctor()
    finally:
        await reader.close()


def server_of(url: str) -> str:
    return urlsplit(url)._replace(query="").geturl()


def schema_of(url: str) -> str:
    return PostgresStore(url)._database.url.schema


@contextmanager
def connected(url: str, **options) -> Iterator[psycopg.Connection]:
    """A plain connection whose search path is the store's schema."""
    with psycopg.connect(server_of(url), autocommit=True, **options) as connection:
        path = psycopg.sql.Identifier(schema_of(url))
        connection.execute(psycopg.sql.SQL("SET search_path TO {}").format(path))
        yield connection


async def waited_for(true: Callable[[], bool]) -> None:
    """Return when it is true."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - what another process does is polled
            await asyncio.sleep(0.01)


async def until_waiting(url: str) -> None:
    """Return when someone waits for a row lock."""
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"

    def waits() -> bool:
        return connection.execute(waiting, (f"%{schema_of(url)}%",)).fetchone() is not None

    with connected(url) as connection:
        assert await asyncio.to_thread(until, waits, 10)


def end_backends(other, which: str, value: object) -> None:
    """End connections at the server, and return when they are gone; PostgreSQL 13 cannot wait."""
    ending = f"SELECT pid FROM pg_stat_activity WHERE {which} AND pid <> pg_backend_pid()"  # noqa: S608
    other.execute(f"SELECT pg_terminate_backend(pid) FROM ({ending}) x".encode(), (value,))  # noqa: S608
    assert until(lambda: not other.execute(ending.encode(), (value,)).fetchall(), 10.0)


def explaining(connection) -> list[str]:
    """Where the plans of everything that runs on the connection from now on are put."""
    found: list[str] = []
    connection.add_notice_handler(lambda notice: found.append(notice.message_primary or ""))
    connection.execute("LOAD 'auto_explain'")
    for option in ("log_min_duration = 0", "log_nested_statements = on", "log_analyze = on"):
        connection.execute(f"SET auto_explain.{option}")
    connection.execute("SET client_min_messages = log")
    return found


def read(rows: int, plan: str, loops: int = 1) -> bool:
    """Whether a plan says that so many rows were read; from PostgreSQL 18 on with decimals."""
    return re.search(rf"rows={rows}(\.00)? loops={loops}\)", plan) is not None


def sqlalchemy_engine(url: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(
        server_of(url).replace("postgresql://", "postgresql+psycopg://"),
        poolclass=sqlalchemy.NullPool,
    )


# Notes for each new job whether the transaction that stores it waits for the disk.
SEE_WHO_WAITS = """
CREATE TABLE seen AS SELECT ''::text AS id, ''::text AS waits WHERE false;
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO seen VALUES (NEW.id, current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER see AFTER INSERT ON job DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION see()
"""
