"""While attempts are short, a slot that becomes free has its next job at hand."""

import asyncio
from typing import Any

from mulligan import Mulligan, Settings
from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine import fetcher
from mulligan.engine.slots import AHEAD, LONGEST_WAIT, SHORT, Prefetch
from mulligan.engine.worker import Engine
from mulligan.testing.virtual import VirtualLoop
from tests.engine.real_engine import Watched, ended, engine, enqueued, held_claim, until

TWO_SLOTS = Settings(lease=5, beat=0.1, concurrency=2)


class Slots:
    """Notes what is started and what is given back, on a clock that only sleeping moves."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.returned: list[str] = []
        self.prefetch = Prefetch(
            2,
            lambda held: self.started.append(held.claim.id),
            lambda held: self.returned.append(held.claim.id),
            monotonic=asyncio.get_running_loop().time,
        )


def test_nothing_waits_before_attempts_are_known_to_be_short():
    async def play() -> None:
        slots = Slots()
        rooms = [slots.prefetch.room]
        for seconds in (10 * SHORT, *[0.0] * 40, *[10 * SHORT] * 2):
            slots.prefetch.learn(seconds)
            rooms.append(slots.prefetch.room)
        assert (rooms[0], rooms[1]) == (0, 0)
        assert rooms[41] == 2
        assert rooms[43] == 0

    run(play())


def test_as_many_wait_as_start_while_two_claims_are_answered():
    async def play() -> None:
        slots = Slots()
        slots.prefetch.learn(AHEAD / 10)
        rooms = [slots.prefetch.room]
        for seconds in (0.0, AHEAD / 10, AHEAD, 100 * AHEAD):
            for _ in range(100):
                slots.prefetch.learn_claim(seconds)
            rooms.append(slots.prefetch.room)
        # One for each of two slots, and what they start in twice the time of a claim; never more
        # than they start within AHEAD.
        assert rooms == [2, 2, 5, 20, 20]

    run(play())


def test_no_more_wait_than_a_store_gives_at_a_time():
    async def play() -> None:
        slots = Slots()
        slots.prefetch.learn(0.0)
        slots.prefetch.learn_claim(SHORT)
        assert slots.prefetch.room == BATCH_LIMIT

    run(play())


def test_what_waits_starts_in_the_order_of_claims():
    async def play() -> None:
        slots = Slots()
        slots.prefetch.add([held_claim("a"), held_claim("b")])
        slots.prefetch.add([held_claim("c")])
        slots.prefetch.start_next()
        slots.prefetch.start_next()
        assert (slots.started, len(slots.prefetch)) == (["a", "b"], 1)
        slots.prefetch.start_next()
        slots.prefetch.start_next()
        assert slots.started == ["a", "b", "c"]

    run(play())


def test_what_has_waited_too_long_is_given_back_with_all_behind_it():
    async def play() -> None:
        slots = Slots()
        slots.prefetch.learn(0.0)
        slots.prefetch.add([held_claim("a"), held_claim("b")])
        await asyncio.sleep(LONGEST_WAIT / 2)
        slots.prefetch.start_next()
        slots.prefetch.add([held_claim("c")])
        await asyncio.sleep(LONGEST_WAIT)
        assert slots.started == ["a"]
        assert sorted(slots.returned) == ["b", "c"]
        assert slots.prefetch.room == 0

    run(play())


def test_what_moves_on_is_not_given_back():
    async def play() -> None:
        slots = Slots()
        slots.prefetch.learn(0.0)
        for number in range(20):
            slots.prefetch.add([held_claim(str(number))])
            await asyncio.sleep(LONGEST_WAIT / 2)
            slots.prefetch.start_next()
        assert slots.started == [str(number) for number in range(20)]
        assert slots.returned == []
        assert slots.prefetch.room == 2

    run(play())


def short_and_long(app: Mulligan, release: asyncio.Event) -> tuple[Any, Any]:
    """A task that takes next to no time, and one that lasts until it is released."""

    @app.task
    async def short(number: int) -> None:
        await asyncio.sleep(0)

    @app.task
    async def long(number: int) -> None:
        await release.wait()

    return short, long


async def until_it_prefetches(running: Engine, app: Mulligan, store: Watched, short: Any) -> None:
    while not running.slots._prefetch.room:  # on a busy machine a few take long
        first = await enqueued(app, store, short, 40)
        assert set(await ended(store, *first)) == {"done"}


async def test_a_job_prefetched_is_given_back_when_the_attempts_before_it_take_long():
    app, store, release = Mulligan("memory://"), Watched(), asyncio.Event()
    short, long = short_and_long(app, release)

    async def all_were_returned() -> bool:
        return set(store.returned) >= set(behind)

    async with engine(app, store, TWO_SLOTS) as running:
        await until_it_prefetches(running, app, store, short)
        store.returned.clear()
        blocking = await enqueued(app, store, long, 4)
        behind = blocking[2:]
        await until(all_were_returned)
        found = [await store.get(job) for job in behind]
        assert [job.status for job in found if job] == ["pending"] * 2
        release.set()
        assert set(await ended(store, *blocking)) == {"done"}
    found = [await store.get(job) for job in blocking]
    assert {job.retry_count for job in found if job} == {0}


async def test_what_is_given_back_wakes_another_worker_and_not_the_one_that_has_no_room(
    monkeypatch,
):
    monkeypatch.setattr(fetcher, "LONGEST_SLEEP", 3600.0)
    monkeypatch.setattr("mulligan.engine.slots.LONGEST_WAIT", 0.5)
    app, store, release = Mulligan("memory://"), Watched(), asyncio.Event()
    short, long = short_and_long(app, release)

    async with engine(app, store, TWO_SLOTS, name="full") as running:
        await until_it_prefetches(running, app, store, short)
        jobs = await enqueued(app, store, long, 3)  # a slot for each but one, which is prefetched
        await until(lambda: are_run(store, jobs[:2]))
        async with engine(app, store, TWO_SLOTS, name="idle"):
            await until(lambda: is_held_by(store, jobs[2], "idle"))
            release.set()
            assert set(await ended(store, *jobs)) == {"done"}


async def are_run(store: Watched, jobs: list[str]) -> bool:
    found = [await store.get(job) for job in jobs]
    return {job.status for job in found if job} == {"processing"}


async def is_held_by(store: Watched, job: str, worker: str) -> bool:
    found = await store.get(job)
    return found is not None and found.status == "processing" and worker in (found.worker or "")


async def test_a_drain_gives_back_what_was_prefetched():
    app, store = Mulligan("memory://"), Watched()
    began, release = asyncio.Event(), asyncio.Event()

    @app.task
    async def work(number: int) -> None:
        await asyncio.sleep(0)
        if number >= 40:
            began.set()
            await release.wait()

    async with engine(app, store, TWO_SLOTS) as running:
        jobs = await enqueued(app, store, work, 46)
        await began.wait()
        running.stop()
        release.set()
    found = [await store.get(job) for job in jobs]
    statuses = [job.status for job in found if job]
    assert statuses[:41] == ["done"] * 41
    assert set(statuses) == {"done", "pending"}


def run(play: Any) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(play)
    finally:
        loop.close()
