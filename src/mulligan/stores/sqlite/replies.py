"""The callers that wait for operations, and how they are answered."""

import asyncio
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from mulligan.core.errors import StoreError
from mulligan.stores.sqlite.connection import Reply, Work
from mulligan.stores.sqlite.wal import WriteAheadLog


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
