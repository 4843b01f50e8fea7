"""The line: attempts that have been claimed and start one after the other.

A coroutine that never suspends needs no task of its own. So the attempts of a claim stand in a
line, and one task runs them one after the other, each in a context of its own. One that suspends
keeps that task to itself; the others of the line, and from then on every attempt at this task of
the app, get tasks of their own. Either way an attempt sees what it would see in a task made for it
alone.

While whole lines end within a turn, claims may bring more than there are slots, twice as many each
time: such attempts are over before anybody could miss the slot. What turns out to take longer is
given back for others to claim.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from types import coroutine
from typing import Any

from mulligan.core.job import Claim
from mulligan.core.settings import BATCH_LIMIT

# After so long the loop is let do other things.
TURN = 0.02
# A line that has taken so long is slow, even if it only waited for the processor.
SLOW = 0.2
# A claim waits for the disk once, however many it brings: so as many as a store hands out.
LONGEST = BATCH_LIMIT


class HeldClaim:
    """A claim that this worker holds; `task` is what it keeps to itself, once it has suspended."""

    __slots__ = ("claim", "cut_off", "task")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.task: asyncio.Task[None] | None = None
        self.cut_off = False

    def cut(self) -> None:
        """Stop it, or never start it; nothing is committed."""
        self.cut_off = True
        if self.task is not None:
            self.task.cancel()


class ClaimRunner:
    """Runs attempts; `spare` says how many are to be given back once they prove to take long.

    Whether they do is told by the processor time that was `spent`: on a busy machine a line that
    was interrupted is not a slow one.
    """

    def __init__(
        self,
        slots: int,
        attempt: Callable[[HeldClaim], Coroutine[Any, Any, None]],
        spare: Callable[[], int],
        give_back: Callable[[HeldClaim], None],
        *,
        monotonic: Callable[[], float],
        spent: Callable[[], float],
    ) -> None:
        self._slots = slots
        self._attempt = attempt
        self._spare = spare
        self._give_back = give_back
        self._monotonic = monotonic
        self._spent = spent
        self._loop = asyncio.get_running_loop()
        self._suspending: set[str] = set()
        self._apart = 0  # attempts with a task of their own
        self._serving: asyncio.Task[None] | None = None  # the loop alone would not keep it
        self.batch = slots

    @property
    def room(self) -> int:
        """How many may be held at a time: slots, or one line that runs and one being claimed."""
        return self._slots if self.batch <= self._slots else 2 * self.batch

    def start(self, attempts: Sequence[HeldClaim]) -> None:
        """Run these in this order; what will suspend and has no slot is given back."""
        line = deque(attempts)
        if self._suspending:
            line = self._without_suspending(line)
        if line:
            self._serving = self._loop.create_task(self._serve(line))

    def _without_suspending(self, line: deque[HeldClaim]) -> deque[HeldClaim]:
        """Start those that will suspend, as far as there are slots; the others are left."""
        suspending = self._suspending
        if not any(held.claim.task in suspending for held in line):
            return line
        self._slow_down(line)
        left: deque[HeldClaim] = deque()
        for held in line:
            if held.claim.task in suspending:
                self._start_alone(held)
            else:
                left.append(held)
        return left

    async def _serve(self, line: deque[HeldClaim]) -> None:
        """Run attempts until one suspends; it has this task from then on."""
        task, length, suspending = asyncio.current_task(), len(line), self._suspending
        began, turn, spent = self._monotonic(), self._monotonic(), self._spent()
        try:
            while line:
                if self._apart >= self._slots or line[0].claim.task in suspending:
                    self._slow_down(line)  # so it has turned out since
                    return
                held = line.popleft()
                attempt, context = self._attempt(held), copy_context()
                try:
                    waits_for = context.run(attempt.send, None)
                except StopIteration:
                    if task is None or task.cancelling():
                        self._slow_down(line)
                        return  # the attempt cancelled the task, which is of no more use
                    if (now := self._monotonic()) > turn + TURN:
                        if self._spent() > spent + TURN or now > began + SLOW:
                            self._slow_down(line)
                            length = 0
                        await asyncio.sleep(0)
                        turn = self._monotonic()
                else:
                    held.task = task
                    self._suspending.add(held.claim.task)
                    self._slow_down(line)
                    self._disperse(line)
                    self._apart += 1
                    try:
                        await resumed(attempt, context, waits_for)
                    finally:
                        self._apart -= 1
                    return
            if length >= self.batch:
                self.batch = max(self.batch, min(2 * length, LONGEST))
        finally:
            self._disperse(line)

    def _slow_down(self, line: deque[HeldClaim]) -> None:
        """Claim for free slots only, and give back what was claimed without one."""
        self.batch = self._slots
        for _ in range(min(len(line), self._spare())):
            self._give_back(line.pop())

    def _disperse(self, line: deque[HeldClaim]) -> None:
        while line:
            self._start_alone(line.popleft())

    def _start_alone(self, held: HeldClaim) -> None:
        self._apart += 1
        self._serving = self._loop.create_task(self._serve_alone(held))

    async def _serve_alone(self, held: HeldClaim) -> None:
        # Only now: a task that is cancelled before it has begun never runs, to its end neither.
        held.task = asyncio.current_task()
        try:
            await self._attempt(held)
        finally:
            self._apart -= 1


@coroutine
def resumed(
    attempt: Coroutine[Any, Any, None], context: Context, waits_for: Any
) -> Generator[Any, Any, None]:
    """Go on with a coroutine that has suspended, in its own context, within the task that waits."""
    while True:
        step: Callable[[Any], Any] = attempt.send
        try:
            answer = yield waits_for
        except BaseException as error:  # noqa: BLE001 - it is the attempt's to deal with
            step, answer = attempt.throw, error
        try:
            waits_for = context.run(step, answer)
        except StopIteration:
            return
