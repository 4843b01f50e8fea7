"""Runs the attempts that a claim brought, one after the other in one task.

A coroutine that never suspends needs no task of its own. So one task runs the attempts of a claim
in order, each in a context of its own. An attempt that suspends keeps that task for itself. The
rest of the claim, and from then on every attempt at the same task of the app, get tasks of their
own, and take their first step at once where another attempt has left a slot. Either way an attempt
sees what it would see in a task made for it alone.

While whole claims end within a turn, a claim may bring more jobs than there are slots, twice as
many each time: such attempts end before anybody could miss a slot. When attempts turn out to take
longer, the surplus is given back for others to claim.
"""

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from types import coroutine
from typing import Any

from mulligan.core.job import Claim
from mulligan.core.settings import BATCH_LIMIT

# After this long the task lets the loop do other things.
TURN = 0.02
# Attempts of one claim that have taken this long are slow, even if they waited for the processor.
SLOW = 0.2
# A claim waits for the disk once however many jobs it brings, so it may bring all a store gives.
LARGEST_BATCH = BATCH_LIMIT


class HeldClaim:
    """A claim that this worker holds; `task` is set once its attempt has a task of its own."""

    __slots__ = ("claim", "cut_off", "task")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.task: asyncio.Task[None] | None = None
        self.cut_off = False

    def cut(self) -> None:
        """Stop the attempt, or never start it; nothing is committed."""
        self.cut_off = True
        if self.task is not None:
            self.task.cancel()


class ClaimRunner:
    """Runs attempts. `batch` is how many jobs one claim may bring.

    `surplus` says how many claims have no slot: when attempts turn out to be slow, so many are
    given back. They are slow by `cpu_time`: on a busy machine a task that was interrupted is not.
    """

    def __init__(
        self,
        slots: int,
        attempt: Callable[[HeldClaim], Coroutine[Any, Any, None]],
        surplus: Callable[[], int],
        give_back: Callable[[HeldClaim], None],
        *,
        monotonic: Callable[[], float],
        cpu_time: Callable[[], float],
    ) -> None:
        self._slots = slots
        self._attempt = attempt
        self._surplus = surplus
        self._give_back = give_back
        self._monotonic = monotonic
        self._cpu_time = cpu_time
        self._loop = asyncio.get_running_loop()
        self._suspending: set[str] = set()  # names of tasks
        self._own_tasks = 0  # attempts that have a task of their own, or are about to
        self._next: deque[HeldClaim] = deque()  # those that are about to
        self._starting = False
        # What one attempt leaves in its context is not for the next.
        self._context = copy_context()
        self._newest: asyncio.Task[None] | None = None  # the loop keeps only a weak reference
        self.batch = slots

    @property
    def room(self) -> int:
        """How many may be held: one for each slot, or one batch that runs and one being claimed."""
        return self._slots if self.batch <= self._slots else 2 * self.batch

    def start(self, attempts: Sequence[HeldClaim]) -> None:
        """Run these in order. Those that will suspend and have no slot are given back."""
        waiting = deque(attempts)
        if self._suspending:
            waiting = self._without_suspending(waiting)
        if waiting:
            self._newest = self._loop.create_task(self._run(waiting))

    def start_next(self, held: HeldClaim) -> None:
        """Run one for which an attempt leaves its slot; called as the last thing it does."""
        if held.claim.task in self._suspending and self.batch <= self._slots:
            # There is no surplus, and nothing to slow down. The attempt that leaves its slot to
            # this one is about to end; what ran it goes on to `_start_waiting`.
            self._own_tasks += 1
            self._next.append(held)
        else:
            self.start([held])

    def _without_suspending(self, waiting: deque[HeldClaim]) -> deque[HeldClaim]:
        """Start those that will suspend, as far as there are slots; returns the others."""
        suspending = self._suspending
        if not any(held.claim.task in suspending for held in waiting):
            return waiting
        self._slow_down(waiting)
        others: deque[HeldClaim] = deque()
        for held in waiting:
            if held.claim.task in suspending:
                self._start_soon(held)
            else:
                others.append(held)
        return others

    async def _run(self, waiting: deque[HeldClaim]) -> None:
        """Run attempts until one suspends; that one keeps this task."""
        task, length, suspending = asyncio.current_task(), len(waiting), self._suspending
        began, turn, used = self._monotonic(), self._monotonic(), self._cpu_time()
        try:
            while waiting:
                if self._own_tasks >= self._slots or waiting[0].claim.task in suspending:
                    self._slow_down(waiting)  # other attempts have suspended meanwhile
                    return
                held = waiting.popleft()
                attempt, context = self._attempt(held), self._context.copy()
                try:
                    waits_for = context.run(attempt.send, None)
                except StopIteration:
                    if self._next:
                        self._start_waiting()
                    if task is None or task.cancelling():
                        self._slow_down(waiting)
                        return  # the attempt cancelled this task, which can run no other
                    if (now := self._monotonic()) > turn + TURN:
                        if self._cpu_time() > used + TURN or now > began + SLOW:
                            self._slow_down(waiting)
                            length = 0
                        await asyncio.sleep(0)
                        turn = self._monotonic()
                else:
                    held.task = task
                    self._suspending.add(held.claim.task)
                    self._slow_down(waiting)
                    self._start_all_soon(waiting)
                    self._own_tasks += 1
                    try:
                        await resumed(attempt, context, waits_for)
                    finally:
                        self._ended()
                    return
            if length >= self.batch:
                self.batch = max(self.batch, min(2 * length, LARGEST_BATCH))
        finally:
            self._start_all_soon(waiting)

    def _slow_down(self, waiting: deque[HeldClaim]) -> None:
        """Claim for free slots only from now on, and give back the surplus."""
        self.batch = self._slots
        for _ in range(min(len(waiting), self._surplus())):
            self._give_back(waiting.pop())

    def _start_all_soon(self, waiting: deque[HeldClaim]) -> None:
        while waiting:
            self._start_soon(waiting.popleft())

    def _start_soon(self, held: HeldClaim) -> None:
        """Have the loop start it: what runs now is no attempt, or is to go on first."""
        self._own_tasks += 1
        self._next.append(held)
        if len(self._next) == 1:
            self._loop.call_soon(self._start_waiting)

    def _ended(self) -> None:
        """An attempt with a task of its own has ended: its slot may be another's now."""
        self._own_tasks -= 1
        if self._next:
            self._start_waiting()

    def _start_waiting(self) -> None:
        """Take the first step of attempts that have a slot, each in a task of its own.

        One that ends with its first step gives its slot to the next, which is added meanwhile.
        """
        if self._starting:
            return
        self._starting, began, these = True, self._monotonic(), len(self._next)
        try:
            while self._next:
                held, these = self._next.popleft(), these - 1
                attempt, context = self._attempt(held), self._context.copy()
                OwnTask(attempt, self._ended).start(self._loop, context, held)
                if self._next and these <= 0 and self._monotonic() > began + TURN:
                    self._loop.call_soon(self._start_waiting)
                    return
        finally:
            self._starting = False


