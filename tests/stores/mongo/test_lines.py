"""Claims from lines: how deep they look, how long they look, and what they read."""

from itertools import chain

import pytest
from pymongo.asynchronous.collection import AsyncCollection

from mulligan.core.limits import Limit
from tests.contract.builders import claim, done, job, jobs, names
from tests.store_kit import handle

K = '{"k":1}'


@pytest.mark.parametrize("limits", ['{"k":1}', '{"j":1,"k":1}'])
async def test_a_line_deeper_than_a_claim_looks_is_taken_in_order(
    store, clock, monkeypatch, limits
):
    monkeypatch.setattr("mulligan.stores.mongo.reach.FURTHER", 2)
    batches = [[f"{batch}{n:02}" for n in range(15)] for batch in "abcd"]
    for batch in batches:
        await store.enqueue(jobs(*batch, limits=limits))
        clock.advance(1)
    await store.enqueue(jobs("late", limits=limits, delay=3600.0))
    claimed = [names(await claim(store, demand=6)) for _ in range(10)]
    assert list(chain(*claimed)) == list(chain(*batches))
    assert names(await claim(store, demand=6)) == []


async def test_a_deep_line_is_not_looked_through_while_others_wait_for_the_book(
    store, clock, monkeypatch
):
    monkeypatch.setattr("mulligan.stores.mongo.reach.FURTHER", 6)
    aggregate, looks = AsyncCollection.aggregate, []

    def noted(self, pipeline, **options):
        query = pipeline[0].get("$match", {})
        if isinstance(query.get("mulligan.lane"), str) and "mulligan.due" not in query:
            looks.append(store._book.ledger.lock.locked())
        return aggregate(self, pipeline, **options)

    monkeypatch.setattr(AsyncCollection, "aggregate", noted)
    for batch in range(20):
        await store.enqueue(jobs(*(f"j{10 * batch + n:03}" for n in range(10)), limits=K))
        clock.advance(1)
    seen = names(await claim(store, demand=8))
    looks.clear()
    for _ in range(15):
        seen += names(await claim(store, demand=8))
    assert seen == [f"j{n:03}" for n in range(128)]
    assert looks
    assert not any(looks)


async def test_deep_lines_of_two_keys_take_turns(store, clock, monkeypatch):
    monkeypatch.setattr("mulligan.stores.mongo.reach.FURTHER", 2)
    for key in "ab":
        await store.enqueue([job(f"{key}{n:02}", fairness_key=key) for n in range(40)])
        clock.advance(1)
    claimed = list(chain(*[names(await claim(store, demand=8)) for _ in range(10)]))
    assert claimed == [f"{key}{n:02}" for n in range(40) for key in "ab"]


@pytest.mark.parametrize("burst", [1, 3])
async def test_what_a_claim_has_got_does_not_wait_for_room_that_comes_meanwhile(
    store, store_url, clock, burst
):
    """A claim that takes its time may find more room at each look."""
    await store.set_limit("k", Limit(rate=100, per=1, burst=burst), declared=True)
    await store.enqueue(jobs(*(f"j{n:02}" for n in range(40)), limits=K))

    def slowly():
        clock.advance(0.005)
        return clock()

    async with handle(store_url, slowly) as slow:
        claimed = await claim(slow, demand=40)
        assert burst <= len(claimed.claims) <= 2 * burst + 1
        assert claimed.again_in is not None
        seen = names(claimed)
        while len(seen) < 40:
            seen += names(await claim(slow, demand=40))
    assert seen == [f"j{n:02}" for n in range(40)]


async def test_many_keys_with_a_job_each_are_read_and_forgotten_together(store, monkeypatch):
    commands = []
    for name in ("aggregate", "bulk_write"):
        method = getattr(AsyncCollection, name)

        def counted(self, *args, method=method, name=name, **options):
            commands.append(name)
            return method(self, *args, **options)

        monkeypatch.setattr(AsyncCollection, name, counted)
    await store.enqueue([job(f"j{n}", fairness_key=f"key {n}") for n in range(700)])
    commands.clear()
    claimed = (await claim(store, demand=700)).claims
    assert len(claimed) == 700
    assert len(commands) < 20
    await store.commit([done(each) for each in claimed])
    assert await store.keys("default", 10) == []
