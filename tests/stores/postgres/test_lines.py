"""Lines of jobs: who waits for whom, and what plain jobs pay for them."""

import asyncio
import sys
from itertools import pairwise

import psycopg
import pytest
from msgspec.structs import replace

from mulligan.core.limits import FOREVER, Limit
from mulligan.stores.postgres.claim import plan_values
from mulligan.stores.postgres.fields import job_columns
from mulligan.stores.postgres.workers import worker_json
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    begin,
    claim,
    done,
    group,
    in_turn,
    job,
    jobs,
    names,
    walk,
)
from tests.stores.postgres.kit import connected, opened, server_of
from tests.stores.postgres.racer import RATE, RUNNING

K = '{"k":1}'


async def test_plain_jobs_do_not_wait_for_the_limits(store, url):
    """Somebody has the limits locked, and jobs of another lane stand in lines."""
    await store.enqueue([job("other", queue="other", limits=K, fairness_key="a")])
    await asyncio.gather(*(store.beat(each, []) for each in (ANN, BOB)))
    with connected(url) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT lock_limits()")
        async with asyncio.timeout(10):
            await store.enqueue(jobs("a", "b"))
            claimed = (await claim(store, demand=9)).claims
            assert [each.id for each in claimed] == ["a", "b"]
            assert await store.commit([done(each) for each in claimed]) == ["written"] * 2


async def test_plain_jobs_touch_no_table_of_lines_and_limits(store, url):
    """Not even by looking, but for one look whether any lane has lines, of each claim."""
    await store.beat(ANN, [])
    plan = in_turn(9, group(FRESH))
    plan = replace(plan, epoch=(await store.facts()).epoch)
    database = store._database
    with connected(url) as connection, connection.transaction():
        for name, values in (
            ("receive", {"jobs": job_columns(jobs("a", "b"))}),
            ("claim", {"self": worker_json(ANN), "channel": "c", "plan": plan_values(plan)}),
        ):
            statement = database.statements[name].encode()
            rows = connection.execute(statement, database.values(name, values)).fetchall()
        leases = [row[2:4] for row in rows[1:]]
        ids, tokens = [list(each) for each in zip(*leases, strict=True)]
        assert ids == ["a", "b"]
        connection.execute("SELECT finish(NULL, %s, %s, NULL)", (ids, tokens))
        touched = connection.execute(
            "SELECT relname, seq_scan + coalesce(idx_scan, 0), n_tup_ins + n_tup_upd + n_tup_del"
            " FROM pg_stat_xact_user_tables WHERE schemaname = current_schema()"
        ).fetchall()
    used = {name for name, looked, written in touched if looked or written}
    assert {"job", "waiting", "claimed", "ended"} <= used
    tables = {"line", "lined_lane", "fairness_key", "alarm", "named_limit", "limit_state"}
    assert used & tables <= {"lined_lane"}
    assert [each[1:] for each in touched if each[0] == "lined_lane"] in ([], [(1, 0)])


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_claim_reads_of_many_keys_only_those_that_it_starts(store, url, analyzed):
    """Whatever the planner believes of the tables: each row is found a few times at most."""
    await store.beat(ANN, [])
    for turn in "ab":
        await store.enqueue([job(f"{turn}{n}", fairness_key=f"c{n}") for n in range(1000)])
    plan = replace(in_turn(20, group(FRESH)), epoch=(await store.facts()).epoch)
    database = store._database
    values = {"self": worker_json(ANN), "channel": "c", "plan": plan_values(plan)}
    with connected(url) as connection:
        if analyzed:
            connection.execute("ANALYZE waiting, line, fairness_key")
        with connection.transaction():
            statement = database.statements["claim"].encode()
            rows = connection.execute(statement, database.values("claim", values)).fetchall()
            assert len(rows) == 21
            read = connection.execute(
                "SELECT relname, seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
                " WHERE schemaname = current_schema()"
                " AND relname IN ('waiting', 'line', 'fairness_key')"
            ).fetchall()
    assert len(read) == 3
    assert all(tuples <= 8 * 20 for _, tuples in read), read


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
async def test_a_callers_open_transaction_holds_up_nobody_of_its_limit(store, url, level):
    await store.set_limit("k", Limit(concurrency=1), declared=True)
    [first] = await begin(store, job("first", limits=K))
    with psycopg.connect(server_of(url)) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
        store.enqueue_in(connection, jobs("late", "later", limits=K))
        async with asyncio.timeout(10):
            await store.enqueue([job("second", limits=K)])
            await store.commit([done(first)])
            [second] = (await claim(store, demand=9)).claims
        assert second.id == "second"
        connection.commit()
    assert names(await claim(store, demand=9)) == []
    await store.commit([done(second)])
    assert names(await claim(store, demand=9)) == ["late"]
    assert (await store.get("later")).waits_for == "k"


