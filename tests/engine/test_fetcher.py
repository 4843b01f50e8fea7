"""When a worker asks again for jobs."""

import asyncio

from mulligan import Mulligan
from mulligan.core.answers import Claimed
from mulligan.core.plan import ClaimPlan
from mulligan.core.worker import Worker
from mulligan.engine.fetcher import LONGEST_WAY, OTHERS_CLAIM, TIMER
from mulligan.stores.memory import MemoryStore
from tests.engine.real_engine import engine


class InOtherHands(MemoryStore):
    """Has a job that could start, which somebody else is about to claim."""

    def __init__(self) -> None:
        super().__init__()
        self.naps: list[float] = []
        self.asked_thrice = asyncio.Event()

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        await super().claim(plan, worker)
        return Claimed([], again_in=0.0)

    async def wait(self, worker: Worker, seconds: float) -> None:
        self.naps.append(seconds)
        if len(self.naps) == 3:
            self.asked_thrice.set()
        await super().wait(worker, seconds)


async def test_a_worker_leaves_others_the_time_to_have_what_they_are_claiming():
    store = InOtherHands()
    async with engine(Mulligan("memory://"), store):
        await store.asked_thrice.wait()
    assert store.naps[:3] == [OTHERS_CLAIM] * 3


class Foreseeing(InOtherHands):
    """Says when the next job is due, and a moment before that once more."""

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        await super().claim(plan, worker)
        return Claimed([], again_in=1.0 if len(self.naps) < 2 else TIMER)

    async def wait(self, worker: Worker, seconds: float) -> None:
        self.naps.append(seconds)
        if len(self.naps) == 2:
            self.asked_thrice.set()


async def test_a_worker_wakes_up_a_little_before_the_next_job_is_due():
    store = Foreseeing()
    async with engine(Mulligan("memory://"), store):
        await store.asked_thrice.wait()
    # For the moment that is left then no wake-up reaches it.
    assert len(store.naps) == 2
    assert all(1 - LONGEST_WAY - TIMER <= nap < 1 for nap in store.naps)


class Watched(MemoryStore):
    """Notes when a worker lies down to wait."""

    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self.events = events

    async def wait(self, worker: Worker, seconds: float) -> None:
        self.events.append("wait")
        await super().wait(worker, seconds)


async def test_what_was_claimed_starts_before_the_worker_lies_down():
    app, ended = Mulligan("memory://"), asyncio.Event()
    events: list[str] = []

    @app.task
    async def work() -> None:
        events.append("start")
        ended.set()

    store = Watched(events)
    await store.enqueue([work.call().job])
    async with engine(app, store):
        await ended.wait()
    assert events[0] == "start"
