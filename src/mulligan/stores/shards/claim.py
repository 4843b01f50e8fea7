"""Walks a plan in one shard after the other, in turns, until the demand is met."""

import asyncio
import contextlib
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mulligan.core.answers import Claimed
from mulligan.core.errors import StoreUnavailableError
from mulligan.core.plan import ClaimPlan
from mulligan.core.settings import check_batch
from mulligan.core.shards import divided, less
from mulligan.core.worker import Worker
from mulligan.stores.shards import workers
from mulligan.stores.shards.connection import Shards
from mulligan.stores.shards.wakeup import WorkerSleep

if TYPE_CHECKING:
    from mulligan.core.job import Claim


async def claim(shards: Shards, sleep: WorkerSleep, plan: ClaimPlan, worker: Worker) -> Claimed:
    """Take from the shard that is owed most first, and the rest of the demand from the others.

    A shard that is known to have nothing is not asked. When the demand is met, those that wait for
    this worker are told that it will not come.
    """
    check_batch(plan.demand)
    await sleep.has_resigned()
    await introduce(shards, sleep, worker)
    epochs = shards.memory.epochs.get(plan.epoch)
    if epochs is None:
        facts = await workers.facts(shards)
        epochs = shards.memory.epochs[facts.epoch]
        if facts.epoch != plan.epoch:
            epochs = None
    if epochs is not None:
        claimed = await Walk(shards, sleep, plan, worker, epochs).run()
        if not claimed.stale:
            return claimed
    sleep.met.clear()  # it is alive: each shard is told so, though its plan is refused
    await introduce(shards, sleep, worker)
    return Claimed([], stale=True)


class Walk:
    """One claim over all shards."""

    def __init__(
        self,
        shards: Shards,
        sleep: WorkerSleep,
        plan: ClaimPlan,
        worker: Worker,
        epochs: tuple[int, ...],
    ) -> None:
        self.shards = shards
        self.sleep = sleep
        self.plan = plan
        self.worker = worker
        self.epochs = epochs
        self.now = shards.now()
        self.claims: list[Claim] = []
        self.left = [False] * len(plan.groups)
        self.again: list[float] = []
        self.taken: dict[int, int] = {}
        self.dry: list[int] = []

    async def run(self) -> Claimed:
        """Ask the shards in their turns."""
        demand = self.plan.demand
        present = [shard.number for shard in self.shards.present]
        idle: list[int] = []
        if demand:
            idle = [each for each in present if self.sleep.is_dry(each, self.plan, self.now)]
        failed: StoreUnavailableError | None = None
        for number in self.sleep.turns.order(set(present) - set(idle)):
            if demand and len(self.claims) >= demand:
                break
            try:
                fresh = await self._ask(number, demand - len(self.claims))
            except StoreUnavailableError as error:
                failed = error
                continue
            if not fresh and not self.claims:
                return Claimed([], stale=True)
        if failed is not None and not self.taken and not idle:
            raise failed
        met = len(self.claims) >= demand
        if met and demand:
            await self._resign(set(present) - set(self.taken))
        self.sleep.turns.settle(self.taken, [*idle, *self.dry])
        if met:
            return Claimed(self.claims, tuple(self.left))
        self.again += [self.sleep.asleep[each].again_at - self.now for each in idle]
        again_in = min(self.again, default=inf)
        return Claimed(self.claims, tuple(self.left), None if again_in == inf else again_in)

    async def _ask(self, number: int, demand: int) -> bool:
        """Claim so many in one shard; False if its facts are newer than the plan.

        What others have given meanwhile is for them to keep: the next claim is told, and soon.
        """
        await self.sleep.stop_waiting([number])
        part = less(
            divided(self.plan, number, self.shards.count), len(self.claims), self.epochs[number]
        )
        shares = self.sleep.shares[number]
        part = shares.fitted(part)
        if part.demand != demand:
            part = replace(part, demand=demand)
        answer = await self.shards.at(number, lambda store: store.claim(part, self.worker))
        if answer.stale:
            self.again.append(0.0)
            return False
        shares.settle(part, answer.claims, answer.left)
        for claim in answer.claims:
            self.shards.memory.remember(claim.id, number, self.shards.layout)
        self.claims += answer.claims
        self.left = [one or other for one, other in zip(self.left, answer.left, strict=True)]
        if len(answer.claims) < demand:
            again_in = answer.again_in
            dry = not any(answer.left)
            self.sleep.sleeps(number, self.plan, again_in, self.now, dry=dry and again_in != 0)
            self.again += [] if again_in is None else [again_in]
            self.dry += [number] if dry else []
        else:
            self.sleep.asleep.pop(number, None)
        if demand:
            self.taken[number] = len(answer.claims)
        return True

    async def _resign(self, others: set[int]) -> None:
        """Have shards that would wake this worker wake another one for what waits there.

        Where that costs round trips, what was claimed does not wait for it; the next claim does.
        """
        asked = [each for each in sorted(others) if each in self.sleep.asleep or self.shards.cheap]
        if self.shards.in_order:
            for number in asked:
                await self._resign_at(number)
        elif asked:
            resigning = self.shards.together([self._resign_at(number) for number in asked])
            self.sleep.resigning = asyncio.ensure_future(resigning)

    async def _resign_at(self, number: int) -> None:
        with contextlib.suppress(StoreUnavailableError):
            await self._ask(number, 0)


async def introduce(shards: Shards, sleep: WorkerSleep, worker: Worker) -> None:
    """Let every shard know the worker before its first claim: a new region changes the facts."""
    new = [shard for shard in shards.present if shard.number not in sleep.met]
    if new:
        unknown = ClaimPlan(0, (), (), epoch=-1)
        met = await shards.each(lambda shard: shard.store.claim(unknown, worker), new)
        sleep.met.update(number for number, _ in met)
