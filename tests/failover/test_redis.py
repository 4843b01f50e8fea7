"""A cluster and a pair behind sentinels: what is promised when a primary dies or a slot moves."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from mulligan import Mulligan
from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.core.finding import Finding
from mulligan.stores import make_store
from mulligan.stores.contract import Store
from mulligan.testing.scratch import scratch_url
from tests.contract.builders import ANN, claim, done, jobs, names
from tests.databases import RedisCluster, RedisSentinels, RedisServer
from tests.failover.run import run
from tests.failover.troubles import (
    FIRST,
    SECOND,
    kill_a_primary,
    kill_the_primary,
    move_a_slot,
)

SPREAD = [f"{shard}_{number}" for shard in range(4) for number in range(5)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as made:
        yield made


@pytest.fixture(scope="module")
def sentinels() -> Iterator[RedisSentinels]:
    with RedisSentinels() as made:
        yield made


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = make_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def quiet(_: str) -> None:
    """Say nothing."""


async def accepted(store: Store, *ids: str) -> None:
    """Enqueue until that is done, as a producer does while a server is replaced."""
    while True:
        try:
            await store.enqueue(jobs(*ids))
        except StoreUnavailableError:
            await asyncio.sleep(0.05)
        else:
            return


async def test_shards_are_spread_over_the_primaries_of_a_cluster(cluster):
    async with opened(f"{cluster.url}?prefix=spread&shards=16") as store:
        ids = [f"{shard}_j" for shard in range(16)]
        await store.enqueue(jobs(*ids))
        claims = (await claim(store, demand=50)).claims
        assert sorted(each.id for each in claims) == sorted(ids)
        assert await store.commit([done(each) for each in claims]) == ["written"] * 16
    holders = [cluster.holder("{spread}")] + [
        cluster.holder(f"{{spread:shard{number}}}") for number in range(1, 16)
    ]
    assert len({each.port for each in holders}) == 3


async def test_a_worker_that_sleeps_is_woken_by_whichever_node_has_work(cluster):
    async with opened(f"{cluster.url}?prefix=sleep&shards=4") as store:
        for shard in range(4):
            assert names(await claim(store, demand=5)) == []
            sleeping = asyncio.ensure_future(store.wait(ANN, 60.0))
            await asyncio.sleep(0)
            await store.enqueue(jobs(f"{shard}_j"))
            await asyncio.wait_for(sleeping, 30)
            assert names(await claim(store, demand=5)) == [f"{shard}_j"]


async def test_a_slot_that_moves_is_followed_by_workers_and_by_who_waits_for_results(cluster):
    async with opened(f"{cluster.url}?prefix=moving&shards=4") as store:
        await store.enqueue(jobs(*SPREAD))
        first = (await claim(store, demand=8)).claims
        told = asyncio.Event()
        watched = next(each for each in SPREAD if each not in {one.id for one in first})
        await store.watch(watched, told.set)
        refused: list[str] = []
        for key in ("{moving}", "{moving:shard1}", "{moving:shard2}", "{moving:shard3}"):
            old = cluster.holder(key)
            new = next(each for each in cluster.primaries() if each is not old)
            await asyncio.to_thread(cluster.move, key, new)
        while True:
            try:
                verdicts = await store.commit([done(each) for each in first])
                break
            except StoreUnavailableError as error:
                refused.append(str(error))
                await asyncio.sleep(0.05)
        assert set(verdicts) <= {"written", "already"}
        rest = (await claim(store, demand=50)).claims
        told.clear()
        assert sorted(each.id for each in (*first, *rest)) == sorted(SPREAD)
        assert await store.commit([done(each) for each in rest]) == ["written"] * len(rest)
        await asyncio.wait_for(told.wait(), 30)


async def test_no_script_runs_on_half_of_the_keys_and_the_other_shards_go_on(cluster):
    async with opened(f"{cluster.url}?prefix=half&shards=4") as store:
        await store.enqueue(jobs(*SPREAD))
        old = cluster.holder("{half:shard1}")
        new = next(each for each in cluster.primaries() if each is not old)
        loop, seen = asyncio.get_running_loop(), []

        async def look() -> None:
            with pytest.raises(StoreUnavailableError, match="is giving the cluster's slot"):
                await store.enqueue(jobs("1_more"))
            seen.extend(names(await claim(store, demand=50)))

        def between() -> None:
            asyncio.run_coroutine_threadsafe(look(), loop).result(30)

        await asyncio.to_thread(cluster.move, "{half:shard1}", new, between)
        assert sorted(seen) == [each for each in SPREAD if each[0] != "1"]
        await accepted(store, "1_more")
        left = [*(each for each in SPREAD if each[0] == "1"), "1_more"]
        assert sorted(names(await claim(store, demand=50))) == sorted(left)


async def test_a_process_starts_by_whichever_node_of_the_url_runs(cluster):
    async with opened(f"redis://127.0.0.1:1,{cluster.hosts}/0?prefix=start") as store:
        await store.enqueue(jobs("a"))
        assert names(await claim(store)) == ["a"]


async def test_doctor_says_what_a_cluster_may_lose(cluster):
    async with opened(f"{cluster.url}?prefix=doctor&shards=2") as store:
        found = await store.doctor()
        assert any("replica" in each.sentence and each.level == "warn" for each in found), found
    async with opened(f"{cluster.url}?prefix=doctor&shards=2&wait_replicas=1") as store:
        found = [each for each in await store.doctor() if "replica" in each.sentence]
        assert {each.level for each in found} == {"ok"}, found


def test_a_scratch_store_is_removed_from_every_node(cluster, tmp_path):
    def left(mark: str) -> list[str]:
        return [key for node in cluster.primaries() for key in cluster.ask(node, "KEYS", mark)]

    for url in (f"{cluster.url}?shards=4", f"redis://{cluster.hosts.split(',')[0]}/0?shards=4"):
        with scratch_url(url, tmp_path) as scratch:
            app = Mulligan(scratch)
            app.configure()
            app.close()
            assert left("{test_*")
        assert left("{test_*") == []


async def test_several_hosts_that_are_no_cluster_are_refused():
    with RedisServer() as server, RedisServer() as other:
        store = make_store(f"{server.url[:-2]},127.0.0.1:{other.port}/0")
        with pytest.raises(StoreError, match=r"is no cluster.* use redis\+sentinel://"):
            await store.open()
        await store.close()


async def test_nothing_is_lost_when_a_primary_dies_and_a_slot_moves_while_jobs_run(cluster):
    troubles = [kill_a_primary(cluster, FIRST), move_a_slot(cluster, SECOND)]
    url = f"{cluster.url}?shards=4&wait_replicas=1&wait_timeout=5"
    counted = await run(url, 1500, troubles, shards=4, workers=1, say=quiet)
    assert (counted.accepted, counted.done, counted.lost) == (1500, 1500, 0)


async def test_without_wait_replicas_what_is_lost_is_what_redis_has_lost(cluster):
    told: list[str] = []
    await asyncio.to_thread(cluster.until_whole)
    trouble = kill_a_primary(cluster, "{lost}", cut=0.3, shards=4)
    counted = await run(f"{cluster.url}?prefix=lost&shards=4", 1500, [trouble], shards=4,
                        workers=1, say=told.append)  # fmt: skip
    [said] = [each for each in told if "are lost" in each]
    assert said.endswith(f", {counted.lost} are lost")


async def test_nothing_is_lost_when_sentinels_replace_the_primary_while_jobs_run(sentinels):
    troubles = [kill_the_primary(sentinels)]
    url = f"{sentinels.url}?shards=4&wait_replicas=1&wait_timeout=5"
    counted = await run(url, 1500, troubles, shards=4, workers=1, say=quiet)
    assert (counted.accepted, counted.done, counted.lost) == (1500, 1500, 0)


async def test_who_waits_for_a_result_is_told_by_the_server_that_sentinels_name_now(sentinels):
    async with opened(f"{sentinels.url}?prefix=told") as store:
        await store.enqueue(jobs("a"))
        told = asyncio.Event()
        await store.watch("a", told.set)
        await asyncio.to_thread(kill_the_primary(sentinels), quiet)
        await accepted(store, "a")  # it may have been lost
        told.clear()
        claims = (await claim(store)).claims
        await store.commit([done(each) for each in claims])
        await asyncio.wait_for(told.wait(), 30)


async def test_a_service_that_no_sentinel_knows_is_said(sentinels):
    wrong = sentinels.url.replace("mymaster", "other")
    with pytest.raises(StoreUnavailableError, match=r"no sentinel answers .* 'other'"):
        await make_store(wrong).open()


async def test_doctor_names_the_primary_that_sentinels_know(sentinels):
    async with opened(f"{sentinels.url}?prefix=doctor") as store:
        [found] = [each for each in await store.doctor() if "sentinel" in each.sentence]
        assert isinstance(found, Finding)
        assert f"127.0.0.1:{sentinels.primary().port}" in found.sentence
