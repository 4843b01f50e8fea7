"""A process's line to the store: what is said on it may be lost, late, refused or never sent."""

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from collections import Counter

# Of a hundred operations while there is noise.
NOISE = (
    (8, "request lost"),
    (16, "reply lost"),
    (22, "failed"),
    (30, "slow"),
)
# A reclaim that gives something is so rare that noise alone would hardly ever lose its reply.
LOST_RECLAIMS = 0.2


class Line:
    """The store as one process reaches it."""

    def __init__(
        self, store: Store, chance: random.Random, told: "Counter[str]", latency: float = 0.0
    ) -> None:
        self._store = store
        self._latency = latency
        self._chance = chance
        self._told = told
        self._open = asyncio.Event()
        self._open.set()
        self._ambush: tuple[str, Callable[[], None]] | None = None
        self.noisy = False
        self.keeps_reclaims = False
        self.cut = False
        self.dead = False

    def ambush(self, name: str, strike: Callable[[], None]) -> None:
        """Strike when the store has done the next operation of this name, before it is told."""
        self._ambush = name, strike

    def freeze(self) -> None:
        """The process is stopped: what it asks, and what it is told, waits."""
        self._open.clear()

    def thaw(self) -> None:
        """It goes on."""
        self._open.set()

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)
        if not inspect.iscoroutinefunction(operation):
            return operation

        def ask(*args: Any, **options: Any) -> Awaitable[Any]:
            return self._ask(name, lambda: operation(*args, **options))

        setattr(self, name, ask)  # found without us the next time
        return ask

    async def _ask(self, name: str, operation: Callable[[], Any]) -> Any:
        await self._reach()
        fault = self._fault() if self.noisy and name != "wait" else None
        if fault is not None:
            await self._befall(name, fault)
        if self._latency:
            await self._travel()
        answer = await operation()
        if name == "reclaim" and answer and not self.keeps_reclaims:
            fault = "reply lost" if self._chance.random() < LOST_RECLAIMS else fault
        if self._ambush is not None and self._ambush[0] == name:
            strike, self._ambush = self._ambush[1], None
            strike()
        if self._latency:
            await self._travel()
        else:
            await self._reach()
        if fault == "reply lost":
            raise ConnectionResetError(f"the reply to {name} was lost")
        return answer

    async def _befall(self, name: str, fault: str) -> None:
        self._told[fault] += 1
        if fault == "request lost":
            raise StoreUnavailableError(f"{name} never reached the store")
        if fault == "failed":
            raise StoreError(f"the store could not do {name} just now")
        if fault == "slow":
            await asyncio.sleep(self._chance.uniform(0.1, 60.0))
            await self._reach()

    async def _travel(self) -> None:
        """What is said takes its time, there and back."""
        await asyncio.sleep(self._chance.expovariate(1 / self._latency))
        await self._reach()

    async def _reach(self) -> None:
        while not self._open.is_set():
            await self._open.wait()
        if self.dead:
            raise ConnectionError("the process is dead")
        if self.cut:
            raise StoreUnavailableError("the store cannot be reached")

    def _fault(self) -> str | None:
        drawn = self._chance.randrange(100)
        return next((what for until, what in NOISE if drawn < until), None)
