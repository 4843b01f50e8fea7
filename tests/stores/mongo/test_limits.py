"""Permits that a crash or another claim leaves."""

import asyncio

import pytest

from mulligan.core.plan import Cap
from tests.contract.making import (
    ANN,
    BOB,
    FRESH,
    RETRY,
    again,
    claim,
    done,
    job,
    jobs,
    names,
    source,
    start,
)
from tests.stores.mongo.making import crash, held_and_cancelled


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


async def test_a_held_job_that_nobody_let_go_is_found(store, another, clock, monkeypatch):
    await store.enqueue([job("a", concurrency_key="k"), job("b", concurrency_key="k")])
    [first] = (await claim(store, demand=5)).claims
    monkeypatch.setattr(store._keys, "release", crash)
    with pytest.raises(asyncio.CancelledError):
        await store.commit([done(first)])
    monkeypatch.undo()
    clock.advance(ANN.lease)
    await another.promote(100)
    assert names(await claim(another, worker=BOB)) == ["b"]


async def test_a_permit_is_freed_though_its_job_was_claimed_before_we_looked(
    store, another, database, between
):
    limited = {"concurrency_key": "k", "concurrency_limit": 2}
    first, second = await held_and_cancelled(store, another, **limited)

    def permits():
        return [word for limit in database["tasks_limits"].find() for word in limit["holders"]]

    async def claimed_by_another():
        await start(another, RETRY, worker=BOB)
        assert len(permits()) == 2

    between(claimed_by_another)
    assert await store.commit([again(first), done(second)]) == ["written", "stale"]
    assert len(permits()) == 1
