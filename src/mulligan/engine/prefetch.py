"""Prefetch: claims that wait for a slot, so that none stands empty while more are claimed."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine.claim_runner import HeldClaim

# While attempts take no longer on average, jobs are prefetched.
SHORT = 0.02
# Beyond one for each slot, no more are prefetched than start within this time: a retry that falls
# due waits for them.
AHEAD = 0.005
# A prefetched job waits no longer than this for a slot.
LONGEST_WAIT = 0.05
# The weight of the last attempt, and of the last claim, in their averages.
WEIGHT = 1 / 8
# Clocks tell no shorter time.
SHORTEST = 1e-6


class Prefetched(NamedTuple):
    """A claim without a slot, and since when it waits for one."""

    held: HeldClaim
    since: float


class Prefetch:
    """Keeps claims until a slot is free for them (`start`) or they are given back.

    A claim is a round trip to the store, which may take longer than a short attempt. So while
    attempts take no longer than SHORT on average, the worker claims one job more for each slot, and
    as many as start while two claims are answered: the next is sent when half of them have started.
    What is more than one for each slot is expected to start within AHEAD. Prefetched jobs start in
    the order of their claims. When one has waited for longer than LONGEST_WAIT, attempts are no
    longer short: all are given back, for other workers to claim.
    """

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
        self.waiting: deque[Prefetched] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._average = inf
        self._claim = 0.0  # how long a claim takes, on average

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def room(self) -> int:
        """How many claims may wait: none while attempts are not short."""
        attempt = max(self._average, SHORTEST)
        if attempt > SHORT:
            return 0
        ahead = min(attempt + 2 * self._claim, AHEAD)
        return max(self._slots, min(int(self._slots * ahead / attempt), BATCH_LIMIT))

    def learn(self, seconds: float) -> None:
        """Take the time of an attempt into the average."""
        average = seconds if self._average == inf else self._average
        self._average = average + WEIGHT * (seconds - average)

    def learn_claim(self, seconds: float) -> None:
        """Take the time of a claim into its average."""
        self._claim += WEIGHT * (seconds - self._claim)

    def add(self, attempts: Iterable[HeldClaim]) -> None:
        """Have these claims wait for slots."""
        now = self._monotonic()
        self.waiting.extend(Prefetched(held, now) for held in attempts)
        self._set_timer()

    def start_next(self) -> None:
        """Start the claim that has waited longest, if there is one: a slot is free."""
        if self.waiting:
            self._start(self.waiting.popleft().held)

    def clear(self) -> None:
        """Give all claims back."""
        while self.waiting:
            self._give_back(self.waiting.pop().held)

    def _set_timer(self) -> None:
        if self.waiting and self._timer is None:
            rest = self.waiting[0].since + LONGEST_WAIT - self._monotonic()
            self._timer = self._loop.call_later(max(rest, 0.0), self._check)

    def _check(self) -> None:
        self._timer = None
        if self.waiting and self.waiting[0].since + LONGEST_WAIT <= self._monotonic():
            self._average = inf
            self.clear()
        self._set_timer()
