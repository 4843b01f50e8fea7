"""A server is restarted under callers that wait for results: they get them all the same."""

import asyncio
import time

import pytest

from mulligan import Mulligan
from mulligan.app import wait
from tests.contract.builders import ANYONE, claim, done
from tests.databases import SERVERS
from tests.store_kit import handle, require

pytestmark = pytest.mark.prove


@pytest.fixture(params=["redis", "postgres"])
def server(request):
    """A server that the test may kill."""
    require(request.param)
    with SERVERS[request.param]() as started:
        yield started


@pytest.fixture
async def watched(monkeypatch):
    """Counts the watches that have begun."""
    begun = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()
    begin = wait.begin

    async def counted(*args, **options):
        watch = await begin(*args, **options)
        loop.call_soon_threadsafe(begun.release)
        return watch

    monkeypatch.setattr(wait, "begin", counted)
    return begun


async def test_whoever_waits_gets_the_result_of_a_server_that_was_restarted(server, watched):
    app = Mulligan(server.url)

    @app.task
    def answer(number: int) -> int:
        raise NotImplementedError

    first, second = await answer.aenqueue(1), await answer.aenqueue(2)
    plain = asyncio.create_task(asyncio.to_thread(first.result, 120))
    beside = asyncio.create_task(second.aresult(120))
    for _ in range(2):
        await watched.acquire()

    await asyncio.to_thread(server.restart)
    async with handle(server.url, time.time) as worker:
        claims = (await claim(worker, ANYONE, demand=2)).claims
        assert await worker.commit([done(each) for each in claims]) == [
            "written",
            "written",
        ]
    assert await plain == 1
    assert await beside == 1
    await asyncio.to_thread(app.close)
