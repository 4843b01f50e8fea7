"""Commits: stale ones, in place, and in parts."""

import asyncio

from mulligan.core.lane import Lane
from mulligan.stores.postgres.commit import TOGETHER
from tests.contract.builders import begin, done, job, jobs
from tests.databases._server import until
from tests.stores.postgres.kit import connected, opened, waited_for


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


async def test_a_batch_of_more_parts_than_a_statement_takes_is_written(store):
    """A next job with a unique key is a part of its own: it may meet what came before it."""
    many = 2 * TOGETHER + 3
    claims = await begin(store, *jobs(*map(str, range(many))))
    following = [job(f"next{n}", queue="next", unique_key=f"k{n // 2}") for n in range(many)]
    outcomes = [done(each, None, new) for each, new in zip(claims, following, strict=True)]
    assert await store.commit([*outcomes, outcomes[0]]) == ["written"] * many + ["already"]
    assert await store.depth(Lane("next", "default", 0), 1000) == TOGETHER + 2
