"""Enqueue in my transaction: a job exists exactly if that transaction commits."""

import asyncio
import sqlite3
import time
from contextlib import suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy

from mulligan import InvalidError, Mulligan
from mulligan.core.signature import Keys
from mulligan.core.worker import Worker
from tests.app import user_connections as by
from tests.contract.builders import ANN, claim, names
from tests.reuse import REUSED, reused_url
from tests.store_kit import fresh_url, handle, require

WAYS = [(engine, way) for engine, ways in by.PLAIN.items() for way in ways]
ENGINES = pytest.mark.parametrize("engine", list(by.PLAIN))
EVERY_WAY = pytest.mark.parametrize(
    ("engine", "way"), WAYS, ids=lambda each: getattr(each, "__name__", each)
)


@pytest.fixture
async def url(engine, tmp_path):
    require(engine)
    with_url = reused_url(engine) if engine in REUSED else fresh_url(engine, tmp_path)
    async with with_url as empty:
        yield empty


@pytest.fixture
async def pg_url():
    require("postgres")
    async with reused_url("postgres") as empty:
        yield empty


@pytest.fixture
def made():
    """Makes apps, and closes them."""
    apps: list[Mulligan] = []

    def make(url: str, **options) -> Mulligan:
        app = Mulligan(url, **options)

        @app.task
        def ask(question: str) -> str:
            return question

        @app.task
        def keep(answer: str) -> str:
            return answer

        @app.task
        def count(answers: list[str]) -> int:
            return len(answers)

        app.configure()  # makes the tables
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.close()


def stored(app: Mulligan, *ids: str) -> list[bool]:
    async def look(store):
        return [await store.get(each) is not None for each in ids]

    return app.run(lambda: app.access.acall(look))


@EVERY_WAY
def test_a_debounced_call_in_a_transaction_is_signed_for_the_job_that_takes_it_over(url, way, made):
    keys = Keys(["k" * 32])
    app = made(url, signing_keys=["k" * 32])
    ask, calm = app.tasks["ask"], {"unique_key": "k", "debounce": 30}
    first = ask.using(**calm).enqueue("one?")
    with way(url) as connection:
        assert ask.using(connection=connection, **calm).enqueue("two?").id == first.id
        connection.commit()

    async def look(store):
        return await store.get(first.id)

    job = app.run(lambda: app.access.acall(look))
    assert b"two?" in job.body
    assert keys.refusal(job.id, job.task, job.body) is None


@EVERY_WAY
def test_a_job_exists_exactly_if_the_transaction_commits(url, way, made):
    app = made(url)
    ask = app.tasks["ask"]
    with way(url) as connection:
        undone = ask.using(connection=connection, unique_key="k").enqueue("a")
        again = ask.using(connection=connection, unique_key="k").enqueue("b")
        assert (undone.created, again.created, again.id) == (True, False, undone.id)
        connection.rollback()
        assert stored(app, undone.id) == [False]
        many = app.enqueue_many([ask.call("c"), ask.call("d")], connection=connection)
        assert stored(app, *[each.id for each in many]) == [False, False]
        connection.commit()
    assert stored(app, *[each.id for each in many]) == [True, True]
    assert many[0].status == "pending"


@EVERY_WAY
def test_a_savepoint_that_is_rolled_back_leaves_nothing(url, way, made):
    app = made(url)
    ask = app.tasks["ask"]
    with way(url) as connection:
        raw = cursor_of(connection)
        kept = ask.using(connection=connection).enqueue("a")
        raw("SAVEPOINT mine")
        undone = ask.using(connection=connection).enqueue("b")
        raw("ROLLBACK TO SAVEPOINT mine")
        connection.commit()
    assert stored(app, kept.id, undone.id) == [True, False]


def cursor_of(connection):
    """Runs a statement on any of the plain connections."""
    if isinstance(connection, sqlite3.Connection | psycopg.Connection):
        return connection.execute
    if hasattr(connection, "vendor"):
        return lambda statement: connection.cursor().execute(statement)
    return lambda statement: connection.execute(sqlalchemy.text(statement))


