"""The schema: who makes it, and what is refused."""

import asyncio
import os
import socket
from urllib.parse import urlsplit

import psycopg
import pytest

from mulligan.core.errors import StoreError
from mulligan.core.limits import Limit
from mulligan.stores.postgres import PostgresStore
from mulligan.stores.postgres.schema import DROP_FUNCTIONS, VERSION, known
from tests.contract.builders import claim, done, job, jobs, names
from tests.store_kit import with_query
from tests.stores.postgres.kit import connected, opened, schema_of, server_of, sqlalchemy_engine


@pytest.mark.parametrize("by_hand", [False, True])
async def test_eight_clients_migrate_a_new_schema_at_once(url, by_hand):
    if by_hand:
        with connected(url) as connection:
            connection.execute(f"CREATE SCHEMA {schema_of(url)}".encode())
    stores = [PostgresStore(url) for _ in range(8)]
    await asyncio.gather(*(each.open() for each in stores))
    with connected(url) as connection:
        rows = connection.execute("SELECT version FROM schema_version").fetchall()
    assert rows == [(VERSION,)]
    await asyncio.gather(*(each.close() for each in stores))


async def test_a_schema_of_another_version_is_refused(store, url):
    with connected(url) as connection:
        connection.execute("UPDATE schema_version SET version = 999")
    refused = rf"version 999, made by another mulligan.*knows version {VERSION}: use the release"
    for read_only in (False, True):
        with pytest.raises(StoreError, match=refused):
            await PostgresStore(url).open(read_only=read_only)


async def test_a_table_of_jobs_without_a_version_is_refused_and_left_alone(store, url):
    await store.enqueue(jobs("a"))
    with connected(url) as connection:
        connection.execute("DELETE FROM schema_version")
    with pytest.raises(StoreError, match=r"has a table job and no version .*another \?schema="):
        await PostgresStore(url).open()
    assert await store.get("a") is not None


async def test_making_a_schema_changes_nothing_if_it_fails(url):
    with connected(url) as connection:
        schema = schema_of(url)
        connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.waiting ()".encode())
    with pytest.raises(StoreError, match="already exists"):
        await PostgresStore(url).open()
    with connected(url) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]
        )
        assert tables.fetchall() == [("waiting",)]


async def test_functions_of_another_build_of_the_same_version_are_made_anew(store, url):
    with connected(url) as connection:
        connection.execute("CREATE OR REPLACE FUNCTION purge(ids text[]) RETURNS boolean[]"
                           " LANGUAGE sql AS 'SELECT NULL::boolean[]'")  # fmt: skip
        connection.execute("UPDATE schema_version SET functions = 'other'")
        async with opened(url) as again:
            assert await again.purge(["a"]) == [False]
        digests = connection.execute("SELECT functions FROM schema_version")
        assert digests.fetchone() == (known().functions,)


async def test_a_role_that_may_not_make_functions_goes_on_with_those_there_are(store, url, caplog):
    with connected(url) as connection:
        connection.execute("UPDATE schema_version SET functions = 'other'")
        connection.execute("CREATE ROLE lodger LOGIN")
        try:
            schema = schema_of(url)
            for grant in (
                f"USAGE ON SCHEMA {schema}",
                f"ALL ON ALL TABLES IN SCHEMA {schema}",
                f"ALL ON ALL SEQUENCES IN SCHEMA {schema}",
            ):
                connection.execute(f"GRANT {grant} TO lodger".encode())
            parts = urlsplit(url)
            host = parts.netloc.rpartition("@")[2]
            async with opened(parts._replace(netloc=f"lodger@{host}").geturl()) as theirs:
                await theirs.enqueue(jobs("a"))
        finally:
            connection.execute("DROP OWNED BY lodger; DROP ROLE lodger")
    assert "let their owner run: mulligan migrate" in caplog.text


async def test_a_process_that_runs_an_older_release_is_told_to_restart(store, url):
    with connected(url) as connection:
        connection.execute("ALTER PROCEDURE accept_one RENAME TO accept_otherwise")
        with pytest.raises(StoreError, match=r"refused: procedure .*accept_one.* does not exist"):
            await store.enqueue(jobs("a"))
        connection.execute("UPDATE schema_version SET version = 999")
        with pytest.raises(StoreError) as error:
            await store.enqueue(jobs("a"))
    said = str(error.value)
    assert "has now version 999" in said
    assert f"process {os.getpid()} on {socket.gethostname()} still runs a mulligan" in said
    assert f"knows version {VERSION}; restart this process" in said


async def test_old_functions_go_though_some_take_others_along(store, url):
    left = "SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
    with connected(url) as connection:
        assert connection.execute(left).fetchone() != (0,)
        connection.execute(DROP_FUNCTIONS)
        assert connection.execute(left).fetchone() == (0,)


@pytest.mark.prove  # to make a database takes long on a busy disk
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
async def test_a_database_that_is_not_utf8_is_refused(url, encoding):
    name = f"{schema_of(url)}_{encoding.lower()}"
    with psycopg.connect(server_of(url), autocommit=True) as connection:
        made = f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        connection.execute(made.encode())
        try:
            other = urlsplit(url)._replace(path=f"/{name}").geturl()
            for read_only in (False, True):
                store = PostgresStore(other)
                said = (
                    rf"database '{name}' is encoded in {encoding}, .* needs UTF8; .*CREATE DATABASE"
                )
                with pytest.raises(StoreError, match=said):
                    await store.open(read_only=read_only)
                await store.close()
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


async def test_people_read_the_overview_with_any_search_path(store, url):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    await store.enqueue([job("a"), job("b", limits='{"k":1}'), job("c", limits='{"k":1}')])
    await claim(store, demand=3)
    view = psycopg.sql.Identifier(schema_of(url), "overview")
    for path in ("public", "pg_catalog"):
        with psycopg.connect(server_of(url), options=f"-c search_path={path}") as connection:
            asked = psycopg.sql.SQL("SELECT id, status, waits_for FROM {} ORDER BY id").format(view)
            rows = connection.execute(asked).fetchall()
        assert rows == [
            ("a", "processing", None), ("b", "processing", None), ("c", "pending", "k"),
        ]  # fmt: skip


async def test_a_schema_may_have_an_odd_name(url):
    odd = with_query(server_of(url), schema=f'{schema_of(url)}_"%s: é')
    async with opened(odd) as store:
        await store.enqueue(jobs("a"))
        [first] = (await claim(store)).claims
        assert await store.commit([done(first)]) == ["written"]
        with psycopg.connect(server_of(url)) as connection:
            assert store.enqueue_in(connection, jobs("b")) == [("b", True)]
        with sqlalchemy_engine(url).begin() as connection:
            assert store.enqueue_in(connection, jobs("c")) == [("c", True)]
        assert names(await claim(store, demand=5)) == ["b", "c"]
    with psycopg.connect(server_of(url), autocommit=True) as connection:
        name = psycopg.sql.Identifier(schema_of(odd))
        connection.execute(psycopg.sql.SQL("DROP SCHEMA {} CASCADE").format(name))
