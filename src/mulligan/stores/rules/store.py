"""The operations of the contract that are rules: a store provides `carry_out`."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from mulligan.core.job import Adopted
from mulligan.core.record import Recording, RecordVerdict
from mulligan.core.reschedule import Reschedule
from mulligan.stores.rules import operate, record, schedules

T = TypeVar("T")
Rule = Callable[..., Coroutine[Any, Any, T]]


class RuleStore(ABC):
    """Operations that are the same on every store that carries out rules."""

    @abstractmethod
    async def carry_out(self, rule: Rule[T], *args: Any, **options: Any) -> T:
        """Run a rule in a transaction of this store, and return its answer."""

    async def record(self, recordings: Sequence[Recording]) -> list[RecordVerdict]:
        return await self.carry_out(record.record, recordings)

    async def reschedule(self, change: Reschedule) -> bool:
        return await self.carry_out(schedules.reschedule, change)

    async def replay(self, jobs: Sequence[str], *, from_start: bool = False) -> list[bool]:
        return await self.carry_out(operate.replay, jobs, from_start=from_start)

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        return await self.carry_out(operate.cancel, jobs, reason)

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        return await self.carry_out(operate.adopt, jobs)

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        return await self.carry_out(operate.purge, jobs)
