"""When a worker ends by itself: only a store that answers can say that there is nothing to do."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from mulligan.cli.exit_reasons import Idle, end_when
from mulligan.core.budget import Budget
from mulligan.core.errors import StoreUnavailableError
from mulligan.core.facts import QueueSettings
from mulligan.core.settings import Settings
from mulligan.core.worker import Worker
from mulligan.engine.worker import Engine
from mulligan.stores.memory import MemoryStore
from mulligan.testing import VirtualLoop
from tests.cli.apps import app
from tests.cli.command_line import new_job

IDLE_EXIT = 8.0
BACK = 1000.0
# It looks every second, sends a claim every 5 s, and tries a store that is away as often.
ENDS_AFTER = range(7, 19)


class Ailing(MemoryStore):
    """A store with operations that go wrong for a time: they fail, or they hang."""

    def __init__(self, loop: VirtualLoop, away: float, back: float) -> None:
        super().__init__(clock=loop.time)
        self._loop = loop
        self._away, self._back = away, back
        self.fails: tuple[str, ...] = ()
        self.hangs: tuple[str, ...] = ()

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name not in ("beat", "claim", "commit", "facts", "wait"):
            return attribute

        async def call(*arguments: Any) -> Any:
            if self._away <= self._loop.time() < self._back:
                if name in self.fails:
                    raise StoreUnavailableError(f"{name}: nobody is there")
                if name in self.hangs:
                    await asyncio.sleep(self._back - self._loop.time())
            return await attribute(*arguments)

        return call


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def ends_at(loop: VirtualLoop, store: MemoryStore) -> float:
    """When a worker on the store ends that may be idle for a while."""

    async def work() -> float:
        worker = Worker("w", "default", ("mail",), lease=30.0, concurrency=1)
        engine = Engine(store, app.tasks, worker, Settings(), monotonic=loop.time)
        ending = asyncio.ensure_future(end_when(Idle(IDLE_EXIT), engine))
        await engine.run()
        await ending
        return loop.time()

    return loop.run_until_complete(work())


def test_it_ends_when_the_store_has_had_nothing_for_it(loop):
    assert int(ends_at(loop, MemoryStore(clock=loop.time))) in ENDS_AFTER


@pytest.mark.parametrize("operations", [("beat",), ("facts",), ("claim",), ("beat", "claim")])
def test_a_store_that_has_never_answered_does_not_end_it(loop, operations):
    store = Ailing(loop, 0.0, BACK)
    store.fails = operations
    assert int(ends_at(loop, store) - BACK) in ENDS_AFTER


@pytest.mark.parametrize("ails", ["fails", "hangs"])
def test_a_store_that_answers_no_more_does_not_end_it(loop, ails):
    store = Ailing(loop, 3.0, BACK)
    setattr(store, ails, ("claim",))
    assert int(ends_at(loop, store) - BACK) in ENDS_AFTER


def test_a_store_that_fails_while_it_waits_for_a_job_does_not_end_it(loop):
    store = Ailing(loop, 0.0, BACK)
    store.fails = ("wait",)
    assert int(ends_at(loop, store) - BACK) in ENDS_AFTER


def test_outcomes_that_are_not_written_yet_keep_it(loop):
    store = Ailing(loop, 0.0, BACK)
    store.fails = ("commit",)
    loop.run_until_complete(store.enqueue([new_job("a")]))
    assert int(ends_at(loop, store) - BACK) in ENDS_AFTER


def test_retries_that_wait_for_a_budget_keep_it(loop):
    """Else a supervisor, which sees that they are due, would start another one at once."""
    store = MemoryStore(clock=loop.time)
    budget = QueueSettings(budget=Budget(limit=1, per=BACK))

    async def fill() -> None:
        await store.configure("mail", budget)
        await store.enqueue([replace(new_job(name), priority=1) for name in ("a", "b")])

    loop.run_until_complete(fill())
    assert int(ends_at(loop, store) - BACK) in ENDS_AFTER
