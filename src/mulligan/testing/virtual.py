"""A virtual clock: an asyncio loop on which waiting costs no time.

Whenever nothing is left to do at this instant, the loop's time jumps to the next timer. The real
engine runs on it unchanged: hours of backoff pass in milliseconds, always in the same order.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class StuckError(RuntimeError):
    """Nothing is ready and no timer is set: waiting would never end."""


class _NoFiles(selectors.BaseSelector):
    """A selector without files: waiting moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0
        # Called when the loop is about to wait; it may move the clock.
        self.before_wait: Callable[[], None] | None = None
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = selectors.SelectorKey(fileobj, int(fileobj), events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError("nothing to do and no timer set: a task waits for what never comes")
        if timeout > 0 and self.before_wait is not None:
            before = self.now
            self.before_wait()
            if self.now != before:
                return []
        if timeout > 0:
            # Sums of floats drift; times are kept to the nanosecond so that they meet again.
            moment = round(self.now + timeout, 9)
            # The clock must move: a coroutine that waits for a time just ahead would otherwise be
            # woken again and again at the same instant.
            self.now = moment if moment > self.now else self.now + 1e-9
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose `time()` starts at 0 and moves only by waiting."""

    def __init__(self) -> None:
        self._virtual = _NoFiles()
        super().__init__(self._virtual)
        self._clock_resolution = 1e-9

    def before_wait(self, call: Callable[[], None]) -> None:
        """Call this whenever the loop is about to wait; it may move the clock."""
        self._virtual.before_wait = call

    def move_to(self, moment: float) -> None:
        """Move the clock ahead."""
        self._virtual.now = moment

    def time(self) -> float:
        """The virtual time in seconds."""
        return self._virtual.now
