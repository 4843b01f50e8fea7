"""How far reads of a Redis store look."""

from mulligan.core.page import Selection
from tests.contract.builders import (
    ANN,
    FRESH,
    begin,
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


async def test_the_jobs_that_run_are_found_without_a_look_at_those_that_wait(url, monkeypatch):
    async with opened(url) as store:
        await begin(store, *jobs("a", "b"), worker=ANN)
        await store.enqueue(jobs(*(f"j{n}" for n in range(900))))
        asked, read = [], store._read

        def counted(name, *arguments):
            asked.append(name)
            return read(name, *arguments)

        monkeypatch.setattr(store, "_read", counted)
        running = Selection(status="processing")
        first = await store.page(running, 1)
        assert [job.id for job in first.jobs] == ["b"]
        assert [job.id for job in (await store.page(running, 1, first.after)).jobs] == ["a"]
        assert asked == ["page", "page"]
