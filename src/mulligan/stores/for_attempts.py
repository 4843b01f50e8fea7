"""Reads what an attempt is given, which a store that has signing keys checks."""

from collections.abc import Mapping
from typing import Protocol

from mulligan.core.record import Record


class HasRecords(Protocol):
    """Where the records of jobs are read from: a store."""

    async def records(self, job: str) -> list[Record]:
        """What the job has recorded, oldest first."""
        ...


class HasArrivals(Protocol):
    """Where the results that a gathering job waits for are read from: a store."""

    async def arrivals(self, job: str) -> Mapping[int, bytes | None]:
        """The results that have arrived at the job, by index, in their order."""
        ...


async def records_for_attempt(store: HasRecords, job: str) -> list[Record]:
    """What the job has recorded; raises BadSignature if some of it is forged."""
    found: list[Record] = await getattr(store, "checked_records", store.records)(job)
    return found


async def arrivals_for_attempt(store: HasArrivals, job: str) -> dict[int, bytes | None]:
    """What has arrived at the job; raises BadSignature if some of it is forged."""
    return dict(await getattr(store, "checked_arrivals", store.arrivals)(job))
