"""One sleep over all shards: each is waited for by a task of its own, which outlasts the sleep.

A shard that had nothing for a worker remembers it as waiting. While the task that waits there has
not ended, and no time has come at which the shard itself would have more, it need not be asked
again: an idle worker with many shards asks none of them.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from math import inf

from mulligan.core.plan import ClaimPlan, Source
from mulligan.core.shard_turns import ShardShares, Turns
from mulligan.core.worker import Worker
from mulligan.stores.shards.connection import AWAY, Shard, Shards

# A wake-up that was lost costs at most this long.
LONGEST_WAIT = 60.0


class Asleep:
    """How a shard knows the worker as waiting: for which sources, and until when."""

    __slots__ = ("again_at", "dry", "sources")

    def __init__(self, sources: frozenset[Source], again_at: float, *, dry: bool) -> None:
        self.sources = sources
        self.again_at = again_at
        self.dry = dry


class WorkerSleep:
    """One worker's turns among shards, and where it is known as waiting."""

    def __init__(self, count: int) -> None:
        self.turns = Turns(count)
        self.shares = [ShardShares() for _ in range(count)]
        self.asleep: dict[int, Asleep] = {}
        self.waits: dict[int, asyncio.Task[None]] = {}
        self.met: set[int] = set()
        self.resigning: asyncio.Future[list[None]] | None = None

    def is_dry(self, shard: int, plan: ClaimPlan, now: float) -> bool:
        """Whether the shard has nothing for this plan, and would have said so if it had."""
        known = self.asleep.get(shard)
        wait = self.waits.get(shard)
        return (
            known is not None
            and known.dry
            and wait is not None
            and not wait.done()
            and now < known.again_at
            and known.sources == plan.reach
        )

    def sleeps(
        self, shard: int, plan: ClaimPlan, again_in: float | None, now: float, *, dry: bool
    ) -> None:
        """The shard had less than was asked for."""
        again_at = inf if again_in is None else now + again_in
        self.asleep[shard] = Asleep(plan.reach, again_at, dry=dry)

    async def has_resigned(self) -> None:
        """Return when every shard has heard that the worker, which was full, will not come."""
        resigning, self.resigning = self.resigning, None
        if resigning is not None:
            await resigning

    async def stop_waiting(self, shards: Iterable[int]) -> None:
        """End the waits for these shards: what woke them is found by the claim that follows."""
        tasks = [task for each in shards if (task := self.waits.pop(each, None)) is not None]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, *AWAY):
                await task

    async def end(self) -> None:
        """Wait nowhere any more."""
        await self.has_resigned()
        await self.stop_waiting(list(self.waits))

    async def wait(self, shards: Shards, worker: Worker, seconds: float) -> None:
        """Sleep until a shard wakes the worker, or the time is up."""
        for shard in shards.present:
            if shard.number in self.asleep and shard.number not in self.waits:
                wait = asyncio.ensure_future(wait_at(shards, shard, worker))
                self.waits[shard.number] = wait
        with shards.any_return() as back:
            ends = {*self.waits.values(), *back}
            if not ends:
                await asyncio.sleep(seconds)
                return
            await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for number, task in list(self.waits.items()):
            if task.done():
                del self.waits[number]


async def wait_at(shards: Shards, shard: Shard, worker: Worker) -> None:
    """Wait at one shard; one that goes away meanwhile wakes the worker too."""
    try:
        await shard.store.wait(worker, LONGEST_WAIT)
    except AWAY as error:
        shards.lost(shard, error)
