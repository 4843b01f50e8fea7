"""How every loop behaves when the store fails: wait a little longer each time, and go on."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mulligan.core.errors import StoreError

log = logging.getLogger("mulligan.worker")

T = TypeVar("T")
FIRST, LONGEST = 0.05, 5.0
# By then the wait is the longest anyway, and a power of two still fits a float.
MOST_DOUBLINGS = 30


class StoreRetry:
    """Counts failures in a row and spaces the next try; one per loop."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._failures = 0

    @property
    def failing(self) -> bool:
        """Whether what was tried last failed."""
        return self._failures > 0

    async def call(
        self,
        operation: Callable[[], Awaitable[T]],
        through: tuple[type[Exception], ...] = (StoreError, OSError),
    ) -> T:
        """Run the operation until the store answers, through errors of these kinds."""
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
        """Wait a little longer than the last time."""
        doublings = min(self._failures, MOST_DOUBLINGS)
        delay = min(LONGEST, FIRST * 2**doublings) * random.uniform(0.5, 1.0)
        if self._failures in (0, 5) or self._failures % 60 == 0:
            log.warning("%s: %s; trying again", self._what, error)
        self._failures += 1
        await asyncio.sleep(delay)