@pytest.mark.parametrize("way", by.ASYNC)
async def test_a_coroutine_enqueues_in_its_transaction(pg_url, way, made):
    app = await asyncio.to_thread(made, pg_url)
    ask = app.tasks["ask"]
    async with way(pg_url) as connection:
        async with by.transaction(connection, commit=False):
            undone = await ask.using(connection=connection, unique_key="k").aenqueue("a")
            again = await ask.using(connection=connection, unique_key="k").aenqueue("b")
        assert (again.created, again.id) == (False, undone.id)
        async with by.transaction(connection, commit=True):
            calls = [ask.call("c"), ask.call("d")]
            many = await app.aenqueue_many(calls, connection=connection)
            chain = await (
                (ask | app.tasks["keep"]).using(connection=connection, id="c").aenqueue("e")
            )
            gather = await app.agather(calls, app.tasks["count"], connection=connection)
        assert await asyncio.to_thread(stored, app, undone.id) == [False]
    assert [(await each.ainfo()).status for each in many] == ["pending", "pending"]
    assert [stage.name for stage in await chain.astages()] == ["ask", "keep"]
    assert [len(stage.jobs) for stage in await gather.astages()] == [2, 1]


@ENGINES
def test_chains_and_gathers_are_part_of_the_transaction(url, engine, made):
    app = made(url)
    ask, keep, count = app.tasks["ask"], app.tasks["keep"], app.tasks["count"]
    with by.PLAIN[engine][0](url) as connection:
        chain = (ask | keep).using(connection=connection, id="mine", unique_key="k").enqueue("a")
        same = (ask | keep).using(connection=connection, unique_key="k").enqueue("b")
        gather = app.gather([ask.call("c"), ask.call("d")], count, connection=connection)
        assert (chain.created, same.created, same.id) == (True, False, "mine")
        assert stored(app, chain.id) == [False]
        connection.commit()
    assert [len(stage.jobs) for stage in chain.stages()] == [1, 0]
    assert [len(stage.jobs) for stage in same.stages()] == [1, 0]
    assert [len(stage.jobs) for stage in gather.stages()] == [2, 1]
    assert chain.cancel()


@ENGINES
async def test_a_commit_wakes_a_sleeping_worker_and_a_rollback_does_not(url, engine, made):
    app = await asyncio.to_thread(made, url)
    ask = app.tasks["ask"]
    async with handle(url, time.time) as store:
        with by.PLAIN[engine][0](url) as connection:
            ask.using(connection=connection, id="a").enqueue("a")  # nobody sleeps yet
            connection.rollback()
            await claim(store)
            sleeping = asyncio.create_task(store.wait(ANN, 30))
            ask.using(connection=connection, id="b").enqueue("b")
            connection.commit()
            await asyncio.wait_for(sleeping, 5)
        assert names(await claim(store)) == ["b"]


@ENGINES
def test_in_autocommit_mode_the_job_is_stored_at_once(url, engine, made):
    app = made(url)
    ask = app.tasks["ask"]
    with by.django_connection(url) as connection:
        job = ask.using(connection=connection).enqueue("a")
        assert stored(app, job.id) == [True]
    other: Any
    if engine == "sqlite":
        other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    else:
        other = psycopg.connect(by.server_of(url), autocommit=True)
    job = ask.using(connection=other).enqueue("b")
    assert stored(app, job.id) == [True]
    other.close()


@ENGINES
def test_settings_of_the_connection_are_respected_and_stay(url, engine, made):
    app = made(url)
    with by.PLAIN[engine][0](url) as connection:
        before = connection.row_factory
        text = getattr(connection, "text_factory", None)
        level = connection.isolation_level
        job = app.tasks["ask"].using(connection=connection, unique_key="é").enqueue("a")
        again = app.tasks["ask"].using(connection=connection, unique_key="é").enqueue("a")
        assert connection.row_factory is before
        assert getattr(connection, "text_factory", None) is text
        assert connection.isolation_level == level
        assert (again.id, again.created) == (job.id, False)


@ENGINES
def test_jobs_of_a_signing_app_are_signed(url, engine, made):
    app = made(url, signing_keys=["a key of at least so many characters"])
    with by.PLAIN[engine][0](url) as connection:
        handle = app.tasks["ask"].using(connection=connection).enqueue("a")
        connection.commit()
    job = handle.info()
    assert app.keys.refusal(job.id, job.task, job.body) is None