class OwnTask:
    """An attempt with a task of its own that takes its first step at once.

    `create_task` leaves the first step to the next round of the loop. There it comes after
    everything that ends in this round, so the timers of the attempts that follow are all set late,
    together, and expire together: the loop works, then waits, then works. Python 3.12 can start
    tasks eagerly. This does the same on 3.11, with what asyncio documents for third-party tasks.

    `ended` is called once the attempt has ended, within its task or its first step.
    """

    __slots__ = ("_ended", "_error", "_waits_for", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], ended: Callable[[], None]) -> None:
        self._work = work
        self._ended = ended
        self._waits_for: asyncio.Future[Any] | None = None
        self._error: BaseException | None = None

    def start(self, loop: asyncio.AbstractEventLoop, context: Context, held: HeldClaim) -> None:
        """Take the first step; the claim has the task by then. Another task may be running."""
        rest = self._run()
        # Where it waits now, a cancellation can reach it before its task has run.
        rest.send(None)
        held.task = task = loop.create_task(rest, context=context)
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


@coroutine
def resumed(
    attempt: Coroutine[Any, Any, None], context: Context, waits_for: Any
) -> Generator[Any, Any, None]:
    """Run the rest of a coroutine that has suspended, in its own context, within this task."""
    while True:
        step: Callable[[Any], Any] = attempt.send
        try:
            answer = yield waits_for
        except BaseException as error:  # noqa: BLE001 - the attempt deals with it
            step, answer = attempt.throw, error
        try:
            waits_for = context.run(step, answer)
        except StopIteration:
            return
