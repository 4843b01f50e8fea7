"""An idle worker says in its log which jobs wait that no live worker may take."""

import asyncio
import logging

import pytest

from mulligan import Mulligan
from mulligan.core.worker import Worker
from mulligan.engine import Engine, unserved_watch
from mulligan.engine.unserved_watch import UnservedWatch
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore
from tests.contract.making import job
from tests.engine.running import QUICK, until, worker_of

SENTENCE = (
    "2 jobs of queue mail for region EU wait, and no live worker may take them;"
    " start one with: mulligan worker myapp:app --region EU --queue mail"
)
EU = Worker("eve-1", "EU", ("mail",))


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
    monkeypatch.setattr(unserved_watch, "FIRST_LOOK", 0.0)
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
    monkeypatch.setattr(unserved_watch, "FIRST_LOOK", 0.0)
    monkeypatch.setattr(unserved_watch, "LOOK_EVERY", 0.0)
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
