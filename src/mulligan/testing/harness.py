"""`with app.testing() as t`: enqueue, let time pass, look at what happened."""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec.structs import replace

from mulligan.app.access import Access, Operation, at_once
from mulligan.core.durations import Seconds, seconds
from mulligan.core.job import ENDED, Job
from mulligan.core.outcome import Outcome
from mulligan.core.worker import Worker
from mulligan.engine import Engine
from mulligan.stores.contract import Selection, Store, Verdict
from mulligan.stores.memory import MemoryStore
from mulligan.testing.virtual import VirtualLoop

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

T = TypeVar("T")
PAGE = 1000


class Watched(MemoryStore):
    """A store in memory that tells when something may have ended."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(clock=loop.time)
        self.moved = asyncio.Event()

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write them, and tell."""
        verdicts = await super().commit(outcomes)
        self.moved.set()
        return verdicts

    def unfinished(self) -> list[str]:
        """The ids of jobs that have not ended."""
        return [id_ for id_, record in self._jobs.items() if record.status not in ENDED]


class OnVirtualLoop:
    """Calls from plain code; those that wait, such as `result`, let virtual time pass."""

    def __init__(self, store: Store, loop: VirtualLoop) -> None:
        self._store = store
        self._loop = loop

    def call(self, operation: Operation[T]) -> T:
        """Run it at once inside a task, else let the loop run until it is through."""
        if self._loop.is_running():
            return at_once(operation(self._store))
        return self._loop.run_until_complete(operation(self._store))

    async def acall(self, operation: Operation[T]) -> T:
        """Run it on the virtual loop."""
        return await operation(self._store)

    async def nap(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    def at_home(self, store: Store | None) -> None:
        """There is one store and one loop."""

    def connected(self) -> AbstractAsyncContextManager[None]:
        """There is no connection to keep."""
        return nullcontext()

    def close(self) -> None:
        """Nothing to let go of."""


class Testing:
    """Runs the app's workers on a virtual clock that starts at 0.

    Plain functions run on the loop too, so that everything happens in one order, always the same
    for the same `seed`. One worker per region in `regions`; it serves `queues`, or all that the
    app has when testing begins.
    """

    def __init__(
        self,
        app: "Mulligan",
        *,
        regions: Sequence[str] = ("default",),
        queues: Sequence[str] = (),
        concurrency: int = 1,
        seed: int = 0,
        hold_through_backoff: bool = False,
    ) -> None:
        self._app = app
        self._regions = regions
        self._queues = tuple(queues) or app.queue_names
        self._concurrency = concurrency
        self._seed = seed
        self._hold = hold_through_backoff
        self.loop = VirtualLoop()
        self._before: Access = app.access
        self._engines: list[tuple[Engine, asyncio.Task[None]]] = []
        self.store = Watched(self.loop)

    def __enter__(self) -> Self:
        self._app.access = OnVirtualLoop(self._app.seen(self.store), self.loop)
        self.loop.run_until_complete(self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._app.access = self._before
        try:
            self.loop.run_until_complete(self._stop())
        finally:
            self.loop.close()

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.loop.time()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the test's own on the virtual clock."""
        return self.loop.run_until_complete(coroutine)

    def advance(self, by: Seconds) -> None:
        """Let this much time pass, and whatever happens in it."""
        self.run(asyncio.sleep(seconds(by)))

    def drain(self, within: Seconds = 86_400.0) -> float:
        """Let time pass until every job has ended; how much it took.

        Jobs that are not through `within` that time are an error that says what they wait for.
        """
        before = self.now
        self.run(self._drained(seconds(within)))
        return self.now - before

    def jobs(self) -> list[Job]:
        """Every job in the store, oldest first."""
        page = self.run(self.store.page(Selection(), PAGE))
        jobs = page.jobs
        while page.after is not None:
            page = self.run(self.store.page(Selection(), PAGE, page.after))
            jobs = jobs + page.jobs
        return list(reversed(jobs))

    async def _drained(self, within: float) -> None:
        try:
            async with asyncio.timeout(within):
                while self.store.unfinished():
                    self.store.moved.clear()
                    await self.store.moved.wait()
        except TimeoutError:
            stuck = self.store.unfinished()
            why = await self._app.aexplain(stuck[0])
            raise AssertionError(
                f"{len(stuck)} jobs have not ended after {within:g} s; {stuck[0]}: {why}"
            ) from None

    async def _start(self) -> None:
        await self._app.aconfigure()
        settings = replace(self._app.settings, concurrency=self._concurrency)
        for number, region in enumerate(self._regions):
            worker = Worker(
                f"{region}-{number}",
                region,
                self._queues,
                settings.lease,
                self._concurrency,
            )
            engine = Engine(
                self._app.seen(self.store),
                self._app.tasks,
                worker,
                settings,
                chance=random.Random(f"{self._seed}/{worker.id}"),
                monotonic=self.loop.time,
                hold_through_backoff=self._hold,
                tracing=self._app.tracing,
            )
            self._engines.append((engine, asyncio.ensure_future(engine.run())))

    async def _stop(self) -> None:
        for engine, _ in self._engines:
            engine.stop()
            engine.stop()
        await asyncio.gather(*(task for _, task in self._engines))
