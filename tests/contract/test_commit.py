"""Which commits are written: the one that holds the lease, once."""

from mulligan.core.job import Lease
from mulligan.core.outcome import Cancelled, Returned
from tests.contract.making import (
    BOB,
    again,
    begin,
    claim,
    dead,
    done,
    job,
    jobs,
    lease,
    names,
    start,
)


async def test_every_end_is_terminal(store):
    first, second, third = await begin(store, *jobs("done", "failed", "cancelled"))
    await store.commit([done(first), dead(second), Cancelled(third.lease, "enough")])
    before = [await store.get(each) for each in ("done", "failed", "cancelled")]
    late = [again(each) for each in (first, second, third)]
    assert await store.commit(late) == ["already"] * 3
    newer = [done(each) for each in (first, second, third)]
    for each in newer:
        bumped = type(each)(Lease(each.lease.job, each.lease.token + 1), b"9")
        assert await store.commit([bumped]) == ["stale"]
    assert [await store.get(each) for each in ("done", "failed", "cancelled")] == before
    assert names(await claim(store, demand=5)) == []


async def test_a_stale_outcome_does_not_hold_up_the_others(store):
    first, second, third = await begin(store, *jobs("a", "b", "c"))
    await store.cancel(["b"], "enough")
    answers = await store.commit([done(first), done(second), again(third)])
    assert answers == ["written", "stale", "written"]
    assert (await store.get("a")).status == "done"
    assert (await store.get("b")).status == "cancelled"
    assert (await store.get("c")).status == "pending"


async def test_a_lease_with_a_token_yet_to_come_is_stale(store):
    [first] = await begin(store, job("a"))
    ahead = type(done(first))(lease(first, first.token + 1), b"1")
    assert await store.commit([ahead]) == ["stale"]
    assert (await store.get("a")).status == "processing"


async def test_an_outcome_of_an_unknown_job_is_stale(store):
    [first] = await begin(store, job("a"))
    unknown = type(done(first))(Lease("nobody", 1), b"1")
    assert await store.commit([unknown, done(first)]) == ["stale", "written"]


async def test_the_same_commit_twice_is_written_once(store):
    first, second, third = await begin(store, *jobs("a", "b", "c"))
    outcomes = [done(first), again(second), dead(third)]
    assert await store.commit(outcomes) == ["written"] * 3
    assert await store.commit(outcomes) == ["already"] * 3
    assert (await store.get("b")).retry_count == 1
    assert [len(await store.history(each)) for each in ("a", "b", "c")] == [0, 1, 1]
    assert names(await claim(store, demand=5)) == ["b"]


async def test_the_same_outcome_twice_in_one_batch_is_written_once(store):
    [first] = await begin(store, job("a"))
    assert await store.commit([again(first), again(first)]) == ["written", "already"]
    assert (await store.get("a")).retry_count == 1


async def test_a_commit_sent_again_is_known_until_the_job_is_committed_again(store):
    [first] = await begin(store, job("a"))
    await store.commit([again(first)])
    assert await store.commit([again(first)]) == ["already"]
    second = await start(store)
    assert await store.commit([again(first)]) == ["already"]
    await store.commit([done(second)])
    assert await store.commit([again(first)]) == ["stale"]
    assert await store.commit([done(second)]) == ["already"]


async def test_a_commit_sent_again_after_a_return_is_known(store):
    [first] = await begin(store, job("a"))
    await store.commit([Returned(first.lease)])
    assert await store.commit([Returned(first.lease)]) == ["already"]
    assert names(await claim(store, demand=5)) == ["a"]


async def test_a_commit_through_another_client_counts(store, another):
    [first] = await begin(store, job("a"))
    assert await another.commit([done(first)]) == ["written"]
    assert await store.commit([done(first)]) == ["already"]


async def test_nothing_to_commit_is_nothing(store):
    assert await store.commit([]) == []


async def test_tokens_only_grow(store, clock):
    [first] = await begin(store, job("a"))
    seen = [first.token]
    await store.commit([Returned(first.lease)])
    seen.append((await start(store)).token)
    clock.advance(100)
    [seized] = await store.seize(1, BOB)
    seen.append(seized.token)
    await store.commit([dead(seized)])
    await store.replay(["a"])
    seen.append((await start(store)).token)
    await store.cancel(["a"], "enough")
    seen.append((await store.get("a")).token)
    assert seen == sorted(set(seen))
