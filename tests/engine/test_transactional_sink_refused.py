"""A transactional sink whose commit the store refuses has failed, and is not called for ever."""

import asyncio

from mulligan import Delays, Mulligan, Retry, Settings
from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.core.worker import Worker
from mulligan.engine.worker import Engine
from mulligan.stores.memory import MemoryStore
from mulligan.testing import VirtualLoop


class Refusing(MemoryStore):
    """A store whose transactions end with these errors, one after the other, and then well."""

    def __init__(self, loop, errors):
        super().__init__(clock=loop.time)
        self.errors = list(errors)

    async def commit_within(self, outcome, work):
        work(None)
        if self.errors:
            raise self.errors.pop(0)
        [verdict] = await self.commit([outcome])
        return verdict


def played(errors):
    """A sink's job on such a store: its status, its history, and how often the sink was called."""
    app = Mulligan("memory://")
    calls = []

    @app.sink(transactional=True, retry=Retry(1, Delays((1,))))
    def write(connection, result: str, key: str) -> None:
        calls.append(key)

    loop = VirtualLoop()
    store = Refusing(loop, errors)

    async def run():
        call = write.call("news", key="k")  # type: ignore[call-arg]  # the store connects
        await store.enqueue([call.job])
        engine = Engine(store, app.tasks, Worker("w"), Settings(), monotonic=loop.time)
        running = asyncio.ensure_future(engine.run())
        await asyncio.sleep(60)
        engine.stop()
        await running
        [job] = store.state.jobs.values()
        return job.status, [each.message for each in job.history], len(calls)

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


def test_what_the_store_refuses_is_a_failed_attempt_and_ends_with_its_retries():
    refused = [StoreError("the transaction is aborted") for _ in range(100)]
    assert played(refused) == ("failed", ["the transaction is aborted"] * 2, 2)


def test_a_store_that_is_away_is_waited_for_without_using_an_attempt():
    assert played([StoreUnavailableError("no answer")] * 3) == ("done", [], 4)
