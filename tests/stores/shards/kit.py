"""Shards of memory that a test can take away, and that count what they are asked."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from mulligan.core.errors import StoreUnavailableError
from mulligan.stores.memory import MemoryStore
from mulligan.stores.shards import ShardedStore


class Switched:
    """A store of memory that answers, or is `down`, or says nothing for so many seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.url = "memory://"
        self.down = False
        self.silent = 0.0
        self.asked: Counter[str] = Counter()
        self.store = MemoryStore(clock=clock)

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.store, name)

        async def ask(*args: Any, **options: Any) -> Any:
            self.asked[name] += 1
            await asyncio.sleep(self.silent)
            if self.down:
                raise StoreUnavailableError("nobody answers")
            return await operation(*args, **options)

        return ask

    @property
    def jobs(self) -> list[str]:
        """The ids that are stored here."""
        return list(self.store.state.jobs)


def spread(clock: Callable[[], float], *shards: Switched, url: str = "memory://") -> ShardedStore:
    """A store over these shards; by the URL of a server they are asked together."""
    return ShardedStore(url, shards, clock)
