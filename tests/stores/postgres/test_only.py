"""What only the PostgreSQL store does: its schema, its transactions, its wake-ups, its poolers."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from sqlalchemy.orm import Session

from mulligan.core.counts import Count
from mulligan.core.errors import InvalidError, StoreError, StoreUnavailableError
from mulligan.core.job import Lease, decode_call, decode_policy
from mulligan.core.lane import Lane
from mulligan.core.outcome import Done, Returned
from mulligan.core.page import Selection
from mulligan.core.plan import ClaimPlan
from mulligan.core.retry import Retry
from mulligan.core.worker import Worker
from mulligan.stores.postgres import PostgresStore, _connections, _doctor, _statements, _sweep
from mulligan.stores.postgres._arrays import packed_bytes, packed_texts, texts
from mulligan.stores.postgres._commit import TOGETHER
from mulligan.stores.postgres._encode import packed_columns
from mulligan.stores.postgres._migrate import DROP_FUNCTIONS, known, newest, tables
from mulligan.stores.postgres._statements import Statements
from tests.contract.comparison import Comparison
from tests.contract.drawing import program
from tests.contract.making import (
    ANN,
    BOB,
    FRESH,
    again,
    begin,
    claim,
    dead,
    done,
    group,
    in_turn,
    job,
    jobs,
    names,
    one_tier,
    walk,
)
from tests.contract.sleeping import woken
from tests.databases import PostgresServer, Unavailable, _debian
from tests.databases._server import LOOPBACK, accepts, free_port, until
from tests.reuse import reused_url
from tests.store_kit import VirtualClock, fresh_url, handle, require, with_query

AWAY = "postgresql://me:hunter2@127.0.0.1:1/nowhere"


@pytest.fixture
async def url(request, tmp_path) -> AsyncIterator[str]:
    """The URL of an empty store; new if the test opens it itself."""
    require("postgres")
    reuse = "store" in request.fixturenames
    async with reused_url("postgres") if reuse else fresh_url("postgres", tmp_path) as empty:
        yield empty


@pytest.fixture
async def store(url) -> AsyncIterator[PostgresStore]:
    async with opened(url) as fresh:
        yield fresh


class opened:  # noqa: N801 - reads as a word
    """An open store on the server's own clock."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url)

    async def __aenter__(self) -> PostgresStore:
        await self.store.open()
        return self.store

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()


def server_of(url: str) -> str:
    return urlsplit(url)._replace(query="").geturl()


def schema_of(url: str) -> str:
    return PostgresStore(url)._place.schema


@contextmanager
def connected(url: str, **options) -> Iterator[psycopg.Connection]:
    """A plain connection whose search path is the store's schema."""
    with psycopg.connect(server_of(url), autocommit=True, **options) as connection:
        path = psycopg.sql.Identifier(schema_of(url))
        connection.execute(psycopg.sql.SQL("SET search_path TO {}").format(path))
        yield connection


@contextmanager
def of_version(url: str, version: int) -> Iterator[psycopg.Connection]:
    """A connection to a store of an older schema, without functions."""
    with psycopg.connect(server_of(url), autocommit=True) as connection:
        name = psycopg.sql.Identifier(schema_of(url))
        connection.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(name))
    with connected(url) as connection:
        for file in tables()[:version]:
            connection.execute(file.read_bytes())
        connection.execute(
            "CREATE TABLE migration (version integer PRIMARY KEY, applied_at timestamptz)"
        )
        connection.execute(
            "INSERT INTO migration SELECT generate_series(1, %s::integer)", (version,)
        )
        yield connection


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may kill."""
    require("postgres")
    with PostgresServer() as server:
        yield server


async def waited_for(true: Callable[[], bool]) -> None:
    """Return when it is true."""
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - what another process does is polled
            await asyncio.sleep(0.01)


# -- the schema --------------------------------------------------------------------------------


async def test_eight_clients_migrate_a_new_schema_at_once(url):
    stores = [PostgresStore(url) for _ in range(8)]
    await asyncio.gather(*(each.open() for each in stores))
    with connected(url) as connection:
        rows = connection.execute("SELECT version FROM migration").fetchall()
    assert rows == [(version,) for version in range(1, newest() + 1)]
    await asyncio.gather(*(each.close() for each in stores))


async def test_a_schema_of_a_newer_release_is_refused(store, url):
    with connected(url) as connection:
        connection.execute("INSERT INTO migration (version) VALUES (999)")
    with pytest.raises(StoreError, match=r"version 999, made by a newer mulligan.*upgrade"):
        await PostgresStore(url).open()


OLD_JOBS = """
    INSERT INTO job (place, sequence, due, created_at, priority, lane_priority, queue, scope,
                     region, task, body, started_at, leased_at, id, expires_at, token, status,
                     worker, concurrency_key, held, awaits, unique_key)
    SELECT nextval('counter'), currval('counter'), 0, 0, 0, 0, 'default', 'default', 'default',
           't', '{}', 0, 0, old.*
    FROM (VALUES ('fresh', NULL, 0, 'pending', NULL, NULL, false, 0, 'key'),
                 ('running', NULL, 3, 'processing', 'ann', 'one', false, 0, NULL),
                 ('held', NULL, 0, 'pending', NULL, 'one', true, 0, NULL),
                 ('gathers', NULL, 0, 'pending', NULL, NULL, true, 1, NULL),
                 ('late', 1, 0, 'pending', NULL, NULL, false, 0, NULL)) AS old;
    UPDATE job SET permits = 'key:one' WHERE id = 'running';
    INSERT INTO gate (key, used) VALUES ('key:one', 1);
    INSERT INTO ended (place, sequence, due, created_at, ended_at, token, committed, retry_count,
                       replay, snoozes, failures, concurrency_limit, awaits, gather_index, priority,
                       lane_priority, queue, scope, region, task, trail, body, id, status, result)
    SELECT nextval('counter'), 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 'default', 'default',
           'default', 't', '', '{}', old.*
    FROM (VALUES ('done', 'done', '1'::bytea), ('failed', 'failed', NULL)) AS old
"""


async def test_a_store_of_the_first_schema_goes_on_where_it_stood(url):
    with of_version(url, 1) as connection:
        connection.execute(OLD_JOBS)
    async with opened(url) as store:
        assert await store.enqueue([job("same", unique_key="key")]) == [("fresh", False)]
        assert names(await claim(store, demand=9)) == ["fresh"], "held, gathering and late are not"
        assert await store.commit([Done(Lease("running", 2))]) == ["stale"]
        assert await store.commit([Done(Lease("running", 3))]) == ["written"]
        assert await store.commit([Done(Lease("running", 3))]) == ["already"]
        assert names(await claim(store, demand=9)) == ["held"]
        assert await store.replay(["failed", "done"]) == [True, False]
        assert await store.prune(0.0, 9) == 3, "done, running and late"
        await store.enqueue(jobs("running"))
        claimed = await claim(store, demand=9)
        assert names(claimed) == ["failed", "running"]
        assert claimed.claims[1].token > 3
        [gathers] = (await store.page(Selection(status="pending"), 9)).jobs
        assert (gathers.id, gathers.awaits, gathers.held) == ("gathers", 1, False)


KEPT_JOBS = """
    INSERT INTO job (place, sequence, due, created_at, token, priority, lane_priority, scope,
                     region, task, body, ended_at, id, queue, status, dead)
    SELECT nextval('counter'), 0, 0, 0, 0, 0, 0, 'default', 'default', 't', '{}', 1, old.*
    FROM (VALUES ('a', 'default', 'done', NULL), ('b', 'default', 'done', NULL),
                 ('c', 'default', 'failed', true), ('d', 'mail', 'cancelled', NULL)) AS old;
    INSERT INTO ended (number, ended_at, ids) VALUES (nextval('counter'), 1, '{a,b,d}')
