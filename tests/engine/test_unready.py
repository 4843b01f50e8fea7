"""A worker is ready while it beats and claims, and does not drain."""

import asyncio

from mulligan import Mulligan
from mulligan.core.settings import Settings
from mulligan.engine.worker import Engine
from tests.engine.real_engine import QUICK, Faulty, engine, worker_of

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


async def test_it_is_not_ready_when_a_lease_has_passed_without_a_heartbeat():
    store = Faulty()
    settings = Settings(lease=0.3, beat=0.02)
    async with engine(APP, store, settings) as made:
        await until(made, "")
        store.lose["beat"] = 10**9
        await until(made, "has not answered a heartbeat")
        store.lose.clear()
        await until(made, "")
