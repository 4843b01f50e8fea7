"""Prefetch: while attempts are short, jobs are claimed before a slot is free for them.

A claim is a round trip to the store, which may take as long as a short attempt. So while attempts
take no longer than SHORT on average, the worker claims one job more for each slot. Prefetched jobs
start in the order of their claims. When one has waited for longer than LONGEST_WAIT, attempts are
no longer short: all are given back, for other workers to claim.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from mulligan.engine.claim_runner import HeldClaim

SHORT = 0.02
LONGEST_WAIT = 0.05
# The weight of the last attempt in the average.
WEIGHT = 1 / 8


class Prefetched(NamedTuple):
    """A claim without a slot, and since when it waits for one."""

    held: HeldClaim
    since: float


class Prefetch:
    """Keeps claims until a slot is free for them (`start`) or they are given back."""

    def __init__(
        self,
        slots: int,
        start: Callable[[HeldClaim], None],
        give_back: Callable[[HeldClaim], None],
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._slots = slots
        self._start = start
        self._give_back = give_back
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Prefetched] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._average = inf

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many claims may wait: none while attempts are not short."""
        return self._slots if self._average <= SHORT else 0

    def learn(self, seconds: float) -> None:
        """Take the time of an attempt into the average."""
        average = seconds if self._average == inf else self._average
        self._average = average + WEIGHT * (seconds - average)

    def add(self, attempts: Iterable[HeldClaim]) -> None:
        """Have these claims wait for slots."""
        now = self._monotonic()
        self._waiting.extend(Prefetched(held, now) for held in attempts)
        self._set_timer()

    def start_next(self) -> None:
        """Start the claim that has waited longest, if there is one: a slot is free."""
        if self._waiting:
            self._start(self._waiting.popleft().held)

    def clear(self) -> None:
        """Give all claims back."""
        while self._waiting:
            self._give_back(self._waiting.pop().held)

    def _set_timer(self) -> None:
        if self._waiting and self._timer is None:
            rest = self._waiting[0].since + LONGEST_WAIT - self._monotonic()
            self._timer = self._loop.call_later(max(rest, 0.0), self._check)

    def _check(self) -> None:
        self._timer = None
        if self._waiting and self._waiting[0].since + LONGEST_WAIT <= self._monotonic():
            self._average = inf
            self.clear()
        self._set_timer()
