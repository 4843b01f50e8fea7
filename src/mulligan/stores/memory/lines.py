"""The lines of lanes, by stage, in heaps; entries that are no longer true are dropped lazily."""

from collections import defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from mulligan.core.lane import Lane
from mulligan.core.limits import costs_of
from mulligan.core.lines import NO_KEY, TURN, First, Key, Line, LineName
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.limits import Limits

if TYPE_CHECKING:
    from mulligan.stores.memory.wakeup import Sleepers

Members = list[tuple[float, int, StoredJob]]
# Of a heap of lines: numbers tell entries of one line from each other.
LineEntry = tuple[float, int, int, Line]


class LaneLines:
    """The lines of one lane."""

    def __init__(self) -> None:
        self.lines: dict[LineName, Line] = {}
        self.later: list[LineEntry] = []
        self.ready: dict[str, list[LineEntry]] = defaultdict(list)
        self.alarms: list[tuple[float, str]] = []
        self.keys: dict[str, Key] = {}
        self.turns: list[tuple[int, tuple[float, int], str]] = []
        self.idle: list[tuple[int, str]] = []
        self.present = 0
        self.keyed = 0


class Lines:
    """All lines: what `core.lines` calls the book."""

    def __init__(self, limits: Limits, sleepers: "Sleepers") -> None:
        self.now = 0.0
        self.members: dict[LineName, Members] = defaultdict(list)
        self.lanes: dict[Lane, LaneLines] = {}
        self._emptied: set[Lane] = set()
        self._numbers = count()
        self._limits = limits
        self.sleepers = sleepers
        self._waiting: dict[str, dict[Lane, list[tuple[tuple[int, float, int], int, Line]]]] = {}
        self._alarms: dict[tuple[str, Lane], float] = {}

    # -- jobs ------------------------------------------------------------------------------------

    def add(self, name: LineName, stored: StoredJob) -> None:
        """The job stands in this line."""
        heappush(self.members[name], (stored.due, stored.sequence, stored))

    def first_record(self, name: LineName) -> StoredJob | None:
        """The first job of a line."""
        members = self.members.get(name)
        while members:
            due, sequence, stored = members[0]
            if stored.status == "pending" and (stored.due, stored.sequence) == (due, sequence):
                return stored
            heappop(members)
        self.members.pop(name, None)
        return None

    def first(self, name: LineName) -> StoredJob:
        """The first job of a line that has one."""
        stored = self.first_record(name)
        if stored is None:
            raise AssertionError(f"line {name} has no job")
        return stored

    def pop(self, name: LineName) -> StoredJob:
        """Take the first job out of a line that has one."""
        stored = self.first(name)
        heappop(self.members[name])
        return stored

    def first_of(self, name: LineName) -> First | None:
        """What the line needs to know of its first job."""
        stored = self.first_record(name)
        if stored is None:
            return None
        return First(stored.due, stored.sequence, costs_of(stored.limits))

    def jobs_of(self, name: LineName) -> int:
        """How many jobs stand in the line."""
        return sum(
            stored.status == "pending" and (stored.due, stored.sequence) == (due, sequence)
            for due, sequence, stored in self.members.get(name, ())
        )

    def waiting_jobs(self) -> dict[str, int]:
        """How many jobs stand in the lines that wait at each limit."""
        waiting: dict[str, int] = defaultdict(int)
        for lane in self.lanes.values():
            for line in lane.lines.values():
                if line.at is not None:
                    waiting[line.at] += self.jobs_of(line.name)
        return waiting

    def jobs_by_key(self, queue: str) -> dict[tuple[Lane, str], int]:
        """How many jobs of each fairness key stand in lines of the queue."""
        jobs: dict[tuple[Lane, str], int] = defaultdict(int)
        for lane, known in self.lanes.items():
            for name in known.lines if lane.queue == queue else ():
                if name.key != NO_KEY:
                    jobs[lane, name.key] += self.jobs_of(name)
        return jobs

    def turns_behind(self, lane: Lane, key: str) -> float:
        """How many turns of weight 1 come before that of the key."""
        return max(0, self.key(lane, key).turn - self.present_turn(lane)) / TURN

    # -- lines -----------------------------------------------------------------------------------

    def line(self, name: LineName) -> Line | None:
        """The line, if it has jobs."""
        lane = self.lanes.get(name.lane)
        return None if lane is None else lane.lines.get(name)

    def lift(self, line: Line) -> None:
        """Nothing to do: an entry that a line does not agree with is no entry."""
        line.stage, line.at = "lifted", None

    def put(self, line: Line) -> None:
        """Keep the line as it is now."""
        lane = self.lanes.get(line.lane)
        if lane is None:
            lane = self.lanes[line.lane] = LaneLines()
        if line.name not in lane.lines:
            lane.lines[line.name] = line
            lane.keyed += line.name.key != NO_KEY
        if line.stage == "later":
            heappush(lane.later, (line.due, line.sequence, next(self._numbers), line))
        elif line.stage == "ready":
            heap = lane.ready[line.name.key]
            heappush(heap, (line.due, line.sequence, next(self._numbers), line))
        elif line.at is not None:
            at = self._waiting.setdefault(line.at, {}).setdefault(line.lane, [])
            heappush(at, (line.order, next(self._numbers), line))

    def drop(self, line: Line) -> None:
        """Forget a line that has no jobs any more; the last one with a key ends the turns."""
        line.stage, line.at = "lifted", None
        lane = self.lanes[line.lane]
        del lane.lines[line.name]
        if not lane.lines:
            self._emptied.add(line.lane)
        if line.name.key != NO_KEY:
            lane.keyed -= 1
            if not lane.keyed:
                lane.present = 0
                lane.idle.clear()
                lane.turns.clear()
                lane.keys = {name: key for name, key in lane.keys.items() if name == NO_KEY}
                for key in list(lane.keys.values()):
                    key.turn = 0
                    self.put_key(key)

    def forget_emptied(self) -> None:
        """Forget the lanes that have no lines any more."""
        for lane in self._emptied:
            if not self.lanes[lane].lines:
                del self.lanes[lane]
        self._emptied.clear()

    def first_later(self, lane: Lane) -> Line | None:
        """Of the lines whose first job is not due, the one that is due first."""
        return first_of_heap(self.lanes[lane].later, "later")

    def first_ready(self, lane: Lane, key: str) -> Line | None:
        """Of the ready lines of the key the first by (due, sequence)."""
        heap = self.lanes[lane].ready
        line = first_of_heap(heap[key], "ready")
        if line is None:
            del heap[key]
        return line

    def first_waiting(self, limit: str, lane: Lane) -> Line | None:
        """Of the lines of the lane that wait at the limit, the first in order."""
        lanes = self._waiting.get(limit, {})
        heap = lanes.get(lane)
        while heap:
            order, _, line = heap[0]
            if line.at == limit and line.stage == "waiting" and line.order == order:
                return line
            heappop(heap)
        if heap is not None:
            del lanes[lane]
            if not lanes:
                del self._waiting[limit]
        return None

    # -- limits ----------------------------------------------------------------------------------

    def lanes_at(self, limit: str) -> Iterable[Lane]:
        """The lanes of which a line waits at the limit."""
        return list(self._waiting.get(limit, ()))

    def limits_waited_for(self) -> list[str]:
        """The limits where any line waits."""
        return list(self._waiting)

    def alarm(self, limit: str, lane: Lane, at: float | None) -> None:
        """Look at the limit for this lane again at that time; None: not by itself."""
        if at is None:
            self._alarms.pop((limit, lane), None)
        elif self._alarms.get((limit, lane)) != at:
            self._alarms[limit, lane] = at
            heappush(self.lanes[lane].alarms, (at, limit))

    def next_alarm(self, lane: Lane) -> tuple[float, str] | None:
        """The lane's next alarm: when, and at which limit."""
        alarms = self.lanes[lane].alarms
        while alarms:
            at, limit = alarms[0]
            if self._alarms.get((limit, lane)) == at:
                return at, limit
            heappop(alarms)
        return None

    def room_at(self, limit: str, cost: int) -> float:
        """When the limit has room for the cost."""
        return self._limits.room_at(limit, cost, self.now)

    # -- turns -----------------------------------------------------------------------------------

    def is_fair(self, lane: Lane) -> bool:
        """Whether a line of the lane has a fairness key."""
        return self.lanes[lane].keyed > 0

    def present_turn(self, lane: Lane) -> int:
        """The highest turn in which a job has started, since the lane became fair."""
        return self.lanes[lane].present if lane in self.lanes else 0

    def key(self, lane: Lane, name: str) -> Key:
        """The fairness key; one that the lane does not know has turn 0."""
        known = self.lanes[lane].keys.get(name) if lane in self.lanes else None
        return Key(lane, name) if known is None else known

    def put_key(self, key: Key) -> None:
        """Keep the key as it is now."""
        lane = self.lanes[key.lane]
        lane.keys[key.name] = key
        if key.ready is not None:
            heappush(lane.turns, (key.turn, key.ready, key.name))
        elif key.turn > lane.present:
            heappush(lane.idle, (key.turn, key.name))
        else:
            del lane.keys[key.name]

    def first_key(self, lane: Lane) -> Key | None:
        """Of the keys with a ready line the one with the lowest (turn, due, sequence)."""
        known = self.lanes[lane]
        while known.turns:
            turn, ready, name = known.turns[0]
            key = known.keys.get(name)
            if key is not None and (key.turn, key.ready) == (turn, ready):
                return key
            heappop(known.turns)
        return None

    def pass_to(self, lane: Lane, turn: int) -> None:
        """The lane's present turn is this one; keys of past turns without work are forgotten."""
        known = self.lanes[lane]
        known.present = max(known.present, turn)
        while known.idle and known.idle[0][0] <= known.present:
            _, name = heappop(known.idle)
            key = known.keys.get(name)
            if key is not None and key.ready is None and key.turn <= known.present:
                del known.keys[name]

    def wake(self, lane: Lane, due: float) -> None:
        """Wake a sleeper for a job that could start then."""
        self.sleepers.wake_for_job(lane, due)


def first_of_heap(heap: list[LineEntry], stage: str) -> Line | None:
    """The first line of the heap that is still in this stage."""
    while heap:
        due, sequence, _, line = heap[0]
        if line.stage == stage and (line.due, line.sequence) == (due, sequence):
            return line
        heappop(heap)
    return None
