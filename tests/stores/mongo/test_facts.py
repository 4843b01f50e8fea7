"""Counts on MongoDB."""

import asyncio

from mulligan.core.counts import Count


async def test_nothing_is_lost_when_many_count_at_once(store, another):
    counts = [Count("q", "US", "a.b$%", 1), Count("q", "EU", "failed", 1)]
    await asyncio.gather(*(each.count(counts) for each in [store, another] * 10))
    counts = await store.counts()
    assert counts.ever == counts.recent == {("q", "US", "a.b$%"): 20, ("q", "EU", "failed"): 20}


async def test_old_slots_are_deleted_by_housekeeping(store, database, clock):
    await store.count([Count("q", "US", "failed", 1)])
    clock.advance(100)
    await store.prune(0, 100)
    assert database["tasks_counts"].count_documents({"start": {"$exists": True}}) == 0
    assert (await store.counts()).ever == {("q", "US", "failed"): 1}
