"""What a claim asks of the file."""

from mulligan.core.lane import Lane
from tests.contract.builders import BOB, claim, job, names, source
from tests.stores.sqlite.kit import traced


async def test_only_a_lane_where_a_job_stands_makes_a_claim_ask_who_sleeps(store):
    seen = await traced(store)
    empty = [source(Lane("default", f"*+{n}", 1), waited=2.0, yields=True) for n in range(3)]
    await claim(store, *empty, worker=BOB)
    assert not any("l.waited <" in statement for statement in seen)
    await store.enqueue([job("a", region="*+1", priority=1)])
    assert names(await claim(store, *empty, worker=BOB)) == ["a"]
    assert sum("l.waited <" in statement for statement in seen) == 1
