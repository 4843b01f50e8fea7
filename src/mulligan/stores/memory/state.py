"""The data of the store. Operations change it under its lock, each at one instant."""

import threading
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable
from heapq import heappop
from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.checks import rounded
from mulligan.core.lane import Lane
from mulligan.core.worker import Worker
from mulligan.stores.memory.counts import Counters
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.limits import Limits
from mulligan.stores.memory.lines import Lines
from mulligan.stores.memory.wakeup import Sleepers
from mulligan.stores.watches import Watches

if TYPE_CHECKING:
    from mulligan.core.facts import QueueSettings


class Presence(NamedTuple):
    """A worker, when it last beat, and since when the store knows it."""

    worker: Worker
    beat_at: float
    joined_at: float


class Lanes:
    """The pending jobs of each lane in the order of (due, sequence).

    A job that is cancelled or moved stays in its heap until it is the first there.
    """

    def __init__(self) -> None:
        self.heaps: dict[Lane, list[tuple[float, int, StoredJob]]] = defaultdict(list)

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """(due, sequence) of the first job in the lane, due or not."""
        heap = self.heaps.get(lane)
        if heap is None:
            return None
        while heap:
            due, sequence, stored = heap[0]
            if stored.status == "pending" and stored.sequence == sequence:
                return due, sequence
            heappop(heap)
        del self.heaps[lane]
        return None

    def pop(self, lane: Lane) -> StoredJob:
        """Take out the job whose `head` was asked for last."""
        return heappop(self.heaps[lane])[2]


class State:
    """All data of one store; threads may share it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.now = 0.0
        self.lock = threading.RLock()
        self.sequence = 0
        self.jobs: dict[str, StoredJob] = {}
        self.unique: dict[tuple[str, str], str] = {}
        self.lanes = Lanes()
        self.limits = Limits()
        self.running: dict[str, StoredJob] = {}
        self.expiring: list[tuple[float, int, StoredJob]] = []
        self.ended: deque[tuple[float, StoredJob]] = deque()
        # Those that say themselves how long they are kept: until when, and when they ended.
        self.kept: list[tuple[float, int, float, StoredJob]] = []
        self.workers: dict[str, Presence] = {}
        self.sleepers = Sleepers(self.lock, self.is_live)
        self.watches: Watches[str] = Watches()
        self.lines = Lines(self.limits, self.sleepers)
        self.counters = Counters()
        self.notes: dict[str, tuple[bytes, float]] = {}
        self.note_keys: list[str] = []  # in order
        self.schedules: dict[str, bytes] = {}
        self.regions: dict[str, None] = {}
        self.queues: dict[str, QueueSettings] = {}
        self.paused: set[str] = set()
        self.epoch = 0
        self._read = -1.0

    def tick(self) -> float:
        """Read the clock, once per operation."""
        read = self.clock()
        if read != self._read:  # a virtual clock often stands still, and rounding is slow
            self._read = read
            self.now = self.lines.now = rounded(read)
        self.lines.forget_emptied()
        return self.now

    def next_sequence(self) -> int:
        """A number that is higher than all before it."""
        self.sequence += 1
        return self.sequence

    def note(self, key: str, value: bytes | None, keep: float) -> None:
        """Keep a value under the key for so many seconds; None forgets it."""
        if self.notes.pop(key, None) is not None:
            del self.note_keys[bisect_left(self.note_keys, key)]
        if value is not None:
            insort(self.note_keys, key)
            self.notes[key] = (value, self.now + keep)

    def change_facts(self) -> None:
        """Facts changed: plans made before are refused, and every sleeper makes a new one."""
        self.epoch += 1
        self.sleepers.wake_all()

    def is_live(self, worker: str | None) -> bool:
        """Whether the worker's lease has not run out."""
        known = self.workers.get(worker or "")
        return known is not None and known.beat_at + known.worker.lease > self.now
