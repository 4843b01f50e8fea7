"""How far reads of a Redis store look."""

from tests.contract.making import (
    FRESH,
    jobs,
)
from tests.store_kit import VirtualClock
from tests.stores.redis.kit import opened


async def test_the_last_of_a_lane_is_sought_among_the_newest_thousand(url):
    clock = VirtualClock()
    async with opened(url, clock) as store:
        await store.enqueue(jobs("first"))
        then = clock.now
        clock.advance(1)
        await store.enqueue(jobs(*(f"j{n}" for n in range(999))))
        assert await store.tail(FRESH, then) == "first"
        await store.enqueue(jobs("one too many"))
        assert await store.tail(FRESH, then) is None
        assert await store.tail(FRESH, clock.now) == "one too many"
