"""Notes, counts, facts and pruning in Redis."""

from redis.asyncio import Redis

from mulligan.core.counts import Count
from mulligan.core.health import SLOT
from tests.contract.builders import (
    begin,
    done,
    jobs,
)
from tests.store_kit import VirtualClock
from tests.stores.redis.kit import commands_of, counted, key, keys_of, opened


async def test_notes_are_found_without_reading_the_others(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        await store.note("find/a", b"1", 600.0)
        await store.note("find/é\U0010ffff", b"2", 600.0)
        for number in range(300):
            await store.note(f"other/{number}", b"", 600.0)
        await store.notes("find/")  # the server learns the script
        await client.config_resetstat()
        assert await store.notes("find/") == {"find/a": b"1", "find/é\U0010ffff": b"2"}
        calls = {name.removeprefix("cmdstat_") for name in await client.info("commandstats")}
    assert calls - {"evalsha_ro", "evalsha", "time", "config|resetstat", "config"} == {
        "zrangebylex", "zmscore", "hmget"
    }  # fmt: skip


async def test_counts_of_a_few_seconds_expire_by_themselves(store, client):
    await store.count([Count("q", "US", "failed", 1)])
    [slot] = [name for name in await keys_of(client, store) if name.startswith("counted:")]
    assert 0 < await client.ttl(key(store, slot)) <= 120


async def test_facts_cost_the_same_however_much_was_counted_long_ago(own_server):
    clock = VirtualClock()
    async with counted(own_server.url, clock) as store, Redis.from_url(own_server.url) as client:
        await store.count([Count("q", "US", "failed", 1)])
        await store.facts()  # the server learns the script
        few = await commands_of(client, store.facts())
        for n in range(50):
            clock.advance(SLOT)
            await store.count([Count("q", "US", name, 1) for name in ("failed", f"other {n}")])
        assert await commands_of(client, store.facts()) == few


async def test_jobs_that_ended_together_are_pruned_in_parts(store):
    taken = await begin(store, *jobs("a", "b", "c", "d", "e"))
    await store.commit([done(each) for each in taken])
    assert [await store.prune(-1.0, 2) for _ in range(4)] == [2, 2, 1, 0]


async def test_what_ended_long_ago_is_pruned_though_younger_ones_are_listed_first(url, client):
    clock = VirtualClock()
    async with opened(url, clock) as store:

        async def end(*names_: str) -> None:
            for each in await begin(store, *jobs(*names_)):
                await store.commit([done(each)])

        await end(*(f"ahead{n}" for n in range(150)))  # by a clock that is a year ahead
        clock.advance(-31_536_000.0)
        await end("old0", "old1")
        clock.advance(40.0)
        await end("young")
        clock.advance(-20.0)
        await end("between")
        clock.advance(70.0)
        assert await store.prune(80.0, 1) == 1
        assert await store.prune(80.0, 10) == 1
        assert await store.prune(60.0, 10) == 1
        assert await store.get("between") is None
        assert await store.get("young") is not None
        clock.advance(31_536_100.0)
        assert [await store.prune(60.0, 100) for _ in range(3)] == [100, 51, 0]
        assert not await client.exists(key(store, "past"))


async def test_a_second_life_is_kept_for_its_own_time(url):
    clock = VirtualClock()
    async with opened(url, clock) as store:
        for _ in range(2):
            await store.commit([done(each) for each in await begin(store, *jobs("a", "b"))])
            clock.advance(100.0)
            assert await store.purge(["a", "b"]) == [True, True]
        await store.commit([done(each) for each in await begin(store, *jobs("a", "b"))])
        clock.advance(50.0)
        assert await store.prune(100.0, 10) == 0
        assert await store.get("a") is not None
        clock.advance(51.0)
        assert await store.prune(100.0, 10) == 2
