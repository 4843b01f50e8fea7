"""The service: the store, the app, and what the server keeps while it runs."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mulligan.app import Mulligan, Task
from mulligan.app.overview import StoreReading
from mulligan.core.job import Job
from mulligan.engine.chores import MinuteKeeper
from mulligan.engine.loops import cancel_tasks
from mulligan.engine.reporter import Reporter
from mulligan.server.attempts import LONGEST_PAUSE, Attempts
from mulligan.server.bodies import REQUEST_WITHIN
from mulligan.server.events import Hub, JobHubs
from mulligan.server.guard import Guard
from mulligan.server.housekeep import housekeeping
from mulligan.server.listed import bounded
from mulligan.server.overview import full_overview
from mulligan.server.prometheus import Scrapes
from mulligan.server.readings import Computed, Readings
from mulligan.server.redaction import Redaction
from mulligan.server.sessions import Sessions
from mulligan.server.shapes.jobs import JobView
from mulligan.stores import redact
from mulligan.stores.contract import Store

T = TypeVar("T")
# How many requests may read jobs with their arguments at a time.
READ_AT_ONCE = 2
# Texts of so many bytes are made fit to be shown on the loop.
SMALL = 32 * 1024


class Service:
    """One server over one open store. `declares` says whether an app was given, with tasks."""

    def __init__(
        self,
        store: Store,
        app: Mulligan,
        guard: Guard,
        *,
        declares: bool,
        redaction: Redaction | None = None,
        request_within: float = REQUEST_WITHIN,
        longest_pause: float = LONGEST_PAUSE,
    ) -> None:
        self.store = store
        self.app = app
        self.guard = guard
        self.declares = declares
        self.settings = app.settings
        self.request_within = request_within
        self.redaction = redaction or Redaction(app.redact, self.tasks)
        self.chance = random.Random()
        self.stopping = asyncio.Event()
        self.reporter = Reporter(store, limits=app.declared_limits)
        self.sessions = Sessions(store, self.stopping)
        self.attempts = Attempts(
            store,
            self.reporter,
            self.settings,
            self.tasks,
            self.chance.random,
            keys=app.keys,
            longest_pause=longest_pause,
            limits=app.declared_limits,
        )
        self.readings = Readings(store)
        self._reading_bodies = asyncio.Semaphore(READ_AT_ONCE)
        self._aside = asyncio.Lock()
        self._whole = Computed(self._whole_of)
        self._bounded = Computed(self._bounded_of)
        self.hub = Hub(self._look)
        self.job_hubs = JobHubs(self._look_at_job)
        self.scrapes = Scrapes(store)

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks that the server knows; none without an app."""
        return self.app.tasks if self.declares else {}

    async def status(self) -> dict[str, Any]:
        """Everything at one instant, however much it is."""
        return await self._whole.of(await self.readings.recent())

    async def overview(self) -> dict[str, Any]:
        """The same with a bound on each list."""
        return await self._bounded.of(await self.readings.recent())

    async def _look(self) -> dict[str, Any]:
        return await self._bounded.of(await self.readings.newest())

    def _whole_of(self, reading: StoreReading) -> dict[str, Any]:
        about = {"read_only": self.guard.read_only, "store": redact(self.app.url)}
        seen = full_overview(reading, self.app.called)
        return seen | about | {"fleets": self.redaction.texts(seen["fleets"])}

    def _bounded_of(self, reading: StoreReading) -> dict[str, Any]:
        return bounded(self._whole_of(reading))

    @asynccontextmanager
    async def reading_bodies(self) -> AsyncIterator[None]:
        """Wait for a turn to read jobs with their arguments, so that workers never wait long."""
        async with self._reading_bodies:
            yield

    async def aside(self, work: Callable[[], T], size: int) -> T:
        """Do the work in a thread unless it is small, one at a time: the loop answers workers."""
        if size <= SMALL:
            return work()
        async with self._aside:
            return await asyncio.to_thread(work)

    async def job_view(self, job: Job) -> JobView:
        """The job as readers see it, without secrets."""
        return await self.aside(lambda: self.redaction.job(job), size_of(job))

    async def _look_at_job(self, job: str) -> dict[str, Any]:
        from mulligan.server.records_api import look  # noqa: PLC0415 - routes are made of services

        return await look(self, job)

    @asynccontextmanager
    async def running(self, *, chores: bool = True) -> AsyncIterator[None]:
        """Report what workers do through this server, and do the chores; neither if read-only."""
        if self.guard.read_only:
            yield
            return
        if self.declares:
            await self.app.store_declared(self.store)
        if not chores:
            reporting = asyncio.ensure_future(self.reporter.run())
            try:
                yield
            finally:
                await cancel_tasks([reporting])
                await self.reporter.report()
            return
        reporting = asyncio.ensure_future(self.reporter.run())
        keeping = asyncio.ensure_future(MinuteKeeper(self.store).run())
        try:
            async with housekeeping(
                self.store, self.settings, self.app.declared_schedules if self.declares else ()
            ):
                yield
        finally:
            await cancel_tasks([reporting, keeping])
            await self.reporter.report()

    def stop(self) -> None:
        """End all long polls and streams, so that the server can stop."""
        self.stopping.set()
        self.readings.stop()
        self.hub.stop()
        self.job_hubs.stop()


def size_of(job: Job) -> int:
    """The bytes of the parts of a job that may be large."""
    return len(job.body) + len(job.result or b"") + len(job.last_failure_reason or "")
