"""A large store is not counted for every request."""

import asyncio
import threading

import pytest

from mulligan.app.overview import read_store
from mulligan.core.facts import Facts
from mulligan.core.limits import Limit
from mulligan.server.readings import (
    KEPT,
    LIMITS_TIMES,
    LONGEST,
    MANY_LIMITS,
    SLOW,
    Computed,
    Readings,
)
from mulligan.stores.memory import MemoryStore
from tests.cli.command_line import new_job
from tests.server.conftest import good

LARGE = 3


class Counting:
    """A store that counts how often it is counted, and waits for leave to answer."""

    def __init__(self, store):
        self._store = store
        self.counted = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def stats(self):
        self.counted += 1
        stats = await self._store.stats()
        await self.may_answer.wait()
        return stats

    def __getattr__(self, name):
        return getattr(self._store, name)


class Clock:
    """The time of the server."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
async def large(store: MemoryStore):
    """A store with so many jobs that readings are kept."""
    await store.enqueue([new_job(f"j{number}", region="US") for number in range(LARGE)])
    return Counting(store)


@pytest.fixture
def time():
    return Clock()


@pytest.fixture
def readings(large, time):
    return Readings(large, time, many=LARGE)


async def test_a_small_store_is_read_anew_for_every_request(large, time):
    readings = Readings(large, time, many=LARGE + 1)
    assert await readings.recent() is not await readings.recent()
    assert large.counted == 2


async def test_a_large_store_is_not_counted_again_within_a_second(readings, large, time):
    first = await readings.recent()
    time.now += KEPT - 0.01
    assert await readings.recent() is first
    assert large.counted == 1


async def test_an_older_reading_still_serves_while_a_new_one_is_made(readings, large, time):
    first = await readings.recent()
    time.now += KEPT
    large.may_answer.clear()
    assert await readings.recent() is first
    await asyncio.sleep(0)
    assert await readings.recent() is first  # which asks no second time
    await asyncio.sleep(0)
    assert large.counted == 2
    large.may_answer.set()
    second = await readings.refreshing
    assert await readings.recent() is second is not first
    assert large.counted == 2


async def test_a_reading_that_took_long_serves_as_long_before_the_store_is_counted_again(
    readings, large, time
):
    large.may_answer.clear()
    reading = asyncio.ensure_future(readings.recent())
    await asyncio.sleep(0)
    time.now += 10
    large.may_answer.set()
    first = await reading
    time.now += 9.9
    assert await readings.recent() is first
    assert large.counted == 1
    time.now += 0.1
    assert await readings.recent() is first
    second = await readings.refreshing
    assert second is not first
    time.now += LONGEST
    assert await readings.recent() is not first


async def test_after_a_silence_the_store_is_counted_first(readings, time):
    first = await readings.recent()
    time.now += LONGEST
    assert await readings.recent() is not first


async def test_a_store_that_has_become_small_is_read_anew_again(readings, large, store, time):
    await readings.recent()
    await store.cancel(["j0"], "no longer wanted")
    time.now += LONGEST
    await readings.recent()
    await readings.recent()
    assert large.counted == 3


async def test_a_reading_from_before_a_change_is_not_kept(readings, large):
    large.may_answer.clear()
    early = asyncio.ensure_future(readings.recent())
    await asyncio.sleep(0)
    assert large.counted == 1
    readings.forget()
    large.may_answer.set()
    before = await early
    assert await readings.recent() is not before


async def test_a_reading_for_nobody_that_fails_is_logged(
    readings, large, time, caplog, monkeypatch
):
    first = await readings.recent()
    time.now += KEPT

    async def broken():
        raise OSError("the store is away")

    monkeypatch.setattr(large, "stats", broken)
    assert await readings.recent() is first
    await asyncio.wait([readings.refreshing])
    await asyncio.sleep(0)
    assert caplog.messages == ["status: the store is away"]


async def test_a_server_that_stops_ends_the_reading_that_is_under_way(readings, large, time):
    await readings.recent()
    time.now += KEPT
    large.may_answer.clear()
    await readings.recent()
    await asyncio.sleep(0)
    readings.stop()
    await asyncio.wait([readings.refreshing])
    assert readings.refreshing.cancelled()


@pytest.mark.parametrize(
    "path", ["status", "status/US", "overview", "queues", "lanes", "delayed", "workers"]
)
async def test_every_route_that_counts_uses_the_kept_reading(client, readings, large, path):
    client.service.readings = readings
    await good(client.get("/api/overview"))
    await good(client.get(f"/api/{path}"))
    assert large.counted == 1


async def test_what_was_changed_through_the_server_is_seen_at_once(client, readings):
    client.service.readings = readings
    await good(client.get("/api/overview"))
    await good(client.post("/api/queues/mail/pause", json={}))
    shown = await good(client.get("/api/overview"))
    assert shown["queues"]["mail"]["paused"] is True
    lanes = (await good(client.get("/api/lanes")))["lanes"]
    assert [lane["ready"] for lane in lanes] == [LARGE]


async def test_the_loop_goes_on_while_a_document_is_computed(store):
    may_end = threading.Event()
    computed = []

    def compute(reading):
        computed.append(reading)
        assert may_end.wait(60)
        return {"of": reading}

    document = Computed(compute)
    reading = await read_store(store)
    asking = [asyncio.ensure_future(document.of(reading)) for _ in range(3)]
    await asyncio.sleep(0)
    may_end.set()  # by the loop, which is not held up
    assert await asyncio.gather(*asking) == [{"of": reading}] * 3
    assert computed == [reading]


async def test_a_reading_that_takes_long_is_kept_however_little_waits(large, time):
    async def facts():
        time.now += 2 * SLOW
        return Facts()

    large.facts = facts
    readings = Readings(large, time, many=LARGE + 1)
    first = await readings.recent()
    assert await readings.recent() is first


async def test_many_limits_are_not_listed_for_every_reading(store, time):
    class Listing(Counting):
        """Also counts how often it lists limits, which takes a tenth of a second."""

        listed = 0

        async def limits(self, most):
            self.listed += 1
            time.now += 0.1
            return await self._store.limits(most)

    listing = Listing(store)
    for number in range(MANY_LIMITS):
        await store.set_limit(f"limit-{number}", Limit(rate=1, per=1), declared=True)
    readings = Readings(listing, time)
    first = await readings.newest()
    time.now += LIMITS_TIMES * 0.1 - 0.2
    assert (await readings.newest()).limits is first.limits
    time.now += 0.2
    assert (await readings.newest()).limits is not first.limits
    assert listing.listed == 2
    readings.forget()
    await readings.newest()
    assert listing.listed == 3


async def test_few_limits_are_listed_for_every_reading(store, time):
    await store.set_limit("one", Limit(rate=1, per=1), declared=True)
    readings = Readings(store, time)
    assert len((await readings.newest()).limits) == 1
    await store.set_limit("two", Limit(rate=1, per=1), declared=True)
    assert len((await readings.newest()).limits) == 2
