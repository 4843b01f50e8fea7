"""Waiting for results: told by the store, and by looking where it does not tell."""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan import InvalidError, Mulligan, Settings, Snooze
from mulligan.app.wait import AWAY, AWAY_AT_MOST, POLLED, TOLD, until_over
from mulligan.core.errors import (
    JobCancelledError,
    JobFailedError,
    ResultTimeoutError,
    StoreUnavailableError,
    UnknownJobError,
)
from mulligan.core.job import ENDED
from mulligan.stores.watches import Watch, Watches
from tests.contract.builders import ANYONE, claim, dead, done
from tests.core.jobs import WAITING
from tests.store_kit import handle

DONE = replace(WAITING, status="done")


class Sleeps:
    """A waiter with a clock of its own, which writes down how long each sleep might last."""

    def __init__(self):
        self.asked = []
        self.time = 0.0

    def now(self):
        return self.time

    def tell(self):
        """Nobody is told: wake-ups are lost."""

    async def sleep(self, seconds):
        self.asked.append(seconds)
        self.time += seconds


class Looked:
    """A store whose job is as the looks say, one after the other; the last one for ever."""

    def __init__(self, *looks, is_told=True, takes=0.0):
        self._looks = list(looks)
        self._is_told = is_told
        self._takes = takes
        self._sleeps = Sleeps()
        self.watched = []
        self.closed = 0

    async def call(self, operation):
        return await operation(self)

    async def watch(self, job, tell):
        del tell
        self.watched.append(job)
        return Watch(self._close, is_told=self._is_told)

    def _close(self):
        self.closed += 1

    async def look(self):
        self._sleeps.time += self._takes
        found = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def wait(self, within=60.0):
        sleeps = self._sleeps
        over = until_over(self.call, sleeps, self.look, lambda j: j.status in ENDED, within)
        return await over, sleeps.asked


async def test_a_job_that_has_ended_is_neither_watched_nor_waited_for():
    store = Looked(DONE)
    assert await store.wait() == (DONE, [])
    assert store.watched == []


async def test_what_ends_while_the_watch_begins_is_seen_at_once():
    store = Looked(WAITING, DONE)
    assert await store.wait() == (DONE, [])
    assert (store.watched, store.closed) == ([WAITING.id], 1)


async def test_a_lost_wake_up_costs_a_look_that_comes_later_each_time():
    job, asked = await Looked(*[WAITING] * 5, DONE).wait()
    assert job is DONE
    assert asked == pytest.approx([TOLD[0] * 1.5**n for n in range(4)])
    _, asked = await Looked(WAITING).wait(1000.0)
    assert max(asked) == TOLD[1]


async def test_a_store_that_cannot_tell_is_looked_at_more_often():
    _, asked = await Looked(WAITING, is_told=False).wait(60.0)
    assert (asked[0], max(asked)) == POLLED


async def test_the_wait_ends_when_its_time_is_up():
    job, asked = await Looked(WAITING).wait(1.0)
    assert job is WAITING
    assert sum(asked) == pytest.approx(1.0)
    assert await Looked(WAITING).wait(0.0) == (WAITING, [])


async def test_a_store_that_is_away_for_a_while_is_waited_for():
    away = StoreUnavailableError("away")
    job, asked = await Looked(WAITING, WAITING, *[away] * 20, DONE).wait()
    assert job is DONE
    assert asked.count(AWAY[0]) == 20


async def test_a_store_that_stays_away_ends_the_wait():
    away = StoreUnavailableError("away")
    with pytest.raises(StoreUnavailableError):
        await Looked(WAITING, WAITING, away).wait(3600.0)
    with pytest.raises(StoreUnavailableError):
        await Looked(away).wait()


async def test_the_time_that_a_silent_store_takes_to_be_away_counts():
    away = StoreUnavailableError("did not answer in time")
    silent = Looked(WAITING, WAITING, away, takes=30.0)
    job, asked = await silent.wait(45.0)
    assert (job, len(asked)) == (WAITING, 1)
    silent = Looked(WAITING, WAITING, away, takes=30.0)
    with pytest.raises(StoreUnavailableError):
        await silent.wait(3600.0)
    assert silent._sleeps.time < 60 + AWAY_AT_MOST + 60


async def test_each_stage_of_a_chain_is_watched_in_its_turn():
    second = replace(WAITING, id="second")
    store = Looked(WAITING, WAITING, second, second, replace(second, status="done"))
    assert (await store.wait())[0].id == "second"
    assert (store.watched, store.closed) == ([WAITING.id, "second"], 2)


