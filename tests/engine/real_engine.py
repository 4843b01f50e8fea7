"""A real engine, with threads and a real clock, on a store in memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mulligan import Mulligan, Settings
from mulligan.core.answers import Claimed
from mulligan.core.job import Claim, Job
from mulligan.core.outcome import Outcome, Returned, Verdict
from mulligan.core.plan import ClaimPlan
from mulligan.core.worker import Worker
from mulligan.engine.claim_runner import HeldClaim
from mulligan.engine.worker import Engine
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore

# The lease is long enough that a busy machine is not mistaken for a dead one.
QUICK = Settings(lease=2.0, beat=0.1, drain_timeout=30, unknown_task_delay=0.01)


def worker_of(app: Mulligan, settings: Settings = QUICK, name: str = "w") -> Worker:
    return Worker(name, "default", app.queue_names, settings.lease, settings.concurrency)


@asynccontextmanager
async def engine(
    app: Mulligan, store: Store, settings: Settings = QUICK, name: str = "w"
) -> AsyncIterator[Engine]:
    """A running engine; drained at the end if the test has not stopped it."""
    made = Engine(
        store,
        app.tasks,
        worker_of(app, settings, name),
        settings,
        heart=store,
        tracing=app.tracing,
    )
    running = asyncio.ensure_future(made.run())
    try:
        yield made
    finally:
        if not made.stopping:
            made.stop()
        await running


def held_claim(job: str) -> HeldClaim:
    """A claim that a worker holds."""
    return HeldClaim(
        Claim(
            id=job,
            token=1,
            queue="q",
            task="t",
            body=b"{}",
            region="r",
            priority=0,
            scope="r",
            lane_priority=0,
            due=0.0,
            retry_count=0,
            replay=0,
            snoozes=0,
            worker="w",
            worker_region="r",
            started_at=0.0,
        )
    )


async def ended(store: Store, *jobs: str) -> list[str]:
    """Wait until the jobs have ended; how."""
    statuses: list[str] = []

    async def all_ended() -> bool:
        found = [await store.get(job) for job in jobs]
        statuses[:] = [job.status if job else "gone" for job in found]
        return not {"pending", "processing"} & set(statuses)

    await until(all_ended)
    return statuses


async def found(store: Store, job: str) -> Job:
    """The job as it is now."""
    seen = await store.get(job)
    assert seen is not None
    return seen


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Look until it is so; pytest's timeout is the limit."""
    while not await true():  # noqa: ASYNC110 - the store has no event for it
        await asyncio.sleep(0.005)


class Faulty(MemoryStore):
    """A store whose next replies to an operation are lost: it happened, and nobody is told."""

    def __init__(self) -> None:
        super().__init__()
        self.lose: dict[str, int] = {}
        self.lost: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name not in ("claim", "commit", "beat", "reclaim", "enqueue", "wait", "facts"):
            return attribute

        async def call(*args: Any) -> Any:
            answer = await attribute(*args)
            if self.lose.get(name, 0) > 0:
                self.lose[name] -= 1
                self.lost.append(name)
                raise ConnectionError(f"the reply to {name} was lost")
            return answer

        return call


class Watched(MemoryStore):
    """Remembers how many were claimed at a time, and which were given back."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.returned: list[str] = []

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        claimed = await super().claim(plan, worker)
        self.sizes.append(len(claimed.claims))
        return claimed

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        self.returned += [each.lease.job for each in outcomes if isinstance(each, Returned)]
        return await super().commit(outcomes)


async def enqueued(app: Mulligan, store: MemoryStore, task, count: int) -> list[str]:
    jobs = [task.call(number).job for number in range(count)]
    await store.enqueue(jobs)
    return [job.id for job in jobs]
