"""Everything is locked in one order, and what meets a deadlock all the same is tried again."""

import asyncio
import re
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from mulligan.core.counts import Count
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit
from mulligan.core.outcome import Returned
from mulligan.core.worker import Worker
from mulligan.stores.postgres import PostgresStore, pool, schema
from mulligan.stores.postgres.schema import functions
from mulligan.stores.postgres.statements import Statements
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    claim,
    done,
    group,
    in_turn,
    job,
    jobs,
    names,
    walk,
)
from tests.reading.readers import postgres_reader
from tests.stores.postgres.kit import connected, opened, schema_of, server_of, until_waiting


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


@pytest.mark.usefixtures("no_second_try")
async def test_members_of_several_gathering_jobs_arrive_at_once_without_a_deadlock(store, url):
    groups, size = 6, 12
    new = [job(f"all {g}", queue="gathered", awaits=size) for g in range(groups)]
    for index in range(size):
        new += [job(f"m {g} {index}", gather=f"all {g}", gather_index=index) for g in range(groups)]
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
            job(top, queue="gathered", awaits=7, limits='{"k":1}'),
            job(middle, queue="gathered", awaits=6, gather=top, limits='{"k":1}'),
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
    monkeypatch.setattr(pool, "PASSING", frozenset({"40001"}))
    ids = [f"j{n}" for n in range(400)]
    await store.set_limit("k", Limit(concurrency=50), declared=True)
    await store.enqueue(jobs(*ids, limits='{"k":1}'))
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


def test_no_lock_is_waited_for_that_anybody_can_hold():
    """Advisory locks are free to all who may connect to the database."""
    statements = Statements("s")
    sources = [*functions(), *statements.values(), statements.commits(3)]
    sources += [file.read_text() for file in Path(schema.__file__).parent.glob("*.py")]
    waited = [found for text in sources for found in re.findall(r"pg_advisory_(?!unlock)\w+", text)]
    assert waited == []


DEBOUNCED = """jsonb_populate_record(NULL::new_jobs, '{"id": ["x"], "queue": ["default"],
    "unique_key": ["k"], "debounce_max": [5]}') AS debounced"""
LOCKS = ["lock_facts_shared()", "lock_facts()", "lock_limits()", "lock_schedules()"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("lock", [*LOCKS, "lock_debounced(debounced)"])
async def test_a_role_that_may_only_read_cannot_take_the_locks(url, lock):
    with postgres_reader(url) as reader, connected(reader) as connection:
        connection.execute("SELECT count(*) FROM job")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT {lock} FROM {DEBOUNCED}".encode())  # noqa: S608


async def test_those_who_debounce_a_key_do_so_one_after_the_other(store, url):
    new = job("first", unique_key="k", delay=60.0, debounce_max=600.0)
    await store.enqueue([new])
    with connected(url) as other, other.transaction():
        other.execute(f"SELECT lock_debounced(debounced) FROM {DEBOUNCED}".encode())  # noqa: S608
        debouncing = asyncio.create_task(store.enqueue([replace(new, id="second")]))
        await until_waiting(url)
        assert not debouncing.done()
    assert await debouncing == [("first", False)]
