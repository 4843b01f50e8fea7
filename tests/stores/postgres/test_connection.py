"""Connections: how they are set up, how long they wait, and losing the server."""

import asyncio

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from mulligan.core.errors import InvalidError, StoreUnavailableError
from mulligan.stores.postgres import PostgresStore, session
from mulligan.stores.postgres.connection import options_of
from mulligan.stores.postgres.url import read_url
from tests.contract.builders import ANN, again, begin, claim, done, job, jobs, names
from tests.store_kit import with_query
from tests.stores.postgres.kit import (
    connected,
    end_backends,
    opened,
    use_everything,
)


async def test_what_a_role_or_database_is_set_to_changes_nothing(url):
    settings = "-c client_encoding=LATIN1 -c standard_conforming_strings=off -c array_nulls=off"
    async with opened(with_query(url, options=settings)) as store:
        names_ = ["a→b", "back\\slash", 'quo"te']
        await store.enqueue([job(name, unique_key=None) for name in names_])
        await store.enqueue([job("key", unique_key="k→"), job("plain")])
        claimed = (await claim(store, demand=9)).claims
        assert [each.id for each in claimed] == [*names_, "key", "plain"]
        verdicts = await store.commit([again(claimed[0]), *(done(each) for each in claimed[1:])])
        assert verdicts == ["written"] * 5
        assert names(await claim(store, demand=9)) == ["a→b"]
        for each in (store._database.pool, store._database.claim_pool, store._database.sink_pool):
            async with each.use() as connection:
                for name, value in PINNED.items():
                    row = await (await connection.execute(f"SHOW {name}".encode())).fetchone()
                    assert row == (value,), name


LEVELS = ["repeatable read", "serializable"]
SEE_ISOLATION = """
CREATE FUNCTION refuse_isolation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION '% of % at %', TG_OP, TG_TABLE_NAME,
            current_setting('transaction_isolation');
    END IF;
    RETURN NULL;
END $$;
"""
EVERY_TABLE = (
    "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace ="
    " (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
)


@pytest.fixture(params=["direct", "pooled"])
def way(request) -> None:
    """With a session of the store's own, and with one that may be a pooler's."""
    if request.param == "pooled":
        request.getfixturevalue("seen_as_pooler")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("level", LEVELS)
async def test_every_write_is_read_committed_whatever_the_database_is_set_to(url, level):
    async with opened(url):
        pass
    with connected(url) as connection:
        connection.execute(SEE_ISOLATION)
        for [table] in connection.execute(EVERY_TABLE).fetchall():
            connection.execute(
                f"CREATE TRIGGER isolation BEFORE INSERT OR UPDATE OR DELETE ON {table}"
                " FOR EACH STATEMENT EXECUTE FUNCTION refuse_isolation()".encode()
            )
    ordinary = f"-c default_transaction_isolation={level.replace(' ', chr(92) + ' ')}"
    await use_everything(with_query(url, options=ordinary))


PINNED = {"client_encoding": "UTF8", "standard_conforming_strings": "on", "array_nulls": "on"}


@pytest.mark.timeout(180)
async def test_a_restart_of_the_server_is_survived(own_server):
    async with opened(own_server.url) as store:
        [first] = await begin(store, job("a"))
        await claim(store)
        sleeping = asyncio.create_task(store.wait(ANN, 60))
        await asyncio.sleep(0)
        own_server.kill()
        with pytest.raises(StoreUnavailableError):
            await sleeping
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                await store.enqueue(jobs("b"))
        own_server.start()
        assert await store.commit([again(first)]) == ["written"]
        await store.enqueue(jobs("b"))
        assert sorted(names(await claim(store, demand=5))) == ["a", "b"]
        sleeping = asyncio.create_task(store.wait(ANN, 60))
        await asyncio.sleep(0)
        await store.enqueue(jobs("c"))
        await asyncio.wait_for(sleeping, 5)


async def test_a_connection_that_the_server_ended_while_it_was_idle_is_not_used_again(store, url):
    await store.enqueue(jobs("a"))
    idle = [each.info.backend_pid for each in store._database.pool._idle]
    with connected(url) as other:
        end_backends(other, "pid = ANY(%s)", idle)
    assert idle
    assert (await store.get("a")).id == "a"


