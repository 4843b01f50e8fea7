"""The reference store: plain data in one process, on the oracle, deterministic."""

from collections.abc import Sequence

from mulligan.core.finding import Finding
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.settings import check_batch
from mulligan.stores.batches import batch_by_batch
from mulligan.stores.memory.reading import Reading


class MemoryStore(Reading):
    """All state in this process; `clock` may be injected. Threads may share one store."""

    async def open(self, *, read_only: bool = False) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of; the data lives as long as the object."""

    async def doctor(self) -> list[Finding]:
        return []

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        check_batch(len(jobs))
        with self._lock:
            self._tick()
            return [self._add(job) for job in jobs]

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        return await batch_by_batch(self.enqueue, jobs)
