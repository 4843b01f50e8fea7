"""Sessions of attempts with long pauses, kept through restarts of workers."""

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest

from mulligan import Mulligan, Retry, Sessions, Settings, current_job
from mulligan.core.page import Selection
from mulligan.core.worker import Worker
from mulligan.engine.worker import Engine
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore
from mulligan.testing import VirtualLoop

DAY = 86_400.0
SERVICE = 30.0


class Restarted:
    """An app whose workers come and go; only the store stays."""

    def __init__(self) -> None:
        self.app = Mulligan("memory://")
        self.loop = VirtualLoop()
        self.store = MemoryStore(clock=self.loop.time)
        self.starts: list[float] = []
        self.recovers_at = float("inf")

        @self.app.task(retry=Retry(None, Sessions()), queue="news")
        async def classify() -> str:
            self.starts.append(self.loop.time())
            await asyncio.sleep(SERVICE)
            if self.loop.time() < self.recovers_at:
                raise TimeoutError(f"attempt {current_job().attempt} timed out")
            return "fine"

        self.job = classify.call().job

    def live(self, until: float, first: Any = None) -> Any:
        """Work until then, and stop; `first` is asked of the store in the end."""

        async def life() -> Any:
            await self.store.enqueue([self.job])
            worker = Worker(f"w{until}", queues=("news",))
            engine = Engine(
                self.store, self.app.tasks, worker, Settings(), monotonic=self.loop.time
            )
            running = asyncio.ensure_future(engine.run())
            await asyncio.sleep(until - self.loop.time())
            engine.stop()
            await running
            return None if first is None else await first(self.store)

        return self.loop.run_until_complete(life())


@pytest.fixture
def restarted():
    made = Restarted()
    yield made
    made.loop.close()


@pytest.mark.prove
def test_sessions_go_on_through_restarts_and_keep_every_reason(restarted):
    for until in (100.0, 400.0, 1_300.0, 2_440.0, 4_000.0):
        restarted.live(until)
    restarted.live(DAY / 2)
    first = [0, 30, 65, 395, 425, 460, 1090, 1120, 1155, 2385, 2415, 2450, 4880, 4910, 4945]
    assert restarted.starts[:15] == first
    pauses = [later - sooner for sooner, later in pairwise(restarted.starts[14::3])]
    assert set(pauses) == {SERVICE + 3600 + SERVICE + SERVICE + 5}
    restarted.recovers_at = DAY
    job, history = restarted.live(DAY + 3800, read)
    assert (job.status, job.value()) == ("done", "fine")
    assert len(history) == 50
    last = job.retry_count
    assert [each.message for each in history] == [
        f"attempt {number} timed out" for number in range(last - 49, last + 1)
    ]


async def read(store: Store) -> Any:
    [job] = (await store.page(Selection(), 10)).jobs
    return job, await store.history(job.id)


def test_delayed_statistics_tell_what_is_ready_when(restarted):
    stats = restarted.live(200.0, lambda store: store.stats())
    delayed = stats.delayed["news"]
    assert (delayed.total, delayed.ready_now, delayed.ready_in_hour) == (1, 0, 1)
    stats = restarted.live(6_000.0, lambda store: store.stats())
    assert stats.delayed["news"].ready_in_hour == 1


def test_the_log_tells_how_long_a_job_was_delayed_and_what_is_delayed(restarted, caplog):
    caplog.set_level(logging.INFO, "mulligan.worker")
    restarted.live(500.0)
    said = "\n".join(record.getMessage() for record in caplog.records)
    job = restarted.job.id
    assert f"job {job}: back in queue news after 5.0 minutes; attempt 4 starts" in said
    assert "queue news: 1 delayed, 0 of them ready, 1 within the hour" in said
