"""What operators do in a simulated day, at the worst of times."""

import asyncio
import contextlib
import random

from msgspec.structs import replace

from mulligan.app.schedules import job_now, pause_schedule, put_schedule, resume_schedule
from mulligan.core.errors import UnknownScheduleError
from mulligan.core.job import ENDED
from mulligan.core.limits import Limit
from mulligan.core.page import Selection
from tests.dst.plan import queue_settings, schedule
from tests.dst.tasks import QUEUES
from tests.dst.troubles import Troubled
from tests.dst.world import PAUSED_LIMITS

# What operators set instead of what is declared; None resets it.
SET_LIMITS: tuple[tuple[str, Limit | None], ...] = (
    ("account*", Limit(concurrency=3)),
    ("account*", None),
    ("account1", Limit(concurrency=2)),
    ("account1", None),
    ("window", Limit(rate=20, per=3600.0, concurrency=2)),
    ("window", None),
    ("bucket", Limit(rate=2, per=1800.0, burst=5)),
    ("bucket", None),
)


class Operated(Troubled):
    """A world with operators in it, who cancel, replay, purge, pause and configure."""

    async def _known(self, chance: random.Random, *statuses: str) -> list[str]:
        """A few jobs of this status."""
        found: list[str] = []
        for status in statuses:
            page = await self._store.page(Selection(status=status), 50)  # type: ignore[arg-type]
            found += [job.id for job in page.jobs]
        return chance.sample(found, min(len(found), chance.randrange(1, 5)))

    async def _cancel(self, chance: random.Random) -> str:
        jobs = await self._known(chance, "pending", "processing")
        await self._recorder.cancel(jobs, "an operator wished it")
        return ", ".join(jobs)

    async def _replay(self, chance: random.Random) -> str:
        jobs = await self._known(chance, "failed", "done")
        await self._recorder.replay(jobs)
        return ", ".join(jobs)

    async def _purge(self, chance: random.Random) -> str:
        jobs = await self._known(chance, *sorted(ENDED), "pending")
        await self._recorder.purge(jobs)
        return ", ".join(jobs)

    async def _reuse(self, chance: random.Random) -> str:
        """Purge a job that has ended, or cancel and purge one that runs; and enqueue it again."""
        jobs = await self._known(chance, "processing", "done", "failed")
        again = [job for arrival in self.plan.arrivals for job in arrival.jobs if job.id in jobs]
        again = [job for job in again if job.gather is None and not job.awaits]
        names = [job.id for job in again]
        await self._recorder.cancel(names, "to be enqueued again")
        await self._recorder.purge(names)
        await self._recorder.enqueue(again)
        return ", ".join(names)

    async def _pause(self, chance: random.Random) -> str:
        queue = chance.choice(QUEUES)
        await self._recorder.pause(queue, paused=True)
        seconds = chance.uniform(60, 7200)
        resume = self._recorder.pause
        self.loop.call_later(seconds, lambda: asyncio.ensure_future(resume(queue, paused=False)))
        return f"{queue} for {seconds:.0f} s"

    async def _limit(self, chance: random.Random) -> str:
        """Pause a limit, set another, or reset it."""
        if chance.random() < 0.5:
            name, seconds = chance.choice(PAUSED_LIMITS), chance.uniform(60, 7200)
            await self._recorder.pause_limit(name, round(seconds, 3))
            return f"{name} is paused for {seconds:.0f} s"
        name, limit = chance.choice(SET_LIMITS)
        await self._recorder.set_limit(name, limit, declared=False)
        return f"{name} is {limit}"

    async def _reschedule(self, chance: random.Random) -> str:
        """Give the schedule another call, and perhaps another timing; pause it; or run it now."""
        store, name = self._recorder, "ticks"
        what = chance.choice(("put", "put", "pause", "run now"))
        match what:
            case "put":
                regions = tuple(sorted({region for _, region in self.plan.posts}))
                await put_schedule(store, schedule(chance, regions))
                await resume_schedule(store, name)
            case "pause":
                await pause_schedule(store, name)
                seconds = chance.uniform(60, 7200)
                self.loop.call_later(seconds, lambda: asyncio.ensure_future(self._resume(name)))
            case _:
                job = await job_now(store, name)
                await store.enqueue([replace(job, id=f"{name}@now-{chance.randrange(10**6)}")])
        return what

    async def _resume(self, name: str) -> None:
        """Let the schedule tick again, if it was not removed when the day was over."""
        with contextlib.suppress(UnknownScheduleError):
            await resume_schedule(self._recorder, name)

    async def _configure(self, chance: random.Random) -> str:
        queue = chance.choice(QUEUES)
        await self._recorder.configure(queue, self.fitted(queue_settings(chance)))
        return queue
