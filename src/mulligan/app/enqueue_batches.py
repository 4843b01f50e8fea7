"""Single jobs of many callers, which share batches on their way to the store.

Nobody waits for a timer: a job is sent at once if none is under way, and what comes while one is
under way is the next batch. Each caller is answered when its own job is safe, and what the store
refuses of one is that one's alone.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from mulligan.core.errors import ShardAwayError, StoreUnavailableError
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.settings import BATCH_LIMIT

# So many bytes of bodies make a batch, however few jobs they are.
BYTES_LIMIT = 1024 * 1024
# Errors that concern no single job: whether any job of the batch is stored is not known.
AWAY = (StoreUnavailableError, OSError)
W = TypeVar("W", bound="Waiting | Call")


def is_of_all(error: Exception) -> bool:
    """Whether the error concerns all jobs of a batch, not only those of one shard."""
    return isinstance(error, AWAY) and not isinstance(error, ShardAwayError)


class Waiting(NamedTuple):
    """A job that a coroutine waits for."""

    job: NewJob
    future: asyncio.Future[Enqueued]


class LoopBatches:
    """The jobs of the coroutines on one event loop.

    A caller that is cancelled before its job was sent has sent none; after that the job may be
    stored or not, as with any call that is cut off. The others of its batch are not concerned.
    """

    def __init__(self, enqueue: Callable[[Sequence[NewJob]], Awaitable[list[Enqueued]]]) -> None:
        self._enqueue = enqueue
        self._waiting: deque[Waiting] = deque()
        self._under_way = False
        self._sending: asyncio.Task[None] | None = None

    async def add(self, job: NewJob) -> Enqueued:
        """Have the job stored, alone or with those that came meanwhile."""
        if self._under_way:
            future: asyncio.Future[Enqueued] = asyncio.get_running_loop().create_future()
            self._waiting.append(Waiting(job, future))
            return await future
        self._under_way = True
        try:
            [answer] = await self._enqueue([job])
        finally:
            self._go_on()
        return answer

    def _go_on(self) -> None:
        """Have the next batch sent, once callers that were just answered could add a job."""
        self._under_way = any(not each.future.done() for each in self._waiting)
        if self._under_way:
            # not in the context of any one of the callers
            sending = asyncio.get_running_loop().create_task(self._send_all(), context=Context())
            self._sending = sending

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._send(taken(self._waiting, lambda each: each.future.done()))
                await asyncio.sleep(0)  # callers that were answered may add their next job
        finally:
            self._under_way = False
            while self._waiting:  # cancelled with the loop
                self._waiting.popleft().future.cancel()

    async def _send(self, batch: Sequence[Waiting]) -> None:
        if not batch:
            return
        try:
            answers = await self._enqueue([each.job for each in batch])
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            await self._fail(batch, error)
            return
        except BaseException:
            for each in batch:
                each.future.cancel()
            raise
        for each, answer in zip(batch, answers, strict=True):
            self._accept(each, answer)

    def _accept(self, each: Waiting, answer: Enqueued) -> None:
        if not each.future.done():
            each.future.set_result(answer)

    async def _fail(self, batch: Sequence[Waiting], error: Exception) -> None:
        """Tell all callers; or find the job that caused the error, by sending one at a time."""
        if len(batch) > 1 and not is_of_all(error):
            for each, answer in zip(batch, answered(error, len(batch)), strict=True):
                if answer is None:
                    await self._send([each])
                else:
                    self._accept(each, answer)
            return
        for each in batch:
            if not each.future.done():
                each.future.set_exception(same(error))


class Batches:
    """The batches of each event loop on which jobs are enqueued."""

    def __init__(self, enqueue: Callable[[Sequence[NewJob]], Awaitable[list[Enqueued]]]) -> None:
        self._enqueue = enqueue
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBatches] = WeakKeyDictionary()

    @property
    def here(self) -> LoopBatches:
        """Those of the running loop."""
        loop = asyncio.get_running_loop()
        batches = self._of.get(loop)
        if batches is None:
            batches = self._of[loop] = LoopBatches(self._enqueue)
        return batches


class Call:
    """A job that a thread waits for."""

    __slots__ = ("answer", "error", "job")

    def __init__(self, job: NewJob) -> None:
        self.job = job
        self.answer: Enqueued | None = None
        self.error: Exception | None = None

    @property
    def is_over(self) -> bool:
        """Whether it was stored or refused."""
        return self.answer is not None or self.error is not None


class ThreadBatches:
    """The jobs of plain code in many threads; one thread at a time sends the jobs of all."""

    def __init__(self, enqueue: Callable[[Sequence[NewJob]], list[Enqueued]]) -> None:
        self._enqueue = enqueue
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._turn = threading.Lock()
        self._waiting: deque[Call] = deque()

    def add(self, job: NewJob) -> Enqueued:
        """Have the job stored, alone or with those that came meanwhile."""
        self._check_process()
        if self._turn.acquire(blocking=False):
            try:
                if not self._waiting:  # nobody else enqueues: the most common case
                    return self._enqueue((job,))[0]
            finally:
                self._turn.release()
        mine = Call(job)
        self._waiting.append(mine)
        with self._turn:
            while not mine.is_over:
                batch = taken(self._waiting, lambda each: each.is_over)
                try:
                    self._send(batch)
                except BaseException:  # this thread is interrupted, and no other
                    others = [each for each in batch if each is not mine and not each.is_over]
                    self._waiting.extendleft(reversed(others))
                    raise
        if mine.error is not None:
            raise mine.error
        assert mine.answer is not None  # noqa: S101 - it is over
        return mine.answer

    def alone(self, work: Callable[[], object], within: float) -> None:
        """Do something while nothing is under way, unless that takes too long."""
        self._check_process()
        if self._turn.acquire(timeout=within):
            try:
                work()
            finally:
                self._turn.release()

    def _check_process(self) -> None:
        # After a fork, waiting jobs belong to the parent.
        if self._pid != os.getpid():
            self._begin()

    def _send(self, batch: Sequence[Call]) -> None:
        try:
            answers = self._enqueue([each.job for each in batch])
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            if len(batch) > 1 and not is_of_all(error):
                for each, answer in zip(batch, answered(error, len(batch)), strict=True):
                    each.answer = answer
                    if answer is None:
                        self._send([each])
                return
            for each in batch:
                each.error = same(error)
            return
        for each, answer in zip(batch, answers, strict=True):
            each.answer = answer


def answered(error: Exception, count: int) -> Sequence[Enqueued | None]:
    """What was accepted of so many jobs all the same, by shards that are not away."""
    answers = error.answers if isinstance(error, ShardAwayError) else []
    return answers or [None] * count


def taken(waiting: deque[W], is_over: Callable[[W], bool]) -> list[W]:
    """Take the next batch of waiting jobs, without those whose callers have given up."""
    batch: list[W] = []
    size = 0
    while waiting and len(batch) < BATCH_LIMIT and size < BYTES_LIMIT:
        each = waiting.popleft()
        if not is_over(each):
            batch.append(each)
            size += len(each.job.body)
    return batch


def same(error: Exception) -> Exception:
    """A copy of the error for one more caller: an exception object is raised once only."""
    try:
        copy = type(error)(*error.args)
    except Exception:  # noqa: BLE001 - an error of any class
        return error
    copy.__cause__, copy.__suppress_context__ = error.__cause__, error.__suppress_context__
    return copy
