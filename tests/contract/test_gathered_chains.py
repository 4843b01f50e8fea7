"""Members of a gather that are chains: of each the last job arrives, or the one that ended it."""

import pytest
from msgspec.structs import replace

from mulligan.core.gather import Failure
from tests.contract.builders import begin, claim, dead, done, job, names, start
from tests.contract.test_gathered_failures import (
    ELSEWHERE,
    counts,
    failures,
    gathered,
    gathering,
    members,
)


def stage(name: str, index: int = 0, **fields):
    """The next job of the member at this index."""
    return job(name, gather="all", gather_index=index, **fields)


def handed_on(claimed, *following):
    """Done, and one of what follows arrives in its place."""
    return replace(done(claimed, b'"early"', *following), hands_on=True)


@pytest.mark.parametrize("takes_failures", [True, False])
async def test_the_last_job_of_a_chain_arrives(store, takes_failures):
    one, two = await gathered(store, 2, return_exceptions=takes_failures)
    sent = [handed_on(one, stage("m0.2")), done(two, b'"two"')]
    assert await store.commit(sent) == ["written"] * 2
    assert (await store.get("m0")).status == "done"
    assert await store.arrivals("all") == {1: b'"two"'}
    assert await counts(store, 2) == (1, 0, 0, 1)
    assert await store.commit(sent[:1]) == ["already"]
    await store.promote(10)  # nor does it later, where a crash is made good
    assert await store.arrivals("all") == {1: b'"two"'}
    await store.commit([done(await start(store), b'"late"')])
    assert await store.arrivals("all") == {0: b'"late"', 1: b'"two"'}
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_without_a_result_it_hands_on_too(store):
    [one] = await gathered(store, 1)
    await store.commit([replace(handed_on(one, stage("m0.2")), result=None)])
    assert await store.arrivals("all") == {}
    assert await counts(store, 1) == (0, 0, 0, 1)


async def test_a_later_stage_that_fails_arrives_and_its_replay_takes_that_back(store):
    one, two, _ = await gathered(store, 3)
    await store.commit([handed_on(one, stage("m0.2")), done(two)])
    await store.commit([dead(await start(store), "broke late")])
    assert (await failures(store))[0] == Failure("m0.2", "ValueError", "broke late", 1)
    assert await counts(store, 3) == (1, 1, 0, 1)
    assert await store.replay(["m0.2"]) == [True]
    assert await counts(store, 3) == (1, 0, 0, 2)
    await store.commit([done(await start(store), b"7")])
    assert (await store.arrivals("all"))[0] == b"7"


async def test_a_later_stage_that_fails_is_noted_where_results_are_wanted(store):
    one, _ = await gathered(store, 2, return_exceptions=False)
    await store.commit([handed_on(one, stage("m0.2"))])
    await store.commit([dead(await start(store))])
    assert await counts(store, 2) == (0, 1, 0, 1)
    assert [told.job for told in (await failures(store)).values()] == ["m0.2"]


@pytest.mark.parametrize("how", ["cancelled", "expired", "purged"])
async def test_a_later_stage_that_ends_otherwise_arrives_as_that(store, clock, how):
    [one] = await gathered(store, 1)
    await store.commit([handed_on(one, stage("m0.2", expires=5.0))])
    if how == "cancelled":
        await store.cancel(["m0.2"], "enough")
    elif how == "expired":
        clock.advance(6)
        await store.promote(10)
    else:
        await store.commit([dead(await start(store))])
        await store.purge(["m0.2"])
    assert [each.job for each in (await failures(store)).values()] == ["m0.2"]
    assert names(await claim(store, ELSEWHERE)) == ["all"]


async def test_a_fan_out_within_a_member_arrives_as_one(store):
    [one, _] = await gathered(store, 2)
    inner = job("m0.3", queue="gathered", awaits=2, gather="all", gather_index=0)
    spread = [job(f"m0.2.{n}", gather="m0.3", gather_index=n) for n in range(2)]
    await store.commit([handed_on(one, inner, *spread)])
    claims = (await claim(store, demand=2)).claims
    await store.commit([done(each) for each in claims])
    assert await counts(store, 2) == (0, 0, 0, 2)
    last = await start(store, ELSEWHERE)
    assert last.id == "m0.3"
    await store.commit([done(last, b'"both"')])
    assert await store.arrivals("all") == {0: b'"both"'}


async def test_a_cancelled_stage_cancels_what_wants_results(store):
    [one] = await gathered(store, 1, return_exceptions=False)
    await store.commit([handed_on(one, stage("m0.2"))])
    await store.cancel(["m0.2"], "enough")
    assert (await store.get("all")).status == "cancelled"


async def test_early_stages_are_pruned_while_the_last_is_awaited(store, clock):
    [one] = await gathered(store, 1)
    await store.commit([handed_on(one, stage("m0.2"))])
    clock.advance(100)
    await store.promote(10)
    assert await store.prune(50, 10) == 1
    assert await store.get("m0") is None
    await store.commit([done(await start(store), b"1")])
    assert await store.arrivals("all") == {0: b"1"}


async def test_a_chain_in_one_batch_with_its_gather(store):
    await store.enqueue([gathering(2), *members(1)])
    first = await start(store)
    [other] = await begin(store, job("n", gather="all", gather_index=1))
    await store.commit([handed_on(first, stage("m0.2", delay=60.0)), dead(other)])
    assert await counts(store, 2) == (0, 1, 0, 1)
