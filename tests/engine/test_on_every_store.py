"""A whole worker, as `mulligan worker` runs it, on every store and in real time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from msgspec.structs import replace

from mulligan import Delays, JobFailedError, Mulligan, Retry, Settings, current_job
from mulligan.app.worker import new_worker, work
from mulligan.engine.worker import Engine
from tests.contract.builders import used
from tests.engine.real_engine import until

# Long enough that a busy machine is not mistaken for a dead one.
LEASE = 4.0


@pytest.fixture
def app(store_url):
    made = Mulligan(store_url, settings=Settings(lease=LEASE, beat=0.2, concurrency=5))
    yield made
    made.close()


@asynccontextmanager
async def working(app: Mulligan, region: str = "default") -> AsyncIterator[Engine]:
    """A worker of the app, drained at the end."""
    ready: asyncio.Future[Engine] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(work(app, new_worker(app, region=region), ready.set_result))
    engine = await ready
    try:
        yield engine
    finally:
        engine.stop()
        await running


@pytest.mark.prove
async def test_a_job_that_outlasts_its_lease_runs_once(app):
    runs = []

    @app.task(retry=Retry(3, Delays((0,))))
    async def long() -> int:
        runs.append(used(current_job()))
        await asyncio.sleep(2 * LEASE)
        return used(current_job())

    async with working(app), working(app):
        job = await long.aenqueue()
        assert await job.aresult(timeout=60) == 1
    assert runs == [1]


async def test_a_retry_starts_when_its_backoff_ends_and_not_before(app):
    starts = []

    @app.task(retry=Retry(3, Delays((0.2,))))
    async def flaky() -> int:
        starts.append((asyncio.get_running_loop().time(), current_job().lane))
        if len(starts) < 3:
            raise ConnectionError("not yet")
        return len(starts)

    async with working(app):
        job = await flaky.aenqueue()
        assert await job.aresult(timeout=60) == 3
        assert [attempt.message for attempt in await job.ahistory()] == ["not yet"] * 2
    assert [lane for _, lane in starts] == ["fresh", "global-retry", "global-retry"]
    # A store's clock may count whole milliseconds.
    assert all(after - before >= 0.198 for (before, _), (after, _) in pairwise(starts))


async def test_plain_functions_and_coroutines_enqueue_more_from_inside(app):
    @app.task
    def leaf(number: int) -> int:
        return number

    @app.task
    def plain() -> str:
        child: str = leaf.enqueue(1).id
        return child

    @app.task
    async def coroutine() -> list[str]:
        # Plain code inside a coroutine blocks the loop for a moment, and works.
        return [leaf.enqueue(2).id, (await leaf.aenqueue(3)).id]

    async with working(app):
        first = await (await plain.aenqueue()).aresult(timeout=60)
        others = await (await coroutine.aenqueue()).aresult(timeout=60)
        results = [await app.job(job).aresult(timeout=60) for job in (first, *others)]
    assert results == [1, 2, 3]


async def test_a_coroutine_that_waits_without_awaiting_is_told_the_remedy(app: Mulligan):
    @app.task
    async def child() -> int:
        return 1

    @app.task
    async def parent() -> int:
        return (await child.aenqueue()).result()

    @app.task
    async def patient() -> int:
        return await (await child.aenqueue()).aresult()

    @app.task
    def plain() -> int:
        return child.enqueue().result()

    async with working(app):
        job = await parent.aenqueue()
        with pytest.raises(JobFailedError, match=r"use: await handle\.aresult\(\)"):
            await job.aresult(timeout=60)
        assert len(await job.ahistory()) == 1
        for task in (patient, plain):
            assert await (await task.aenqueue()).aresult(timeout=60) == 1


@dataclass
class Order:
    number: int
    placed: datetime


async def test_a_result_comes_back_in_the_declared_type(app):
    @app.task
    async def place(number: int) -> Order | None:
        return Order(number, datetime(2026, 5, 4, tzinfo=UTC)) if number else None

    async with working(app):
        some, none = await place.aenqueue(7), await place.aenqueue(0)
        assert await some.aresult(timeout=60) == Order(7, datetime(2026, 5, 4, tzinfo=UTC))
        assert await none.aresult(timeout=60) is None


async def lives(engine: Engine, region: str) -> bool:
    return region in {r.name for r in engine.breakers.facts.current.regions if r.live}


async def test_another_region_takes_the_first_retry(app):
    app.queue("default", grace=60)  # however slow the machine is
    ran_in = []

    @app.task(region="US", retry=Retry(1, Delays((0.05,))))
    async def ask() -> str:
        ran_in.append(current_job().worker_region)
        if len(ran_in) == 1:
            raise TimeoutError
        return current_job().worker_region

    async with working(app, "US") as us, working(app, "EU"):
        await until(lambda: lives(us, "EU"))
        job = await ask.aenqueue()
        assert await job.aresult(timeout=60) == "EU"
    assert ran_in == ["US", "EU"]


async def test_a_worker_that_holds_through_backoff_runs_the_retry_before_what_stands_behind(app):
    app.settings = replace(app.settings, hold_through_backoff=True, concurrency=1)
    app.queue("default", policy="retry-first")
    starts = []

    @app.task(retry=Retry(1, Delays((0.05,))))
    async def ask(name: str) -> None:
        starts.append((name, current_job().attempt))
        if starts == [("A-q1", 1)]:
            raise TimeoutError

    names = ("A-q1", "A-q2", "A-q3")
    jobs = [await ask.aenqueue(name) for name in names]
    async with working(app):
        for job in jobs:
            await job.aresult(timeout=60)
    assert starts == [("A-q1", 1), ("A-q1", 2), ("A-q2", 1), ("A-q3", 1)]
