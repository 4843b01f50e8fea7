"""Which region is next: what each claim may take of a job that has failed in US, EU and ASIA."""

import pytest

from mulligan.core.answers import Claimed
from mulligan.core.decide import decide
from mulligan.core.health import Breaker
from mulligan.core.job import NewJob
from mulligan.core.outcome import Failed
from mulligan.core.worker import Worker
from mulligan.stores.contract import Store
from tests.contract.builders import body, names, run_by_policy
from tests.store_kit import VirtualClock

WORKERS = {region: Worker(f"{region.lower()}-1", region) for region in ("US", "EU", "ASIA")}
GRACE = 2.0
# Where it has failed, in this order; whom it is left to for the grace; and the others.
TURNS = [
    (("US",), ("EU", "ASIA"), ("US",)),
    (("US", "EU"), ("ASIA",), ("US", "EU")),
    (("US", "EU", "ASIA"), ("US",), ("EU", "ASIA")),
]
FIRST = [(failed, region) for failed, firsts, _ in TURNS for region in firsts]
LATER = [(failed, region) for failed, _, others in TURNS for region in others]


async def claim(store: Store, region: str) -> Claimed:
    """Claim one job as the region's worker does."""
    return await run_by_policy(store, 1, WORKERS[region])


async def fail_in(store: Store, clock: VirtualClock, regions: tuple[str, ...]) -> None:
    """Let a job fail in these regions, one after the other; all workers are idle then."""
    for worker in WORKERS.values():
        await store.beat(worker, [])
    await store.enqueue([NewJob("a", "default", "ask", body())])
    for region in regions:
        await fall_due(store, clock)
        [claimed] = (await claim(store, region)).claims
        outcome = decide(claimed, Failed("Timeout", "slow"), await store.facts(), 0.5)
        assert await store.commit([outcome]) == ["written"]
        for each in WORKERS:
            assert names(await claim(store, each)) == []


async def fall_due(store: Store, clock: VirtualClock) -> None:
    """Let the job fall due."""
    found = await store.get("a")
    assert found is not None
    clock.advance(found.due - clock.now)


@pytest.mark.parametrize(("failed", "region"), FIRST)
async def test_a_retry_may_be_taken_at_once_where_it_is_to_go_first(store, clock, failed, region):
    await fail_in(store, clock, failed)
    await fall_due(store, clock)
    assert names(await claim(store, region)) == ["a"]


@pytest.mark.parametrize(("failed", "region"), LATER)
async def test_a_retry_is_left_for_the_grace_to_where_it_is_to_go_first(
    store, clock, failed, region
):
    await fail_in(store, clock, failed)
    await fall_due(store, clock)
    waiting = await claim(store, region)
    assert (names(waiting), waiting.again_in) == ([], GRACE)
    clock.advance(GRACE)
    assert names(await claim(store, region)) == ["a"]


@pytest.mark.parametrize(("failed", "region"), LATER)
async def test_only_a_first_retry_is_kept_for_regions_that_are_busy(store, clock, failed, region):
    await fail_in(store, clock, failed)
    firsts = next(firsts for regions, firsts, _ in TURNS if regions == failed)
    for first in firsts:
        await store.enqueue([NewJob(first, "default", "ask", body(), region=first)])
        assert names(await claim(store, first)) == [first]
    await fall_due(store, clock)
    assert names(await claim(store, region)) == ([] if len(failed) == 1 else ["a"])


async def test_a_pinned_job_never_leaves_its_region_even_while_its_breaker_is_open(store, clock):
    for worker in WORKERS.values():
        await store.beat(worker, [])
    jobs = [
        NewJob(name, "default", "ask", body(), region)
        for name, region in (("free", "US"), ("pinned", "=US"))
    ]
    await store.enqueue(jobs)
    opened = Breaker(open=True, since=clock.now)
    assert await store.switch("default", "US", Breaker(), opened)
    clock.advance(GRACE + 1)
    assert names(await run_by_policy(store, 10, WORKERS["EU"])) == ["free"]
    assert names(await run_by_policy(store, 10, WORKERS["ASIA"])) == []
    [claimed] = (await claim(store, "US")).claims
    outcome = decide(claimed, Failed("Timeout", "slow"), await store.facts(), 0.5)
    assert await store.commit([outcome]) == ["written"]
    found = await store.get("pinned")
    assert found is not None
    assert (found.scope, found.status) == ("=US", "pending")
    clock.advance(found.due - clock.now + 10 * GRACE)
    for region in ("EU", "ASIA"):
        assert names(await run_by_policy(store, 10, WORKERS[region])) == []
    assert names(await claim(store, "US")) == ["pinned"]
