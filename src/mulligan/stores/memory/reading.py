"""Reading the store: jobs, histories, pages and counts."""

from msgspec.structs import replace

from mulligan.core.errors import UnknownJobError
from mulligan.core.job import Attempt, Job
from mulligan.core.lane import Lane
from mulligan.core.page import LOOKS, Page, Selection, cursor_number
from mulligan.core.stats import Stats
from mulligan.stores.memory.claiming import Claiming
from mulligan.stores.memory.counting import count
from mulligan.stores.memory.record import fails_with, matches, view


class Reading(Claiming):
    """The part of the store that changes nothing."""

    async def get(self, job: str) -> Job | None:
        with self._lock:
            record = self._jobs.get(job)
            return None if record is None else view(record)

    async def history(self, job: str) -> list[Attempt]:
        with self._lock:
            record = self._jobs.get(job)
            return [] if record is None else list(record.history)

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        with self._lock:
            record = self._jobs.get(job)
            return {} if record is None else dict(sorted(record.arrived.items()))

    async def page(
        self,
        selection: Selection,
        limit: int,
        after: str | None = None,
        *,
        bodies: bool = True,
        looks: int = LOOKS,
    ) -> Page:
        with self._lock:
            below = self._sequence + 1 if after is None else cursor_number(after)
            found = [r for r in self._jobs.values() if r.place < below and matches(selection, r)]
            found.sort(key=lambda record: -record.place)
            last: int | None = None
            if selection.text is not None:
                last = found[looks - 1].place if len(found) >= looks else None
                found = [record for record in found[:looks] if fails_with(selection.text, record)]
            if len(found) > limit:
                last = found[limit - 1].place
            jobs = [view(record) for record in found[:limit]]
            if not bodies:
                jobs = [replace(job, body=b"", result=None) for job in jobs]
            return Page(jobs, None if last is None else str(last))

    async def stats(self) -> Stats:
        with self._lock:
            now = self._tick()
            workers = [
                (w, beat, joined, self._live(w.id)) for w, beat, joined in self._workers.values()
            ]
            return count(self._jobs.values(), workers, now)

    async def depth(self, lane: Lane, limit: int) -> int:
        with self._lock:
            now = self._tick()
            ready = sum(
                record.sequence == sequence and record.status == "pending" and due <= now
                for due, sequence, record in self._lanes.get(lane, ())
            )
            return min(ready, limit)

    async def ahead(self, job: str) -> int:
        with self._lock:
            record = self._jobs.get(job)
            if record is None:
                raise UnknownJobError(f"no job {job!r} is stored")
            if record.status != "pending" or record.awaits:
                return 0
            return sum(
                r.status == "pending"
                and not r.awaits
                and r.lane == record.lane
                and (r.due, r.sequence) < (record.due, record.sequence)
                for r in self._jobs.values()
            )

    async def tail(self, lane: Lane, due: float) -> str | None:
        with self._lock:
            waiting = [
                (record.due, record.sequence, record.new.id)
                for at, sequence, record in self._lanes.get(lane, ())
                if at <= due and record.sequence == sequence and record.status == "pending"
            ]
            return max(waiting)[2] if waiting else None
