"""A job's id may be used again once the job is deleted; what held the first life is then void."""

import re
from importlib.resources import files

import pytest

from mulligan.core.job import TOKENS_PER_LIFE, first_token
from mulligan.core.outcome import Cancelled, Later, Returned
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import (
    ANN,
    BOB,
    REAPER,
    adopted_from,
    again,
    begin,
    claim,
    dead,
    done,
    job,
    jobs,
    names,
    start,
    used,
)

KEEP_DONE = 3600.0


async def purged_as_a_dead_letter(store, clock):
    clock.advance(ANN.lease)
    [reclaimed] = await store.reclaim(1, REAPER)
    await store.commit([dead(reclaimed)])
    assert await store.purge(["a"]) == [True]


async def pruned_after_it_was_kept(store, clock):
    clock.advance(ANN.lease)
    [reclaimed] = await store.reclaim(1, REAPER)
    await store.commit([done(reclaimed)])
    clock.advance(KEEP_DONE + 1)
    assert await store.prune(KEEP_DONE, 10) == 1


async def cancelled_and_purged(store, clock):
    assert await store.cancel(["a"], "enough") == [True]
    clock.advance(1)
    assert await store.purge(["a"]) == [True]


ENDS = (purged_as_a_dead_letter, pruned_after_it_was_kept, cancelled_and_purged)


@pytest.fixture(params=ENDS, ids=lambda end: end.__name__)
async def first(request, store, clock):
    """What a worker still believes to hold: a job whose id has been enqueued again since."""
    [claimed] = await begin(store, job("a"))
    await request.param(store, clock)
    assert await store.enqueue(jobs("a")) == [("a", True)]
    return claimed


def everything_about(claimed):
    """Each outcome that a worker could commit."""
    return [
        done(claimed, b'"old"', job("next")),
        again(claimed),
        dead(claimed, "old", job("told")),
        Later(claimed.lease, 5.0),
        Returned(claimed.lease),
        Cancelled(claimed.lease, "old"),
    ]


async def test_a_stale_commit_changes_nothing_in_a_second_life_that_waits(store, first):
    before = await store.get("a")
    for stale in everything_about(first):
        assert await store.commit([stale]) == ["stale"]
    assert await store.get("a") == before
    assert await store.get("next") is await store.get("told") is None
    assert names(await claim(store, demand=5, worker=BOB)) == ["a"]


async def test_a_stale_commit_changes_nothing_in_a_second_life_that_runs(store, first):
    second = await start(store, worker=BOB)
    before = await store.get("a")
    for stale in everything_about(first):
        assert await store.commit([stale]) == ["stale"]
    assert await store.get("a") == before
    assert await store.history("a") == []
    assert await store.get("next") is await store.get("told") is None
    assert await store.commit([done(second)]) == ["written"]


async def test_a_stale_commit_changes_nothing_in_a_second_life_that_has_ended(store, first):
    await store.commit([dead(await start(store, worker=BOB), "new")])
    before = await store.get("a")
    for stale in everything_about(first):
        assert await store.commit([stale]) == ["stale"]
    assert await store.get("a") == before
    assert [each.message for each in await store.history("a")] == ["new"]


async def test_a_lease_of_the_first_life_is_lost_in_the_second(store, first):
    assert (await store.beat(ANN, [first.lease])).lost == [first.lease]
    second = await start(store, worker=ANN)
    beat = await store.beat(ANN, [first.lease, second.lease])
    assert beat.lost == [first.lease]


async def test_a_beat_for_the_first_life_does_not_keep_the_second(store, clock, first):
    await store.beat(ANN, [])
    second = await start(store, worker=BOB)
    clock.advance(BOB.lease)
    await store.beat(ANN, [first.lease])
    [reclaimed] = await store.reclaim(10, REAPER)
    assert (reclaimed.worker, reclaimed.token) == (BOB.id, second.token + 1)


async def test_who_shows_a_lease_of_the_first_life_has_forgotten_that_of_the_second(
    store, clock, first
):
    second = await start(store, worker=ANN)
    clock.advance(ANN.lease - 1)
    await store.beat(ANN, [first.lease])
    clock.advance(ANN.lease - 1)
    assert (await store.beat(ANN, [first.lease])).forgotten == [second.lease]


async def test_the_token_of_a_job_that_was_never_claimed_is_its_first(store):
    await store.enqueue(jobs("a"))
    stored = await store.get("a")
    assert stored.token >= first_token(1)
    assert used(stored) == 0
    assert (await start(store)).token == stored.token + 1


async def test_tokens_grow_over_all_lives_of_an_id(store, another, clock):
    seen = []
    for end in ENDS * 2:
        for handle in (store, another):
            await handle.enqueue(jobs("a"))
            seen.append((await handle.get("a")).token)
            claimed = await start(handle)
            await handle.commit([again(claimed)])
            seen += [claimed.token, (await start(another)).token]
            await end(handle, clock)
    assert seen == sorted(set(seen))


