"""Operating the store: facts, settings, counts, and jobs that are ended, revived or moved."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from heapq import heappop
from itertools import islice, takewhile

from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.health import Breaker, Health, changes_plans
from mulligan.core.job import ENDED, EXPIRED, Adopted, NewJob, adopted_token
from mulligan.core.settings import check_batch
from mulligan.stores.memory.record import Record
from mulligan.stores.memory.state import State


class Operating(State):
    """The part of the store that changes it from outside a lease."""

    async def promote(self, limit: int) -> int:
        with self._lock:
            now = self._tick()
            ended = 0
            while self._expiring and self._expiring[0][0] <= now and ended < limit:
                record = heappop(self._expiring)[2]
                if record.status == "pending" and record.has_expired(now):
                    ended += self._cancel(record, EXPIRED)
            return ended

    async def prune(self, keep_done: float, limit: int) -> int:
        with self._lock:
            now = self._tick()
            self._counted.forget(now)
            for key in [key for key, (_, until) in self._notes.items() if until <= now]:
                self._forget(key)
            pruned = 0
            while self._past and self._past[0][0] < now - keep_done and pruned < limit:
                ended_at, record = self._past.popleft()
                is_old = record.status in ("done", "cancelled") and record.ended_at == ended_at
                if is_old and self._jobs.get(record.new.id) is record:
                    del self._jobs[record.new.id]
                    pruned += 1
            return pruned

    def _change(self) -> None:
        """Facts changed: plans made before are refused, and every sleeper makes a new one."""
        self._epoch += 1
        self._bells.ring_all()

    async def facts(self) -> Facts:
        with self._lock:
            self._tick()
            return self._facts()

    def _facts(self) -> Facts:
        serves: dict[str, set[str]] = {name: set() for name in self._regions}
        for worker, beat_at, _ in self._workers.values():
            if beat_at + worker.lease > self._now:
                serves[worker.region].update(worker.queues)
        regions = tuple([Region(name, frozenset(serves[name])) for name in sorted(serves)])
        known = self._counted.places(self._now)
        health = {place: self._counted.health(*place, self._now) for place in known}
        return Facts(
            self._epoch, dict(self._queues), regions, frozenset(self._paused), health, self._now
        )

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

    async def count(self, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
        with self._lock:
            now = self._tick()
            self._counted.add(counts, now)
            places = {(count.queue, count.region) for count in counts}
            return {place: self._counted.health(*place, now) for place in places}

    async def counts(self) -> Counts:
        with self._lock:
            return self._counted.counts(self._tick())

    async def switch(self, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
        with self._lock:
            done = self._counted.switch((queue, region), before, after, self._tick())
            if done and changes_plans(before, after):
                self._change()
            return done

    async def note(self, key: str, value: bytes | None, keep: float) -> None:
        with self._lock:
            if value is None:
                self._forget(key)
            else:
                if key not in self._notes:
                    insort(self._note_keys, key)
                self._notes[key] = (value, self._tick() + keep)

    async def notes(self, prefix: str) -> dict[str, bytes]:
        with self._lock:
            now = self._tick()
            first = islice(self._note_keys, bisect_left(self._note_keys, prefix), None)
            found = takewhile(lambda key: key.startswith(prefix), first)
            return {key: self._notes[key][0] for key in found if self._notes[key][1] > now}

    def _forget(self, key: str) -> None:
        if self._notes.pop(key, None) is not None:
            del self._note_keys[bisect_left(self._note_keys, key)]

    async def replay(self, jobs: Sequence[str]) -> list[bool]:
        with self._lock:
            self._tick()
            return [self._replay(record) for record in self._found(jobs)]

    def _replay(self, record: Record | None) -> bool:
        if record is None or record.status != "failed":
            return False
        new = record.new
        if new.unique_key is not None:
            if (new.key_queue, new.unique_key) in self._unique:
                return False  # another job has the key now
            self._unique[new.key_queue, new.unique_key] = new.id
        record.retry_count = record.snoozes = 0
        record.replay += 1
        record.trail = ""
        record.ended_at = None
        self._put(record, new.lane, 0.0)
        return True

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        with self._lock:
            self._tick()
            return [self._cancel(record, reason) for record in self._found(jobs)]

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        check_batch(len(jobs))
        with self._lock:
            self._tick()
            return [self._adopt(each) for each in jobs]

    def _adopt(self, adopted: Adopted) -> bool:
        job = adopted.job
        key = None if job.unique_key is None else (job.unique_in or job.queue, job.unique_key)
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
            unique_in=job.unique_in,
            awaits=job.awaits,
            gather=job.gather,
            gather_index=job.gather_index,
        )
        record = self._jobs[job.id] = Record(new, self._next_sequence(), job.created_at)
        record.expires_at, record.token = job.expires_at, adopted_token(record.place, job.token)
        record.retry_count, record.replay, record.snoozes = job.retry_count, job.replay, job.snoozes
        record.started_at, record.last_retry_at = job.started_at, job.last_retry_at
        record.history, record.trail = list(adopted.history), job.trail
        record.arrived = dict(adopted.arrived)
        self._watch(record)
        if job.status == "failed":
            record.status, record.ended_at = "failed", job.ended_at
            record.lane, record.due = job.lane, job.due
            return True
        if key is not None:
            self._unique[key] = job.id
        if not record.awaits:
            self._put(record, job.lane, job.due - self._now)
        return True

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        with self._lock:
            self._tick()
            return [self._purge(record) for record in self._found(jobs)]

    def _purge(self, record: Record | None) -> bool:
        if record is None or record.status not in ENDED:
            return False
        del self._jobs[record.new.id]
        if record.status == "failed":
            self._miss(record, "purged")
        return True

    def _found(self, jobs: Sequence[str]) -> Iterator[Record | None]:
        check_batch(len(jobs))
        return (self._jobs.get(job) for job in jobs)