async def test_a_statement_that_is_not_answered_in_time_is_given_up_with_its_connection(store):
    await store._database.pool.close()
    await claim(store)
    assert store._database.claim_pool._idle != []
    async with store._database.pool.use() as connection:
        connection.answer_within = 0.1
        connection._look()  # which else looks when the time is up that it was connected with
        with pytest.raises(StoreUnavailableError, match=r"no answer within 0\.1 s"):
            # whose snapshot the server keeps meanwhile: no table can be vacuumed
            await store._database.pool.run("SELECT pg_sleep(2)", on=connection)
    assert connection.closed
    for each in store._database.pools:
        assert each._idle == [], "the same server or network is silent on all"
    await store.enqueue(jobs("a"))


def test_the_kernel_gives_up_a_silent_network_unless_the_url_says_when():
    conninfo, _ = options_of(read_url("postgresql://host/db?answer_within=7.5"))
    found = conninfo_to_dict(conninfo)
    assert found["tcp_user_timeout"] == "7501"
    assert {name: found[name] for name in found if name.startswith("keepalives")} == {
        "keepalives_idle": "5",
        "keepalives_interval": "2",
        "keepalives_count": "3",
    }
    conninfo, _ = options_of(read_url("postgresql://host/db?keepalives_idle=60&tcp_user_timeout=0"))
    found = conninfo_to_dict(conninfo)
    assert (found["keepalives_idle"], found["tcp_user_timeout"]) == ("60", "0")


async def test_each_statement_has_the_time_that_the_url_gives(url):
    brief = with_query(url, answer_within="7.5")
    async with opened(brief) as store, store._database.pool.use() as connection:
        assert connection.answer_within == 7.5
        assert await lock_timeout(connection) == "6751ms"


async def lock_timeout(connection: psycopg.AsyncConnection) -> str:
    """How long the server lets the connection wait for a lock."""
    [shown] = await (await connection.execute("SHOW lock_timeout")).fetchone() or [""]
    return str(shown)


async def test_a_lock_is_not_waited_for_when_nobody_listens_any_more(store, url, monkeypatch):
    monkeypatch.setattr(session, "LOCKS", 0.003)
    [held] = await begin(store, job("a"))
    async with opened(url) as other:
        with connected(url) as another_program, another_program.transaction():
            another_program.execute("SELECT FROM job FOR UPDATE")
            with pytest.raises(StoreUnavailableError, match="lock timeout"):
                await other.commit([done(held)])
        assert [each.closed for each in other._database.pool._idle] == [False]
        assert await other.commit([done(held)]) == ["written"]


async def test_what_may_rightly_take_long_has_no_limit(store):
    """The work of a user, for one."""
    [held] = await begin(store, *jobs("a"))

    async def work(connection) -> None:
        assert await lock_timeout(connection) == "0"
        asked = asyncio.ensure_future(connection.execute("SELECT pg_sleep(0.1)"))
        await asyncio.sleep(0)
        connection.answer_within = 0.0
        connection._look()
        await asked
        connection.answer_within = 30.0

    assert await store.commit_within(done(held), work) == "written"


AWAY = "postgresql://me:hunter2@127.0.0.1:1/nowhere"


async def test_credentials_are_not_in_errors():
    for away in (AWAY, f"{AWAY}?connect_timeout=1", AWAY.replace("127.0.0.1:1", "[half")):
        try:
            await PostgresStore(away).open()
        except (StoreUnavailableError, InvalidError, ValueError) as error:
            shown = f"{error!r} {error.__cause__!r}"
            assert "hunter2" not in shown
        else:
            pytest.fail("there is no server there")


async def test_a_server_that_is_away_is_named():
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:1/nowhere cannot be reached"):
        await PostgresStore(AWAY).open()


async def test_a_connection_in_use_while_its_store_is_closed_is_closed_when_it_is_given_back(store):
    async with store._database.pool.use() as connection:
        await store.close()
        assert not connection.closed
    assert connection.closed
    await store.open()
    await store.stats()
    assert [each.closed for each in store._database.pool._idle] == [False]
