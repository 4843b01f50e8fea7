"""`with app.testing() as t`: enqueue, let time pass, look at what happened."""

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from contextvars import copy_context
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from mulligan.app.options import check_moment
from mulligan.app.store_access import Operation, StoreAccess, Work
from mulligan.app.wait import LoopWaiter, Waiter
from mulligan.core.at_once import at_once
from mulligan.core.checks import Seconds, check_name, seconds
from mulligan.core.job import ENDED, Enqueued, Job, NewJob, never_started
from mulligan.core.outcome import Outcome, Verdict
from mulligan.core.page import Selection
from mulligan.core.schedule import read_schedules, tick_id
from mulligan.stores.contract import Store
from mulligan.stores.memory import MemoryStore
from mulligan.testing.idle import OF_WORKER, Jumps
from mulligan.testing.nested import CallsWithoutLoop, answer_at_once, is_within, nested
from mulligan.testing.virtual import VirtualLoop
from mulligan.testing.workers import engine_of, enter_lifespan, settled, stop, worker_of

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan
    from mulligan.engine.worker import Engine

T = TypeVar("T")
PAGE = 1000


class InjectedError(Exception):
    """What `fail_step` has a task raise."""


class Watched(MemoryStore):
    """A store in memory that sets `moved` when a job may have ended."""

    def __init__(self, loop: VirtualLoop, start: float) -> None:
        super().__init__(clock=lambda: start + loop.time())
        self.moved = asyncio.Event()

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write the outcomes, and set `moved`."""
        verdicts = await super().commit(outcomes)
        self.moved.set()
        return verdicts

    def unfinished(self) -> list[str]:
        """The ids of jobs that have not ended, without the ticks that lie ahead."""
        left = [id_ for id_, record in self.state.jobs.items() if record.status not in ENDED]
        if not left or not self.state.schedules:
            return left
        stored = read_schedules(self.state.schedules).values()
        ahead = [tick_id(s.name, s.placed) for s, _ in stored if s.placed is not None]
        return [id_ for id_ in left if id_ not in ahead or not self.is_ahead(id_)]

    def is_ahead(self, job: str) -> bool:
        """Whether the job is still to fall due for the first time."""
        record = self.state.jobs[job]
        started = not never_started(record.retry_count, record.snoozes, record.replay)
        return record.status == "pending" and not started and record.due > self.state.clock()


class Driver:
    """Runs the virtual loop, in a thread of its own where another event loop runs already.

    It runs one coroutine at a time, so that everything happens in one order.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self._beside: ThreadPoolExecutor | None = None

    @property
    def is_within(self) -> bool:
        """Whether the caller runs on the virtual loop, or in a plain function that it calls."""
        return is_within(self.loop)

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the virtual loop."""
        return running_loop() is self.loop

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the loop until the coroutine has ended."""
        if self.is_within:
            return nested(self.loop, coroutine)
        if running_loop() is None and self._beside is None:
            return self.loop.run_until_complete(coroutine)
        return self._submit(coroutine).result()

    async def arun(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The same, awaited on another loop."""
        if self.is_within:
            return nested(self.loop, coroutine)
        return await asyncio.wrap_future(self._submit(coroutine))

    def close(self) -> None:
        """End the loop, and the thread if there is one."""
        if self._beside is not None:
            self._beside.shutdown()
        self.loop.close()

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        if self._beside is None:
            self._beside = ThreadPoolExecutor(1, "mulligan-testing")
        context = copy_context()
        return self._beside.submit(context.run, self.loop.run_until_complete, coroutine)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class VirtualWaiter:
    """What a coroutine of another loop sleeps on: virtual time passes meanwhile."""

    def __init__(self, on_loop: LoopWaiter, driver: Driver) -> None:
        self.tell = on_loop.tell
        self.now = on_loop.now
        self._on_loop = on_loop
        self._driver = driver

    async def sleep(self, seconds: float) -> None:
        """Sleep on the virtual loop."""
        await self._driver.arun(self._on_loop.sleep(seconds))


class VirtualAccess:
    """Calls the store; those that wait, such as `result`, let virtual time pass."""

    joins_transactions = False
    blocks_loops = False

    def __init__(self, store: Store, driver: Driver) -> None:
        self._store = store
        self._driver = driver

    def run(self, work: Work[T]) -> T:
        """Run it at once inside a task, else let the loop run until it is through.

        What cannot be had at once, such as a result, is waited for in a plain function only.
        """
        if self._driver.is_here:
            return at_once(work())
        if self._driver.is_within:
            answer = answer_at_once(self._driver.loop, work())
            if answer is not None:
                return answer[0]
        return self._driver.run(work())

    async def acall(self, operation: Operation[T]) -> T:
        """Run it on the virtual loop."""
        if self._driver.is_here:
            return await operation(self._store)
        return await self._driver.arun(operation(self._store))

    async def aenqueue(self, job: NewJob) -> Enqueued:
        """Store one job."""
        [answer] = await self.acall(lambda store: store.enqueue([job]))
        return answer

    def enqueue(self, job: NewJob) -> Enqueued:
        """Store one job."""
        return self.run(lambda: self.aenqueue(job))

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        if self._driver.is_here:
            await asyncio.sleep(seconds)
        else:
            await self._driver.arun(asyncio.sleep(seconds))

    def waiter(self) -> Waiter:
        """What lets virtual time pass."""
        on_loop = LoopWaiter(self._driver.loop)
        return on_loop if self._driver.is_here else VirtualWaiter(on_loop, self._driver)

    def use_on_loop(self, store: Store | None) -> None:
        """There is one store and one loop."""

    def connected(self) -> AbstractAsyncContextManager[None]:
        """There is no connection to keep."""
        return nullcontext()

    def close(self) -> None:
        """Nothing to close."""


class Testing:
    """Runs the app's workers on a virtual clock that starts at 0.

    Plain functions run on the loop too, so that everything happens in one order, always the same
    for the same `seed`. One worker per region in `regions`; it serves `queues`, or all that the
    app has when testing begins, and runs `concurrency` jobs at a time, or as many as the app's
    settings say. The settings also decide on `hold_through_backoff`, unless it is given. In a test
    that is a coroutine: `async with`, `adrain`, `aadvance`. The app's lifespan is entered once, on
    the virtual loop, unless `resources` are given. `start` is the date at which the clock starts,
    for schedules and `run_after`.
    """

    def __init__(
        self,
        app: "Mulligan",
        *,
        regions: Sequence[str] = ("default",),
        queues: Sequence[str] = (),
        concurrency: int | None = None,
        seed: int = 0,
        hold_through_backoff: bool | None = None,
        resources: Mapping[str, Any] | None = None,
        start: datetime | None = None,
    ) -> None:
        self._app = app
        self._start_time = 0.0 if start is None else check_moment(start, "start").timestamp()
        self._clocks = app.clock, app.clock if start is None else self._wall_clock
        self._regions = regions
        self._queues = tuple(queues) or app.queue_names
        self._concurrency = concurrency or app.settings.concurrency
        self._seed = seed
        held = app.settings.hold_through_backoff
        self._hold = held if hold_through_backoff is None else hold_through_backoff
        self._resources = resources
        self._lifespan = AsyncExitStack()
        self.loop = VirtualLoop()
        self._driver = Driver(self.loop)
        self._before: StoreAccess = app.access
        self._engines: list[tuple[Engine, asyncio.Task[None]]] = []
        self.store = Watched(self.loop, self._start_time)
        self._jumps = Jumps(self.loop, self.store, lambda: [each for each, _ in self._engines])
        # By step, and whether its function has returned: how many attempts are to fail there.
        self._failing: Counter[tuple[str, bool]] = Counter()

    def __enter__(self) -> Self:
        self._before = self._app.access
        self._app.access = VirtualAccess(self._app.seen(self.store), self._driver)
        self._app.clock = self._clocks[1]
        try:
            self.run(self._start())
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.loop.time()

    def _wall_clock(self) -> float:
        return self._start_time + self.loop.time()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the test's own on the virtual clock."""
        return self._driver.run(coroutine)

    def advance(self, by: Seconds) -> None:
        """Let this much time pass, and whatever happens in it."""
        self.run(asyncio.sleep(seconds(by)))

    async def aadvance(self, by: Seconds) -> None:
        """Let this much time pass, and whatever happens in it."""
        await self._driver.arun(asyncio.sleep(seconds(by)))

    def drain(self, within: Seconds = 86_400.0) -> float:
        """Let time pass until every job has ended; how much it took.

        Raises if a job has not ended `within` that time, and says what it waits for.
        """
        return self.run(self._drained(seconds(within)))

    async def adrain(self, within: Seconds = 86_400.0) -> float:
        """Let time pass until every job has ended; how much it took.

        Raises if a job has not ended `within` that time, and says what it waits for.
        """
        return await self._driver.arun(self._drained(seconds(within)))

    def fail_step(self, name: str, *, after: bool = False, times: int = 1) -> None:
        """Have the next attempts fail when they come to the step, before its function is called.

        Or with `after`, when it has returned and its result is not recorded yet: as if the worker
        had died there.
        """
        self._failing[check_name("step", name), after] += times

    def _at_step(self, name: str, *, ran: bool) -> None:
        if self._failing[name, ran] > 0:
            self._failing[name, ran] -= 1
            where = "its result was recorded" if ran else "it ran"
            raise InjectedError(f"the test had step {name!r} fail before {where}")

    def jobs(self) -> list[Job]:
        """Every job in the store, oldest first."""
        page = self.run(self.store.page(Selection(), PAGE))
        jobs = page.jobs
        while page.after is not None:
            page = self.run(self.store.page(Selection(), PAGE, page.after))
            jobs = jobs + page.jobs
        return list(reversed(jobs))

    def _leave(self) -> None:
        """Give the app its own store back, even if stopping the workers fails."""
        self._app.access = self._before
        self._app.clock = self._clocks[0]
        try:
            self.run(self._stop())
        finally:
            self._driver.close()

    async def _drained(self, within: float) -> float:
        before = self.now
        try:
            async with asyncio.timeout(within):
                while self.store.unfinished():
                    self.store.moved.clear()
                    await self.store.moved.wait()
                await settled([engine for engine, _ in self._engines])
        except TimeoutError:
            stuck = self.store.unfinished()
            if not stuck:
                raise AssertionError(f"a hook has not ended after {within:g} s") from None
            why = await self._app.aexplain(stuck[0])
            raise AssertionError(
                f"{len(stuck)} jobs have not ended after {within:g} s; {stuck[0]}: {why}"
            ) from None
        return self.now - before

    async def _start(self) -> None:
        await self._app.aconfigure()
        await enter_lifespan(self._lifespan, self._app, self._resources)
        for index, region in enumerate(self._regions):
            worker = worker_of(self._app, index, region, self._queues, self._concurrency)
            engine = engine_of(
                self._app,
                self._app.seen(self.store),
                worker,
                chance=random.Random(f"{self._seed}/{worker.id}"),
                monotonic=self.loop.time,
                hold_through_backoff=self._hold,
                declared=self._app.declared_schedules,
                plain_calls=CallsWithoutLoop(),
            )
            engine.recorder.at_step = self._at_step
            context = copy_context()
            context.run(OF_WORKER.set, True)  # noqa: FBT003 - what a variable is set to
            running_engine = self.loop.create_task(engine.run(), context=context)
            self._engines.append((engine, running_engine))
        self.loop.before_wait(self._jumps.jump)

    async def _stop(self) -> None:
        try:
            await stop([engine for engine, _ in self._engines], [task for _, task in self._engines])
        finally:
            await self._lifespan.aclose()
