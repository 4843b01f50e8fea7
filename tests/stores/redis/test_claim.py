"""What claims cost, and the short way that a worker which slept takes."""

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from mulligan.core.job import NewJob
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    RETRY,
    URGENT,
    begin,
    claim,
    dead,
    done,
    group,
    in_turn,
    job,
    jobs,
    names,
    run_by_policy,
    source,
    walk,
)
from tests.contract.waits import woken
from tests.store_kit import fresh_url
from tests.stores.redis.kit import commands_of, counted, opened


async def test_a_claim_costs_the_same_however_many_jobs_have_ended_or_wait(own_server):
    async with counted(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.enqueue(jobs(*(f"first{n}" for n in range(21))))
        await claim(store, demand=10)  # the server learns the script
        few = await commands_of(client, claim(store, demand=10))
        taken = await begin(store, *jobs(*(f"old{n}" for n in range(400))))
        await store.commit([done(each) if n % 2 else dead(each) for n, each in enumerate(taken)])
        await store.enqueue(jobs(*(f"later{n}" for n in range(500)), delay=600.0))
        await store.enqueue(jobs(*(f"now{n}" for n in range(500))))
        assert await commands_of(client, claim(store, demand=10)) <= few + 2


async def test_a_source_that_yields_costs_nothing_while_its_lane_is_empty(own_server):
    async with counted(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.enqueue(jobs("a", "b", "c", "d"))
        await claim(store, FRESH)
        waits = source(RETRY, waited=2.0)
        without = await commands_of(client, claim(store, FRESH, waits))
        yields = source(RETRY, waited=2.0, yields=True)
        assert await commands_of(client, claim(store, FRESH, yields)) == without


SOME = jobs(*(f"j{number}" for number in range(12)))


FOUND: dict[str, tuple[list[NewJob], int]] = {
    "nothing": ([], 5),
    "one": (jobs("a"), 5),
    "several": (jobs("a", "b", "c"), 5),
    "as many as were asked for": (jobs("a", "b"), 2),
    "more than were asked for": (jobs("a", "b", "c"), 2),
    "more than a few": (SOME, 20),
    "one that is not due": ([*jobs("a"), job("later", delay=60.0)], 5),
    "one of another lane": ([*jobs("a"), job("urgent", priority=2), *jobs("b")], 5),
    "one that has a key": ([*jobs("a"), job("k", limits='{"k":1}'), *jobs("b")], 5),
    "one that may expire": ([*jobs("a"), job("e", expires=60.0), *jobs("b")], 5),
    "one that is unique": ([*jobs("a"), job("u", unique_key="u"), *jobs("b")], 5),
    "one that was cancelled": (jobs("a", "gone", "b"), 5),
}


@pytest.mark.parametrize(("new", "demand"), FOUND.values(), ids=FOUND)
async def test_a_worker_that_slept_finds_what_one_that_comes_finds(tmp_path, new, demand):
    seen = []
    for slept in (True, False):
        async with fresh_url("redis", tmp_path) as url, opened(url) as store:
            if slept:
                await claim(store, FRESH, URGENT, demand=demand)
            await store.enqueue(new)
            await store.cancel([each.id for each in new if each.id == "gone"], "enough")
            found = await claim(store, FRESH, URGENT, demand=demand)
            assert await store.commit([done(each) for each in found.claims]) == [
                "written" for _ in found.claims
            ]
            lanes = [(each.lane, each.ready, each.delayed) for each in (await store.stats()).lanes]
            rest = await claim(store, FRESH, URGENT, demand=20)
            given = [replace(each, started_at=0.0, due=0.0) for each in found.claims]
            seen.append((given, found.left, found.again_in is None, lanes, names(rest)))
    assert seen[0] == seen[1]


async def test_a_worker_that_slept_is_found_by_the_next_job(store):
    for name in ("a", "b"):
        assert names(await claim(store, demand=5)) == []
        await store.enqueue(jobs(name))
        assert names(await claim(store, demand=5)) == [name]
        await store.enqueue(jobs(f"after {name}"))
        assert await woken(store, ANN)
        await claim(store, demand=5)


async def test_a_worker_that_slept_asks_the_server_for_less(own_server):
    async with counted(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await claim(store, demand=5)
        await store.enqueue(jobs("a"))
        short = await commands_of(client, claim(store, demand=5))
        await store.enqueue(jobs("b"))
        assert short < await commands_of(client, claim(store, demand=5, worker=BOB))


async def test_a_worker_all_of_whose_queues_are_paused_goes_on_sleeping(store):
    await store.pause("default", paused=True)
    for _ in range(2):
        assert names(await run_by_policy(store, 5)) == []


async def test_a_worker_that_slept_takes_no_more_than_its_plan_lets_it(store):
    plan = in_turn(10, group(FRESH), until=(2,))
    assert names(await walk(store, plan)) == []
    await store.enqueue(jobs("a", "b", "c"))
    assert names(await walk(store, plan)) == ["a", "b"]
