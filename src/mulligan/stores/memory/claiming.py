"""Claiming and committing: who holds which job, and what becomes of it."""

from collections.abc import Iterable, Sequence
from heapq import heappop
from math import inf

from msgspec.structs import replace

from mulligan.core.answers import Beat, Claimed
from mulligan.core.job import EXPIRED, Attempt, Claim, Lease
from mulligan.core.lane import Lane
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Keyed,
    Later,
    Outcome,
    Returned,
    Verdict,
)
from mulligan.core.plan import Cap, ClaimPlan, Limit, Source
from mulligan.core.settings import HISTORY_LIMIT, check_batch
from mulligan.core.walk import walk
from mulligan.core.worker import Worker
from mulligan.stores.memory.operating import Operating
from mulligan.stores.memory.record import Record


class Claiming(Operating):
    """The part of the store that workers talk to."""

    async def claim(self, plan: ClaimPlan, worker: Worker) -> Claimed:
        check_batch(plan.demand)
        with self._lock:
            now = self._tick()
            self._keep(worker)
            if plan.epoch != self._epoch:
                return Claimed([], stale=True)
            self._claimer = worker
            walked = walk(plan, self, now, self._lanes.keys())
            if len(walked.taken) < plan.demand:
                until = now + walked.again_in if walked.again_in is not None else inf
                self._bells.expect(worker.id, plan, until)
            else:
                self._bells.forget(worker.id)
                if self._bells.someone_sleeps:
                    self._pass_on(plan.lanes)
            return Claimed(walked.taken, walked.left, walked.again_in)

    def _pass_on(self, lanes: Iterable[Lane]) -> None:
        """What stands in these lanes is for another sleeper now."""
        for lane in lanes:
            first = self.head(lane) if lane in self._lanes else None
            if first is not None:
                self._bells.ring_for(lane, first[0])

    def head(self, lane: Lane) -> tuple[float, int] | None:
        heap = self._lanes.get(lane)
        if heap is None:
            return None
        while heap:
            due, sequence, record = heap[0]
            if record.status == "pending" and record.sequence == sequence and not record.held:
                return due, sequence
            heappop(heap)  # cancelled, or moved since
        del self._lanes[lane]
        return None

    def take(self, lane: Lane, gates: tuple[Limit, ...]) -> Claim | None:
        record = heappop(self._lanes[lane])[2]
        if record.has_expired(self._now):
            record.cancel_reason = EXPIRED
            self._end(record, "cancelled")
            self._release(record, record.key)
            self._miss(record, "cancelled")
            return None
        key = record.key
        if key is not None:
            if self._gates.held(key) >= record.new.concurrency_limit:
                record.held = True
                self._held[key].append(record)
                return None
            self._charge(key, record)
        for gate in gates:
            if isinstance(gate, Cap):
                self._charge(gate.key, record)
            else:
                self._gates.count(gate, self._now)
        if record.retry_count:
            record.last_retry_at = self._now
        record.started_at = self._now
        return self._lease(record, self._claimer)

    def waits(self, source: Source) -> float:
        if source.yields and not self._bells.sooner(source, self._claimer.id):
            return 0.0
        return source.waited

    def room(self, gate: Limit) -> int:
        return self._gates.room(gate, self._now)

    def reopens_in(self, gate: Limit) -> float | None:
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
            record.trail,
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
        key = record.key  # a key that it only now comes under had no permit to free
        self._write(record, outcome)
        self._release(record, key)
        return "written"

    def _write(self, record: Record, outcome: Outcome) -> None:
        match outcome:
            case Done(_, result, following):
                record.result = result
                self._end(record, "done")
                self._arrive(record)
                for job in following:
                    self._add(job)
            case Again(_, lane, delay, failure, trail, free):
                self._remember(record, failure)
                record.retry_count += not free
                record.snoozes += free
                record.trail = trail
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
                self._watch(record)
                self._stand(record)
            case Keyed(_, key, limit, trail):
                record.new = replace(record.new, concurrency_key=key, concurrency_limit=limit)
                record.trail = trail
                self._watch(record)
                self._stand(record)
            case Cancelled(_, reason):
                record.cancel_reason = reason
                self._end(record, "cancelled")
                self._miss(record, "cancelled")

    def _remember(self, record: Record, failure: Attempt) -> None:
        record.history.append(replace(failure, ended_at=self._now))
        del record.history[:-HISTORY_LIMIT]

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        with self._lock:
            now = self._tick()
            joined = self._workers[worker.id][2] if worker.id in self._workers else now
            self._join(worker, now, joined)
            lost = [lease for lease in holding if not self._holds(worker, lease)]
            unknown = self._unknown_to(worker, set(holding))
            forgotten = [record.lease for record in unknown if not record.reclaimed]
            reclaimed = [self._claim_of(record) for record in unknown if record.reclaimed]
            return Beat(lost, self._facts(), forgotten, reclaimed)

    def _holds(self, worker: Worker, lease: Lease) -> bool:
        record = self._running.get(lease.job)
        return record is not None and record.token == lease.token and record.worker == worker.id

    def _unknown_to(self, worker: Worker, shown: set[Lease]) -> list[Record]:
        """What the worker holds for longer than a lease time and does not show."""
        return [
            record
            for record in self._running.values()
            if record.worker == worker.id
            and (record.leased_at or 0.0) + worker.lease < self._now
            and record.lease not in shown
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

    async def leave(self, worker: Worker) -> None:
        with self._lock:
            self._tick()
            self._workers.pop(worker.id, None)
            self._pass_on(self._bells.forget(worker.id))

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
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
                self._release(record, record.key)
                # The attempt stays that of the worker that lost it.
                record.worker_region = before.worker_region
            return claims

    async def wait(self, worker: Worker, seconds: float) -> None:
        await self._bells.wait(worker.id, seconds)
