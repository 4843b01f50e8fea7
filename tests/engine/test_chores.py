"""A worker's chores: the reaper, and the watch for unserved work."""

import asyncio
import logging
import random
from typing import Any

import pytest

from mulligan import Mulligan
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import NewJob
from mulligan.core.worker import Worker
from mulligan.engine import chores
from mulligan.engine.breakers import FactsCell
from mulligan.engine.chores import (
    BATCH,
    Reaper,
    UnservedWatch,
)
from mulligan.engine.committer import Committer
from mulligan.engine.decider import Decider
from mulligan.engine.events import Events
from mulligan.engine.loops import cancel_tasks
from mulligan.engine.reporter import Reporter
from mulligan.engine.worker import Engine
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore
from tests.contract.builders import job
from tests.engine.real_engine import QUICK, until, worker_of
from tests.store_kit import VirtualClock

JOBS = 2 * BATCH + 50
DEAD = Worker("dead", concurrency=JOBS)
SENTENCE = (
    "2 jobs of queue mail for region EU wait, and no live worker may take them;"
    " start one with: mulligan worker myapp:app --region EU --queue mail"
)
EU = Worker("eve-1", "EU", ("mail",))


class HeldUp(MemoryStore):
    """A store whose commits are held up, by somebody's lock perhaps, until they are let go."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock=clock)
        self.asked = asyncio.Event()
        self.free = asyncio.Event()

    async def commit(self, *args: Any) -> Any:
        """Wait first."""
        self.asked.set()
        await self.free.wait()
        return await super().commit(*args)


async def test_it_reclaims_no_more_while_what_it_reclaimed_is_not_written():
    clock = VirtualClock()
    store = HeldUp(clock)
    await store.enqueue([NewJob(f"j{number}", "default", "t", b"{}") for number in range(JOBS)])
    cell = FactsCell()
    facts = cell.current = (await store.beat(DEAD, [])).facts
    await store.claim(plan_claim(JOBS, "default", [("default", Carry())], facts), DEAD)
    clock.advance(2 * DEAD.lease)
    reporter = Reporter(store)
    events = Events({}, reporter, None)
    committer = Committer(store, reporter, events, asyncio.get_running_loop().time)
    decider = Decider(
        {},
        committer,
        events,
        cell,
        longest_wait=1.0,
        chance=random.Random(1),
        monotonic=asyncio.get_running_loop().time,
    )
    reaper = Reaper(store, Worker("w"), committer, decider.lost, every=0.001)
    loops = [asyncio.ensure_future(committer.run()), asyncio.ensure_future(reaper.run())]
    try:
        await store.asked.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert reaper.reclaimed == BATCH
        store.free.set()

        async def all_written() -> bool:
            return committer.written == JOBS

        await until(all_written)
    finally:
        await cancel_tasks(loops)


class Idle:
    """Slots that hold nothing, or something."""

    def __init__(self, *holding: object) -> None:
        self.holding = list(holding)


def looking(store: Store) -> UnservedWatch:
    return UnservedWatch(store, Idle(), "myapp:app")  # type: ignore[arg-type]


async def unserved_mail(store: Store) -> None:
    """Two jobs for EU, and a worker elsewhere."""
    await store.beat(Worker("ann-1", "US", ("mail",)), [])
    await store.enqueue([job(name, queue="mail", region="EU") for name in ("a", "b")])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


async def test_what_nobody_may_take_is_told_once_with_the_command(store, caplog):
    await unserved_mail(store)
    look = looking(store)
    await look.look()
    await look.look()
    assert warnings(caplog) == [SENTENCE]


async def test_it_is_told_again_when_nobody_serves_it_again(store, caplog):
    await unserved_mail(store)
    look = looking(store)
    await look.look()
    await store.beat(EU, [])
    await look.look()
    await store.leave(EU)
    await look.look()
    assert warnings(caplog) == [SENTENCE, SENTENCE]


async def test_a_worker_of_an_app_tells_it_by_itself(caplog, monkeypatch):
    monkeypatch.setattr(chores, "FIRST_LOOK", 0.0)
    store, app = MemoryStore(), Mulligan("memory://")
    await unserved_mail(store)
    engine = Engine(store, app.tasks, worker_of(app), QUICK, app="myapp:app")
    running = asyncio.ensure_future(engine.run())

    async def told() -> bool:
        return SENTENCE in warnings(caplog)

    await until(told)
    engine.stop()
    await running


async def test_a_busy_worker_does_not_look(caplog, monkeypatch):
    monkeypatch.setattr(chores, "FIRST_LOOK", 0.0)
    monkeypatch.setattr(chores, "LOOK_EVERY", 0.0)
    store = MemoryStore()
    await unserved_mail(store)
    slots = Idle("a lease")
    looks = asyncio.ensure_future(UnservedWatch(store, slots, "a:b").run())  # type: ignore[arg-type]
    for _ in range(5):
        await asyncio.sleep(0)
    assert warnings(caplog) == []
    slots.holding.clear()

    async def told() -> bool:
        return bool(warnings(caplog))

    await until(told)
    looks.cancel()
