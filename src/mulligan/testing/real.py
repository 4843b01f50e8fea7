"""Testing an app on a real store, in real time: a scratch store, and workers in this process."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from contextvars import copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

from mulligan.app.wait import LoopWaiter, until_over
from mulligan.core.checks import Seconds, seconds
from mulligan.core.errors import InvalidError, UnknownJobError
from mulligan.core.job import ENDED, Job, Status
from mulligan.core.page import Selection
from mulligan.stores import make_store, redact
from mulligan.stores.contract import Store
from mulligan.testing.enqueued import all_jobs
from mulligan.testing.workers import engine_of, enter_lifespan, settled, stop, worker_of

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

T = TypeVar("T")
UNENDED: tuple[Status, ...] = ("pending", "processing")


class StoreTesting:
    """The app on another store, in real time: what `app.testing()` is without its clock.

    Workers run while `drain` does, and only then, so that a test sees what waits. The app has its
    own store back afterwards.
    """

    def __init__(
        self,
        app: "Mulligan",
        url: str,
        *,
        regions: Sequence[str] = ("default",),
        queues: Sequence[str] = (),
        concurrency: int | None = None,
        resources: Mapping[str, Any] | None = None,
        **only_virtual: Any,
    ) -> None:
        if only_virtual:
            raise InvalidError(
                f"{', '.join(only_virtual)} must not be given for {redact(url)}: only a test in"
                " memory, on the virtual clock, can have it"
            )
        self._app = app
        self._url = url
        self._regions = regions
        self._queues = tuple(queues)
        self._concurrency = concurrency or app.settings.concurrency
        self._resources = resources
        self._before: dict[str, Any] = {}

    def __enter__(self) -> Self:
        app = self._app
        kept = ("url", "_memory", "access", "user_transactions")
        self._before = {name: vars(app)[name] for name in kept if name in vars(app)}
        vars(app).pop("access", None)
        vars(app).pop("user_transactions", None)
        app.url = self._url
        app._memory = make_store(self._url) if self._url.startswith("memory:") else None  # noqa: SLF001
        try:
            app.configure()
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
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._leave)

    @property
    def now(self) -> NoReturn:
        """There is no virtual clock."""
        raise no_clock(self._app)

    def advance(self, by: Seconds) -> NoReturn:  # noqa: ARG002 - as in `app.testing()`
        """There is no virtual clock."""
        raise no_clock(self._app)

    async def aadvance(self, by: Seconds) -> NoReturn:  # noqa: ARG002 - as in `app.testing()`
        """There is no virtual clock."""
        raise no_clock(self._app)

    def drain(self, within: Seconds = 30.0) -> float:
        """Run workers until every job has ended; how many seconds it took.

        Raises if a job has not ended `within` that time, and says what it waits for.
        """
        work = self._drained(seconds(within))
        with ThreadPoolExecutor(1, "mulligan-testing") as beside:  # a loop may run in this thread
            return beside.submit(copy_context().run, run, work).result()

    async def adrain(self, within: Seconds = 30.0) -> float:
        """Run workers until every job has ended, as `drain` does."""
        return await asyncio.to_thread(self.drain, within)

    def jobs(self) -> list[Job]:
        """Every job in the store, oldest first."""
        return self._app.run(lambda: all_jobs(self._app))

    def _leave(self) -> None:
        app = self._app
        try:
            app.close()
        finally:
            vars(app).pop("access", None)
            vars(app).pop("user_transactions", None)
            vars(app).update(self._before)

    async def _drained(self, within: float) -> float:
        app, loop = self._app, asyncio.get_running_loop()
        started = loop.time()
        async with AsyncExitStack() as stack:
            store = app.make_store()
            stack.push_async_callback(store.close)
            await store.open()
            app.access.use_on_loop(store)
            stack.callback(app.access.use_on_loop, None)
            await enter_lifespan(stack, app, self._resources)
            queues = self._queues or app.queue_names
            engines = [
                engine_of(app, store, worker_of(app, index, region, queues, self._concurrency))
                for index, region in enumerate(self._regions)
            ]
            working = [asyncio.ensure_future(engine.run()) for engine in engines]
            stack.push_async_callback(stop, engines, working)
            while (waiting := await unended(store)) is not None:
                left = within - (loop.time() - started)
                if left <= 0:
                    why = await app.aexplain(waiting.id)
                    raise AssertionError(
                        f"job {waiting.id} has not ended after {within:g} s: {why}"
                    )
                await over(store, waiting, left)
            await settled(engines)
        return loop.time() - started


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on a loop of its own."""
    return asyncio.run(work)


def no_clock(app: "Mulligan") -> InvalidError:
    """The error for asking a real store for virtual time."""
    return InvalidError(
        f"a test on {app.shown_url} has no virtual clock; run it in memory, without a store"
    )


async def unended(store: Store) -> Job | None:
    """A job that has not ended; None if there is none."""
    for status in UNENDED:
        page = await store.page(Selection(status=status), 1)
        if page.jobs:
            return page.jobs[0]
    return None


async def over(store: Store, job: Job, within: float) -> None:
    """Wait until the job has ended, or the time is up; one that is gone has ended too."""

    async def look() -> Job:
        found = await store.get(job.id)
        if found is None:
            raise UnknownJobError(job.id)
        return found

    try:
        await until_over(
            lambda operation: operation(store),
            LoopWaiter(),
            look,
            lambda found: found.status in ENDED,
            within,
        )
    except UnknownJobError:
        return
