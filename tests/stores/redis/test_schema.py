"""The keys of a Redis store: each is documented, and nothing is left of what is gone."""

import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from mulligan.core.budget import Budget
from mulligan.core.counts import Count
from mulligan.core.errors import StoreError
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import RetryFirst
from mulligan.core.health import CLOSED, Breaker
from mulligan.core.lane import Lane
from mulligan.core.limits import Limit
from mulligan.core.outcome import Returned
from mulligan.core.page import Selection
from mulligan.core.plan import Cap
from mulligan.core.record import Record, Recording
from mulligan.core.reschedule import Reschedule
from mulligan.stores.contract import Store
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    RETRY,
    again,
    claim,
    dead,
    done,
    job,
    jobs,
    run_by_policy,
    source,
)
from tests.store_kit import VirtualClock, require, with_query
from tests.stores.redis.kit import key, keys_of, opened

PAGE = Path(__file__).parents[3] / "docs/reference/stores/redis.md"


@pytest.mark.parametrize("read_only", [False, True])
async def test_another_layout_is_refused(store, client, read_only):
    await client.set(key(store, "layout"), "2")
    with pytest.raises(StoreError, match="has keys of layout 2, and this release knows 1; use the"):
        await store.open(read_only=read_only)


def documented() -> dict[str, tuple[re.Pattern[str], str]]:
    """The table of keys in the documentation: for each a pattern, and the type."""
    row = re.compile(r"^\| `([^`]+)` \| (string|hash|list|set|zset) \|", re.MULTILINE)
    return {
        name: (re.compile("[^:]+:[^:]+:[^:]+".join(map(named, name.split("LANE")))), kind)
        for name, kind in row.findall(PAGE.read_text())
    }


def named(part: str) -> str:
    return re.sub(r"[A-Z]+", ".+", re.escape(part))


async def live_through(store: Store) -> AsyncIterator[None]:
    """Do a little of everything, so that every kind of key is there at one time or another."""
    await store.set_limit("k*", Limit(concurrency=1), declared=True)
    await store.set_limit("r", Limit(rate=1, per=60.0), declared=False)
    limited = [*jobs("k1", "k2", limits='{"k":1}'), *jobs("r1", "r2", limits='{"r":1}')]
    fair = [job(f"f{n}", fairness_key=f"f{n}", region="EU") for n in range(3)]
    new = [*jobs(*"abcdefgh"), job("u", priority=2, unique_key="u", expires=9.0)]
    await store.enqueue(
        [*new, *limited, *fair, job("k3", delay=60.0, limits='{"k":1}', priority=2)]
    )
    await store.enqueue([job("later", delay=60.0), *jobs("x", "y", "z", keep=60)])
    yield
    await claim(store, Lane("default", "EU", 0), demand=2)
    taken = (await claim(store, demand=11)).claims
    await store.commit([again(taken[0]), dead(taken[1]), done(taken[2]), Returned(taken[3].lease)])
    urgent = Lane("default", "*", 3)
    await store.commit([again(taken[4], lane=urgent), again(taken[5], 50.0), again(taken[6])])
    await store.cancel(["y"], "enough")
    yield
    await store.pause("mail", paused=True)
    await claim(store, source(Lane("mail", "default", 0), Cap("one", 1)))
    yield
    await claim(store, source(FRESH, Cap("one", 1)))
    share = QueueSettings(RetryFirst(), Budget(ratio=0.5))
    await run_by_policy(store, 20, BOB, share)
    yield
    await store.enqueue([job("all", awaits=2), *jobs("m0", "m1", gather="all")])
    members = await claim(store, demand=9)
    await store.commit([done(each) for each in members.claims if each.id == "m0"])
    await store.count([Count("default", "default", "failed", 1)])
    await store.switch("default", "default", CLOSED, Breaker(open=True))
    await store.note("a", b"1", 60.0)
    await store.reschedule(Reschedule("daily", None, b"{}"))
    running = [each for each in members.claims if each.id == "m1"]
    written = (Record("step", 1, b"1", "cut"), Record("log", 2, b'"half way"'))
    await store.record([Recording(each.lease, written) for each in running])
    yield


async def test_every_key_is_documented_with_its_type_and_has_the_hash_tag(store, client):
    table = documented()
    seen = set()
    async for _ in live_through(store):
        for name, kind in (await keys_of(client, store)).items():
            fitting = {row for row, (p, of) in table.items() if p.fullmatch(name) and of == kind}
            assert fitting, f"{name} is a {kind}"
            seen |= fitting
    unseen = set(table) - seen
    assert unseen <= {"wake:WORKER", "inbox", "inbox:taken", "inbox:refused", "limits-pruned"}


