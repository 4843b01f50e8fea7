"""What happens between the write of an outcome and the look at what was written."""

from collections.abc import Callable

import pytest

from mulligan.core.job import Claim
from mulligan.core.lane import Lane
from mulligan.core.outcome import Later, Outcome, Returned
from tests.contract.builders import BOB, FRESH, RETRY, again, claim, done, jobs, start
from tests.stores.mongo.steps import following, held_and_cancelled

PUT_BACK: dict[str, tuple[Callable[[Claim], Outcome], Lane]] = {
    "retry": (again, RETRY),
    "snooze": (lambda claim: Later(claim.lease, 0), FRESH),
    "return": (lambda claim: Returned(claim.lease), FRESH),
}


@pytest.mark.parametrize("how", PUT_BACK)
@pytest.mark.parametrize("rounds", [0, 1, 3])
async def test_an_outcome_is_written_though_others_had_the_job_before_we_looked(
    store, another, between, how, rounds
):
    put_back, lane = PUT_BACK[how]
    first, second = await held_and_cancelled(store, another)

    async def others_have_it():
        for _ in range(rounds):
            await another.commit([put_back(await start(another, lane, worker=BOB))])
        assert (await start(another, lane, worker=BOB)).id == "a"

    between(others_have_it)
    assert await store.commit([put_back(first), done(second)]) == ["written", "stale"]
    assert await store.commit([put_back(first)]) == ["stale" if rounds else "already"]


async def test_an_outcome_is_written_though_its_job_was_purged_before_we_looked(
    store, another, between
):
    first, second = await held_and_cancelled(store, another)

    async def purged():
        assert await another.purge(["a"]) == [True]

    between(purged)
    verdicts = await store.commit([done(first, b"1", *following(1)), done(second)])
    assert verdicts == ["written", "stale"]
    assert await store.depth(FRESH, 100) == 1


async def test_an_outcome_of_a_job_that_was_purged_before_the_write_is_stale(store, another):
    first, second = await held_and_cancelled(store, another)
    await another.purge(["b"])
    assert await store.commit([done(second), done(first)]) == ["stale", "written"]


async def test_an_outcome_is_written_once_though_it_is_sent_again_before_we_looked(
    store, another, between
):
    first, second = await held_and_cancelled(store, another)

    async def sent_again():
        assert await another.commit([again(first)]) == ["already"]
        assert (await start(another, RETRY, worker=BOB)).id == "a"

    between(sent_again)
    assert await store.commit([again(first), done(second)]) == ["written", "stale"]


async def test_an_outcome_that_another_process_wrote_for_us_was_already_written(
    store, another, between
):
    first, second = await held_and_cancelled(store, another)

    async def written_by_another():
        assert await another.commit([again(first)]) == ["written"]
        assert (await start(another, RETRY, worker=BOB)).id == "a"

    between(before=written_by_another)
    assert await store.commit([again(first), done(second)]) == ["already", "stale"]


async def test_what_was_claimed_elsewhere_or_long_ago_can_be_committed(store, another, monkeypatch):
    monkeypatch.setattr("mulligan.stores.mongo.leases.MOST", 1)
    await store.enqueue(jobs("a", "b", "c"))
    first, second, third = (await claim(store, demand=3)).claims
    assert await another.commit([done(first)]) == ["written"]
    assert await store.commit([done(first), done(second), done(third)]) == [
        "already",
        "written",
        "written",
    ]
