"""Plans as the fetch policies make them, walked by a store."""

from msgspec.structs import replace

from mulligan.core.decide import decide
from mulligan.core.facts import QueueSettings
from mulligan.core.fetch import Balanced, Fifo, RetryFirst, Separate, Weighted
from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import Failed, Lost
from mulligan.core.retry import Retry
from tests.contract.builders import (
    ANN,
    BOB,
    FRESH,
    REAPER,
    RETRY,
    again,
    begin,
    body,
    claim,
    done,
    job,
    jobs,
    names,
    run_by_policy,
    start,
)


async def with_retries(store, *ids):
    taken = await begin(store, *jobs(*ids))
    await store.commit([again(each) for each in taken])


async def test_lanes_come_by_priority_and_retries_of_any_region_before_the_own(
    store,
):
    await store.enqueue([job("fresh"), job("fresh *", region="*")])
    await store.enqueue([job("urgent", priority=2), job("urgent *", region="*", priority=2)])
    one, other = await begin(store, *jobs("retry", "retry *", region="elsewhere"))
    own = Lane("default", "default", Priority.RETRY)
    await store.commit([again(one, lane=own), again(other, lane=RETRY)])
    claimed = await run_by_policy(store, 9, settings=QueueSettings(RetryFirst()))
    order = ["urgent", "urgent *", "retry *", "retry", "fresh", "fresh *"]
    assert names(claimed) == order


async def test_retry_first_starts_every_due_retry_before_any_fresh_job(store):
    await with_retries(store, "r1", "r2", "r3")
    await store.enqueue(jobs("f1", "f2"))
    claimed = await run_by_policy(store, 4, settings=QueueSettings(RetryFirst()))
    assert names(claimed) == ["r1", "r2", "r3", "f1"]


async def test_fifo_puts_a_retry_at_the_end_of_the_fresh_line(store, clock):
    await store.configure("default", QueueSettings(Fifo()))
    await store.enqueue([job("a", body=body(Retry(3)))])
    first = await start(store)
    facts = await store.facts()
    await store.commit([decide(first, Failed("E", "boom", delay=2.0), facts, 0.0)])
    await store.enqueue(jobs("b"))
    clock.advance(2)
    await store.enqueue(jobs("c"))
    assert names(await run_by_policy(store, 9)) == ["b", "a", "c"]


async def test_weighted_splits_a_claim_by_its_share(store):
    await with_retries(store, "r1", "r2", "r3", "r4")
    await store.enqueue(jobs(*(f"f{n}" for n in range(9))))
    claimed = await run_by_policy(store, 10, settings=QueueSettings(Weighted(0.2)))
    assert sum(name.startswith("r") for name in names(claimed)) == 2


async def test_balanced_gives_each_side_half_and_either_what_the_other_leaves(store):
    await with_retries(store, "r1", "r2", "r3", "r4")
    await store.enqueue(jobs("f1", "f2", "f3", "f4"))
    claimed = await run_by_policy(store, 4, settings=QueueSettings(Balanced()))
    assert sorted(names(claimed)) == ["f1", "f2", "r1", "r2"]
    await store.cancel(["f3", "f4"], "enough")
    assert names(await run_by_policy(store, 4)) == ["r3", "r4"]


async def test_separate_workers_take_only_their_own_kind(store):
    await store.configure("default", QueueSettings(Separate()))
    await with_retries(store, "r1")
    await store.enqueue(jobs("f1"))
    assert names(await run_by_policy(store, 9, replace(ANN, only="fresh"))) == ["f1"]
    assert names(await run_by_policy(store, 9, replace(BOB, only="retries"))) == ["r1"]


async def test_several_queues_are_served_in_turn(store):
    await store.enqueue([*jobs("a1", "a2", "a3", "a4"), *jobs("b1", "b2", "b3", queue="mail")])
    both = replace(ANN, queues=("default", "mail"))
    assert sorted(names(await run_by_policy(store, 4, both))) == ["a1", "a2", "b1", "b2"]
    assert sorted(names(await run_by_policy(store, 9, both))) == ["a3", "a4", "b3"]


async def test_a_first_retry_is_left_to_other_regions_for_a_grace(store, clock):
    us, eu = replace(ANN, region="US"), replace(BOB, region="EU")
    await store.beat(us, [])
    await store.beat(eu, [])
    await store.enqueue([job("a", region="US")])
    [first] = (await run_by_policy(store, 1, us)).claims
    failed = Failed("E", "boom", delay=2.0)
    await store.commit([decide(first, failed, await store.facts(), 0.0)])
    clock.advance(2)
    waiting = await run_by_policy(store, 1, us)
    assert (names(waiting), waiting.again_in) == ([], 2.0)
    assert names(await run_by_policy(store, 1, eu)) == ["a"]


async def test_after_its_grace_the_region_that_failed_it_may_take_it(store, clock):
    us, eu = replace(ANN, region="US"), replace(BOB, region="EU")
    await store.beat(us, [])
    await store.beat(eu, [])
    await store.enqueue([job("a", region="US")])
    [first] = (await run_by_policy(store, 1, us)).claims
    await store.commit([decide(first, Failed("E", "boom", delay=0.0), await store.facts(), 0.0)])
    clock.advance(2)
    assert names(await run_by_policy(store, 1, us)) == ["a"]


async def test_a_lost_attempt_is_a_retry_due_at_once_and_ends_at_max_retries(store, clock):
    await store.enqueue([job("a", body=body(Retry(1)))])
    for n, status in enumerate(("pending", "failed")):
        await start(store, worker=replace(ANN, id=f"ann-{n}"))
        clock.advance(ANN.lease)
        [reclaimed] = await store.reclaim(10, REAPER)
        await store.commit([decide(reclaimed, Lost(), await store.facts(), 0.0)])
        stored = await store.get("a")
        assert stored.status == status
        await store.beat(REAPER, [])
    assert [each.type for each in await store.history("a")] == ["Lost", "Lost"]
    assert names(await claim(store, FRESH, RETRY, demand=9)) == []


async def test_a_dead_letter_is_told_of_once_even_when_its_commit_is_sent_again(store):
    await store.enqueue(
        [job("a", body=body(Retry(0), on_dead={"task": "mourn", "queue": "alerts"}))]
    )
    outcome = decide(await start(store), Failed("E", "boom"), await store.facts(), 0.0)
    assert await store.commit([outcome, outcome]) == ["written", "already"]
    alerts = Lane("alerts", "default", 0)
    claimed = await claim(store, alerts, demand=9)
    assert [each.task for each in claimed.claims] == ["mourn"]
    assert await store.commit([done(claimed.claims[0])]) == ["written"]