async def test_tokens_grow_over_lives_in_different_queues(store):
    await store.enqueue([job(f"other {n}", queue="busy") for n in range(50)])
    [first] = await begin(store, job("a"))
    await store.commit([dead(first)])
    await store.purge(["a"])
    [second] = await begin(store, job("a", queue="never used before"))
    assert second.token > first.token


async def test_tokens_grow_over_lives_that_a_stage_before_began(store):
    tokens = []
    for life in ("one", "two", "three"):
        [before] = await begin(store, job(life))
        await store.commit([done(before, b"1", job("next"))])
        claimed = await start(store)
        tokens.append(claimed.token)
        assert await store.commit([dead(claimed)]) == ["written"]
        assert await store.purge(["next"]) == [True]
    assert tokens == sorted(set(tokens))


async def test_tokens_grow_over_lives_of_a_job_that_gathers(store):
    tokens = []
    for _ in range(3):
        await store.enqueue([job("all", awaits=1), job("one", gather="all")])
        tokens.append((await store.get("all")).token)
        await store.commit([done(await start(store))])
        gathering = await start(store)
        tokens.append(gathering.token)
        await store.commit([done(gathering)])
        assert await store.purge(["all", "one"]) == [True, True]
    assert tokens == sorted(set(tokens))


async def test_a_lease_of_another_store_holds_nothing_where_its_job_was_adopted(store, clock):
    other = MemoryStore(clock=clock)
    tokens = []
    for _ in range(3):
        [theirs] = await begin(other, job("a"))
        assert await store.adopt(await adopted_from(other, "a")) == [True]
        assert await store.commit([done(theirs)]) == ["stale"]
        ours = await start(store, worker=BOB)
        assert await store.commit([done(theirs)]) == ["stale"]
        assert (await store.beat(ANN, [theirs.lease])).lost == [theirs.lease]
        tokens.append(ours.token)
        await store.commit([done(ours)])
        await store.purge(["a"])
        await other.cancel(["a"], "moved")
        await other.purge(["a"])
    assert tokens == sorted(set(tokens))


async def test_a_job_that_was_claimed_and_returned_still_expires(store, clock):
    [first] = await begin(store, job("a", expires=5.0))
    await store.commit([Returned(first.lease)])
    clock.advance(5)
    assert names(await claim(store, demand=5)) == []
    stored = await store.get("a")
    assert (stored.status, stored.cancel_reason) == ("cancelled", "expired before it could start")


async def test_promotion_ends_what_was_returned_after_it_had_expired(store, clock):
    [first] = await begin(store, job("a", expires=5.0))
    clock.advance(10)
    await store.promote(100)
    assert (await store.get("a")).status == "processing"
    await store.commit([Returned(first.lease)])
    await store.promote(100)
    assert (await store.get("a")).status == "cancelled"


async def test_what_was_returned_in_time_starts_in_time(store, clock):
    [first] = await begin(store, job("a", expires=5.0))
    await store.commit([Returned(first.lease)])
    clock.advance(4)
    await store.promote(100)
    assert await store.commit([done(await start(store))]) == ["written"]
    clock.advance(4)
    await store.promote(100)
    assert (await store.get("a")).status == "done"


@pytest.mark.parametrize("how", ["retry", "snooze", "replay"])
async def test_what_has_started_once_no_longer_expires(store, clock, how):
    [first] = await begin(store, job("a", expires=5.0))
    match how:
        case "retry":
            await store.commit([again(first)])
        case "snooze":
            await store.commit([Later(first.lease, 0.0)])
        case "replay":
            await store.commit([dead(first)])
            await store.replay(["a"])
    clock.advance(10)
    await store.promote(100)
    assert names(await claim(store, demand=5)) == ["a"]


async def test_an_adopted_job_expires_unless_it_has_started(store, clock):
    other = MemoryStore(clock=clock)
    returned, retried = await begin(other, *jobs("returned", "retried", expires=5.0))
    await other.commit([Returned(returned.lease), again(retried)])
    handed = await adopted_from(other, "returned", "retried")
    assert await store.adopt(handed) == [True, True]
    clock.advance(5)
    assert names(await claim(store, demand=5)) == ["retried"]
    assert (await store.get("returned")).status == "cancelled"


# Where a job comes in without Python, by a script or a trigger, the number cannot be bound.
WRITTEN_OUT = {
    "redis": ("redis", "lua/shared/join.lua", r"TOKENS_PER_LIFE = (\d+)"),
    "postgres": ("postgres", "sql/lanes.sql", r"number \* (\d+)"),
    "postgres, adopting": ("postgres", "sql/adopt.sql", r"token % (\d+)"),
    "sqlite": ("sqlite", "schema/inbox.sql", r"number \* (\d+)"),
}


@pytest.mark.parametrize("place", WRITTEN_OUT)
def test_scripts_and_triggers_give_a_life_as_many_tokens_as_the_core_does(place):
    store, path, number = WRITTEN_OUT[place]
    text = files(f"mulligan.stores.{store}").joinpath(path).read_text()
    assert re.findall(number, text) == [str(TOKENS_PER_LIFE)]
