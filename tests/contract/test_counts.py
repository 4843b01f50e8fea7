"""What is counted by queue and region, and the breakers that follow from it."""

import asyncio

from msgspec.structs import replace

from mulligan.core.counts import Count
from mulligan.core.health import CLOSED, SLOT, WINDOW, Breaker, Health
from tests.contract.builders import ANN, BOB, FRESH, claim, group, in_turn
from tests.contract.waits import woken

OPEN = Breaker(open=True)


def count(name: str, value: float = 1, queue: str = "q", region: str = "US") -> Count:
    return Count(queue, region, name, value)


async def test_nothing_is_counted_in_a_new_store(store):
    counts = await store.counts()
    assert (counts.ever, counts.recent) == ({}, {})
    assert (await store.facts()).health == {}


async def test_counts_add_up_by_queue_region_and_name(store):
    await store.count([count("started", 2), count("started", 3), count("started", 1, region="EU")])
    await store.count([count("started", 4), count("wait seconds", 0.25), count("x", 1, "other")])
    counts = await store.counts()
    assert counts.ever == counts.recent
    assert counts.ever == {
        ("q", "US", "started"): 9,
        ("q", "EU", "started"): 1,
        ("q", "US", "wait seconds"): 0.25,
        ("other", "US", "x"): 1,
    }


async def test_what_is_older_than_a_minute_is_not_recent(store, clock):
    await store.count([count("started")])
    clock.advance(WINDOW - SLOT)
    await store.count([count("started")])
    assert (await store.counts()).recent == {("q", "US", "started"): 2}
    clock.advance(2 * SLOT)
    counts = await store.counts()
    assert (counts.ever, counts.recent) == (
        {("q", "US", "started"): 2},
        {("q", "US", "started"): 1},
    )
    await store.prune(0, 100)
    assert (await store.counts()) == counts


async def test_counting_says_how_the_region_is(store):
    counts = [count("succeeded", 3), count("failed", 2), count("succeeded", 5, region="EU")]
    assert await store.count(counts) == {("q", "US"): Health(3, 2), ("q", "EU"): Health(5, 0)}
    assert await store.count([count("failed", 1)]) == {("q", "US"): Health(3, 3)}
    assert await store.count([count("failed", 1, "other")]) == {("other", "US"): Health(0, 1)}
    facts = await store.facts()
    assert facts.health[("q", "US")] == Health(3, 3)
    assert (await store.beat(ANN, [])).facts.health == facts.health


async def test_health_looks_at_the_last_minute(store, clock):
    await store.count([count("succeeded", 3)])
    clock.advance(WINDOW + SLOT)
    assert await store.count([count("failed", 2)]) == {("q", "US"): Health(0, 2)}
    clock.advance(WINDOW + SLOT)
    assert (await store.facts()).health.get(("q", "US"), Health()) == Health()


async def test_a_breaker_that_opens_or_closes_is_stamped_and_forgets_what_was_before(store, clock):
    await store.count([count("failed", 30)])
    clock.advance(SLOT)
    assert await store.switch("q", "US", CLOSED, OPEN)
    opened = Breaker(open=True, since=clock.now)
    assert (await store.facts()).health[("q", "US")] == Health(0, 0, opened)
    clock.advance(SLOT)
    assert await store.count([count("succeeded")]) == {("q", "US"): Health(1, 0, opened)}
    clock.advance(SLOT)
    assert await store.switch("q", "US", opened, CLOSED)
    closed = Breaker(since=clock.now)
    assert (await store.facts()).health[("q", "US")] == Health(0, 0, closed)
    assert ("q", "EU") not in (await store.facts()).health


async def test_a_breaker_that_is_no_longer_as_it_was_is_left_alone(store, clock):
    assert not await store.switch("q", "US", OPEN, CLOSED)
    assert await store.switch("q", "US", CLOSED, OPEN)
    assert not await store.switch("q", "US", CLOSED, OPEN)
    opened = (await store.facts()).health[("q", "US")].breaker
    clock.advance(1)
    probed = replace(opened, probes=-2, probed_at=clock.now)
    assert await store.switch("q", "US", opened, probed)
    assert not await store.switch("q", "US", opened, CLOSED)
    assert (await store.facts()).health[("q", "US")].breaker == probed
    clock.advance(1)
    again = replace(probed, probed_at=clock.now)
    assert await store.switch("q", "US", probed, again)
    assert not await store.switch("q", "US", probed, CLOSED)
    assert (await store.facts()).health[("q", "US")].breaker == again


async def test_of_two_that_switch_at_once_one_does(store):
    answers = await asyncio.gather(*(store.switch("q", "US", CLOSED, OPEN) for _ in range(5)))
    assert sorted(answers) == [False] * 4 + [True]


async def test_plans_change_when_a_breaker_opens_and_when_its_pace_does(store, clock):
    before = (await store.beat(ANN, [])).facts.epoch
    await store.count([count("failed", 30)])
    assert (await store.facts()).epoch == before
    await store.switch("q", "US", CLOSED, OPEN)
    opened = await store.facts()
    assert opened.epoch > before
    breaker = opened.health[("q", "US")].breaker
    probed = replace(breaker, probes=-1, probed_at=clock.now)
    await store.switch("q", "US", breaker, probed)
    assert (await store.facts()).epoch == opened.epoch
    await store.switch("q", "US", probed, replace(probed, probes=-2))
    assert (await store.facts()).epoch > opened.epoch
    plan = replace(in_turn(1, group(FRESH)), epoch=before)
    assert (await store.claim(plan, ANN)).stale


async def test_a_breaker_that_opens_wakes_every_sleeper(store):
    for worker in (ANN, BOB):
        assert (await claim(store, worker=worker)).claims == []
    await store.switch("q", "US", CLOSED, OPEN)
    assert await woken(store, ANN)
    assert await woken(store, BOB)


async def test_facts_tell_the_time(store, clock):
    assert (await store.facts()).now == clock.now
    clock.advance(1.5)
    assert (await store.beat(ANN, [])).facts.now == clock.now


async def test_facts_tell_which_queues_a_region_serves(store):
    await store.beat(replace(ANN, region="EU", queues=("a", "b")), [])
    await store.beat(replace(BOB, region="EU", queues=("b", "c")), [])
    [region] = (await store.facts()).regions
    assert (region.name, region.serves) == ("EU", {"a", "b", "c"})


async def test_many_counts_are_taken_at_once(store):
    await store.count([count("started", 1, f"q{n}") for n in range(1000)])
    assert sum((await store.counts()).ever.values()) == 1000
