"""A worker is ready while it beats and claims, and does not drain."""

import asyncio
from collections.abc import Sequence

from mulligan import Mulligan
from mulligan.core.errors import StoreUnavailableError
from mulligan.core.outcome import Outcome, Verdict
from mulligan.core.settings import Settings
from mulligan.engine.worker import Engine
from mulligan.stores.memory import MemoryStore
from tests.engine.real_engine import QUICK, Faulty, ended, engine, worker_of

APP = Mulligan("memory://")


async def until(engine: Engine, words: str) -> None:
    """Wait until it says so; pytest's timeout is the limit."""
    while not (words in engine.unready if words else not engine.unready):  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def test_it_is_ready_when_the_store_has_answered_and_not_while_it_drains():
    store = Faulty()
    made = Engine(store, {}, worker_of(APP), QUICK, heart=store)
    assert made.unready == "has not reached the store yet"
    running = asyncio.ensure_future(made.run())
    await until(made, "")
    made.stop()
    assert made.unready == "draining"
    await running


async def test_it_is_not_ready_while_its_claims_are_not_answered():
    store = Faulty()
    async with engine(APP, store) as made:
        await until(made, "")
        store.lose["claim"] = store.lose["wait"] = 10**9
        await until(made, "claims fail")
        store.lose.clear()
        await until(made, "")


class Unwritten(MemoryStore):
    """A store that hands out jobs, and fails to commit while it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False
        self.failed = asyncio.Semaphore(0)

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        if self.fails:
            self.failed.release()
            raise StoreUnavailableError("the disk failed")
        return await super().commit(outcomes)


async def test_it_is_not_ready_and_claims_nothing_while_its_commits_fail():
    """Or else it would run jobs whose outcomes are never written."""
    app = Mulligan("memory://")
    ran: list[int] = []

    @app.task
    async def work(number: int) -> None:
        ran.append(number)

    store = Unwritten()
    first, second = work.call(1).job, work.call(2).job
    async with engine(app, store) as made:
        await until(made, "")
        store.fails = True
        await store.enqueue([first])
        await store.failed.acquire()
        await until(made, "commits fail")
        await store.enqueue([second])
        for _ in range(3):  # time enough for a claim
            await store.failed.acquire()
        assert ran == [1]
        store.fails = False
        assert await ended(store, first.id, second.id) == ["done", "done"]
        await until(made, "")
    assert ran == [1, 2]


async def test_it_is_not_ready_when_a_lease_has_passed_without_a_heartbeat():
    store = Faulty()
    settings = Settings(lease=0.3, beat=0.02)
    async with engine(APP, store, settings) as made:
        await until(made, "")
        store.lose["beat"] = 10**9
        await until(made, "has not answered a heartbeat")
        store.lose.clear()
        await until(made, "")
