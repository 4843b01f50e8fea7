"""How many attempts may run in child processes, which wait for one, and how many jobs to claim.

Jobs of a queue in which all tasks run in child processes are claimed for free children only; while
attempts are short, also those that will be done within SHORT. A queue with other tasks too may
bring more: they wait for a child, in a part of the slots, so that coroutines always find some. When
they have waited for a moment, they are given back, for other workers to claim. Each time they may
wait twice as long, until none waits any more: a job that waits for hours is not claimed and given
back all the time, and neither are those that more wait of than children become free.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from math import inf
from typing import NamedTuple

# How long jobs wait for a child at first, and at most, before they are given back.
MOMENT, LONGEST_MOMENT = 0.25, 60.0
# And at most while children do become free, and more jobs wait than they can take.
BUSY_MOMENT = 4.0
# How long the worker takes nothing from a queue after it has given back jobs of it, so that others
# get them; and at most, if it could not even keep them waiting.
REST, LONGEST_REST = 0.05, 5.0
# While attempts take no longer on average, jobs are prefetched: for each child as many as it
# runs in this time, up to a number.
SHORT, MOST_PREFETCHED = 0.1, 25
# The weight of the last attempt in that average.
WEIGHT = 1 / 8


class Waiting(NamedTuple):
    """A job that waits for a child: of which queue, and whether it gets one."""

    queue: str
    gets: "asyncio.Future[bool]"


class PoolRoom:
    """Counts attempts in `size` child processes; `queues` are those with no other tasks.

    `slots` is how many attempts the worker runs in all, `held` how many jobs it holds for children,
    those included that have not come here yet. `changed` is called when more jobs may be
    claimed. `leave` has the worker take nothing from a queue for so long; it returns when the store
    knows.
    """

    def __init__(
        self,
        size: int,
        slots: int,
        queues: Collection[str],
        *,
        held: Callable[[], int] = int,
        changed: Callable[[], None],
        leave: Callable[[str, float], Awaitable[None]],
    ) -> None:
        self.size = min(size, slots)
        self.queues = frozenset(queues)
        self._most_waiting = (slots - self.size) // 2
        self._held = held
        self._changed = changed
        self._leave = leave
        self._running = 0
        self._waiting: deque[Waiting] = deque()
        self._moments: dict[str, float] = {}
        self._average = inf
        self._draining = False

    @property
    def room(self) -> int:
        """How many more jobs to claim from the queues that have no other tasks.

        What is prefetched is refilled when half of it has started, not one by one.
        """
        more, held = self._prefetch, max(self._held(), self._running + len(self._waiting))
        if held >= self.size and 2 * (held - self.size) > more:
            return 0
        return max(0, self.size + more - held)

    @property
    def _prefetch(self) -> int:
        if self._average > SHORT:
            return 0
        each = min(SHORT / max(self._average, SHORT / MOST_PREFETCHED), MOST_PREFETCHED)
        return min(int(each * self.size), self._most_waiting)

    async def enter(self, queue: str) -> bool:
        """Wait until an attempt may run in a child; False if its job should be given back."""
        if self._draining:
            return False
        if self._running < self.size and not self._waiting:
            self._running += 1
            return True
        if len(self._waiting) >= self._most_waiting:
            rest = self._rest(queue)
            if not self._waiting:  # none may wait, so no moment ends that would be doubled then
                self._lengthen(queue)
            await self._offer(queue, rest)
            return False
        waiting = Waiting(queue, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await asyncio.wait([waiting.gets], timeout=self._moment(queue))
            if not waiting.gets.done():
                self._give_up(queue)
        except asyncio.CancelledError:
            self._cancelled(waiting)
            raise
        if not waiting.gets.result() and not self._draining:
            await self._offer(queue, REST)
        return waiting.gets.result()

    def leave(self, seconds: float) -> None:
        """An attempt that took so long has ended: its child is for the next that waits."""
        average = seconds if self._average == inf else self._average
        self._average = average + WEIGHT * (seconds - average)
        self._running -= 1
        self._hand_on()

    def drain(self) -> None:
        """Give back what waits, and whatever comes."""
        self._draining = True
        while self._waiting:
            self._waiting.popleft().gets.set_result(False)

    def _hand_on(self) -> None:
        if self._waiting:
            waiting = self._waiting.popleft()
            self._running += 1
            self._calm(waiting.queue)
            waiting.gets.set_result(True)
        elif not self._most_waiting:
            self._moments.clear()
        self._changed()

    def _calm(self, queue: str) -> None:
        """A job of the queue has got a child: the next ones need not wait as long, if any do."""
        if any(each.queue == queue for each in self._waiting):
            self._moments[queue] = min(self._moment(queue), BUSY_MOMENT)
        else:
            self._moments.pop(queue, None)

    def _moment(self, queue: str) -> float:
        return self._moments.get(queue, MOMENT)

    def _rest(self, queue: str) -> float:
        """How long to take nothing from the queue: children must not wait for the next job."""
        until_half = self._average * max(1, len(self._waiting)) / self.size / 2
        return max(REST, min(self._moment(queue), LONGEST_REST, until_half))

    def _give_up(self, queue: str) -> None:
        """Give back all jobs of the queue that wait; the next ones may wait longer."""
        self._lengthen(queue)
        gone = [each for each in self._waiting if each.queue == queue]
        self._waiting = deque(each for each in self._waiting if each.queue != queue)
        for each in gone:
            each.gets.set_result(False)

    def _lengthen(self, queue: str) -> None:
        """Let the next jobs of the queue wait, or the queue rest, twice as long."""
        average = 0.0 if self._average == inf else self._average
        self._average = max(self._moment(queue), average)  # several short ones make up for that
        self._moments[queue] = min(2 * self._moment(queue), LONGEST_MOMENT)

    async def _offer(self, queue: str, rest: float) -> None:
        """Leave jobs that are about to be given back to other workers."""
        if queue not in self.queues:  # of those, no more are claimed than there is room for
            await self._leave(queue, rest)

    def _cancelled(self, waiting: Waiting) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        elif waiting.gets.done() and waiting.gets.result():
            self._running -= 1
            self._hand_on()
