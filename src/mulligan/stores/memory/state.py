"""The data of the store and the moves that jobs make: into lanes, out of them, to their end."""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from heapq import heappush
from typing import TYPE_CHECKING

from mulligan.core.durations import rounded
from mulligan.core.job import ENDED, Enqueued, NewJob, Status, never_arrives
from mulligan.core.lane import Lane
from mulligan.core.worker import Worker
from mulligan.stores.memory.bells import Bells
from mulligan.stores.memory.counts import Counted
from mulligan.stores.memory.limits import Limits
from mulligan.stores.memory.record import Record

if TYPE_CHECKING:
    from mulligan.core.facts import QueueSettings


class State:
    """All state in this process; `clock` may be injected. Threads may share one store."""

    def __init__(self, url: str = "memory://", clock: Callable[[], float] = time.time) -> None:
        self.url = url
        self._clock = clock
        self._lock = threading.RLock()
        self._jobs: dict[str, Record] = {}
        self._unique: dict[tuple[str, str], str] = {}
        self._lanes: dict[Lane, list[tuple[float, int, Record]]] = defaultdict(list)
        self._held: dict[str, list[Record]] = defaultdict(list)
        self._expiring: list[tuple[float, int, Record]] = []
        self._past: deque[tuple[float, Record]] = deque()
        self._notes: dict[str, tuple[bytes, float]] = {}
        self._note_keys: list[str] = []  # in order
        self._counted = Counted()
        self._gates = Limits()
        self._bells = Bells(self._lock, self._live)
        self._running: dict[str, Record] = {}
        self._workers: dict[str, tuple[Worker, float, float]] = {}
        self._regions: dict[str, None] = {}
        self._queues: dict[str, QueueSettings] = {}
        self._paused: set[str] = set()
        self._epoch = 0
        self._sequence = 0
        self._now = 0.0
        self._claimer = Worker("")

    def _add(self, new: NewJob) -> Enqueued:
        if new.id in self._jobs:
            return Enqueued(new.id, created=False)
        if new.unique_key is not None:
            first = self._unique.get((new.key_queue, new.unique_key))
            if first is not None:
                return Enqueued(first, created=False)
            self._unique[new.key_queue, new.unique_key] = new.id
        record = self._jobs[new.id] = Record(new, self._next_sequence(), self._now)
        self._watch(record)
        if not record.awaits:
            self._put(record, new.lane, new.delay)
        return Enqueued(new.id, created=True)

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def _watch(self, record: Record) -> None:
        """End the job when it expires, unless it has started by then."""
        if record.expires_at is not None:
            heappush(self._expiring, (record.expires_at, self._next_sequence(), record))

    def _put(self, record: Record, lane: Lane, delay: float) -> None:
        """Let the job join a lane, due after the delay."""
        record.sequence = self._next_sequence()
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

    def _end(self, record: Record, status: Status) -> None:
        record.status = status
        record.ended_at = self._now
        record.worker = None
        new = record.new
        self._past.append((self._now, record))
        key = None if new.unique_key is None else (new.key_queue, new.unique_key)
        if key is not None and self._unique.get(key) == new.id:
            del self._unique[key]

    def _arrive(self, record: Record) -> None:
        """A job is done: the one that awaits it has its result, and after the last may start."""
        gathering = self._jobs.get(record.new.gather or "")
        place = record.new.gather_index
        if gathering is None or gathering.status in ENDED or not gathering.awaits:
            return
        if place not in gathering.arrived:
            gathering.arrived[place] = record.result
            gathering.awaits -= 1
            if not gathering.awaits:
                self._put(gathering, gathering.new.lane, 0.0)

    def _release(self, record: Record, held: str | None) -> None:
        """Free the job's permits, and let go of one held job per lane for the key that it held."""
        for key in record.permits:
            self._gates.free(key, record.new.id)
            self._bells.ring_gate(key)
        record.permits.clear()
        if held is not None:
            self._let_go(held)

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
        if not record.awaits:  # what awaits others has no room to leave
            self._release(record, record.key)
        self._miss(record, "cancelled")
        return True

    def _miss(self, record: Record, how: str) -> None:
        """A job that will never arrive cancels the one that awaits it."""
        gathering = self._jobs.get(record.new.gather or "")
        if gathering is not None and gathering.awaits:
            self._cancel(gathering, never_arrives(record.new.id, how))

    def _live(self, worker: str | None) -> bool:
        known = self._workers.get(worker or "")
        return known is not None and known[1] + known[0].lease > self._now

    def _tick(self) -> float:
        """Read the clock once per operation: an operation happens at one instant."""
        self._now = rounded(self._clock())
        return self._now
