"""Permits that a crash or another claim leaves."""

import asyncio

import pytest

from mulligan.core.plan import Cap
from tests.contract.builders import ANN, BOB, FRESH, RETRY, again, claim, done, jobs, names, source
from tests.stores.mongo.steps import crash, held_and_cancelled


async def test_a_permit_that_died_with_its_claim_is_freed_within_a_lease(
    store, another, clock, monkeypatch
):
    await store.enqueue(jobs("a", "b"))
    gate = source(FRESH, Cap("cap", 1))
    await claim(store, gate, demand=0)
    monkeypatch.setattr("mulligan.stores.mongo.leases.lease_of", crash)
    with pytest.raises(asyncio.CancelledError):
        await claim(store, gate)
    monkeypatch.undo()
    await another.promote(100)
    assert names(await claim(another, gate, worker=BOB)) == []
    clock.advance(ANN.lease)
    await another.promote(100)
    assert names(await claim(another, gate, worker=BOB)) == ["a"]


async def test_a_permit_is_freed_though_its_job_was_claimed_before_we_looked(
    store, another, database, between
):
    first, second = await held_and_cancelled(store, another, gate=source(FRESH, Cap("cap", 3)))

    def permits():
        return [word for limit in database["tasks_limits"].find() for word in limit["holders"]]

    async def claimed_by_another():
        await claim(another, source(RETRY, Cap("cap", 3)), worker=BOB)
        assert len(permits()) == 2

    between(claimed_by_another)
    assert await store.commit([again(first), done(second)]) == ["written", "stale"]
    assert len(permits()) == 1
