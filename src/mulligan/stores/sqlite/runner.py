"""Where SQL runs: on a thread of its own or on the caller's; and how callers are answered."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from sqlite3 import Error
from typing import Any, NamedTuple, TypeVar, cast

from mulligan.core.errors import StoreError
from mulligan.stores.sqlite.clock import ClockGuard
from mulligan.stores.sqlite.connection import Connection, Reply, Work
from mulligan.stores.sqlite.reader import Reader
from mulligan.stores.sqlite.transaction import Ended, Transaction, WakeUp
from mulligan.stores.sqlite.url import SqliteUrl
from mulligan.stores.sqlite.wal import WriteAheadLog

# So many small operations share a transaction.
GROUP = 128
T = TypeVar("T")


class Task(NamedTuple):
    """An operation that someone on an event loop waits for."""

    work: Work
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Answer(NamedTuple):
    """What became of a task."""

    task: Task
    reply: Reply

    @property
    def waits_for_disk(self) -> bool:
        """Whether the caller is answered only when what was written is on the disk."""
        return self.task.work.durable and self.reply.error is None


def deliver(answers: list[Answer]) -> None:
    """Hand the replies to the loops that wait for them, waking each loop once."""
    waiting: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        waiting.setdefault(answer.task.loop, []).append(answer)
    for loop, theirs in waiting.items():
        with suppress(RuntimeError):  # nobody waits on a loop that is closed
            loop.call_soon_threadsafe(resolve, theirs)


def resolve(answers: list[Answer]) -> None:
    """Hand each reply over, unless whoever asked is gone."""
    for task, reply in answers:
        if task.future.done():
            continue
        if reply.error is not None:
            task.future.set_exception(reply.error)
        else:
            task.future.set_result(reply.value)


class Syncer:
    """Waits for the disk on a thread of its own, and then delivers."""

    def __init__(self, wal: WriteAheadLog) -> None:
        self._wal = wal
        self._queue: SimpleQueue[list[Answer] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="mulligan-disk", daemon=True)
        self._thread.start()

    def add(self, answers: list[Answer]) -> None:
        """Deliver these once what was written so far is on the disk."""
        self._queue.put(answers)

    def close(self) -> None:
        """Deliver what was added, then end."""
        self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        stop = False
        while not stop and (answers := self._queue.get()) is not None:
            with suppress(Empty):  # those added while the disk was busy share the next wait
                while not stop:
                    more = self._queue.get_nowait()
                    stop = more is None
                    answers += more or []
            deliver(self._synced(answers))

    def _synced(self, answers: list[Answer]) -> list[Answer]:
        try:
            self._wal.sync()
        except StoreError as error:
            return [Answer(task, Reply(None, error)) for task, _ in answers]
        return answers


class Runner:
    """Runs operations on a connection of its own, opened when needed.

    A file is let go of before a fork, because SQLite's locks do not survive one, and opened again
    by whoever uses it next, on either side.
    """

    def __init__(
        self,
        url: SqliteUrl,
        clock: Callable[[], float],
        wake: Callable[[Sequence[WakeUp | Ended]], list[Work]],
        *,
        inline: bool = False,
        guard: Callable[[], ClockGuard] | None = None,
    ) -> None:
        self._url = url
        self._make_guard = guard
        self._in_memory = url.in_memory
        self._at_once = inline or url.in_memory
        self._clock = clock
        self._wake = wake
        self._lock = threading.RLock()
        self._connection: Connection | Reader | None = None
        self._syncer: Syncer | None = None
        self._queue: SimpleQueue[Task | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._opened = False
        self._read_only = False
        if not self._in_memory:
            _FILES.add(self)

    async def open(self, *, read_only: bool = False) -> None:
        """Connect, and from now on accept operations."""
        self._opened = True
        self._read_only = read_only and not self._in_memory
        try:
            await self.run(lambda _: None, writes=False)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish the operations that were asked for, then end the thread and close the file."""
        self._opened = False
        thread, self._thread = self._thread, None
        if thread is None:
            self.release()
        else:
            self._queue.put(None)
            await asyncio.get_running_loop().run_in_executor(None, self._end, thread)
        with suppress(Empty):
            while (late := self._queue.get_nowait()) is not None:
                deliver([Answer(late, Reply(None, self._closed()))])

    def _end(self, thread: threading.Thread) -> None:
        thread.join()
        self.release()

    def release(self) -> None:
        """Answer those that wait for the disk, and close the connection until its next use."""
        with self._lock:
            if self._syncer is not None:
                self._syncer.close()
                self._syncer = None
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    async def run(
        self,
        call: Callable[[Any], Any],
        *,
        writes: bool = True,
        alone: bool = False,
        durable: bool = True,
    ) -> Any:
        """Do the operation in a transaction of its own, or raise what it raised."""
        if not self._opened:
            raise self._closed()
        work = Work(call, writes, alone, durable and writes)
        if self._at_once:
            return self._inline(work)
        if self._thread is None:
            self._start()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.put(Task(work, future, loop))
        return await future

    def write_here(self, call: Callable[[Transaction], T]) -> T:
        """As `run` does for plain code, without a coroutine: what is written is on the disk."""
        if not self._opened:
            raise self._closed()
        work = Work(call, writes=True, durable=True)
        with self._lock:
            connection = self._connection
            if type(connection) is not Connection or self._in_memory:
                return cast("T", self._inline(work))
            try:
                [answer], wakeups = connection.transact((work,))
            except Error:  # such as that another has the lock
                return cast("T", self._inline(work))
            if wakeups:
                self._wake_all(connection, wakeups)
            if connection.wal is not None:
                connection.wal.sync()
        return cast("T", answer)

    def _closed(self) -> StoreError:
        return StoreError(f"the store {self._url.path} is not open; call open() first")

    def _inline(self, work: Work) -> Any:
        if self._in_memory and self._pid != os.getpid():
            raise StoreError("a store in memory is not shared with a forked process; use a file")
        with self._lock:
            [reply] = self._do([work])
            if reply.error is not None:
                raise reply.error
            if work.durable and self._connection is not None and self._connection.wal is not None:
                self._connection.wal.sync()
        return reply.value

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, args=(self._queue,), name="mulligan-sqlite", daemon=True
                )
                self._thread.start()

    def _serve(self, queue: SimpleQueue[Task | None]) -> None:
        """Answer tasks until the store is closed; those that wait together share a transaction."""
        following: Task | None = None
        while (task := following or queue.get()) is not None:
            following, stop = None, False
            group = [task]
            with suppress(Empty):
                while task.work.shares and len(group) < GROUP and not (following or stop):
                    other = queue.get_nowait()
                    if other is None:
                        stop = True
                    elif other.work.shares:
                        group.append(other)
                    else:
                        following = other
            with self._lock:
                replies = self._do([each.work for each in group])
                self._answer([Answer(*each) for each in zip(group, replies, strict=True)])
            if stop:
                return

    def _answer(self, answers: list[Answer]) -> None:
        """Deliver at once, or after the disk has what was written, where that is promised."""
        wal = None if self._connection is None else self._connection.wal
        waiting = [each for each in answers if wal is not None and each.waits_for_disk]
        if wal is not None and waiting:
            self._syncer = self._syncer or Syncer(wal)
            self._syncer.add(waiting)
        deliver([each for each in answers if wal is None or not each.waits_for_disk])

    def _do(self, works: list[Work]) -> list[Reply]:
        try:
            if self._connection is None:
                self._connection = self._connect()
            replies, wakeups = self._connection.run(works)
        except Exception as error:  # noqa: BLE001 - belongs to those who asked
            return [Reply(None, error)] * len(works)
        self._wake_all(self._connection, wakeups)
        return replies

    def _connect(self) -> Connection | Reader:
        if self._read_only:
            return Reader(self._url, self._clock)
        guard = None if self._make_guard is None or self._in_memory else self._make_guard()
        return Connection(self._url, self._clock, guard)

    def _wake_all(self, connection: Connection | Reader, wakeups: Sequence[WakeUp | Ended]) -> None:
        while wakeups:
            # Another sleeper is woken instead of one whose process is gone.
            passed_on = [connection.run([work]) for work in self._wake(wakeups)]
            wakeups = [each for _, more in passed_on for each in more]

    def before_fork(self) -> None:
        """Run nothing from now on, and close the file."""
        self._lock.acquire()
        self.release()

    def after_fork(self) -> None:
        """Run again, in the process that forked."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Start empty: the thread and those that wait for it are in the other process."""
        self._lock = threading.RLock()
        self._queue = SimpleQueue()
        self._thread = None


_FILES: weakref.WeakSet[Runner] = weakref.WeakSet()
_forking: list[Runner] = []
# Held by the thread that forks: another may fork at the same time.
_fork = threading.Lock()


def _before_fork() -> None:
    _fork.acquire()
    _forking[:] = _FILES
    for runner in _forking:
        runner.before_fork()


def _after_fork_in_parent() -> None:
    for runner in _forking:
        runner.after_fork()
    _forking.clear()
    _fork.release()


def _after_fork_in_child() -> None:
    for runner in _forking:
        runner.after_fork_in_child()
    _forking.clear()
    _fork.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