async def test_a_connection_to_another_database_is_refused_by_name(pg_url, made, tmp_path):
    app = await asyncio.to_thread(made, pg_url)
    ask = app.tasks["ask"]
    elsewhere = by.server_of(pg_url).rpartition("/")[0] + "/template1"
    refused = pytest.raises(InvalidError, match=r"is to database template1 .*give a connection to")
    with psycopg.connect(elsewhere) as other, refused:
        ask.using(connection=other).enqueue("a")
    import asyncpg  # noqa: PLC0415

    far = await asyncpg.connect(elsewhere)
    with pytest.raises(InvalidError, match="is to database template1"):
        await ask.using(connection=far).aenqueue("a")
    await far.close()
    refused = pytest.raises(InvalidError, match="is to sqlite, and the jobs of this app are in pos")
    with by.by_session(f"sqlite:///{tmp_path / 'x.db'}") as session, refused:
        ask.using(connection=session).enqueue("a")


def test_a_connection_to_another_file_is_refused_by_name(made, tmp_path):
    ask = made(f"sqlite:///{tmp_path / 'jobs.db'}").tasks["ask"]
    refused = pytest.raises(InvalidError, match=r"is to .*other\.db, and .*jobs\.db; give")
    with by.by_sqlite3(f"sqlite:///{tmp_path / 'other.db'}") as connection, refused:
        ask.using(connection=connection).enqueue("a")
    memory = sqlite3.connect(":memory:")
    with pytest.raises(InvalidError, match="is to a database in memory"):
        ask.using(connection=memory).enqueue("a")
    memory.close()
    in_memory = Mulligan("sqlite://")
    with pytest.raises(InvalidError, match="in this process's memory"):
        in_memory.task(print).using(connection=sqlite3.connect(":memory:")).enqueue("a")
    in_memory.close()


def test_tables_are_made_before_a_transaction_and_never_within(tmp_path):
    app = Mulligan(f"sqlite:///{tmp_path / 'jobs.db'}")
    ask = app.task(len)
    with by.by_sqlite3(app.url) as connection:
        connection.execute("CREATE TABLE orders (id)")
        connection.execute("INSERT INTO orders VALUES (1)")
        with pytest.raises(InvalidError, match="run: mulligan migrate"):
            ask.using(connection=connection).enqueue("a")
        connection.rollback()
        job = ask.using(connection=connection).enqueue("a")
        connection.commit()
    assert stored(app, job.id) == [True]
    app.close()


async def test_plain_and_awaited_connections_are_told_apart(pg_url, made):
    app = await asyncio.to_thread(made, pg_url)
    ask = app.tasks["ask"]
    async with by.by_async_psycopg(pg_url) as connection:
        with pytest.raises(InvalidError, match="is asynchronous: await aenqueue"):
            ask.using(connection=connection).enqueue("a")
    refused = pytest.raises(InvalidError, match="is synchronous: call enqueue")
    with by.by_psycopg(pg_url) as connection, refused:
        await ask.using(connection=connection).aenqueue("a")
    for connection in (object(), sqlalchemy.create_engine("sqlite://")):
        with pytest.raises(InvalidError, match="is none that this store can use; give a conn"):
            ask.using(connection=connection).enqueue("a")
        with pytest.raises(InvalidError, match=r"asynchronous|none that this|is synchronous"):
            await ask.using(connection=connection).aenqueue("a")


@ENGINES
def test_a_connection_that_sqlalchemy_wraps_for_the_driver_is_refused(url, engine, made):
    app = made(url)
    own = sqlalchemy.create_engine(by.engine_url(app.url, "psycopg"), poolclass=sqlalchemy.NullPool)
    raw = own.raw_connection()
    with pytest.raises(InvalidError, match="is none that this store can use; give a connection"):
        app.tasks["ask"].using(connection=raw).enqueue("a")
    raw.close()


async def test_a_pool_has_no_transaction(pg_url, made):
    import asyncpg  # noqa: PLC0415

    app = await asyncio.to_thread(made, pg_url)
    async with asyncpg.create_pool(by.server_of(pg_url), min_size=0) as pool:
        with pytest.raises(InvalidError, match=r"asyncpg.pool.Pool is none .*, acquired from the"):
            await app.tasks["ask"].using(connection=pool).aenqueue("a")


