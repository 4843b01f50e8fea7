"""Jobs that are enqueued in a transaction of the caller's own."""

import asyncio
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

from mulligan.core.errors import InvalidError
from tests.contract.builders import ANN, begin, claim, done, job, jobs, names
from tests.stores.postgres.kit import connected, server_of, sqlalchemy_engine


@contextmanager
def psycopg_transaction(url: str):
    with psycopg.connect(server_of(url), row_factory=dict_row) as connection:
        yield connection


@contextmanager
def sqlalchemy_transaction(url: str):
    with sqlalchemy_engine(url).connect() as connection:
        yield connection


@contextmanager
def session_transaction(url: str):
    with Session(sqlalchemy_engine(url)) as session:
        yield session


TRANSACTIONS = [psycopg_transaction, sqlalchemy_transaction, session_transaction]


@pytest.mark.parametrize("begun", TRANSACTIONS)
async def test_a_job_runs_only_if_the_callers_transaction_commits(store, url, begun):
    new = [job("a", unique_key="k"), job("b", unique_key="k")]
    with begun(url) as connection:
        assert store.enqueue_in(connection, new) == [("a", True), ("a", False)]
        assert names(await claim(store, demand=5)) == []
        connection.rollback()
    assert await store.get("a") is None
    with begun(url) as connection:
        store.enqueue_in(connection, new)
        connection.commit()
    assert names(await claim(store, demand=5)) == ["a"]


@pytest.mark.parametrize("begun", TRANSACTIONS)
async def test_a_commit_wakes_and_a_rollback_does_not(store, url, begun):
    with begun(url) as connection:
        store.enqueue_in(connection, jobs("a"))  # nobody sleeps yet
        await claim(store)
        sleeping = asyncio.create_task(store.wait(ANN, 30))
        connection.rollback()
        store.enqueue_in(connection, jobs("b"))
        connection.commit()
        await asyncio.wait_for(sleeping, 5)
    assert names(await claim(store)) == ["b"]


async def test_an_asynchronous_transaction_may_be_used_too(store, url):
    async with await psycopg.AsyncConnection.connect(server_of(url)) as connection:
        await store.aenqueue_in(connection, jobs("undone"))
        await connection.rollback()
        assert await store.aenqueue_in(connection, jobs("a")) == [("a", True)]
    assert names(await claim(store, demand=9)) == ["a"]


async def test_an_asynchronous_transaction_of_sqlalchemy_may_be_used_too(store, url):
    pytest.importorskip("greenlet", reason="SQLAlchemy's asyncio needs greenlet")
    from sqlalchemy.ext import asyncio as extension  # noqa: PLC0415

    engine = extension.create_async_engine(
        server_of(url).replace("postgresql://", "postgresql+psycopg://"),
        poolclass=sqlalchemy.NullPool,
    )
    async with engine.begin() as connection:
        assert await store.aenqueue_in(connection, jobs("b")) == [("b", True)]
    async with extension.AsyncSession(engine) as session:
        await store.aenqueue_in(session, jobs("c"))
        await session.commit()
        await store.aenqueue_in(session, jobs("undone"))
        await session.rollback()
    await engine.dispose()
    assert names(await claim(store, demand=9)) == ["b", "c"]


async def test_a_connection_of_the_wrong_kind_is_refused(store, url):
    with pytest.raises(InvalidError, match="object is none that this store can use"):
        store.enqueue_in(object(), jobs("a"))
    async with await psycopg.AsyncConnection.connect(server_of(url)) as connection:
        with pytest.raises(InvalidError, match="await aenqueue"):
            store.enqueue_in(connection, jobs("a"))
    with connected(url) as plain, pytest.raises(InvalidError, match="call enqueue"):
        await store.aenqueue_in(plain, jobs("a"))
    assert store.enqueue_in(None, []) == await store.aenqueue_in(None, []) == []


SNAPSHOTS = ["REPEATABLE READ", "SERIALIZABLE"]


@contextmanager
def snapshot(url: str, level: str):
    """A transaction of the user's that sees nothing of what is committed from now on."""
    with psycopg.connect(server_of(url)) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        connection.execute("SELECT 1 FROM pg_class LIMIT 1")
        yield connection


@pytest.mark.parametrize("level", SNAPSHOTS)
@pytest.mark.parametrize("ended", ["before", "and another holds its key"])
async def test_a_job_that_ended_since_a_snapshot_is_not_said_to_hold_its_key(
    store, url, level, ended
):
    [first] = await begin(store, job("first", unique_key="k"))
    await store.enqueue(jobs("there"))
    new = [job("new", unique_key="k"), *jobs("there")]  # one of them is there: each is looked at
    with snapshot(url, level) as connection:
        await store.commit([done(first)])
        if ended == "before":
            assert store.enqueue_in(connection, new) == [("new", True), ("there", False)]
        else:
            await store.enqueue([job("second", unique_key="k")])
            with pytest.raises(psycopg.errors.SerializationFailure):
                store.enqueue_in(connection, new)
            connection.rollback()
            assert store.enqueue_in(connection, new) == [("second", False), ("there", False)]


@pytest.mark.parametrize("level", SNAPSHOTS)
async def test_a_debounced_job_that_changed_since_a_snapshot_is_not_changed_again(
    store, url, level
):
    put_off = {"unique_key": "k", "delay": 60.0, "debounce_max": 600.0}
    await store.enqueue([job("first", **put_off)])
    with snapshot(url, level) as connection:
        assert await store.enqueue([job("later", **put_off)]) == [("first", False)]
        with pytest.raises(psycopg.errors.SerializationFailure):
            store.enqueue_in(connection, [job("new", **put_off)])
        connection.rollback()
        assert store.enqueue_in(connection, [job("new", **put_off)]) == [("first", False)]