"""
# As functions of the fourth schema ended a job.
OLD_END = """
    CREATE FUNCTION end_one(in_id text) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT
    AS $$
    BEGIN
        UPDATE job SET status = 'done', ended_at = 1 WHERE id = in_id;
        INSERT INTO ended (number, ended_at, ids) VALUES (nextval('counter'), 1, ARRAY[in_id]);
    END
    $$
"""


async def test_a_store_of_the_fourth_schema_counts_what_it_keeps(url):
    with of_version(url, 4) as connection:
        connection.execute(KEPT_JOBS)
    async with opened(url) as store:
        assert (await store.stats()).ended == {
            ("default", "done"): 2, ("default", "failed"): 1, ("mail", "cancelled"): 1
        }  # fmt: skip
        assert await store.replay(["c"]) == [True]
        assert await store.prune(0.0, 2) == 2
        assert sum((await store.stats()).ended.values()) == 1
        assert await store.prune(0.0, 2) == 1
        assert (await store.stats()).ended == {}


async def test_what_an_older_function_ends_during_the_migration_is_not_miscounted(url):
    with of_version(url, 4) as first, connected(url) as second:
        first.execute(KEPT_JOBS)
        first.execute(OLD_END)
        first.execute("UPDATE job SET status = 'processing', ended_at = NULL WHERE id = 'b'")
        waits = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'job'::regclass"
        second.execute("BEGIN; UPDATE job SET task = 'u' WHERE id = 'd'")
        migrating = PostgresStore(url)
        opening = asyncio.create_task(migrating.open())
        await waited_for(lambda: len(second.execute(waits).fetchall()) == 1)
        ending = asyncio.create_task(
            asyncio.to_thread(first.execute, "SELECT end_one('b')"),
        )
        await waited_for(lambda: len(second.execute(waits).fetchall()) == 2)
        second.execute("COMMIT")
        await opening
        with pytest.raises(psycopg.errors.UndefinedColumn):
            await ending
        job_b = await migrating.get("b")
        assert job_b is not None
        assert job_b.status == "processing", "what the older function did is undone"
        assert sum((await migrating.stats()).ended.values()) == 3
        await migrating.close()


async def test_functions_are_made_anew_with_a_migration(store, url):
    await store.enqueue(jobs("a"))
    with connected(url) as connection:
        connection.execute("DELETE FROM migration")
        connection.execute("CREATE OR REPLACE FUNCTION purge(ids text[]) RETURNS boolean[]"
                           " LANGUAGE sql AS 'SELECT NULL::boolean[]'")  # fmt: skip
        connection.execute("ALTER TABLE state RENAME TO kept_aside")
    with pytest.raises(StoreError, match="already exists"):
        await PostgresStore(url).open()
    assert await store.get("a") is not None, "a migration that fails changes nothing"


async def test_functions_of_another_build_of_the_same_version_are_made_anew(store, url):
    with connected(url) as connection:
        connection.execute("CREATE OR REPLACE FUNCTION purge(ids text[]) RETURNS boolean[]"
                           " LANGUAGE sql AS 'SELECT NULL::boolean[]'")  # fmt: skip
        connection.execute("UPDATE migration SET functions = 'other'")
        async with opened(url) as again:
            assert await again.purge(["a"]) == [False]
        digests = connection.execute(
            "SELECT functions FROM migration WHERE version = %s", (newest(),)
        )
        assert digests.fetchone() == (known().functions,)


async def test_a_role_that_may_not_make_functions_goes_on_with_those_there_are(store, url, caplog):
    with connected(url) as connection:
        connection.execute("UPDATE migration SET functions = 'other'")
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
        connection.execute("ALTER PROCEDURE accept RENAME TO accept_otherwise")
        with pytest.raises(StoreError, match=r"refused: procedure .*accept.* does not exist"):
            await store.enqueue(jobs("a"))
        connection.execute("INSERT INTO migration (version) VALUES (999)")
        with pytest.raises(StoreError) as error:
            await store.enqueue(jobs("a"))
    said = str(error.value)
    assert "has now version 999" in said
    assert f"process {os.getpid()} on {socket.gethostname()} still runs a mulligan" in said
    assert f"knows version {newest()}; restart this process" in said


# -- texts -------------------------------------------------------------------------------------


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


def test_the_doctor_names_an_encoding_that_cannot_hold_every_text():
    row = (150000, "15", "LATIN1", "on", "on", 0.0, True, True, True, True)
    [finding] = [each for each in _doctor._server(*row, clock=0.0) if each[0] == "bad"]
    assert "encoded in LATIN1" in finding[1]
    assert "ENCODING 'UTF8'" in finding[2]


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
        for connections in (store._connections, store._claiming, store._working):
            async with connections.use() as connection:
                for name, value in PINNED.items():
                    row = await (await connection.execute(f"SHOW {name}".encode())).fetchone()
                    assert row == (value,), name


PINNED = {"client_encoding": "UTF8", "standard_conforming_strings": "on", "array_nulls": "on"}


async def test_functions_read_texts_alike_in_sessions_of_other_programs(store, url):
    with connected(url) as connection:
        connection.execute("SET standard_conforming_strings TO off")
        connection.execute("SET escape_string_warning TO off")
        for text in ('"a\\\\"', '"[\\"["'):
            nested = "[" * 202 + text + "]" * 202
            with pytest.raises(psycopg.Error, match="nested more than 200"):
                connection.execute("SELECT check_depth(%s::jsonb)", (nested,))
            many = "[" + ",".join([text.replace("[", "[" * 300)]) + "]"
            connection.execute("SELECT check_depth(%s::jsonb)", (many,))


async def test_notes_are_found_without_reading_the_others(store, url):
    await store.note("find/a", b"1", 600.0)
    with connected(url) as connection:
        connection.execute(
            "INSERT INTO note (key, value, until)"
            " SELECT 'other/' || n, '', 9e15 FROM generate_series(1, 5000) n"
        )
        connection.execute("ANALYZE note")
        plans = explaining(connection)
        connection.execute(store._statements["notes"].encode(), (None, "find/"))
    plan = next(text for text in plans if " on note" in text)
    assert "Seq Scan" not in plan
    assert read(1, plan)
    assert "Rows Removed" not in plan


async def test_old_functions_go_though_some_take_others_along(store, url):
    left = "SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
    with connected(url) as connection:
        assert connection.execute(left).fetchone() != (0,)
        connection.execute(DROP_FUNCTIONS)
        assert connection.execute(left).fetchone() == (0,)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("listen=maybe", "must be on or off"),
        ("schema=", "1 to 63"),
        ("answer_within=soon", "must be a number of seconds"),
        ("answer_within=0", "must be between"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(query, message):
    with pytest.raises(InvalidError, match=message):
        PostgresStore(f"postgresql://localhost/x?{query}")


async def test_other_options_go_to_the_driver(url):
    async with opened(with_query(url, application_name="mine")) as store:
        [[name]] = await store._connections.run("SELECT current_setting('application_name')")
    assert name == "mine"


async def test_people_read_the_overview_with_any_search_path(store, url):
    await store.enqueue([job("a"), job("b", concurrency_key="k"), job("c", concurrency_key="k")])
    await claim(store, demand=3)
    view = psycopg.sql.Identifier(schema_of(url), "overview")
    for path in ("public", "pg_catalog"):
        with psycopg.connect(server_of(url), options=f"-c search_path={path}") as connection:
            asked = psycopg.sql.SQL("SELECT id, status, held FROM {} ORDER BY id").format(view)
            rows = connection.execute(asked).fetchall()
        assert rows == [
            ("a", "processing", False), ("b", "processing", False), ("c", "pending", True),
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


@pytest.mark.parametrize(
    "values", [[], ["a"], ['"', "\\", ",", "{}", "NULL", " ", ""], [None, "a"], [None], ['a","b']]
)
def test_arrays_arrive_as_they_were(url, values):
    with psycopg.connect(server_of(url)) as connection:
        row = connection.execute("SELECT %s::text[]", (texts(values),)).fetchone()
    assert row == (values,)


@pytest.mark.parametrize(
    "values", [["a"], ["", ""], ["ab", "cd"], ["a", "bc"], ["é", "ü"], ["x" * 127], ["x" * 128] * 2]
)
def test_packed_arrays_arrive_as_they_were(url, values):
    encoded = [value.encode() for value in values]
    for encoding in ("utf8", "latin1"):
        with psycopg.connect(server_of(url), client_encoding=encoding) as connection:
            row = connection.execute(
                "SELECT %s::text[], %s::bytea[]", (packed_texts(values), packed_bytes(encoded))
            ).fetchone()
        assert row == (values, encoded)


KEPT = """
    SELECT queue, status, sum(many) FROM (
        SELECT queue, status, many FROM kept
        UNION ALL SELECT queue, status, many FROM kept_change
    ) k GROUP BY 1, 2 HAVING sum(many) <> 0"""
RECOUNTED = """
    SELECT queue, status, count(*) FROM job WHERE ended_at IS NOT NULL GROUP BY 1, 2"""
# Rows that contradict each other: what one table says of a job, another must know.
CONTRADICTIONS = {
    "stands where it should not, or not where it should": """
        SELECT j.id FROM job j LEFT JOIN waiting w ON w.id = j.id
        WHERE (j.status = 'pending') <> (w.id IS NOT NULL) OR (w.id IS NOT NULL AND (
            NOT stands(w, j) OR w.delayed <> j.delayed OR (j.awaits > 0 AND NOT w.held)
            OR w.expires_at IS DISTINCT FROM expires(j)
            OR w.concurrency_key IS DISTINCT FROM CASE WHEN j.awaits = 0 THEN j.concurrency_key END
        ))""",
    "stands twice, or is no job": """
        SELECT id FROM waiting w GROUP BY id
        HAVING count(*) > 1 OR NOT EXISTS (SELECT FROM job j WHERE j.id = w.id)""",
    "is held by nobody": """
        SELECT j.id FROM job j WHERE j.status = 'processing' AND NOT EXISTS (
            SELECT FROM claimed c WHERE c.number = j.claimed AND j.id = ANY (c.ids))""",
    "is a claim that counts wrongly": """
        SELECT c.number::text FROM claimed c WHERE c.open <> (
            SELECT count(*) FROM job j WHERE j.claimed = c.number AND j.status = 'processing')""",
    "would never be pruned": """
        SELECT j.id FROM job j WHERE j.status IN ('done', 'cancelled') AND NOT EXISTS (
            SELECT FROM ended e WHERE e.ended_at = j.ended_at AND j.id = ANY (e.jobs))""",
    "has not ended as it says": """
        SELECT j.id FROM job j WHERE (j.ended_at IS NULL) <> (j.status IN ('pending', 'processing'))
           OR (j.dead IS TRUE) <> (j.status = 'failed')
           OR j.open_key IS DISTINCT FROM CASE WHEN j.ended_at IS NULL THEN j.unique_key END""",
    "is kept and not counted, or counted and not kept": f"""
        {KEPT} EXCEPT {RECOUNTED} UNION ALL ({RECOUNTED} EXCEPT {KEPT})""",
}


class Examined(Comparison):
    """A store whose tables are looked at whenever its jobs are counted."""

    def count(self):
        super().count()
        with connected(self.pair.other.url) as connection:
            found = {
                words: connection.execute(rows.encode()).fetchall()
                for words, rows in CONTRADICTIONS.items()
            }
        assert not any(found.values()), found


@pytest.mark.parametrize("seed", range(4))
def test_no_table_contradicts_another(seed, tmp_path):
    require("postgres")
    Examined("postgres", tmp_path).run(program(Random(seed), 80))


# -- the cost of a claim -----------------------------------------------------------------------


async def test_a_claim_touches_only_what_it_takes(url):
    clock = VirtualClock()
    async with handle(url, clock) as store:
        for name in range(5):
            first = await begin(store, *jobs(*(f"{name}-{n}" for n in range(200))))
            ends = [dead(each) if each.id.endswith("7") else done(each) for each in first]
            await store.commit(ends)
        await store.enqueue(jobs(*(f"later {n}" for n in range(900)), delay=60.0))
        await store.enqueue(jobs(*(f"now {n}" for n in range(900))))
        plan = in_turn(10, group(FRESH))
        epoch = (await store.facts()).epoch
        with connected(url) as connection:
            rows, plans = explained(connection, store, plan, epoch)
    assert len(rows) == 11
    lanes = [text for text in plans if "waiting_lane" in text]
    assert any("Index Scan using waiting_lane" in text and read(10, text) for text in lanes)
    assert not any("Seq Scan on job" in text or "Seq Scan on waiting" in text for text in plans)


async def test_jobs_are_looked_up_by_id_though_the_planner_believes_that_there_are_none(url):
    async with handle(url, VirtualClock()) as store:
        await begin(store, *jobs(*(f"{n}" for n in range(300))))
        epoch = (await store.facts()).epoch
        with connected(url) as connection:
            connection.execute("DELETE FROM job")
            connection.execute("VACUUM ANALYZE job")
            for many in (1, 300):
                await store.enqueue(jobs(*(f"{many} {n}" for n in range(many))))
                plan = in_turn(min(many, 10), group(FRESH))
                [_, *claimed], plans = explained(connection, store, plan, epoch)
                leases = [row[2] for row in claimed], [row[3] for row in claimed]
                finish = Statements(schema_of(url))["finish"]
                connection.execute(finish.encode(), (None, *leases, None))
    updates = [text for text in plans if "Update on job" in text]
    assert len(updates) == 2
    for text in updates:
        assert "Index Scan using job_pkey on job" in text
        assert read(1, text, loops=10)


def read(rows: int, plan: str, loops: int = 1) -> bool:
    """Whether a plan says that so many rows were read; from PostgreSQL 18 on with decimals."""
    return re.search(rf"rows={rows}(\.00)? loops={loops}\)", plan) is not None


def explained(connection, store, plan, epoch) -> tuple[list[Any], list[str]]:
    """What a claim of this plan gives, and the plans of everything that it runs on the server."""
    from mulligan.core.plan import ClaimPlan  # noqa: PLC0415
    from mulligan.stores.postgres import _encode  # noqa: PLC0415
    from mulligan.stores.postgres._store import _me  # noqa: PLC0415

    current = ClaimPlan(plan.demand, plan.groups, plan.steps, epoch)
    found = explaining(connection)
    rows = connection.execute(
        store._statements["claim"],
        (
            *(1_000_000_000_000, _me(ANN), "channel", epoch, current.demand),
            *_encode.plan_arrays(current),
        ),
    ).fetchall()
    return rows, found


def explaining(connection) -> list[str]:
    """Where the plans of everything that runs on the connection from now on are put."""
    found: list[str] = []
    connection.add_notice_handler(lambda notice: found.append(notice.message_primary or ""))
    connection.execute("LOAD 'auto_explain'")
    for option in ("log_min_duration = 0", "log_nested_statements = on", "log_analyze = on"):
        connection.execute(f"SET auto_explain.{option}")
    connection.execute("SET client_min_messages = log")
    return found


async def test_what_is_kept_is_known_without_looking_at_jobs(url):
    async with opened(url) as store:
        ends = await begin(store, *jobs(*(f"j{n}" for n in range(300))))
        await store.commit([done(each) for each in ends[:290]])
        with connected(url) as connection:
            connection.execute("ANALYZE")
            plans = explaining(connection)
            connection.execute(store._statements["stats"].encode(), (None,))
    read = "\n".join(plans)
    assert "Scan on kept_change" in read
    assert "Seq Scan on job" not in read
    assert "Index Scan using job_pkey on job" in read, "what is running is looked up"


async def test_counts_hold_while_many_end_prune_and_fold_at_once(url):
    stores = [PostgresStore(url) for _ in range(4)]
    for each in stores:
        await each.open()

    async def churn(number: int, store: PostgresStore) -> None:
        for turn in range(8):
            names_ = [f"{number}-{turn}-{n}" for n in range(6)]
            await store.enqueue(jobs(*names_, queue=f"q{turn % 2}"))
            cancelled = await store.cancel(names_[:2], "enough")
            assert cancelled == [True, True]
            await store.prune(0.0 if turn % 3 else 3600.0, 3)
            await store.purge(names_[:1])

    await asyncio.gather(*(churn(number, each) for number, each in enumerate(stores)))
    with connected(url) as connection:
        recounted = {(q, s): many for q, s, many in connection.execute(RECOUNTED.encode())}
    assert (await stores[0].stats()).ended == recounted
    await stores[0].prune(3600.0, 1)
    with connected(url) as connection:
        assert connection.execute("SELECT count(*) FROM kept_change").fetchone() == (0,)
    assert (await stores[0].stats()).ended == recounted
    for each in stores:
        await each.close()


async def test_a_commit_that_waited_for_a_reclaim_is_stale(store, url):
    [first] = await begin(store, *jobs("a"))
    with connected(url) as connection:
        waits = "SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
        connection.execute("BEGIN; UPDATE job SET token = token + 1 WHERE id = 'a'")
        committing = asyncio.create_task(store.commit([done(first)]))
        await waited_for(lambda: bool(connection.execute(waits).fetchall()))
        connection.execute("COMMIT")
    assert await committing == ["stale"]
    reclaimed = await store.get("a")
    assert reclaimed is not None
    assert reclaimed.status == "processing"


async def test_a_claim_and_a_commit_change_a_job_in_place(url):
    async with opened(url) as store:
        await store.commit([done(each) for each in await begin(store, *jobs("a", "b", "c"))])
    changed = (
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'job'::regclass"
    )
    with connected(url) as connection:
        assert until(lambda: connection.execute(changed).fetchone() == (6, 6), 10)


async def test_old_counts_are_not_read_and_go_when_it_is_time(url):
    clock = VirtualClock()
    async with handle(url, clock) as store:
        with connected(url) as connection:
            connection.execute(
                "INSERT INTO slot (queue, region, name, start, value)"
                " SELECT 'q', 'US', 'failed', n * 5e6, 1 FROM generate_series(1, 5000) n"
            )
            await store.count([Count("q", "US", "failed", 1)])
            plans = explaining(connection)
            values = (int(clock.now * 1e6), 60_000_000)
            connection.execute(PostgresStore(url)._statements["facts"].encode(), values)
            read = [text for text in plans if "slot_" in text]
            assert read
            assert not any("rows=5000" in text or "Seq Scan on slot" in text for text in read)
            await store.prune(0.0, 1000)
            assert connection.execute("SELECT count(*) FROM slot").fetchone() == (1,)


async def test_tables_do_not_grow_at_a_constant_backlog(url, monkeypatch):
    monkeypatch.setattr(_sweep, "EVERY", 1000)
    sizes = []
    async with opened(url) as store:
        await store.enqueue(jobs(*(f"first {n}" for n in range(100))))
        for turn in range(160):
            await store.enqueue(jobs(*(f"{turn}-{n}" for n in range(100))))
            claimed = await claim(store, demand=100)
            await store.commit([Done(each.lease) for each in claimed.claims])
            await store.prune(0.0, 1000)
            if turn in (39, 159):
                await store._sweeper.close()
                with connected(url) as connection:
                    size = "SELECT sum(pg_total_relation_size(x::regclass))"
                    row = connection.execute(
                        f"{size} FROM unnest(ARRAY['job', 'waiting']) AS x"
                    ).fetchone()
                    assert row is not None
                    sizes.append(row[0])
    assert sizes[1] <= 3 * sizes[0], "four times if nothing were cleared away"


# -- many at once ------------------------------------------------------------------------------


async def test_eight_clients_never_claim_a_job_twice(store, url):
    await store.enqueue(jobs(*(f"j{n}" for n in range(800))))
    seen: list[Lease] = []

    async def drain(number: int) -> None:
        worker = Worker(f"w{number}")
        async with opened(url) as mine:
            while True:
                claimed = (await walk(mine, in_turn(7, group(FRESH)), worker)).claims
                if not claimed:
                    return
                seen.extend(each.lease for each in claimed)
                assert set(await mine.commit([Done(each.lease) for each in claimed])) == {"written"}

    await asyncio.gather(*(drain(number) for number in range(8)))
    left = (await claim(store, demand=800)).claims
    seen += [each.lease for each in left]
    assert len(seen) == len(set(seen)) == 800


async def test_a_cap_holds_for_clients_at_once(store, url):
    from mulligan.core.plan import Cap  # noqa: PLC0415
    from tests.contract.making import source  # noqa: PLC0415

    await store.enqueue(jobs(*(f"j{n}" for n in range(50))))
    plan = in_turn(5, group(source(FRESH, Cap("cap", 12))))
    stores = [PostgresStore(url) for _ in range(6)]
    await asyncio.gather(*(each.open() for each in stores))
    got = await asyncio.gather(
        *(walk(each, plan, Worker(f"w{n}")) for n, each in enumerate(stores))
    )
    assert sum(len(each.claims) for each in got) == 12
    await asyncio.gather(*(each.close() for each in stores))


async def test_a_deadlock_is_tried_again(store, url):
    await store.enqueue(jobs("a", "b"))
    other = await psycopg.AsyncConnection.connect(server_of(url))
    async with other:
        lock = f'SELECT FROM "{schema_of(url)}".job WHERE id = %s FOR UPDATE'
        await other.execute("SET deadlock_timeout = '20s'")
        await other.execute(lock.encode(), ("b",))
        cancelling = asyncio.create_task(store.cancel(["a", "b"], "enough"))
        await until_waiting(url)
        await other.execute(lock.encode(), ("a",))  # now each waits for the other
    assert await cancelling == [True, True]


async def until_waiting(url: str) -> None:
    """Return when someone waits for a row lock."""
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"

    def waits() -> bool:
        return connection.execute(waiting, (f"%{schema_of(url)}%",)).fetchone() is not None

    with connected(url) as connection:
        assert await asyncio.to_thread(until, waits, 10)


@pytest.fixture
def no_second_try(monkeypatch):
    """A deadlock is not tried again but raised."""
    monkeypatch.setattr(_connections, "PASSING", frozenset())


@pytest.mark.usefixtures("no_second_try")
async def test_members_of_several_gathering_jobs_arrive_at_once_without_a_deadlock(store, url):
    groups, size = 6, 12
    new = [job(f"all {g}", queue="gathered", awaits=size) for g in range(groups)]
    for place in range(size):
        new += [job(f"m {g} {place}", gather=f"all {g}", gather_index=place) for g in range(groups)]
    await store.enqueue(new)
    claimed = (await claim(store, demand=groups * size)).claims
    stores = [PostgresStore(url) for _ in range(4)]
    await asyncio.gather(*(each.open() for each in stores))
    batches = [claimed[at::11] for at in range(11)]  # each has members of every group
    await asyncio.gather(
        *(
            stores[at % 4].commit([done(each) for each in (batch if at % 2 else batch[::-1])])
            for at, batch in enumerate(batches)
        )
    )
    complete = names(await claim(store, Lane("gathered", "default", 0), demand=100))
    assert sorted(complete) == [f"all {g}" for g in range(groups)]
    await asyncio.gather(*(each.close() for each in stores))


@pytest.mark.usefixtures("no_second_try")
async def test_members_arrive_while_others_are_cancelled_without_a_deadlock(store, url):
    # Who cancels goes up the tree, where the ids are smaller; who arrives locks by id.
    for turn in range(8):
        top, middle = f"a {turn}", f"b {turn}"
        leaves = [job(f"c {turn} {n}", gather=middle, gather_index=n, queue="q") for n in range(6)]
        tops = [job(f"d {turn} {n}", gather=top, gather_index=n + 1, queue="q") for n in range(6)]
        gatherings = [
            job(top, queue="gathered", awaits=7, concurrency_key="k"),
            job(middle, queue="gathered", awaits=6, gather=top, concurrency_key="k"),
        ]
        await store.enqueue([*gatherings, *leaves, *tops])
        claimed = (await claim(store, Lane("q", "default", 0), demand=12)).claims
        async with opened(url) as other:
            await asyncio.gather(
                store.commit([done(each) for each in claimed[::2]]),
                other.cancel([middle, claimed[1].id, top], "enough"),
                store.cancel([claimed[3].id], "enough"),
                other.commit([done(each) for each in claimed[5::2]]),
            )
        ended = [(await store.get(each)).status for each in (top, middle)]
        assert ended == ["cancelled", "cancelled"]


async def test_jobs_are_claimed_put_back_and_cancelled_at_once_without_a_deadlock(
    store, url, monkeypatch
):
    monkeypatch.setattr(_connections, "PASSING", frozenset({"40001"}))
    ids = [f"j{n}" for n in range(400)]
    await store.enqueue(jobs(*ids, concurrency_key="k", concurrency_limit=50))
    stores = [PostgresStore(url) for _ in range(4)]
    await asyncio.gather(*(each.open() for each in stores))

    async def work(mine: PostgresStore, worker: Worker) -> None:
        for _ in range(12):
            claimed = (await walk(mine, in_turn(20, group(FRESH)), worker)).claims[::-1]
            ends = [done(each) if n % 4 else Returned(each.lease) for n, each in enumerate(claimed)]
            await mine.commit(ends)

    async def cancel(mine: PostgresStore, some: list[str]) -> None:
        for turn in range(12):
            await mine.cancel(some[turn : turn + 3], "enough")
            await mine.promote(10)

    await asyncio.gather(
        work(stores[0], ANN),
        work(stores[1], BOB),
        cancel(stores[2], ids[:60:4]),
        cancel(stores[3], ids[60::-4]),
    )
    stats = await store.stats()
    assert stats.running == {}
    left = sum(lane.ready for lane in stats.lanes)
    assert left + sum(stats.ended.values()) == len(ids)
    await asyncio.gather(*(each.close() for each in stores))


@pytest.mark.usefixtures("no_second_try")
async def test_many_who_count_at_once_do_not_deadlock(store, url):
    counts = [Count(f"q{n}", "US", name, 1) for n in range(8) for name in ("failed", "succeeded")]
    stores = [PostgresStore(url) for _ in range(4)]
    await asyncio.gather(*(each.open() for each in stores))
    turns = [counts if turn % 2 else counts[::-1] for turn in range(40)]
    await asyncio.gather(*(stores[at % 4].count(turn) for at, turn in enumerate(turns)))
    assert set((await store.counts()).ever.values()) == {40.0}
    await asyncio.gather(*(each.close() for each in stores))


# -- a transaction of the caller's own ---------------------------------------------------------


# -- many batches ------------------------------------------------------------------------------

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


async def test_only_the_last_of_many_batches_waits_for_the_disk(store, url, monkeypatch):
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 2)
    await store.enqueue(jobs("x"))
    [connection] = store._connections._idle
    with connected(url) as other:
        other.execute(SEE_WHO_WAITS)
        await store.enqueue_all(jobs("a", "b", "c", "d", "e"))
        seen = other.execute("SELECT id, waits FROM seen ORDER BY id").fetchall()
    assert seen == [("a", "off"), ("b", "off"), ("c", "off"), ("d", "off"), ("e", "on")]
    assert store._connections._idle == [connection]
    shown = await (await connection.execute("SHOW synchronous_commit")).fetchone()
    assert shown == ("on",)


async def test_a_batch_that_stores_nothing_waits_for_the_disk_all_the_same(store, url):
    await store.enqueue(jobs("a", "b"))
    with connected(url) as other:
        other.execute("SET synchronous_commit = off")
        other.execute("UPDATE job SET trail = 'x' WHERE id = 'a'")
        [[end]] = other.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
        assert await store.enqueue(jobs("a", "b")) == [("a", False), ("b", False)]
        flushed = other.execute("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", (end,))
        assert flushed.fetchone() == (True,)


async def test_what_a_crash_between_two_batches_may_have_undone_is_not_said_to_be_stored(
    own_server, monkeypatch
):
    encode, encoded = packed_columns, []

    def encode_in_hard_times(batch):
        encoded.append(batch)
        if len(encoded) == 4:
            own_server.kill()
            own_server.start()
        return encode(batch)

    monkeypatch.setattr("mulligan.stores.postgres._sender.packed_columns", encode_in_hard_times)
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 1)
    new = jobs("a", "b", "c", "d", "e")
    async with opened(own_server.url) as store:
        with pytest.raises(StoreUnavailableError):
            await store.enqueue_all(new)
        assert len(encoded) >= 4, "it has crashed"
        answers = await store.enqueue_all(new)
        assert sorted(answers, key=lambda each: each.created) == answers, "some of the first"
        assert names(await claim(store, demand=9)) == ["a", "b", "c", "d", "e"]


async def test_a_deadlock_among_many_batches_is_tried_again_on_the_same_connection(
    store, url, monkeypatch
):
    monkeypatch.setattr("mulligan.stores.batches.BATCH_LIMIT", 2)
    await store.enqueue(jobs("x"))
    idle = list(store._connections._idle)
    other = await psycopg.AsyncConnection.connect(server_of(url))
    async with other:
        await other.execute("SET deadlock_timeout = '20s'")
        await store.aenqueue_in(other, jobs("d"))
        sending = asyncio.create_task(store.enqueue_all(jobs("a", "b", "c", "d", "e")))
        await until_waiting(url)
        await store.aenqueue_in(other, jobs("c"))  # now each waits for the other
    answers = [("a", True), ("b", True), ("c", False), ("d", False), ("e", True)]
    assert await sending == answers
    assert store._connections._idle == idle


def sqlalchemy_engine(url: str) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(
        server_of(url).replace("postgresql://", "postgresql+psycopg://"),
        poolclass=sqlalchemy.NullPool,
    )


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
    with pytest.raises(InvalidError, match="enqueue_in cannot use object"):
        store.enqueue_in(object(), jobs("a"))
    async with await psycopg.AsyncConnection.connect(server_of(url)) as connection:
        with pytest.raises(InvalidError, match="await aenqueue_in"):
            store.enqueue_in(connection, jobs("a"))
    with connected(url) as plain, pytest.raises(InvalidError, match="call enqueue_in"):
        await store.aenqueue_in(plain, jobs("a"))
    assert store.enqueue_in(None, []) == await store.aenqueue_in(None, []) == []


async def test_a_batch_of_more_parts_than_a_statement_takes_is_written(store):
    """A next job with a unique key is a part of its own: it may meet what came before it."""
    many = 2 * TOGETHER + 3
    claims = await begin(store, *jobs(*map(str, range(many))))
    following = [job(f"next{n}", queue="next", unique_key=f"k{n // 2}") for n in range(many)]
    outcomes = [done(each, None, new) for each, new in zip(claims, following, strict=True)]
    assert await store.commit([*outcomes, outcomes[0]]) == ["written"] * many + ["already"]
    assert await store.depth(Lane("next", "default", 0), 1000) == TOGETHER + 2


# -- work of the caller's own in the store's transaction ---------------------------------------


@pytest.fixture
def ledger(url) -> Iterator[str]:
    """A table of the user's own, beside the store's."""
    with connected(url) as connection:
        connection.execute("CREATE TABLE ledger (entry text NOT NULL)")
        yield f'"{schema_of(url)}".ledger'


def entries(url: str) -> list[str]:
    with connected(url) as connection:
        return [entry for [entry] in connection.execute("SELECT entry FROM ledger").fetchall()]


def writes(ledger: str, entry: str = "paid", *more: str):
    """Work that writes an entry, and whatever else is said."""

    async def work(connection: psycopg.AsyncConnection) -> None:
        await connection.execute(f"INSERT INTO {ledger} VALUES (%s)".encode(), (entry,))  # noqa: S608
        for statement in more:
            await connection.execute(statement.encode())

    return work


async def test_work_and_outcome_are_written_together(store, url, ledger):
    await store.enqueue([job("all", queue="gathered", awaits=1)])
    [first] = await begin(store, job("a", gather="all"))
    outcome = done(first, b"1", job("next"))
    assert await store.commit_within(outcome, writes(ledger)) == "written"
    assert entries(url) == ["paid"]
    stored = await store.get("a")
    assert stored is not None
    assert (stored.status, stored.result) == ("done", b"1")
    both = await claim(store, FRESH, Lane("gathered", "default", 0), demand=5)
    assert names(both) == ["all", "next"]


async def test_neither_is_seen_before_both_are_written(store, url, ledger):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        assert entries(url) == []
        await store.enqueue(jobs("beside"))  # the store is there for the work too

    assert await store.commit_within(done(first), work) == "written"
    assert await store.get("beside") is not None


async def test_an_outcome_that_is_written_already_has_no_work_done(store, url, ledger):
    [first] = await begin(store, job("a"))
    assert await store.commit_within(done(first), writes(ledger)) == "written"
    assert await store.commit_within(done(first), writes(ledger)) == "already"
    assert entries(url) == ["paid"]


async def test_a_stale_lease_has_no_work_done(store, url, ledger):
    [first] = await begin(store, job("a"))
    await store.cancel(["a"], "enough")
    assert await store.commit_within(done(first), writes(ledger)) == "stale"
    assert entries(url) == []


async def test_a_lease_that_is_lost_during_the_work_undoes_it(store, url, ledger):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        await store.leave(ANN)
        assert len(await store.reclaim(1, BOB)) == 1

    assert await store.commit_within(done(first, b"1", job("next")), work) == "stale"
    assert entries(url) == []
    assert await store.get("next") is None


@pytest.mark.parametrize(
    "error", [KeyError("mine"), psycopg.errors.UniqueViolation("mine"), psycopg.Rollback()]
)
async def test_what_the_work_raises_undoes_it_and_is_raised_unchanged(store, url, ledger, error):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        raise error

    with pytest.raises(type(error)) as raised:
        await store.commit_within(done(first), work)
    assert raised.value is error
    assert entries(url) == []
    assert await store.commit([again(first)]) == ["written"], "the lease is still held"


async def test_work_that_is_cancelled_is_undone(store, url, ledger):
    [first] = await begin(store, job("a"))
    started = asyncio.Event()

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        started.set()
        await asyncio.Event().wait()

    working = asyncio.create_task(store.commit_within(done(first), work))
    await started.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert entries(url) == []
    assert await store.commit_within(done(first), writes(ledger)) == "written"


async def test_work_may_not_end_the_transaction(store, url, ledger):
    [first] = await begin(store, job("a"))
    for ending in ("ROLLBACK", "COMMIT", "COMMIT; BEGIN"):
        with pytest.raises(InvalidError, match=r"job 'a' ended the transaction.*leave COMMIT"):
            await store.commit_within(done(first), writes(ledger, ending, ending))
    with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
        await store.commit_within(done(first), lambda connection: connection.commit())
    assert await store.commit_within(done(first), writes(ledger, "last")) == "written"
    assert entries(url) == ["COMMIT", "COMMIT; BEGIN", "last"]


async def test_work_that_goes_on_after_a_failed_statement_writes_nothing(store, url, ledger):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        await writes(ledger)(connection)
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.execute("SELECT 1 / 0")

    with pytest.raises(StoreError, match="current transaction is aborted"):
        await store.commit_within(done(first), work)
    assert entries(url) == []


async def test_work_may_have_savepoints_and_rows_of_its_own(store, url, ledger):
    [first] = await begin(store, job("a"))

    async def work(connection: psycopg.AsyncConnection) -> None:
        connection.row_factory = dict_row  # type: ignore[assignment]
        await writes(ledger)(connection)
        async with connection.transaction(force_rollback=True):
            await writes(ledger, "undone")(connection)

    assert await store.commit_within(done(first), work) == "written"
    assert entries(url) == ["paid"]


async def test_a_process_that_is_stopped_before_it_ends_the_transaction_holds_nobody_up(
    store, url, ledger, monkeypatch
):
    """All that its outcome had locked is free before long, and what it did is undone."""
    monkeypatch.setattr(_statements, "HURRY", 100)
    end = psycopg.AsyncTransaction.__aexit__

    async def stopped(transaction: psycopg.AsyncTransaction, *of: Any) -> bool:
        await store.enqueue([job("b", concurrency_key="k")])
        assert await store.cancel(["a"], "enough") == [True]
        assert names(await claim(store, worker=BOB)) == ["b"]
        return await end(transaction, *of)

    async with opened(url) as other:
        [first] = await begin(other, job("a", concurrency_key="k"))
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.AsyncTransaction, "__aexit__", stopped)
            with pytest.raises(StoreUnavailableError, match="idle-in-transaction"):
                await other.commit_within(done(first), writes(ledger))
        assert await other.commit_within(done(first), writes(ledger)) == "stale"
    assert entries(url) == []


# -- producers in any language -----------------------------------------------------------------


async def test_a_function_call_enqueues(store, url):
    with connected(url) as connection:
        row = connection.execute(
            "SELECT enqueue('ask', '[1, \"é\"]', '{\"k\": null}', queue => 'mail', delay => 5,"
            " retry => '{\"max_retries\": 1}', timeout => 3, unique_key => 'u')"
        ).fetchone()
        again_ = connection.execute("SELECT enqueue('ask', queue => 'mail', unique_key => 'u')")
        assert again_.fetchone() == row
    assert row is not None
    stored = await store.get(row[0])
    assert stored is not None
    assert (stored.task, stored.queue, stored.due - stored.created_at) == ("ask", "mail", 5.0)
    call = decode_call(stored.body)
    assert (call.args, call.kwargs, call.timeout) == ([1, "é"], {"k": None}, 3.0)
    assert decode_policy(stored.body).retry.max_retries == 1


async def test_an_insert_enqueues_and_says_which_job(store, url):
    with connected(url) as connection:
        rows = connection.execute(
            "INSERT INTO inbox (task, id) VALUES ('ask', 'a'), ('ask', 'b') RETURNING id"
        ).fetchall()
    assert rows == [("a",), ("b",)]
    claimed = await claim(store, demand=5)
    assert names(claimed) == ["a", "b"]
    assert decode_policy(claimed.claims[0].body).retry == Retry()


BAD = {
    "task => ''": "task '' must have 1 to 128 characters",
    "task => NULL": "task NULL must have",
    "task => E'a\\x01'": "control character",
    "task => 'ask', queue => repeat('q', 129)": "queue 'q",
    "task => 'ask', region => '*-US'": "must not begin with",
    "task => 'ask', args => '{}'": "args {} must be a JSON array",
    "task => 'ask', kwargs => '[]'": "kwargs [] must be a JSON object",
    "task => 'ask', retry => '3'": "retry 3 must be a JSON object",
    "task => 'ask', retry => '\"often\"'": 'retry "often" is not one of',
    "task => 'ask', priority => 3": "priority 3 must be 0",
    "task => 'ask', delay => -1": "delay -1 must be between",
    "task => 'ask', delay => 'NaN'": "delay NaN must be between",
    "task => 'ask', expires => -1": "expires -1 must be",
    "task => 'ask', timeout => 0": "timeout 0 must be",
    "task => 'ask', concurrency_limit => 0": "concurrency_limit 0 must be",
    "task => 'ask', args => jsonb_build_array(repeat('x', 300000))": "over the limit",
    "task => 'ask', args => (repeat('[', 202) || repeat(']', 202))::jsonb": "more than 200 levels",
    "task => 'ask', kwargs => (repeat('{\"[[\":', 202) || '1' || repeat('}', 202))::jsonb": (
        "more than 200 levels"
    ),
}


@pytest.mark.parametrize(("arguments", "reason"), BAD.items())
async def test_what_is_no_valid_job_is_refused(store, url, arguments, reason):
    with connected(url) as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            connection.execute(f"SELECT enqueue({arguments})".encode())
        assert reason in str(refused.value)
        columns, values = zip(
            *(pair.split(" => ") for pair in arguments.split(", ", 1)), strict=True
        )
        insert = f"INSERT INTO inbox ({', '.join(columns)}) VALUES ({', '.join(values)})"  # noqa: S608
        connection.execute(insert.encode())
        rows = connection.execute("SELECT reason, job FROM refused").fetchall()
    assert len(rows) == 1
    assert reason in rows[0][0]
    assert (await store.stats()).lanes == []


async def test_an_argument_may_be_200_levels_deep_and_wide_besides(store, url):
    args = ["[" * 300 + '\\"', *([] for _ in range(1000)), json.loads("[" * 200 + "]" * 200)]
    with connected(url) as connection:
        connection.execute("SELECT enqueue('ask', %s, id => 'good')", [Jsonb(args)])
    assert await store.get("good")


async def test_one_bad_row_does_not_hold_up_the_others(store, url):
    with connected(url) as connection:
        connection.execute(
            "INSERT INTO inbox (task, id, priority)"
            " VALUES ('ask', 'a', 0), ('ask', 'b', 7), ('ask', 'c', 2)"
        )
        assert connection.execute("SELECT job ->> 'id' FROM refused").fetchall() == [("b",)]
    assert await store.get("a")
    assert await store.get("c")


# -- waking ------------------------------------------------------------------------------------


async def test_notify_is_sent_only_when_a_waiter_is_registered(store, url):
    with connected(url) as connection:
        connection.execute(f'LISTEN "{store._bells.channel}"'.encode())

        def heard() -> list[str]:
            return [each.payload for each in connection.notifies(timeout=0.05)]

        await store.enqueue(jobs("a"))
        assert heard() == []
        assert names(await claim(store, demand=2)) == ["a"]
        await store.enqueue([job("elsewhere", region="EU")])
        assert heard() == []
        await store.enqueue(jobs("b"))
        assert heard() == [ANN.id]
        await store.enqueue(jobs("c"))
        assert heard() == []


async def test_whoever_is_called_for_a_job_need_not_wait_for_the_disk(store, url):
    with connected(url) as other:
        other.execute(SEE_WHO_WAITS)
        await store.enqueue(jobs("nobody is asleep"))
        await claim(store, demand=2)
        await store.enqueue(jobs("Ann is called"))
        await store.enqueue(jobs("she is on her way"))
        seen = dict(other.execute("SELECT id, waits FROM seen").fetchall())
    waits = {"nobody is asleep": "on", "Ann is called": "off", "she is on her way": "on"}
    assert seen == waits
    assert names(await claim(store, demand=9)) == ["Ann is called", "she is on her way"]


async def test_a_job_that_somebody_was_called_for_is_on_the_disk_when_it_is_stored(store, url):
    await store.enqueue(jobs("a"))
    await claim(store, demand=2)
    with connected(url) as other:
        other.execute("SET synchronous_commit = off")
        other.execute("UPDATE job SET trail = 'x' WHERE id = 'a'")
        [[end]] = other.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
        [stored] = await store.enqueue(jobs("b"))
        assert stored.created
        flushed = other.execute("SELECT pg_current_wal_flush_lsn() >= %s::pg_lsn", (end,))
        assert flushed.fetchone() == (True,)


async def test_what_was_handed_out_survives_a_crash_though_its_producer_still_waited_for_the_disk(
    own_server,
):
    async with opened(own_server.url) as store:
        await claim(store, demand=1)
        soon = store._statements["accept_soon"], (None, *packed_columns(jobs("a")))
        await store._connections.run(*soon)
        [handed_out] = (await claim(store, demand=1)).claims
        own_server.kill()
        await asyncio.to_thread(own_server.start)
        stored = await store.get("a")
        assert stored is not None
        assert (stored.status, stored.token) == ("processing", handed_out.token)


async def test_without_listen_workers_poll(url, caplog):
    quiet = with_query(url, listen="off")
    with caplog.at_level("INFO", "mulligan.store"):
        async with opened(quiet) as store, opened(url) as other:
            await claim(store)
            sleeping = asyncio.create_task(woken(store, ANN))
            await asyncio.sleep(0)
            await other.enqueue(jobs("a"))
            assert await sleeping
            assert names(await claim(store)) == ["a"]
            assert store._bells._listener is None
    assert caplog.text.count("listen=off") == 1


async def test_a_job_that_nobody_came_for_is_found_by_another(store, url):
    for worker in (ANN, BOB):
        await claim(store, worker=worker)
    await store.enqueue(jobs("a"))  # rings ann, who has died
    assert await woken(store, BOB)
    assert names(await claim(store, worker=BOB)) == ["a"]


# -- losing the server -------------------------------------------------------------------------


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


def end_backends(other, which: str, value: object) -> None:
    """End connections at the server, and return when they are gone; PostgreSQL 13 cannot wait."""
    ending = f"SELECT pid FROM pg_stat_activity WHERE {which} AND pid <> pg_backend_pid()"  # noqa: S608
    other.execute(f"SELECT pg_terminate_backend(pid) FROM ({ending}) x".encode(), (value,))  # noqa: S608
    assert until(lambda: not other.execute(ending.encode(), (value,)).fetchall(), 10.0)


async def test_a_connection_that_the_server_ended_while_it_was_idle_is_not_used_again(store, url):
    await store.enqueue(jobs("a"))
    idle = [each.info.backend_pid for each in store._connections._idle]
    with connected(url) as other:
        end_backends(other, "pid = ANY(%s)", idle)
    assert idle
    assert (await store.get("a")).id == "a"


async def test_a_statement_that_is_not_answered_in_time_is_given_up_with_its_connection(store):
    await store._connections.close()
    async with store._connections.use() as connection:
        connection.answer_within = 0.1
        connection._look()  # which else looks when the time is up that it was connected with
        with pytest.raises(StoreUnavailableError, match=r"no answer within 0\.1 s"):
            await store._connections.run("SELECT pg_sleep(60)", on=connection)
    assert connection.closed
    assert store._connections._idle == []
    await store.enqueue(jobs("a"))


async def test_each_statement_has_the_time_that_the_url_gives(url):
    brief = with_query(url, answer_within="7.5")
    async with opened(brief) as store, store._connections.use() as connection:
        assert connection.answer_within == 7.5
        assert await lock_timeout(connection) == "6751ms"


async def lock_timeout(connection: psycopg.AsyncConnection) -> str:
    """How long the server lets the connection wait for a lock."""
    [shown] = await (await connection.execute("SHOW lock_timeout")).fetchone() or [""]
    return str(shown)


async def test_a_lock_is_not_waited_for_when_nobody_listens_any_more(store, url, monkeypatch):
    monkeypatch.setattr(_connections, "LOCKS", 0.003)
    [held] = await begin(store, job("a"))
    async with opened(url) as other:
        with connected(url) as another_program, another_program.transaction():
            another_program.execute("SELECT FROM job FOR UPDATE")
            with pytest.raises(StoreUnavailableError, match="lock timeout"):
                await other.commit([done(held)])
        assert [each.closed for each in other._connections._idle] == [False]
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


async def test_a_claim_does_not_wait_for_a_connection_that_others_use(store):
    await claim(store)
    await store.enqueue(jobs("a"))
    plan = in_turn(1, group(one_tier(FRESH)))
    plan = ClaimPlan(plan.demand, plan.groups, plan.steps, (await store.facts()).epoch)
    async with AsyncExitStack() as others:
        for _ in range(_connections.MOST):
            await others.enter_async_context(store._connections.use())
        assert names(await asyncio.wait_for(store.claim(plan, ANN), 30)) == ["a"]


async def test_a_worker_whose_listener_was_cut_off_is_woken_by_a_new_one(store, url, caplog):
    await claim(store)
    sleeping = asyncio.create_task(store.wait(ANN, 60))
    await asyncio.sleep(0)
    await store._bells._ready.wait()
    with connected(url) as other:
        end_backends(other, "query = %s", f'LISTEN "{store._bells.channel}"')
    await asyncio.wait([store._bells._listener])
    assert "wake-ups stopped" in caplog.text
    sleeping.cancel()
    sleeping = asyncio.create_task(store.wait(ANN, 60))
    await store.enqueue(jobs("a"))
    await asyncio.wait_for(sleeping, 30)


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


# -- the doctor --------------------------------------------------------------------------------


async def test_the_doctor_finds_a_healthy_store_healthy(store):
    findings = await store.doctor()
    assert {grade for grade, *_ in findings} == {"ok"}
    assert any("LISTEN works" in sentence for _, sentence, _ in findings)


async def test_the_doctor_names_what_is_wrong_and_what_to_do(store, url):
    with connected(url) as connection:
        connection.execute("DROP INDEX waiting_lane")
    [bad] = [each for each in await store.doctor() if each[0] == "bad"]
    assert "waiting_lane" in bad[1]
    assert "REINDEX" in bad[2]
    async with opened(with_query(url, listen="off")) as quiet:
        assert any("listen=off" in sentence for _, sentence, _ in await quiet.doctor())


# -- a pooler in between -----------------------------------------------------------------------


@pytest.fixture
def bouncer(url, tmp_path) -> Iterator[str]:
    """The store's URL through PgBouncer in transaction mode."""
    if shutil.which("pgbouncer") is None:
        try:
            _debian.install("pgbouncer")
        except Unavailable as reason:
            pytest.skip(f"PgBouncer: {reason}")
    port, there = free_port(), urlsplit(url)
    settings = tmp_path / "pgbouncer.ini"
    users = tmp_path / "users.txt"
    users.write_text(f'"{there.username}" ""\n')
    settings.write_text(
        "[databases]\n"
        f"* = host={there.hostname} port={there.port}\n"
        "[pgbouncer]\n"
        f"listen_addr = {LOOPBACK}\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {users}\npool_mode = transaction\n"
        "ignore_startup_parameters = extra_float_digits,options\n"
    )
    for path in (tmp_path, *tmp_path.parents):
        if path.is_relative_to(Path("/tmp")) and path != Path("/tmp"):  # noqa: S108
            path.chmod(0o755)
    command = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups"]
    program = ["pgbouncer", str(settings)]
    with subprocess.Popen([*command, *program], stderr=subprocess.DEVNULL) as process:
        try:
            assert until(lambda: accepts(port), 10), "pgbouncer did not start"
            yield there._replace(netloc=f"{there.username}@{LOOPBACK}:{port}").geturl()
        finally:
            process.terminate()


async def test_behind_a_pooler_in_transaction_mode_everything_but_listen_works(bouncer, caplog):
    with caplog.at_level("WARNING", "mulligan.store"):
        async with opened(bouncer) as store, opened(bouncer) as other:
            for turn in range(12):  # more often than it takes to prepare a statement
                await store.enqueue(jobs(f"a{turn}", f"b{turn}"))
                both = (await claim(store, demand=2)).claims
                assert len(both) == 2
                assert await store.commit([done(both[0]), again(both[1])]) == ["written"] * 2
                rest = (await claim(other, demand=1, worker=BOB)).claims
                assert await other.commit([Done(each.lease) for each in rest]) == ["written"]
            await claim(store)
            sleeping = asyncio.create_task(woken(store, ANN))
            await asyncio.sleep(0)
            await other.enqueue(jobs("last"))
            assert await sleeping
            assert any("pooler" in sentence for _, sentence, _ in await store.doctor())
    assert caplog.text.count("a connection pooler") == 2, "said once by each store"
