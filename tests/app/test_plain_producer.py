"""Plain code enqueues over a connection on which it waits itself."""

import psycopg
import pytest
import redis
from msgspec.structs import replace

from mulligan import Mulligan
from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.core.job import Job
from mulligan.core.page import Selection
from mulligan.stores.contract import Store
from mulligan.stores.postgres import producer as postgres_producer
from mulligan.stores.redis import producer as redis_producer
from mulligan.stores.redis.scripts import script
from tests.app.user_connections import server_of
from tests.reuse import reused_url
from tests.store_kit import fresh_url, require
from tests.stores.postgres.kit import connected, end_backends


@pytest.fixture
async def redis_url(tmp_path):
    require("redis")
    async with fresh_url("redis", tmp_path) as empty:
        yield empty


@pytest.fixture
async def postgres_url():
    require("postgres")
    async with reused_url("postgres") as empty:
        yield empty


@pytest.fixture
def made():
    apps: list[Mulligan] = []

    def make(url: str, **options) -> Mulligan:
        app = Mulligan(url, **options)
        app.task(name="ask")(len)
        apps.append(app)
        return app

    yield make
    for app in apps:
        app.close()


def test_a_connection_to_redis_that_was_ended_is_made_anew(redis_url, made):
    app = made(redis_url)
    ask = app.tasks["ask"]
    first = ask.enqueue("a")
    producer = app.access._producer
    port = producer._socket.getsockname()[1]
    with redis.Redis.from_url(server_of(redis_url)) as other:
        other.client_kill(f"127.0.0.1:{port}")
    second = ask.enqueue("b")
    assert (first.created, second.created) == (True, True)
    assert producer._socket.getsockname()[1] != port
    assert second.status == "pending"


def test_an_answer_of_redis_that_is_lost_says_so(redis_url, made, monkeypatch):
    app = made(redis_url)
    ask = app.tasks["ask"].using(id="a")
    app.tasks["ask"].enqueue("first")

    def lost(line):
        line.recv(1)  # it has done what it was asked for
        raise ConnectionResetError

    with monkeypatch.context() as patched:
        patched.setattr(redis_producer, "received", lost)
        with pytest.raises(StoreUnavailableError, match="cannot be reached: ConnectionReset"):
            ask.enqueue("a")
    assert not ask.enqueue("a").created  # it was stored all the same, and again is safe


def test_a_script_that_redis_does_not_know_is_sent_whole(redis_url, made, monkeypatch):
    unknown = replace(script("enqueue"), sha="0" * 40)
    monkeypatch.setattr(redis_producer, "script", lambda _: unknown)
    assert made(redis_url).tasks["ask"].enqueue("a").status == "pending"


def test_what_redis_refuses_is_left_to_the_store(redis_url, made):
    app = made(redis_url)
    prefix = app.run(lambda: app.access.acall(tag_of))
    with redis.Redis.from_url(server_of(redis_url)) as other:
        other.set(f"{prefix}:sequence", "no number")
        with pytest.raises(Exception, match="refused"):
            app.tasks["ask"].enqueue("a")
        other.delete(f"{prefix}:sequence")
    assert app.tasks["ask"].enqueue("a").created


async def tag_of(store):
    return store._server.url.tag


def test_a_server_that_cannot_be_reached_is_said_to_be_away():
    for url in ("redis://127.0.0.1:1", "postgresql://nobody@127.0.0.1:1/nothing"):
        app = Mulligan(url)
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            app.task(name="ask")(len).enqueue("a")
        app.close()


def test_replicas_are_waited_for_by_the_store_itself(redis_url, made):
    app = made(f"{redis_url}&wait_replicas=1&wait_timeout=0.01")
    with pytest.raises(StoreUnavailableError, match="0 of 1 replicas"):
        app.tasks["ask"].enqueue("a")


def test_a_connection_to_postgres_that_was_ended_is_made_anew(postgres_url, made):
    app = made(postgres_url)
    ask = app.tasks["ask"]
    ask.enqueue("a")
    pid = app.access._producer._connection.info.backend_pid
    with psycopg.connect(server_of(postgres_url), autocommit=True) as other:
        end_backends(other, "pid = %s", pid)
    assert ask.enqueue("b").created
    assert app.access._producer._connection.info.backend_pid != pid


