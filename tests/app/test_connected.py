"""A connection that is kept on the running loop."""

import threading

import pytest

from mulligan import Mulligan
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