async def test_no_key_is_without_the_hash_tag(own_server):
    async with opened(own_server.url) as store, Redis.from_url(own_server.url) as client:
        async for _ in live_through(store):
            keys = [name async for name in client.scan_iter(count=1000)]
            assert all(name.startswith(b"{mulligan}:") for name in keys)


async def test_nothing_is_left_of_jobs_that_are_pruned_and_purged(store, client):
    await store.beat(ANN, [])
    await claim(store)
    before = Counter((await keys_of(client, store)).keys())
    await store.set_limit("k", Limit(concurrency=1, rate=5, per=0.001), declared=True)
    new = [*jobs("a", "b", unique_key=None), *jobs("k1", "k2", "k3", limits='{"k":1}')]
    new += [job(f"f{n}", fairness_key=f"f{n}", limits='{"other":1}') for n in range(3)]
    await store.enqueue([*new, job("d", delay=60.0, unique_key="u", expires=90.0)])
    taken = (await claim(store, demand=9)).claims
    assert len(taken) == 6
    by_name = {each.id: each for each in taken}
    await store.commit([dead(by_name.pop("b")), *map(done, by_name.values())])
    await store.cancel(["d", "k2", "k3"], "enough")
    await store.set_limit("k", None, declared=True)
    members = [job(f"m{index}", gather="all", gather_index=index) for index in range(3)]
    await store.enqueue([job("all", awaits=3, unique_key="v"), *members])
    first, second = (await claim(store, demand=2)).claims
    await store.commit([done(first), dead(second)])
    assert await store.purge(["m1", "all"]) == [True, True]
    assert await store.cancel(["m2"], "enough") == [True]
    assert await store.purge(["b"]) == [True]
    assert await store.prune(-1.0, 100) == 10
    await claim(store)
    left = Counter((await keys_of(client, store)).keys()) - before
    assert set(left) <= {"sequence", "holders", "lanes"}


async def test_names_of_limits_are_pruned_some_at_a_time(store, client):
    names = {f"name {number}": "0 0 0 0" for number in range(5000)}
    await client.hset(key(store, "limit-states"), mapping=names)
    await store.prune(3600.0, 100)
    assert 0 < await client.hlen(key(store, "limit-states")) < 5000
    while await client.exists(key(store, "limits-pruned")):
        await store.prune(3600.0, 100)
    assert await store.limits(10) == []


async def test_nothing_is_left_of_a_worker_that_died(url, client):
    clock = VirtualClock()
    async with opened(url, clock) as store:
        await claim(store, worker=ANN)
        clock.advance(ANN.lease)
        await store.reclaim(1, BOB)
        assert "sleepers" not in await keys_of(client, store)
        clock.advance(2 * 86_400.0)
        await store.prune(0.0, 100)
        left = set(await keys_of(client, store))
        assert not [name for name in left if name.startswith(("worker", "serving"))]


@pytest.fixture
async def patient(own_server) -> AsyncIterator[Store]:
    """A store whose server others need not wait for, and that waits on a busy machine."""
    require("redis")
    async with opened(with_query(own_server.url, socket_timeout="60")) as fresh:
        yield fresh


@pytest.mark.prove
async def test_a_hundred_thousand_jobs_meet_no_limit_of_lua(patient):
    store = patient
    for at in range(0, 100_000, 1000):
        await store.enqueue(jobs(*(f"j{n}" for n in range(at, at + 1000))))
    assert await store.depth(FRESH, 200_000) == 100_000
    for at in range(0, 98_000, 1000):
        gone = [f"j{n}" for n in range(at, at + 1000)]
        assert all(await store.cancel(gone, "enough"))
    assert await store.depth(FRESH, 200_000) == 2000
    assert await store.ahead("j99000") == 1000
    claimed = await claim(store, demand=1000)
    assert [each.id for each in claimed.claims] == [f"j{n}" for n in range(98_000, 99_000)]
    assert set(await store.commit([again(each) for each in claimed.claims])) == {"written"}
    retried = await claim(store, RETRY, demand=1000)
    assert set(await store.commit([done(each) for each in retried.claims])) == {"written"}
    while await store.prune(-1.0, 10_000):
        pass
    assert len((await store.page(Selection(), 2000)).jobs) == 1000
