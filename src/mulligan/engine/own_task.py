"""Starts a coroutine in a task of its own, and takes its first step at once.

`create_task` leaves the first step to the next round of the loop. There it comes after everything
that ends in this round, so the timers of the attempts that follow are all set late, together, and
expire together: the loop works, then waits, then works. Python 3.12 can start tasks eagerly.
This does the same on 3.11, with what asyncio documents for third-party tasks.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from types import coroutine
from typing import Any, Protocol

Work = Coroutine[Any, Any, None]


class HasTask(Protocol):
    """Who is to know the task before the coroutine runs."""

    task: "asyncio.Task[None] | None"


class OwnTask:
    """A coroutine that has taken its first step, and what its task has yet to be told of that.

    `ended` is called once the coroutine has ended, within its task or its first step.
    """

    __slots__ = ("_ended", "_error", "_waits_for", "_work")

    def __init__(self, work: Work, ended: Callable[[], None]) -> None:
        self._work = work
        self._ended = ended
        self._waits_for: asyncio.Future[Any] | None = None
        self._error: BaseException | None = None

    def start(self, loop: asyncio.AbstractEventLoop, context: Context, holder: HasTask) -> None:
        """Take the first step; `holder` has the task by then. Another task may be running."""
        rest = self._run()
        # Where it waits now, a cancellation can reach it before its task has run.
        rest.send(None)
        holder.task = task = loop.create_task(rest, context=context)
        running = asyncio.current_task(loop)
        if running is not None:
            _leave_task(loop, running)
        _enter_task(loop, task)
        try:
            self._waits_for = context.run(self._work.send, None)
        except BaseException as error:  # noqa: BLE001 - StopIteration too; the task is told of it
            self._error = error
        finally:
            _leave_task(loop, task)
            if running is not None:
                _enter_task(loop, running)
        if self._error is not None:
            self._ended()

    async def _run(self) -> None:
        error = None
        try:
            await self._rest()
        except BaseException as raised:  # noqa: BLE001 - raised below
            error = raised
        if self._error is None:
            # Not while an error is handled: what starts now has nothing to do with it.
            self._ended()
        if error is not None:
            raise error

    @coroutine
    def _rest(self) -> Generator[Any, Any, None]:
        """Tell the task of the first step, then go on like any coroutine."""
        thrown: BaseException | None = None
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - the coroutine deals with it
            thrown = error
        if self._error is not None:
            if not isinstance(self._error, StopIteration):
                raise self._error
            return
        work, waits_for = self._work, self._waits_for
        if thrown is not None and waits_for is not None and waits_for.cancel():
            thrown = None  # it arrives by what the coroutine waits for, as any cancellation does
        while True:
            if thrown is not None:
                try:
                    waits_for = work.throw(thrown)
                except StopIteration:
                    return
                thrown = None
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - the coroutine deals with it
                thrown = error
            else:
                break
        yield from work
