"""A connection that is kept on the running loop."""

import asyncio
import threading
import warnings

import pytest

from mulligan import Mulligan, MulliganError, ResultTimeoutError
from mulligan.stores import is_embedded


@pytest.fixture
def app(store_url):
    made = Mulligan(store_url)
    yield made
    made.close()


def portals() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "mulligan-store"]


async def test_coroutines_on_its_loop_reach_the_store_without_a_detour(app):
    @app.task
    async def work(number: int) -> None: ...

    before = portals()
    async with app.connected():
        [job] = await app.aenqueue_many([work.call(1)])
        assert (await job.ainfo()).status == "pending"
        assert portals() == before
    assert (await job.ainfo()).status == "pending"  # by the detour, if there is one
    assert (portals() == before) is is_embedded(app.url)


async def test_a_connection_within_a_connection_is_the_same(app):
    @app.task
    async def work(number: int) -> None: ...

    async with app.connected():
        async with app.connected():
            first = await work.aenqueue(1)
        second = await work.aenqueue(2)
        assert (await first.ainfo()).sequence < (await second.ainfo()).sequence


def test_on_a_virtual_clock_there_is_nothing_to_connect_to():
    app = Mulligan("redis://127.0.0.1:1/0")

    @app.task
    async def work() -> int:
        return 1

    async def enqueue_connected() -> str:
        async with app.connected():
            return (await work.aenqueue()).id

    with app.testing() as t:
        job = app.job(t.loop.run_until_complete(enqueue_connected()))
        assert job.result(timeout=1) == 1


async def test_a_worker_runs_on_the_loop_of_a_program_and_drains_at_the_end(app):
    @app.task
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    @app.task(queue="plain")
    def plain(number: int) -> int:
        return 3 * number

    async with app.worker(concurrency=3, queues=["default", "plain"]):
        jobs = [await task.aenqueue(2) for task in (double, plain)]
        assert [await job.aresult(timeout=30) for job in jobs] == [4, 6]
        last = await double.aenqueue(5)
    # Whether it started or not, the worker holds nothing any more.
    assert (await last.ainfo()).status in ("pending", "done")
    async with app.worker():
        assert await last.aresult(timeout=30) == 10


async def test_a_worker_that_cannot_start_says_so_to_the_program():
    app = Mulligan("sqlite:////no/such/folder/jobs.db")
    entered = False
    with pytest.raises(MulliganError):
        async with app.worker():
            entered = True
    assert not entered


async def test_a_coroutine_that_waits_without_await_is_warned(app):
    @app.task
    async def double(number: int) -> int:
        return 2 * number

    async with app.connected():
        job = await double.aenqueue(2)
    words = r"result\(\) in the coroutine .*endpoint blocks its event loop"

    async def endpoint() -> object:
        return job.result(timeout=0)

    def helper() -> object:
        return job.result(timeout=0)

    with pytest.warns(RuntimeWarning, match=words), pytest.raises(ResultTimeoutError):
        await endpoint()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ResultTimeoutError):
            await asyncio.to_thread(helper)
