"""The reference store: plain data in one process, on the oracle, deterministic."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf

from msgspec.structs import replace

from mulligan.core.durations import rounded
from mulligan.core.errors import UnknownJobError
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.job import ENDED, EXPIRED, Attempt, Claim, Enqueued, Job, Lease, NewJob, Status
from mulligan.core.lane import Lane
from mulligan.core.outcome import Again, Cancelled, Dead, Done, Later, Outcome, Returned
from mulligan.core.plan import ClaimPlan, Gate, Running
from mulligan.core.settings import HISTORY_LIMIT, check_batch
from mulligan.core.walk import walk
from mulligan.core.worker import Worker
from mulligan.stores.contract import (
    Beat,
    Claimed,
    Page,
    Selection,
    Stats,
    Verdict,
    place_after,
)
from mulligan.stores.memory.bells import Bells
from mulligan.stores.memory.counting import count
from mulligan.stores.memory.gates import Gates
from mulligan.stores.memory.record import Record, matches, view


class MemoryStore:
    """All state in this process; `clock` may be injected. Threads may share one store."""

    def __init__(self, url: str = "memory://", clock: Callable[[], float] = time.time) -> None:
        self.url = url
        self._clock = clock
        self._lock = threading.RLock()
        self._jobs: dict[str, Record] = {}
        self._unique: dict[tuple[str, str], str] = {}
        self._lanes: dict[Lane, list[tuple[float, int, Record]]] = defaultdict(list)
        self._held: dict[str, list[Record]] = defaultdict(list)
        self._gates = Gates()
        self._bells = Bells(self._lock, self._live)
        self._running: dict[str, Record] = {}
        self._workers: dict[str, tuple[Worker, float, float]] = {}
        self._regions: dict[str, None] = {}
        self._queues: dict[str, QueueSettings] = {}
        self._paused: set[str] = set()
        self._epoch = 0
        self._sequence = 0
        self._places = 0
        self._now = 0.0
        self._claimer = Worker("")

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to let go of; the data lives as long as the object."""

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        check_batch(len(jobs))
        with self._lock:
            self._tick()
            return [self._add(job) for job in jobs]

    def _add(self, new: NewJob) -> Enqueued:
        if new.id in self._jobs:
            return Enqueued(new.id, created=False)
        if new.unique_key is not None:
            first = self._unique.get((new.queue, new.unique_key))
            if first is not None:
                return Enqueued(first, created=False)
            self._unique[new.queue, new.unique_key] = new.id
        record = self._jobs[new.id] = Record(new, self._place(), self._now)
        self._put(record, new.lane, new.delay)
        return Enqueued(new.id, created=True)

    def _place(self) -> int:
        self._places += 1
        return self._places

    def _put(self, record: Record, lane: Lane, delay: float) -> None:
        """Let the job join a lane, due after the delay."""
        self._sequence += 1
        record.sequence = self._sequence
        record.due = rounded(self._now + delay) if delay else self._now
        record.delayed = record.due > self._now
        record.lane = lane
        self._stand(record)

    def _stand(self, record: Record) -> None:
        """Make the job claimable at the place that its due time and sequence give it."""
        record.status = "pending"
        record.worker = None
        record.held = False
        heappush(self._lanes[record.lane], (record.due, record.sequence, record))
        self._bells.ring_for(record.lane, record.due)

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        check_batch(plan.demand)
        with self._lock:
            now = self._tick()
            self._keep(worker)
            if plan.epoch != self._epoch:
                return Claimed([], stale=True)
            self._claimer = worker
            walked = walk(plan, self, now)
            if len(walked.taken) < plan.demand:
                until = now + walked.again_in if walked.again_in is not None else inf
                self._bells.expect(worker.id, plan, until)
            else:
                self._bells.forget(worker.id)
                self._pass_on(plan.lanes)
            return Claimed(walked.taken, walked.left, walked.again_in)

    def _pass_on(self, lanes: Iterable[Lane]) -> None:
        """What stands in these lanes is for another sleeper now."""
        for lane in lanes:
            first = self.head(lane)
            if first is not None:
                self._bells.ring_for(lane, first[0])

    def head(self, lane: Lane) -> tuple[float, int] | None:
        heap = self._lanes.get(lane)
        while heap:
            due, sequence, record = heap[0]
            if record.status == "pending" and record.sequence == sequence and not record.held:
                return due, sequence
            heappop(heap)  # cancelled, or moved since
        return None

    def take(self, lane: Lane, gates: tuple[Gate, ...]) -> Claim | None:
        record = heappop(self._lanes[lane])[2]
        if record.token == 0 and record.expires_at is not None and record.expires_at <= self._now:
            self._end(record, "cancelled")
            record.cancel_reason = EXPIRED
            self._release(record)
            return None
        key = record.key
        if key is not None:
            if self._gates.held(key) >= record.new.concurrency_limit:
                record.held = True
                self._held[key].append(record)
                return None
            self._charge(key, record)
        for gate in gates:
            if isinstance(gate, Running):
                self._charge(gate.key, record)
            else:
                self._gates.count(gate, self._now)
        if record.retry_count:
            record.last_retry_at = self._now
        record.started_at = self._now
        return self._lease(record, self._claimer)

    def room(self, gate: Gate) -> int:
        return self._gates.room(gate, self._now)

    def reopens_in(self, gate: Gate) -> float | None:
        return self._gates.reopens_in(gate, self._now)

    def _charge(self, key: str, record: Record) -> None:
        self._gates.hold(key, record.new.id)
        record.permits.append(key)

    def _lease(self, record: Record, worker: Worker) -> Claim:
        record.token += 1
        record.leased_at = self._now
        record.status = "processing"
        record.worker, record.worker_region = worker.id, worker.region
        self._running[record.new.id] = record
        return self._claim_of(record)

    def _claim_of(self, record: Record) -> Claim:
        new = record.new
        return Claim(
            new.id,
            record.token,
            new.queue,
            new.task,
            new.body,
            new.region,
            new.priority,
            record.lane.scope,
            record.lane.priority,
            record.due,
            record.retry_count,
            record.replay,
            record.snoozes,
            record.worker or "",
            record.worker_region or new.region,
            record.started_at or 0.0,
        )

    async def commit(self, outcomes: Sequence[Outcome]) -> list[Verdict]:
        check_batch(len(outcomes))
        with self._lock:
            self._tick()
            return [self._commit(outcome) for outcome in outcomes]

    def _commit(self, outcome: Outcome) -> Verdict:
        record = self._jobs.get(outcome.lease.job)
        token = outcome.lease.token
        if record is None or record.token != token or record.status != "processing":
            return "already" if record is not None and record.committed == token else "stale"
        record.committed = token
        self._running.pop(record.new.id)
        self._write(record, outcome)
        self._release(record)
        return "written"

    def _write(self, record: Record, outcome: Outcome) -> None:
        match outcome:
            case Done(_, result, following):
                record.result = result
                self._end(record, "done")
                for job in following:
                    self._add(job)
            case Again(_, lane, delay, failure):
                self._remember(record, failure)
                record.retry_count += 1
                self._put(record, lane, delay)
            case Later(_, delay):
                record.snoozes += 1
                self._put(record, record.lane, delay)
            case Dead(_, failure, following):
                self._remember(record, failure)
                self._end(record, "failed")
                for job in following:
                    self._add(job)
            case Returned():
                self._stand(record)
            case Cancelled(_, reason):
                record.cancel_reason = reason
                self._end(record, "cancelled")

    def _remember(self, record: Record, failure: Attempt) -> None:
        record.history.append(replace(failure, ended_at=self._now))
        del record.history[:-HISTORY_LIMIT]

    def _end(self, record: Record, status: Status) -> None:
        record.status = status
        record.ended_at = self._now
        record.worker = None
        new = record.new
        if new.unique_key is not None and self._unique.get((new.queue, new.unique_key)) == new.id:
            del self._unique[new.queue, new.unique_key]

    def _release(self, record: Record) -> None:
        """Free the job's permits, and let go of one held job per lane for its key."""
        for key in record.permits:
            self._gates.free(key, record.new.id)
            self._bells.ring_gate(key)
        record.permits.clear()
        if record.key is not None:
            self._let_go(record.key)

    def _let_go(self, key: str) -> None:
        used = self._gates.held(key)
        first: dict[tuple[Lane, int], Record] = {}
        for record in self._held[key]:
            limit = record.new.concurrency_limit
            best = first.get((record.lane, limit))
            if limit > used and (
                best is None or (record.due, record.sequence) < (best.due, best.sequence)
            ):
                first[record.lane, limit] = record
        for record in first.values():
            self._held[key].remove(record)
            self._stand(record)

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        with self._lock:
            now = self._tick()
            joined = self._workers[worker.id][2] if worker.id in self._workers else now
            self._join(worker, now, joined)
            lost = [lease for lease in holding if not self._holds(worker, lease)]
            return Beat(lost, self._facts(), self._forgotten(worker, set(holding)))

    def _holds(self, worker: Worker, lease: Lease) -> bool:
        record = self._running.get(lease.job)
        return record is not None and record.token == lease.token and record.worker == worker.id

    def _forgotten(self, worker: Worker, shown: set[Lease]) -> list[Lease]:
        return [
            lease
            for job, record in self._running.items()
            if record.worker == worker.id
            and (record.leased_at or 0.0) + worker.lease < self._now
            and (lease := Lease(job, record.token)) not in shown
        ]

    def _join(self, worker: Worker, now: float, joined: float) -> None:
        self._workers[worker.id] = (worker, now, joined)
        if worker.region not in self._regions:
            self._regions[worker.region] = None
            self._change()

    def _keep(self, worker: Worker) -> None:
        """A worker that claims is alive, even before its first beat or after a pause."""
        if not self._live(worker.id):
            self._join(worker, self._now, self._now)

    def _live(self, worker: str | None) -> bool:
        known = self._workers.get(worker or "")
        return known is not None and known[1] + known[0].lease > self._now

    async def leave(self, worker: Worker) -> None:
        with self._lock:
            self._tick()
            self._workers.pop(worker.id, None)
            self._pass_on(self._bells.forget(worker.id))

    async def seize(self, limit: int, worker: Worker) -> list[Claim]:
        with self._lock:
            self._tick()
            self._keep(worker)
            for dead in self._bells.dead():
                self._pass_on(self._bells.forget(dead))
            lost = [r for r in self._running.values() if not self._live(r.worker)]
            lost.sort(key=lambda record: (record.started_at, record.sequence))
            claims = []
            for record in lost[:limit]:
                before = self._claim_of(record)
                claim = self._lease(record, worker)
                claims.append(replace(before, token=claim.token))
                self._release(record)
                # The attempt stays that of the worker that lost it.
                record.worker_region = before.worker_region
            return claims

    async def promote(self, limit: int) -> int:
        with self._lock:
            now = self._tick()
            late = [
                r
                for r in self._jobs.values()
                if r.status == "pending"
                and r.token == 0
                and r.expires_at is not None
                and r.expires_at <= now
            ]
            for record in late[:limit]:
                self._cancel(record, EXPIRED)
            return len(late[:limit])

    async def prune(self, keep_done: float, limit: int) -> int:
        with self._lock:
            before = self._tick() - keep_done
            old = [
                r
                for r in self._jobs.values()
                if r.status in ("done", "cancelled") and (r.ended_at or 0.0) < before
            ]
            for record in old[:limit]:
                del self._jobs[record.new.id]
            return len(old[:limit])

    async def wait(self, worker: Worker, seconds: float) -> None:
        await self._bells.wait(worker.id, seconds)

    def _change(self) -> None:
        """Facts changed: plans made before are refused, and every sleeper makes a new one."""
        self._epoch += 1
        self._bells.ring_all()

    async def facts(self) -> Facts:
        with self._lock:
            self._tick()
            return self._facts()

    def _facts(self) -> Facts:
        live = {w.region for w, *_ in self._workers.values() if self._live(w.id)}
        regions = tuple(Region(name, live=name in live) for name in sorted(self._regions))
        return Facts(self._epoch, dict(self._queues), regions, frozenset(self._paused))

    async def configure(self, queue: str, settings: QueueSettings) -> None:
        with self._lock:
            if self._queues.get(queue) != settings:
                self._queues[queue] = settings
                self._change()

    async def pause(self, queue: str, *, paused: bool) -> None:
        with self._lock:
            if (queue in self._paused) != paused:
                (self._paused.add if paused else self._paused.discard)(queue)
                self._change()

    async def get(self, job: str) -> Job | None:
        with self._lock:
            record = self._jobs.get(job)
            return None if record is None else view(record)

    async def history(self, job: str) -> list[Attempt]:
        with self._lock:
            record = self._jobs.get(job)
            return [] if record is None else list(record.history)

    async def page(self, selection: Selection, limit: int, after: str | None = None) -> Page:
        with self._lock:
            below = self._places + 1 if after is None else place_after(after)
            found = [r for r in self._jobs.values() if r.place < below and matches(selection, r)]
            found.sort(key=lambda record: -record.place)
            more = len(found) > limit
            jobs = [view(record) for record in found[:limit]]
            return Page(jobs, str(found[limit - 1].place) if more else None)

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
                for due, sequence, record in self._lanes[lane]
            )
            return min(ready, limit)

    async def ahead(self, job: str) -> int:
        with self._lock:
            record = self._jobs.get(job)
            if record is None:
                raise UnknownJobError(f"no job {job!r} is stored")
            return sum(
                r.status == "pending"
                and r.lane == record.lane
                and (r.due, r.sequence) < (record.due, record.sequence)
                for r in self._jobs.values()
            )

    async def replay(self, jobs: Sequence[str]) -> list[bool]:
        with self._lock:
            self._tick()
            return [self._replay(record) for record in self._found(jobs)]

    def _replay(self, record: Record | None) -> bool:
        if record is None or record.status != "failed":
            return False
        new = record.new
        if new.unique_key is not None:
            if (new.queue, new.unique_key) in self._unique:
                return False  # another job has the key now
            self._unique[new.queue, new.unique_key] = new.id
        record.retry_count = record.snoozes = 0
        record.replay += 1
        record.ended_at = None
        self._put(record, new.lane, 0.0)
        return True

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        with self._lock:
            self._tick()
            return [self._cancel(record, reason) for record in self._found(jobs)]

    def _cancel(self, record: Record | None, reason: str) -> bool:
        if record is None or record.status in ENDED:
            return False
        record.token += 1
        record.cancel_reason = reason
        self._running.pop(record.new.id, None)
        if record.held:
            record.held = False
            self._held[record.key or ""].remove(record)
        self._end(record, "cancelled")
        self._release(record)
        return True

    async def adopt(self, jobs: Sequence[tuple[Job, Sequence[Attempt]]]) -> list[bool]:
        check_batch(len(jobs))
        with self._lock:
            self._tick()
            return [self._adopt(job, history) for job, history in jobs]

    def _adopt(self, job: Job, history: Sequence[Attempt]) -> bool:
        key = None if job.unique_key is None else (job.queue, job.unique_key)
        if job.id in self._jobs or (job.status != "failed" and key in self._unique):
            return False
        new = NewJob(
            job.id,
            job.queue,
            job.task,
            job.body,
            job.region,
            job.priority,
            unique_key=job.unique_key,
            concurrency_key=job.concurrency_key,
            concurrency_limit=job.concurrency_limit,
        )
        record = self._jobs[job.id] = Record(new, self._place(), job.created_at)
        record.expires_at, record.token, record.committed = job.expires_at, job.token, job.token
        record.retry_count, record.replay, record.snoozes = job.retry_count, job.replay, job.snoozes
        record.started_at, record.last_retry_at = job.started_at, job.last_retry_at
        record.history = list(history)
        if job.status == "failed":
            record.status, record.ended_at = "failed", job.ended_at
            record.lane, record.due = job.lane, job.due
            return True
        if key is not None:
            self._unique[key] = job.id
        self._put(record, job.lane, job.due - self._now)
        return True

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        with self._lock:
            return [self._purge(record) for record in self._found(jobs)]

    def _purge(self, record: Record | None) -> bool:
        if record is None or record.status not in ENDED:
            return False
        del self._jobs[record.new.id]
        return True

    def _found(self, jobs: Sequence[str]) -> Iterator[Record | None]:
        check_batch(len(jobs))
        return (self._jobs.get(job) for job in jobs)

    def _tick(self) -> float:
        """Read the clock once per operation: an operation happens at one instant."""
        self._now = rounded(self._clock())
        return self._now
