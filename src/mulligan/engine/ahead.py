"""Jobs claimed ahead: while attempts are short, a slot that becomes free has its next job at hand.

A claim is a journey to the store and back, which may take as long as a short attempt does. So while
attempts usually take no longer than SHORT, one job more is claimed for each slot. They start in
the order of their claims. If one has waited for longer than PATIENCE, attempts are not short any
more: all are given back, for others to claim.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from mulligan.engine.line import Held

SHORT = 0.02
PATIENCE = 0.05
# How much the last attempt counts in what they usually take.
WEIGHT = 1 / 8


class Waiting(NamedTuple):
    """A claim without a slot, and since when."""

    held: Held
    since: float


class Ahead:
    """Keeps claims until `start` is called for them, or `give_back`."""

    def __init__(
        self,
        slots: int,
        start: Callable[[Held], None],
        give_back: Callable[[Held], None],
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

    def add(self, attempts: Iterable[Held]) -> None:
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
            rest = self._waiting[0].since + PATIENCE - self._monotonic()
            self._watch = self._loop.call_later(max(rest, 0.0), self._look)

    def _look(self) -> None:
        self._watch = None
        if self._waiting and self._waiting[0].since + PATIENCE <= self._monotonic():
            self._usual = inf
            self.clear()
        self._keep_watch()