async def test_sqlite_takes_no_asynchronous_connection(made, tmp_path):
    app = made(f"sqlite:///{tmp_path / 'jobs.db'}")
    refused = pytest.raises(InvalidError, match="is synchronous: call enqueue")
    with by.by_sqlite3(app.url) as connection, refused:
        await app.tasks["ask"].using(connection=connection).aenqueue("a")
    with pytest.raises(InvalidError, match="none that this store can use"):
        await app.tasks["ask"].using(connection=object()).aenqueue("a")
    with pytest.raises(InvalidError, match="none that this store can use"):
        app.tasks["ask"].using(connection=object()).enqueue("a")


@pytest.mark.parametrize("url", ["memory://", "redis://127.0.0.1:1", "mongodb://127.0.0.1:1/x"])
def test_other_stores_say_what_to_do_instead(url):
    app = Mulligan(url)
    with pytest.raises(InvalidError, match=r"Enqueue after the commit.*on_commit"):
        app.task(len).using(connection=object()).enqueue("a")


def test_a_value_or_a_stage_has_no_connection(made, tmp_path):
    app = made(f"sqlite:///{tmp_path / 'jobs.db'}")
    ask, keep = app.tasks["ask"], app.tasks["keep"]
    with pytest.raises(InvalidError, match="carries no connection; give it to"):
        ask.using(connection=object()).call("a")
    with pytest.raises(InvalidError, match=r"by chain\.using\(connection"):
        ask.using(connection=object()) | keep
    with pytest.raises(InvalidError, match="a gather cannot have an id"):
        app.gather([ask.call("a")], app.tasks["count"], id="mine", connection=object())
    with pytest.raises(InvalidError, match="option 'connection' is not one of"):
        app.task(connection=object())(len)


def test_a_transaction_that_has_failed_stays_failed(pg_url, made):
    app = made(pg_url)
    ask = app.tasks["ask"]
    with by.by_psycopg(pg_url) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM no_such_table")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            ask.using(connection=connection).enqueue("a")
        connection.rollback()
        job = ask.using(connection=connection).enqueue("a")
        connection.commit()
    assert stored(app, job.id) == [True]


async def test_a_repeatable_read_does_not_fail_for_who_falls_asleep_meanwhile(pg_url, made):
    app = await asyncio.to_thread(made, pg_url)
    async with handle(pg_url, time.time) as store:
        await claim(store)
        with by.by_psycopg(pg_url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT 1 FROM pg_class LIMIT 1")  # from now on it sees no change
            await store.leave(ANN)
            await claim(store, worker=Worker("bob"))
            await claim(store)
            job = app.tasks["ask"].using(connection=connection).enqueue("a")
            connection.commit()
        assert names(await claim(store)) == [job.id]


def test_a_unique_key_taken_after_a_repeatable_read_began_is_a_failure_to_serialize(pg_url, made):
    app = made(pg_url)
    ask = app.tasks["ask"]
    with by.by_psycopg(pg_url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1 FROM pg_class LIMIT 1")
        first = ask.using(unique_key="k").enqueue("a")
        with pytest.raises(psycopg.errors.SerializationFailure):
            ask.using(connection=connection, unique_key="k").enqueue("b")
        connection.rollback()
        assert ask.using(connection=connection, unique_key="k").enqueue("b").id == first.id


def test_django_drops_the_job_with_its_atomic_block(made, tmp_path):
    app = made(f"sqlite:///{tmp_path / 'jobs.db'}")
    ask = app.tasks["ask"]
    with by.django_connection(app.url) as connection:
        from django.db import transaction  # noqa: PLC0415

        with transaction.atomic(using="mine"):
            kept = ask.using(connection=connection).enqueue("a")
            with suppress(ZeroDivisionError), transaction.atomic(using="mine"):
                undone = ask.using(connection=connection).enqueue("b")
                raise ZeroDivisionError
            assert stored(app, kept.id) == [False]
    assert stored(app, kept.id, undone.id) == [True, False]


def test_while_testing_the_job_is_there_at_once():
    app = Mulligan("postgresql://nobody@nowhere/nothing")
    ask = app.task(len)
    with app.testing() as t:
        job = ask.using(connection=object()).enqueue("four")
        t.drain()
        assert job.result() == 4
