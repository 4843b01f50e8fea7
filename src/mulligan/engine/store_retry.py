"""Tries a failed store call again, with a longer wait each time."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mulligan.core.errors import StoreError

log = logging.getLogger("mulligan.worker")

T = TypeVar("T")
FIRST, LONGEST = 0.05, 5.0
# By then the wait is the longest in any case, and the power of two still fits a float.
MOST_DOUBLINGS = 30


class StoreRetry:
    """Counts failures in a row and waits before the next try. Each loop has one of its own."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0

    @property
    def failing(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    async def call(
        self,
        operation: Callable[[], Awaitable[T]],
        through: tuple[type[Exception], ...] = (StoreError, OSError),
    ) -> T:
        """Run the operation until the store answers; errors not in `through` are raised."""
        while True:
            try:
                answer = await operation()
            except through as error:
                await self.pause(error)
            else:
                if self._failures:
                    log.info("%s: the store answers again", self._what)
                self._failures = 0
                return answer

    async def pause(self, error: Exception) -> None:
        """Log the error, and wait about twice as long as the last time."""
        doublings = min(self._failures, MOST_DOUBLINGS)
        delay = min(LONGEST, FIRST * 2**doublings) * random.uniform(0.5, 1.0)
        if self._failures in (0, 5) or self._failures % 60 == 0:
            log.warning("%s: %s; trying again", self._what, error)
        self._failures += 1
        await asyncio.sleep(delay)
