"""A deadline for an attempt that does not count the time for which others block the loop."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from math import inf
from types import TracebackType, coroutine
from typing import Any, Self

# A shorter rest needs no timer.
LEAST = 0.001


def never_held() -> float:
    """The loop is never blocked: on a virtual clock only waiting takes time."""
    return 0.0


class Deadline:
    """A timeout that counts from `begin`. `held` says for how long the loop was blocked so far.

    The deadline moves by the time for which others blocked the loop. Time for which the attempt
    blocked it itself counts as its own.
    """

    def __init__(self, seconds: float, held: Callable[[], float] = never_held) -> None:
        self._seconds = seconds
        self._held = held
        self._granted = 0.0
        self._until = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    @property
    def expired(self) -> bool:
        """Whether the time was over before the work was done."""
        return self._until.expired()

    async def __aenter__(self) -> Self:
        await self._until.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        await self._until.__aexit__(kind, error, trace)

    def begin(self) -> None:
        """Count from now on; does nothing once the work is done."""
        if not self._over and self._seconds < inf:
            self._granted = self._held()
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._due)

    @coroutine
    def watched(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Begin and run the coroutine; the time for which it blocks the loop counts as its own."""
        self.begin()
        step: Callable[[Any], Any] = work.send
        answer: Any = None
        while True:
            before, began = self._held(), time.monotonic()
            try:
                waits_for = step(answer)
            except StopIteration as ended:
                return ended.value
            # Only blocked time that `held` noticed, and no more than this step took.
            self._granted += min(self._held() - before, time.monotonic() - began)
            try:
                step, answer = work.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001 - the work deals with it
                step, answer = work.throw, error

    def _due(self) -> None:
        loop, held = asyncio.get_running_loop(), self._held()
        owed, self._granted = held - self._granted, held
        if owed > LEAST:
            self._timer = loop.call_later(owed, self._due)
        elif not self._over:
            self._until.reschedule(loop.time())
