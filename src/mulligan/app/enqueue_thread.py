"""A thread that stores jobs for coroutines, where the store lives in the calling process.

The loop must not wait for the disk. asyncio's own way to a thread copies a context and chains two
futures for each call: on a quick disk the whole enqueue took a quarter longer.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import NamedTuple
from weakref import finalize

from mulligan.core.job import Enqueued, NewJob

Enqueue = Callable[[Sequence[NewJob]], list[Enqueued]]


class Errand(NamedTuple):
    """Jobs to store, and who waits for the answer."""

    enqueue: Enqueue
    jobs: Sequence[NewJob]
    future: asyncio.Future[list[Enqueued]]
    loop: asyncio.AbstractEventLoop


Errands = SimpleQueue[Errand | None]


class EnqueueThread:
    """The thread, started when first needed; it ends with `close`, or with this object."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._errands: Errands | None = None

    async def run(self, enqueue: Enqueue, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Have the jobs stored by `enqueue`; raises what it raises."""
        if self._pid != os.getpid():  # a fork leaves the thread behind
            self._begin()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Enqueued]] = loop.create_future()
        with self._lock:
            if self._errands is None:
                self._errands = self._started()
            self._errands.put(Errand(enqueue, jobs, future, loop))
        return await future

    def close(self) -> None:
        """End the thread when it has done what it was given; a later call starts another."""
        with self._lock:
            errands, self._errands = self._errands, None
        if errands is not None:
            errands.put(None)

    def _started(self) -> Errands:
        errands: Errands = SimpleQueue()
        finalize(self, errands.put, None)
        threading.Thread(
            target=serve, args=(errands,), name="mulligan-enqueue", daemon=True
        ).start()
        return errands


def serve(errands: Errands) -> None:
    """Store what is asked for, until told to end."""
    while (errand := errands.get()) is not None:
        answers, error = None, None
        try:
            answers = errand.enqueue(errand.jobs)
        except BaseException as raised:  # noqa: BLE001 - belongs to who asked
            error = raised
        with suppress(RuntimeError):  # nobody waits on a loop that is closed
            errand.loop.call_soon_threadsafe(answer, errand.future, answers, error)
        del errand  # what it refers to may end while this thread waits


def answer(
    future: asyncio.Future[list[Enqueued]],
    answers: list[Enqueued] | None,
    error: BaseException | None,
) -> None:
    """Hand over what became of the jobs, unless whoever asked is gone."""
    if future.done():
        return
    if answers is None:
        future.set_exception(error or AssertionError)
    else:
        future.set_result(answers)
