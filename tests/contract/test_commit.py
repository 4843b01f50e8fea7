"""Which commits are written: the one that holds the lease, once."""

from mulligan.core.job import Lease
from mulligan.core.outcome import Cancelled, Returned
from tests.contract.builders import (
    ANN,
    BOB,
    REAPER,
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


async def test_a_next_job_finds_the_unique_key_as_the_outcomes_before_it_left_it(store):
    new = [job("k1", unique_key="u"), job("k2", unique_key="v"), *jobs("a", "b")]
    first, second, third, fourth = await begin(store, *new)
    early = done(third, b"1", job("early", unique_key="u"))
    late = done(fourth, b"1", job("late", unique_key="v"))
    await store.commit([early, done(first), done(second), late])
    assert await store.get("early") is None
    assert (await store.get("late")).status == "pending"


async def test_a_next_job_finds_the_unique_key_taken_if_a_later_outcome_cancels_who_has_it(store):
    await store.enqueue([job("gathering", awaits=2, unique_key="u")])
    first, second, third = await begin(store, job("a"), job("b", gather="gathering"), job("c"))
    early = done(first, b"1", job("early", unique_key="u"))
    late = done(third, b"1", job("late", unique_key="u"))
    await store.commit([early, Cancelled(second.lease, "enough"), late])
    assert (await store.get("gathering")).status == "cancelled"
    assert await store.get("early") is None
    assert (await store.get("late")).status == "pending"


async def test_a_member_arrives_at_a_next_job_of_an_outcome_before_its_own(store):
    new = [job("m1", gather="g"), job("a"), job("m2", gather="g", gather_index=1)]
    first, second, third = await begin(store, *new)
    gathering = done(second, b"1", job("g", awaits=2))
    await store.commit([done(first), gathering, done(third, b"2")])
    assert await store.arrivals("g") == {1: b"2"}
    assert (await store.get("g")).awaits == 1


async def test_a_cancelled_member_cancels_a_next_job_of_an_outcome_before_its_own(store):
    new = [job("m1", gather="g"), job("a"), job("m2", gather="h")]
    first, second, third = await begin(store, *new)
    awaiting = done(second, b"1", job("g", awaits=1), job("h", awaits=1))
    await store.commit([Cancelled(first.lease, ""), awaiting, Cancelled(third.lease, "")])
    assert [(await store.get(each)).status for each in "gh"] == ["pending", "cancelled"]


async def test_stale_outcomes_between_them_do_not_change_the_order_of_those_that_hold(store):
    first, _ = await begin(store, *jobs("a", "b"))
    await store.leave(ANN)
    newer, other = await store.reclaim(9, REAPER)
    verdicts = await store.commit([again(newer), done(first), again(other)])
    assert verdicts == ["written", "stale", "written"]
    assert names(await claim(store, demand=2)) == ["a", "b"]


async def test_nothing_to_commit_is_nothing(store):
    assert await store.commit([]) == []


async def test_tokens_only_grow(store, clock):
    [first] = await begin(store, job("a"))
    seen = [first.token]
    await store.commit([Returned(first.lease)])
    seen.append((await start(store)).token)
    clock.advance(100)
    [reclaimed] = await store.reclaim(1, BOB)
    seen.append(reclaimed.token)
    await store.commit([dead(reclaimed)])
    await store.replay(["a"])
    seen.append((await start(store)).token)
    await store.cancel(["a"], "enough")
    seen.append((await store.get("a")).token)
    assert seen == sorted(set(seen))