def test_all_who_watch_a_job_are_told_and_nobody_else():
    watches: Watches[str] = Watches()
    told: list[int] = []
    tells = [lambda n=n: told.append(n) for n in range(3)]
    for job, tell in zip("aab", tells, strict=True):
        watches.add(job, tell)
    watches.tell(["a", "c"])
    assert told == [0, 1]
    watches.remove("a", tells[0])
    watches.remove("nobody", tells[0])
    watches.tell_all()
    assert told == [0, 1, 1, 2]
    for job, tell in zip("ab", tells[1:], strict=True):
        watches.remove(job, tell)
    assert not watches


# -- on every store ----------------------------------------------------------------------------


@pytest.fixture
async def app(store_url):
    app = Mulligan(store_url)
    yield app
    app.close()


@pytest.fixture
async def worker(app, store_url):
    """The store as a worker has it, in another process but for memory."""
    if store_url.startswith("memory:"):
        yield await app.access.acall(itself)
        return
    async with handle(store_url, time.time) as store:
        yield store


async def itself(store):
    return store


async def run(worker, end=done):
    """Claim what there is, and end it."""
    claims = (await claim(worker, ANYONE, demand=1000)).claims
    await worker.commit([end(each) for each in claims])
    return len(claims)


@pytest.fixture
def answer(app):
    @app.task
    def answer(number: int) -> int:
        return number

    return answer


async def test_plain_code_and_coroutines_get_a_result_that_another_process_commits(answer, worker):
    first, second = await answer.aenqueue(1), await answer.aenqueue(2)
    plain = asyncio.create_task(asyncio.to_thread(first.result, 30))
    beside = asyncio.create_task(second.aresult(30))
    await asyncio.wait([plain, beside], timeout=0.05)
    assert await run(worker) == 2
    assert (await plain, await beside) == (1, 1)


async def test_many_callers_of_one_process_wait_at_once(answer, worker):
    handles = [await answer.aenqueue(number) for number in range(200)]
    waiting = [asyncio.create_task(each.aresult(60)) for each in handles]
    await asyncio.wait(waiting, timeout=0.2)
    assert await run(worker) == 200
    assert await asyncio.gather(*waiting) == [1] * 200


async def test_whoever_waits_for_a_job_without_a_result_is_told_why(answer, worker):
    handles = [await answer.aenqueue(number) for number in range(3)]
    waiting = [asyncio.create_task(each.aresult(30)) for each in handles]
    await asyncio.wait(waiting, timeout=0.05)
    await worker.cancel([handles[0].id], "not needed")
    assert await run(worker, dead) == 2
    with pytest.raises(JobCancelledError, match="not needed"):
        await waiting[0]
    for each in waiting[1:]:
        with pytest.raises(JobFailedError, match="boom"):
            await each


async def test_a_result_that_does_not_come_is_late(answer):
    job = await answer.aenqueue(1)
    with pytest.raises(ResultTimeoutError, match=r"has not ended after 0.05 s: "):
        await job.aresult(timedelta(milliseconds=50))


# -- keep= -------------------------------------------------------------------------------------


def test_a_task_and_a_call_say_how_long_a_job_is_kept():
    app = Mulligan("memory://", settings=Settings(lease=20))

    @app.task(keep=timedelta(days=1))
    def report() -> None: ...

    @app.task(keep=0)
    def ping(value: int) -> int:
        return value

    @app.task
    def plain() -> int:
        return 1

    calls: list[Any] = [report.call(), ping.call(1), report.using(keep=None).call(), plain.call()]
    assert [each.job.keep for each in calls] == [86_400, 20, None, None]
    chain = (plain | ping).using(keep=60)
    assert chain.call().job.keep == 60
    with pytest.raises(InvalidError, match="keep 'soon' must be a number of seconds"):
        report.using(keep="soon")  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="keep -1 must be between"):
        app.task(keep=-1)


def test_a_job_is_gone_when_its_time_is_over():
    app = Mulligan("memory://")

    @app.task(keep=0)
    def ping() -> int:
        return 1

    with app.testing() as t:
        job = ping.enqueue()
        assert job.result() == 1
        t.advance(10)
        assert job.result() == 1
        t.advance(60)
        with pytest.raises(UnknownJobError, match="kept for 60 min unless their task says keep="):
            job.result()


def test_what_gathers_finds_members_whose_own_time_is_short():
    app, seen = Mulligan("memory://"), list[int]()

    @app.task(keep=0)
    def one(number: int) -> int:
        seen.append(number)
        if number and seen.count(number) == 1:
            raise Snooze(600)
        return number

    @app.task
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    with app.testing():
        assert app.gather([one.call(0), one.call(1)], total).result() == 1
