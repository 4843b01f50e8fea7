"""The engine of a worker: all loops of one process, started and stopped together."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from mulligan.core.answers import Beat
from mulligan.core.errors import StoreError
from mulligan.core.long_attempts import LongAttempts
from mulligan.core.settings import Settings
from mulligan.core.worker import LOOK_EVERY, Order, Worker
from mulligan.engine.breakers import Breakers
from mulligan.engine.chores import (
    Housekeeper,
    MinuteKeeper,
    Reaper,
    UnservedWatch,
    offset_of,
)
from mulligan.engine.committer import Committer
from mulligan.engine.current import AWAITED
from mulligan.engine.decider import Decider, LaneDepths
from mulligan.engine.events import Events, Hooks
from mulligan.engine.executor import Executor
from mulligan.engine.fetcher import Fetcher
from mulligan.engine.heartbeat import Heartbeat, LostReplies, WorkerNote
from mulligan.engine.known_tasks import NO_SETTINGS, KnownTasks, UnknownTasks
from mulligan.engine.loop_watch import LoopWatch
from mulligan.engine.loops import OwnThread, cancel_tasks, ended_before
from mulligan.engine.recorder import Recorder
from mulligan.engine.reporter import Reporter
from mulligan.engine.task_caller import PlainCalls, Target, TaskCaller, TransactionalSinks, claim_in
from mulligan.engine.threads import Threads
from mulligan.engine.ticker import Ticker
from mulligan.engine.tracing import Tracing
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.core.schedule import Schedule
    from mulligan.engine.process_pool import ProcessPool
    from mulligan.engine.processes import Processes

log = logging.getLogger("mulligan.worker")
REAP_EVERY = 1.0
KEEP_HOUSE_EVERY = 1.0
LEAVE_WITHIN = 2.0
# How long hooks may take for the last events, once a worker has drained.
TELL_WITHIN = 5.0


class Engine:
    """Runs tasks from a store until stopped.

    With `heart`, a second handle on the same store, the heartbeat has a thread of its own. Without
    it everything runs on the one loop, as a simulation needs it. With `hold_through_backoff` the
    slot of a failed attempt stays idle until its retry is due. With `app`, the name that commands
    have for the app, the worker registers its tasks and warns of work that no live worker may take.
    `declared` are the schedules of its tasks. With `processes`, tasks with pool="process" run
    there; `pool_queues` have no other tasks. `limits` are the names by which starts are counted,
    `declared_settings` those that the app declares for the whole store, as text. `plain_calls` are
    for a test, which has no threads.
    """

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Target],
        worker: Worker,
        settings: Settings,
        *,
        heart: Store | None = None,
        chance: random.Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        hold_through_backoff: bool = False,
        declared: "Sequence[Schedule]" = (),
        tracing: Tracing | None = None,
        app: str | None = None,
        processes: "Processes | None" = None,
        pool_queues: Collection[str] = (),
        limits: Collection[str] = (),
        hooks: Hooks | None = None,
        plain_calls: PlainCalls | None = None,
        declared_settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        self.worker = worker
        self.settings = settings
        self._store = store
        self._heart = heart
        self._loop = asyncio.get_running_loop()
        self._watch: LoopWatch | None = None
        self._threads: Threads | None = None
        if heart is not None:
            self._watch = LoopWatch(lambda: self.slots.is_busy, claim_in)
            self._threads = Threads(self._loop, settings.threads, self._watch.held)
        self.breakers = Breakers(worker.region, monotonic)
        self.reporter = Reporter(store, self.breakers, limits)
        # Hooks have a thread of their own: a slow hook takes no thread from tasks.
        self._hook_thread = None if heart is None else Threads(self._loop, 1)
        self.events = Events({} if hooks is None else hooks, self.reporter, self._hook_thread)
        self.committer = Committer(store, self.reporter, self.events, monotonic)
        self._monotonic = monotonic
        self.recorder = Recorder(
            store,
            tasks,
            lambda leases: self.slots.abandon(leases),  # noqa: PLW0108 - made later
            monotonic=monotonic,
            inline=heart is None,
            reporter=self.reporter,
            limits=limits,
        )
        self._pool = None if processes is None else self._make_pool(processes, pool_queues, tracing)
        self._known_tasks: KnownTasks | None = None
        if app is not None:
            self._known_tasks = KnownTasks(
                store,
                worker,
                tasks,
                monotonic=monotonic,
                longest=settings.unknown_task_delay,
                settings=declared_settings,
            )
        task_caller = TaskCaller(
            store, settings, plain_calls or self._threads, self._watch, records=self.recorder
        )
        decider = Decider(
            tasks,
            self.committer,
            self.events,
            self.breakers.facts,
            longest_wait=settings.retry_after_limit,
            chance=chance or random.Random(),
            monotonic=monotonic,
        )
        self.executor = Executor(
            tasks,
            self.committer,
            self.reporter,
            settings.concurrency,
            decider=decider,
            depths=LaneDepths(store, monotonic),
            events=self.events,
            task_caller=task_caller,
            sinks=TransactionalSinks(store, task_caller, self.reporter, self.events, monotonic),
            recorder=self.recorder,
            pool=self._pool,
            unknown_tasks=UnknownTasks(
                settings.unknown_task_delay,
                self._known_tasks,
                lambda *asked: self.fetcher.leave_to_others(*asked),  # noqa: PLW0108 - made later
                monotonic=monotonic,
            ),
            monotonic=monotonic,
            hold_through_backoff=hold_through_backoff,
            tracing=tracing,
        )
        self.slots = self.executor.slots
        self.reaper = Reaper(store, worker, self.committer, decider.lost, every=REAP_EVERY)
        self._lost_replies = LostReplies(worker, self.committer.add, self.reaper.count)
        self._heartbeat = Heartbeat(
            store,
            worker,
            settings.beat,
            lambda: self.slots.holding + self.committer.holding,
            self._on_beat,
            monotonic=monotonic,
        )
        self.fetcher = Fetcher(
            store,
            worker,
            self.executor,
            self.committer,
            self.breakers,
            monotonic=monotonic,
            room=None if self._pool is None else self._pool.room,
        )
        self._housekeeper = Housekeeper(store, every=KEEP_HOUSE_EVERY, keep_done=settings.keep_done)
        self._ticker = Ticker(
            store,
            declared,
            worker.id,
            offset=offset_of(worker.id),
            tracing=tracing,
            events=self.events,
        )
        self.breakers.on_epoch = self._ticker.wake
        self._unserved_watch: UnservedWatch | None = None
        self._minute_keeper: MinuteKeeper | None = None
        self._worker_note: WorkerNote | None = None
        if app is not None:
            self._unserved_watch = UnservedWatch(store, self.slots, app)
            self._minute_keeper = MinuteKeeper(store, offset_of(worker.id))
            self._worker_note = WorkerNote(store, worker, app, self.obey, self.long_attempts)
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        # Whether the engine ended before its attempts, or before their outcomes were written.
        self.cut_off = False
        self._crashed: asyncio.Future[None] = self._loop.create_future()
        self._beaten: float | None = None  # when the last heartbeat was answered

    def _make_pool(
        self, processes: "Processes", queues: Collection[str], tracing: Tracing | None
    ) -> "ProcessPool":
        """The pool for tasks that run in child processes; imported here, as few apps have one."""
        from mulligan.engine.pool_room import PoolRoom  # noqa: PLC0415
        from mulligan.engine.process_pool import ProcessPool  # noqa: PLC0415
        from mulligan.engine.processes import default_size  # noqa: PLC0415

        room = PoolRoom(
            self.settings.pool_size or default_size(),
            self.settings.concurrency,
            queues,
            held=lambda: self.executor.held_for_pool,
            changed=lambda: self.fetcher.more_room(),  # noqa: PLW0108 - made later
            leave=lambda *asked: self.fetcher.rest_from(*asked),  # noqa: PLW0108 - made later
        )
        return ProcessPool(
            processes,
            room,
            self._store,
            self._watch,
            recorder=self.recorder,
            monotonic=self._monotonic,
            tracing=tracing,
        )

    @property
    def unready(self) -> str:
        """Why this worker takes no jobs now; empty if it beats and claims, and does not drain."""
        if self.stopping:
            return "draining"
        if self._beaten is None:
            return "has not reached the store yet"
        silent = self._monotonic() - self._beaten
        if silent > self.worker.lease:
            return f"the store has not answered a heartbeat for {silent:.0f} s"
        if self.committer.failing:
            return "commits fail"
        return "claims fail" if self.fetcher.failing else ""

    def long_attempts(self) -> LongAttempts | None:
        """What runs here, if an attempt has run for a while; else None."""
        oldest: dict[str, float] = {}
        running = self.slots.running
        for claim in running:
            oldest[claim.queue] = min(claim.started_at, oldest.get(claim.queue, inf))
        if min(oldest.values(), default=inf) > self.breakers.facts.current.now - LOOK_EVERY:
            return None
        waiting = [(each.id, AWAITED[each.lease]) for each in running if each.lease in AWAITED]
        parent, child = waiting[0] if waiting else ("", "")
        return LongAttempts(
            self.worker.id,
            self.worker.region,
            self.settings.concurrency,
            oldest,
            len(waiting),
            parent,
            child,
        )

    @property
    def worn(self) -> bool:
        """Whether so many threads were abandoned that the process should be replaced."""
        return (
            self._threads is not None and self._threads.abandoned >= self.settings.abandoned_limit
        )

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Drain: start nothing more, let what runs finish. A second call stops at once."""
        if self._stop.is_set():
            self._stop_now.set()
        self.fetcher.stop()
        self.slots.drain()
        if self._pool is not None:
            self._pool.room.drain()
        self._stop.set()

    def obey(self, order: Order) -> None:
        """Drain or stop, because an operator ordered it."""
        log.warning("an operator ordered this worker to %s", order)
        if order == "drain" and not self.stopping:
            self.stop()
        elif order == "stop":
            for _ in range(1 if self.stopping else 2):
                self.stop()

    async def run(self) -> None:
        """Work until stopped, then drain within the timeout, write all outcomes and leave."""
        if not await self._joined():
            await self._leave()
            return
        if self._known_tasks is not None:
            # Before the first claim, so that other workers leave jobs of our tasks to us.
            with contextlib.suppress(StoreError, OSError):
                await self._known_tasks.register()
        await self._ticker.first()
        thread = OwnThread("mulligan-heartbeat")
        support = [
            self.committer.run(),
            self.reaper.run(),
            self._housekeeper.run(),
            self.reporter.run(),
            self.events.run(),
            self._ticker.run(),
        ]
        optional = (
            self._unserved_watch,
            self._minute_keeper,
            self._known_tasks,
            self._worker_note,
        )
        support += [each.run() for each in optional if each is not None]
        if self._heart is None:
            support.append(self._heartbeat.run())
        else:
            thread.start(self._heartbeat_on(self._heart), self._heart_failed)
        loops = [asyncio.ensure_future(loop) for loop in support]
        fetching = asyncio.ensure_future(self.fetcher.run())
        try:
            # A loop ends by itself only by a defect, which is raised here.
            await ended_before(self._stop, fetching, *loops, self._crashed)
            await self.fetcher.stopped()
            await self._drain()
        finally:
            await cancel_tasks([fetching, *loops, self._crashed])
            thread.stop()
            for ended in (self._threads, self._hook_thread, self._watch):
                if ended is not None:
                    ended.close()
            await self._leave()

    def _heartbeat_on(self, heart: Store) -> Callable[[], Coroutine[Any, Any, None]]:
        if heart is self._store:
            return self._heartbeat.run
        return partial(self._heartbeat.run_on, heart)

    def _heart_failed(self, error: BaseException) -> None:
        """End the worker with the error: without a heartbeat it would lose its jobs."""
        with contextlib.suppress(RuntimeError):  # the loop may be closing
            self._loop.call_soon_threadsafe(self._crashed.set_exception, error)

    async def _joined(self) -> bool:
        """Beat once, to join; False if `stop` was called before the store answered."""
        joining = asyncio.ensure_future(self._heartbeat.once())
        try:
            return await ended_before(self._stop, joining)
        finally:
            await cancel_tasks([joining])

    async def _leave(self) -> None:
        """Report and leave; if the store is away, the lease runs out instead."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(LEAVE_WITHIN):
                await self.reporter.report()
                await self.reporter.lost_leases.logged()
                if self._known_tasks is not None:
                    await self._known_tasks.register(left=True)
                await self._ticker.leave()
                if self._worker_note is not None:
                    await self._worker_note.forget()
                await self._store.leave(self.worker)

    async def _drain(self) -> None:
        log.info("draining: %d attempts still run", len(self.slots.holding))
        deadline = self.settings.drain_timeout
        hurry = asyncio.ensure_future(self._stop_now.wait())
        quiet = asyncio.ensure_future(self.slots.idle())
        await asyncio.wait([hurry, quiet], timeout=deadline, return_when=asyncio.FIRST_COMPLETED)
        if not quiet.done():
            log.warning("%d attempts are cut off", len(self.slots.holding))
            self.cut_off = True
            self.slots.stop()
        await cancel_tasks([hurry, quiet])
        try:
            async with asyncio.timeout(deadline):
                await self.committer.flushed()
        except TimeoutError:
            self.cut_off = True
        await self._tell_last()

    async def _tell_last(self) -> None:
        """Let the hooks be told of what has happened, for a while."""
        try:
            async with asyncio.timeout(TELL_WITHIN):
                await self.events.told()
        except TimeoutError:
            log.warning("hooks are slow: they were not told of %d events", self.events.untold)

    def _on_beat(self, beat: Beat) -> None:
        """Take in a heartbeat's answer on the worker's loop; called from either thread."""
        if asyncio.get_running_loop() is self._loop:
            self._take_in(beat)
        else:
            with contextlib.suppress(RuntimeError):  # the loop may be closing
                self._loop.call_soon_threadsafe(self._take_in, beat)

    def _take_in(self, beat: Beat) -> None:
        self._beaten = self._monotonic()
        self.breakers.update(beat.facts)
        self.slots.abandon(beat.lost)
        if not (self.fetcher.asking or self.reaper.asking):
            # Otherwise the reply under way may hold what looks forgotten.
            held = {*self.slots.holding, *self.committer.holding}
            self._lost_replies.return_claims(beat.forgotten, held)
            self._lost_replies.count_reclaims(beat.reclaimed, held)
        if self.worn and not self.stopping:
            log.warning("too many plain functions outlived their timeout; draining to be replaced")
            self.stop()
