"""A store whose jobs are signed: whatever goes in is, and what comes out unsigned cannot run."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from msgspec.structs import replace

from mulligan.core.answers import Beat, Claimed
from mulligan.core.job import Claim, Enqueued, Lease, NewJob
from mulligan.core.outcome import Dead, Done, Outcome, Verdict
from mulligan.core.plan import ClaimPlan
from mulligan.core.record import Record, Recording, RecordVerdict
from mulligan.core.reschedule import Reschedule
from mulligan.core.signature import Keys
from mulligan.core.worker import Worker
from mulligan.stores.contract import Store

# A schedule is signed as the job of this id.
SCHEDULE = "schedule:"


def signed(store: Store, keys: Keys) -> Store:
    """The store, seen through these keys."""
    return cast("Store", Signed(store, keys))


class Signed:
    """Signs every job on its way in, also those that follow from others, and checks claims.

    All other operations are the store's own.
    """

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Accept every job or none, signed."""
        return await self._send(jobs, self._store.enqueue)

    async def enqueue_all(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Accept any number of jobs, signed."""
        return await self._send(jobs, self._store.enqueue_all)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        """Walk the plan; a job that is not signed well is handed out as one to refuse."""
        claimed = await self._store.claim(plan, worker)
        return replace(claimed, claims=list(map(self._keys.checked, claimed.claims)))

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        """Claim what dead workers held: a forged job must not speak through its last failure."""
        return list(map(self._keys.checked, await self._store.reclaim(limit, worker)))

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        """Keep all leases of the worker; what it had reclaimed is checked as when it was."""
        beat = await self._store.beat(worker, holding)
        return replace(beat, reclaimed=list(map(self._keys.checked, beat.reclaimed)))

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        """Write the outcomes, and what follows from them, signed."""
        return await self._store.commit(list(map(self._signed, outcomes)))

    async def record(self, recordings: Sequence[Recording]) -> list[RecordVerdict]:
        """Keep what attempts record, sealed."""
        return await self._store.record(list(map(self._keys.seal_recording, recordings)))

    async def checked_records(self, job: str) -> list[Record]:
        """Records that an attempt of the job is given; raises BadSignature if one is forged."""
        found = await self._store.records(job)
        self._keys.check_records(job, found)
        return found

    async def checked_arrivals(self, job: str) -> dict[int, bytes | None]:
        """Results that an attempt of the job is given; raises BadSignature if one is forged."""
        found = await self._store.arrivals(job)
        self._keys.check_arrivals(job, found)
        return found

    async def reschedule(self, change: Reschedule) -> bool:
        """Replace the record of a schedule, signed, and place its ticks, signed."""
        after = change.after
        if after is not None:
            after = self._keys.sign(NewJob(SCHEDULE + change.name, "", "", after)).body
        place = self._keys.sign_all(change.place)
        return await self._store.reschedule(replace(change, after=after, place=place))

    def refusal_of_schedule(self, name: str, record: bytes) -> str | None:
        """Why the schedule must not tick; None if its signature is good."""
        return self._keys.refusal(SCHEDULE + name, "", record)

    def __getattr__(self, name: str) -> Any:
        """The store's own; of those that only some stores have, what enqueues is signed too."""
        operation = getattr(self._store, name)
        match name:
            case "enqueue_in":
                return lambda connection, jobs, *identity: self._send_here(
                    jobs, lambda jobs: operation(connection, jobs, *identity)
                )
            case "aenqueue_in":
                return lambda connection, jobs, *identity: self._send(
                    jobs, lambda jobs: operation(connection, jobs, *identity)
                )
            case "enqueue_here":
                return lambda jobs: self._send_here(jobs, operation)
            case "producer":
                return lambda: (made := operation()) and Signed(made, self._keys)
            case "commit_within":
                return lambda outcome, work: operation(self._signed(outcome), work)
            case _:
                return operation

    async def _send(
        self,
        jobs: Sequence[NewJob],
        send: Callable[[Sequence[NewJob]], Awaitable[list[Enqueued]]],
    ) -> list[Enqueued]:
        sending = self._keys.sending(jobs)
        batch = next(sending)
        while True:
            answers = await send(batch)
            try:
                batch = sending.send(answers)
            except StopIteration as end:
                return cast("list[Enqueued]", end.value)

    def _send_here(
        self, jobs: Sequence[NewJob], send: Callable[[Sequence[NewJob]], list[Enqueued]]
    ) -> list[Enqueued]:
        sending = self._keys.sending(jobs)
        batch = next(sending)
        while True:
            answers = send(batch)
            try:
                batch = sending.send(answers)
            except StopIteration as end:
                return cast("list[Enqueued]", end.value)

    def _signed(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Done | Dead) and outcome.next:
            outcome = replace(outcome, next=self._keys.sign_all(outcome.next))
        return self._keys.seal_arrival(outcome) if isinstance(outcome, Done) else outcome