async def test_a_job_of_a_callers_transaction_is_let_in_before_or_cancelled(store, url):
    with psycopg.connect(server_of(url)) as connection:
        store.enqueue_in(connection, jobs("a", "b", "c", fairness_key="x"))
    assert await store.cancel(["b"], "enough") == [True]
    assert await store.depth(FRESH, 9) == 2
    assert names(await claim(store, demand=9)) == ["a", "c"]


async def test_the_disk_is_waited_for_when_the_limits_are_free(store):
    """Who enqueues for a line commits at once, and waits for the disk in a second transaction."""
    for new, soon in ((job("a"), False), (job("b", limits=K), True)):
        [[_, said]] = await store._database.call("receive", jobs=job_columns([new]))
        assert said is soon


async def test_lines_leave_nothing_behind(store, url):
    await store.set_limit("t:*", Limit(concurrency=1), declared=True)
    for turn in range(3):
        new = [
            job(f"{turn}-{n}", limits=f'{{"t:{n}":1}}', fairness_key=(None, f"key {n % 7}")[n % 2])
            for n in range(30)
        ]
        await store.enqueue(
            [*new, *jobs(*(f"{turn}-free-{n}" for n in range(9)), fairness_key="f")]
        )
        claimed = (await claim(store, demand=100)).claims
        assert len(claimed) == 39
        await store.commit([done(each) for each in claimed])
    with connected(url) as connection:
        for table in ("line", "lined_lane", "fairness_key", "alarm", "limit_state", "waiting"):
            counted = psycopg.sql.SQL("SELECT count(*) FROM {}")
            rows = connection.execute(counted.format(psycopg.sql.Identifier(table)))
            assert rows.fetchone() == (0,), table


async def test_a_claim_that_sets_many_lines_aside_leaves_the_rest_to_the_next_one(store):
    """It holds the limits no longer than for so many, says that there is more, and never spins."""
    await store.enqueue([job(f"t{n}", limits=f'{{"all":1,"t:{n}":1}}') for n in range(300)])
    await store.enqueue([job("plain")])
    await store.pause_limit("all", FOREVER)
    first, second, third = [await claim(store, FRESH, demand=5) for _ in range(3)]
    assert (names(first), first.left, first.again_in) == ([], (True,), 0.0)
    assert (names(second), second.left, second.again_in) == (["plain"], (False,), None)
    assert (names(third), third.again_in) == ([], None)


async def test_a_run_of_one_line_is_what_one_by_one_gives(store):
    """By batches of 7 and one by one: the same order, whatever keys and limits there are."""
    await store.set_limit("k", Limit(concurrency=100), declared=True)
    mixed = [(None, None), (None, K), ("a", None), ("a", K), ("b", None), ("c", None)]
    seen = []
    for turn, demand in enumerate((1, 7)):
        drawn = [mixed[n * n % 11 % 6] for n in range(44)]
        await store.enqueue(
            [job(f"{turn}-{n}", fairness_key=key, limits=k) for n, (key, k) in enumerate(drawn)]
        )
        order = []
        while claimed := (await walk(store, in_turn(demand, group(FRESH)), ANN)).claims:
            order += [each.id.split("-")[1] for each in claimed]
            await store.commit([done(each) for each in claimed])
        seen.append(order)
    assert seen[0] == seen[1]
    assert len(seen[0]) == 44


@pytest.mark.prove
async def test_processes_that_race_under_limits_never_exceed_them_and_never_meet(url):
    async with opened(url) as store:
        await store.set_limit("few", Limit(concurrency=RUNNING), declared=True)
        await store.set_limit("slow", Limit(rate=RATE, per=0.5), declared=True)
        kinds = ['{"few":1}', '{"few":1,"slow":1}', '{"slow":1}', None]
        new = [
            job(f"j{n}", limits=kinds[n % 4], fairness_key=(None, "a", "b")[n % 3])
            for n in range(160)
        ]
        with connected(url) as connection:
            connection.execute("CREATE TABLE racing (id text PRIMARY KEY, at float8)")
            connection.execute("CREATE TABLE started (id text, at float8)")
        await store.enqueue(new[:100])
        program = (sys.executable, "-m", "tests.stores.postgres.racer", url)
        racers = [await asyncio.create_subprocess_exec(*program, str(n)) for n in range(3)]
        for n in range(100, 160, 4):
            await store.enqueue(new[n : n + 4])
        assert [await each.wait() for each in racers] == [0, 0, 0]
        assert (await store.stats()).ended == {("default", "done"): 160}
        assert all(each.running == each.waiting == 0 for each in await store.limits(9))
    with connected(url) as connection:
        rows = connection.execute(
            "SELECT at FROM started JOIN job USING (id) WHERE limits LIKE '%slow%' ORDER BY at"
        ).fetchall()
    times = [at for (at,) in rows]
    assert len(times) == 80
    assert all(late - early >= 0.5 - 1e-6 for early, late in zip(times, times[RATE:], strict=False))
    assert all(early <= late for early, late in pairwise(times))