def test_a_connection_to_postgres_goes_with_one_that_the_store_has_lost(postgres_url, made):
    """On a network that went silent it would be waited for once more."""
    app = made(postgres_url)
    app.tasks["ask"].enqueue("a")
    before = app.access._producer._connection
    app.tasks["ask"].enqueue("b")
    assert app.access._producer._connection is before
    with pytest.raises(StoreUnavailableError, match="no answer within"):
        app.run(lambda: app.access.acall(unanswered))
    assert app.tasks["ask"].enqueue("c").created
    assert before.closed


async def unanswered(store):
    pool = store._database.pool
    await pool.close()
    async with pool.use() as connection:
        connection.answer_within = 0.05
        connection._look()  # which else looks when the time is up that it was connected with
        await pool.run("SELECT pg_sleep(20)", on=connection)


def test_a_connection_to_postgres_that_is_not_made_in_time_is_not_tried_twice(
    postgres_url, made, monkeypatch
):
    app = made(postgres_url)
    app.run(lambda: app.access.acall(tell_nothing))  # the store is open
    tried: list[str] = []

    def time_out(conninfo: str, **_: object) -> None:
        tried.append(conninfo)
        raise psycopg.errors.ConnectionTimeout("connection timeout expired")

    monkeypatch.setattr(postgres_producer.BlockingConnection, "connect", time_out)
    with pytest.raises(StoreUnavailableError, match="cannot be reached: connection timeout"):
        app.tasks["ask"].enqueue("a")
    assert len(tried) == 1
    assert app.run(lambda: app.access.acall(jobs_of)) == []


async def tell_nothing(_) -> None:
    pass


async def jobs_of(store: Store) -> list[Job]:
    return list((await store.page(Selection(), 9)).jobs)


def test_an_answer_of_postgres_that_does_not_come_is_not_waited_for(postgres_url):
    with postgres_producer.BlockingConnection.connect(server_of(postgres_url)) as connection:
        connection.answer_within = 0.05
        with pytest.raises(psycopg.OperationalError, match=r"no answer within 0\.05 s"):
            connection.execute("SELECT pg_sleep(20)")
        assert connection.closed


def test_an_answer_of_postgres_that_is_lost_says_so(postgres_url, made):
    app = made(postgres_url)
    app.tasks["ask"].enqueue("first")
    connection = app.access._producer._connection
    connection.answer_within = 0.05
    with connected(postgres_url) as other, other.transaction():
        other.execute("LOCK TABLE job IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailableError, match="no answer within"):
            app.tasks["ask"].enqueue("a")
    assert app.tasks["ask"].enqueue("b").created


def test_a_unique_key_that_is_held_is_answered_with_its_job(postgres_url, redis_url, made):
    for url in (postgres_url, redis_url):
        ask = made(url).tasks["ask"].using(unique_key="k")
        first = ask.enqueue("a")
        assert (ask.enqueue("b").created, ask.enqueue("b").id) == (False, first.id)


def test_jobs_of_a_signing_app_are_signed_by_plain_code_too(postgres_url, redis_url, made):
    for url in (postgres_url, redis_url):
        app = made(url, signing_keys=["a key of at least so many characters"])
        job = app.tasks["ask"].enqueue("a").info()
        assert app.access._producer is not None
        assert app.keys.refusal(job.id, job.task, job.body) is None


def test_what_postgres_refuses_is_left_to_the_store(postgres_url, made):
    ask = made(postgres_url).tasks["ask"]
    ask.enqueue("first")
    with connected(postgres_url) as other:
        other.execute("ALTER SEQUENCE counter RENAME TO gone")
        with pytest.raises(StoreError, match=r"refused: .*counter"):
            ask.enqueue("a")
        other.execute("ALTER SEQUENCE gone RENAME TO counter")
    assert ask.enqueue("b").created
