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


class Request(NamedTuple):
    """Jobs to store, and who waits for the answer."""

    enqueue: Enqueue
    jobs: Sequence[NewJob]
    future: asyncio.Future[list[Enqueued]]
    loop: asyncio.AbstractEventLoop


Requests = SimpleQueue[Request | None]


class EnqueueThread:
    """The thread, started when first needed; it ends with `close`, or with this object."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._requests: Requests | None = None

    async def run(self, enqueue: Enqueue, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Have the jobs stored by `enqueue`; raises what it raises."""
        if self._pid != os.getpid():  # a fork leaves the thread behind
            self._begin()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Enqueued]] = loop.create_future()
        with self._lock:
            if self._requests is None:
                self._requests = self._started()
            self._requests.put(Request(enqueue, jobs, future, loop))
        return await future

    def close(self) -> None:
        """End the thread when it has done what it was given; a later call starts another."""
        with self._lock:
            requests, self._requests = self._requests, None
        if requests is not None:
            requests.put(None)

    def _started(self) -> Requests:
        requests: Requests = SimpleQueue()
        finalize(self, requests.put, None)
        threading.Thread(
            target=serve, args=(requests,), name="mulligan-enqueue", daemon=True
        ).start()
        return requests


def serve(requests: Requests) -> None:
    """Store what is asked for, until told to end."""
    while (request := requests.get()) is not None:
        answers: list[Enqueued] = []
        error = None
        try:
            answers = request.enqueue(request.jobs)
        except BaseException as raised:  # noqa: BLE001 - belongs to who asked
            error = raised
        with suppress(RuntimeError):  # nobody waits on a loop that is closed
            request.loop.call_soon_threadsafe(answer, request.future, answers, error)
        del request  # what it refers to may end while this thread waits


def answer(
    future: asyncio.Future[list[Enqueued]],
    answers: list[Enqueued],
    error: BaseException | None,
) -> None:
    """Hand over what became of the jobs, unless whoever asked is gone."""
    if future.done():
        return
    if error is None:
        future.set_result(answers)
    else:
        future.set_exception(error)
