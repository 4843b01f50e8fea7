"""Batches as large as they may be: dramatiq#258, where many ids at once broke Lua's unpack."""

from mulligan.core.flow import MOST_MEMBERS
from mulligan.core.job import Lease
from mulligan.core.settings import BATCH_LIMIT
from tests.contract.builders import ANN, body, claim, done, job, jobs, names

BODY = body()


async def test_a_huge_batch_does_not_hit_a_limit_of_the_store(store):
    """Every operation that takes many takes as many as it may."""
    many = [f"j{n}" for n in range(BATCH_LIMIT)]
    assert all(each.created for each in await store.enqueue(jobs(*many, body=BODY)))
    claimed = await claim(store, demand=BATCH_LIMIT)
    assert names(claimed) == many
    unknown = [Lease(f"x{n}", 1) for n in range(MOST_MEMBERS)]
    beat = await store.beat(ANN, [*unknown, *(each.lease for each in claimed.claims)])
    assert beat.lost == unknown
    assert await store.commit([done(each) for each in claimed.claims]) == ["written"] * BATCH_LIMIT
    assert await store.purge(many) == [True] * BATCH_LIMIT
    assert all(each.created for each in await store.enqueue(jobs(*many, body=BODY)))
    assert await store.cancel(many, "enough") == [True] * BATCH_LIMIT
    assert await store.replay(many) == [False] * BATCH_LIMIT


async def test_a_job_may_be_followed_by_as_many_as_a_fan_out_has(store):
    """All of them are enqueued in the step that finishes it."""
    await store.enqueue([job("a")])
    members = [job(f"m{n}", body=BODY, gather="all", gather_index=n) for n in range(MOST_MEMBERS)]
    gathering = job("all", body=BODY, awaits=MOST_MEMBERS)
    first = (await claim(store)).claims[0]
    assert await store.commit([done(first, b"[]", gathering, *members)]) == ["written"]
    stats = await store.stats()
    assert sum(lane.ready for lane in stats.lanes) == MOST_MEMBERS
    assert (await store.get("all")).awaits == MOST_MEMBERS
