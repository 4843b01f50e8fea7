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
# How much the last attempt counts in what they usually take.
WEIGHT = 1 / 8


class Waiting(NamedTuple):
    """A claim without a slot, and since when."""

    held: HeldClaim
    since: float


class Prefetch:
    """Keeps claims until `start` is called for them, or `give_back`."""

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
        self._waiting: deque[Waiting] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._usual = inf

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many may wait."""
        return self._slots if self._usual <= SHORT else 0

    def learn(self, seconds: float) -> None:
        """An attempt took so long."""
        usual = seconds if self._usual == inf else self._usual
        self._usual = usual + WEIGHT * (seconds - usual)

    def add(self, attempts: Iterable[HeldClaim]) -> None:
        """Have these wait."""
        now = self._monotonic()
        self._waiting.extend(Waiting(held, now) for held in attempts)
        self._keep_watch()

    def start_next(self) -> None:
        """A slot is free: start the one that has waited longest, if any has."""
        if self._waiting:
            self._start(self._waiting.popleft().held)

    def clear(self) -> None:
        """Give all back."""
        while self._waiting:
            self._give_back(self._waiting.pop().held)

    def _keep_watch(self) -> None:
        if self._waiting and self._watch is None:
            rest = self._waiting[0].since + LONGEST_WAIT - self._monotonic()
            self._watch = self._loop.call_later(max(rest, 0.0), self._look)

    def _look(self) -> None:
        self._watch = None
        if self._waiting and self._waiting[0].since + LONGEST_WAIT <= self._monotonic():
            self._usual = inf
            self.clear()
        self._keep_watch()
