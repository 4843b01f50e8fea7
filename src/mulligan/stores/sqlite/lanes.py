"""The lanes of a plan as a walk sees them, each read once per claim, in runs of rows."""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache, partial

from mulligan.core.checks import rounded
from mulligan.core.job import Claim
from mulligan.core.lane import Lane
from mulligan.core.limits import FOREVER
from mulligan.core.lines import (
    NO_KEY,
    Line,
    advance,
    due_of,
    first_line,
    go_on,
    lacks,
    next_at,
    next_line,
    set_aside,
)
from mulligan.core.plan import ClaimPlan, Group, Limit, Source
from mulligan.core.worker import Worker
from mulligan.stores.rules.end import expire, tell_expired
from mulligan.stores.sqlite.fields import CLAIMED, CLAIMED_LIST, WALKED, Row, as_json, claims_of
from mulligan.stores.sqlite.limits import Limits
from mulligan.stores.sqlite.lines import LineBook, lined_lanes, text_of
from mulligan.stores.sqlite.rows import apply
from mulligan.stores.sqlite.runs import Bounds, of_keys, of_line, take_turns
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("lanes", claimed=CLAIMED_LIST)
_HEADS = SQL["heads"]
_ROWS = SQL["rows"]
_ROW_IN_LINE = SQL["row_in_line"]
_LEASE = SQL["lease"]
_TAKE = SQL["take"]
_SOONER = SQL["sooner"]
_LEASE_IN_LINES = SQL["lease_in_lines"]
_LEAVE_LINES = SQL["leave_lines"]

DUE, SEQUENCE, NUMBER, SPECIAL = range(len(WALKED))
ID = len(WALKED) + CLAIMED.index("id")
# Rows compare by (due, sequence).
BEFORE_ALL: tuple[float, int] = (float("-inf"), 0)
NO_LANES: frozenset[Lane] = frozenset()
NO_WEIGHTS: Mapping[str, float] = {}


class LaneRows:
    """One lane: when its first job is due, and the rows that have been read of it."""

    __slots__ = ("complete", "head", "lane", "last", "loaded", "plain", "position", "rows")

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.head: float | None = None
        self.loaded = False
        self.complete = False
        self.rows: list[Row] = []
        self.position = 0
        self.plain = 0
        self.last = BEFORE_ALL

    @property
    def is_empty(self) -> bool:
        """Whether no job stands in the lane, as far as has been looked."""
        read = self.position == len(self.rows) and (self.complete or not self.loaded)
        return read and self.head is None

    def find_special(self) -> None:
        """Note where the first row stands, from here on, that may expire."""
        rows = self.rows
        self.plain = next(
            (i for i in range(self.position, len(rows)) if rows[i][SPECIAL] is not None), len(rows)
        )


class Lanes:
    """What `walk` asks of lanes and limits, answered from the database.

    What is taken is leased to the worker at once, a run of neighbours in a lane at a time. Lines
    and limits are looked at only if there are any: `has_lines` says whether a lane has lines.
    """

    def __init__(
        self, tx: Transaction, plan: ClaimPlan, worker: Worker, *, has_lines: bool
    ) -> None:
        self._tx = tx
        self._demand = plan.demand
        self._weights = plan.weights
        self._worker = worker
        self._lined = lined_lanes(tx) if has_lines else NO_LANES
        self._limits: Limits | None = None
        self.number = 0
        self._taken: list[tuple[Lane, list[Row]]] = []
        self._expired: list[str] = []
        self._sooner: dict[Source, bool] = {}
        names, text = lanes_of(plan.groups)
        self._lanes = {lane: LaneRows(lane) for lane in names}
        self._find_heads(list(self._lanes.values()), text)
        for lane in self._lined & self._lanes.keys():
            advance(self._book, lane)

    @cached_property
    def _book(self) -> LineBook:
        return LineBook(self._tx)

    @property
    def limits(self) -> Limits:
        """The limits of the plan."""
        if self._limits is None:
            self._limits = Limits(self._tx)
        return self._limits

    def settle(self) -> None:
        """Write what was charged to limits and counted by them."""
        if self._limits is not None:
            self._limits.settle()

    def claims(self) -> list[Claim]:
        """What was taken, as claims of the worker."""
        claims: list[Claim] = []
        for lane, rows in self._taken:
            claims += claims_of(lane, rows, self._worker, self._tx.now)
        return claims

    def _find_heads(self, lanes: list[LaneRows], text: str) -> None:
        for index, due in self._tx.db.execute(_HEADS, (text,)):
            lanes[index].head = due

    def first(self, lane: Lane, waited: float = 0.0) -> Row | None:
        """The first row of the lane, if it has been due for that long."""
        line = self.next_line(lane) if lane in self._lined else None
        while line is not None:
            row = self._first_in(line)
            if row is not None and row[:2] == (line.due, line.sequence):
                return row if rounded(row[DUE] + waited) <= self._tx.now else None
            # Another program has changed the jobs of the line: see who is first now.
            go_on(self._book, line)
            line = self.next_line(lane)
        return self._first(lane, waited)

    def _first_in(self, line: Line) -> Row | None:
        """The first row of a line."""
        asked = (*line.lane, text_of(line.name))
        row: Row | None = self._tx.db.execute(_ROW_IN_LINE, asked).fetchone()
        return row

    def next_line(self, lane: Lane) -> Line | None:
        """The line of the lane that is next; None if no line is ready, or the lane itself is."""
        first = self._first(lane)
        return next_line(self._book, lane, None if first is None else (first[DUE], first[SEQUENCE]))

    def before_lines(self, lane: Lane, most: int) -> tuple[int, tuple[float, int] | None]:
        """How many of those that stand in the lane itself go one after the other, and before what.

        Where fairness keys take turns it is one.
        """
        found = first_line(self._book, lane) if lane in self._lined else None
        if found is None:
            return most, None
        key, line = found
        if key.name != NO_KEY or self._book.first_other_key(lane, NO_KEY) is not None:
            return 1, None
        return most, (line.due, line.sequence)

    def _first(self, lane: Lane, waited: float = 0.0) -> Row | None:
        """The first row of those that stand in the lane itself."""
        read = self._lanes[lane]
        if read.position == len(read.rows):
            if read.complete:
                return None
            if not read.loaded and (
                read.head is None or rounded(read.head + waited) > self._tx.now
            ):
                return None
            self._read(read)
            if not read.rows:
                return None
        row = read.rows[read.position]
        return row if rounded(row[DUE] + waited) <= self._tx.now else None

    def _read(self, lane: LaneRows) -> None:
        """Read as many more rows as the claim could still take, and one to see what is left."""
        wanted = self._demand - self.number + 1
        bounds = (*lane.lane, self._tx.now, *lane.last, wanted)
        lane.rows = self._tx.db.execute(_ROWS, bounds).fetchall()
        lane.position = 0
        lane.loaded = True
        lane.head = None
        lane.complete = len(lane.rows) < wanted
        lane.find_special()
        if lane.rows:
            lane.last = lane.rows[-1][:2]

    def waits(self, source: Source) -> float:
        """How long a job must have been due; who sleeps is asked only where a job stands."""
        empty = self._lanes[source.lane].is_empty and source.lane not in self._lined
        if not source.yields or not source.waited or empty:
            return source.waited
        if source not in self._sooner:
            asked = (*source.lane, source.waited, self._tx.claimant, self._tx.now)
            self._sooner[source] = self._tx.db.execute(_SOONER, asked).fetchone() is not None
        return source.waited if self._sooner[source] else 0.0

    def take_plain(self, lane: Lane, most: int, before: Row | None, waited: float) -> list[Row]:
        """Take up to `most` rows that do not expire, and that go before another."""
        read = self._lanes[lane]
        most, bound = self.before_lines(lane, most)
        if bound is not None:
            before = bound if before is None else min(before[:2], bound)
        rows, start = read.rows, read.position
        stop = min(start + most, read.plain)
        if before is not None or waited:
            latest = self._tx.now
            stop = next(
                (
                    i
                    for i in range(start, stop)
                    if rounded(rows[i][DUE] + waited) > latest
                    or (before is not None and rows[i] >= before)
                ),
                stop,
            )
        read.position = stop
        return self._start(lane, rows[start:stop])

    def _start(self, lane: Lane, run: list[Row]) -> list[Row]:
        """Start neighbours that stand in the lane itself."""
        taken = self._lease(lane, run)
        if lane in self._lined:
            self._book.take_turns(lane, NO_KEY, self._weight(lane, NO_KEY), len(run))
        return taken

    def _weight(self, lane: Lane, key: str) -> float:
        return self._weights.get(lane.queue, NO_WEIGHTS).get(key, 1.0)

    def _lease(self, lane: Lane, run: list[Row]) -> list[Row]:
        """Let neighbours in a lane run."""
        ends = (*lane, *run[0][:2], *run[-1][:2])
        worker, now = self._worker, self._tx.now
        self._tx.db.execute(_LEASE, (worker.id, worker.region, now, now, *ends))
        self._tx.db.execute(_TAKE, ends)
        self._taken.append((lane, run))
        self.number += len(run)
        return run

    def take_special(self, lane: Lane, most: int, before: Row | None, waited: float) -> list[Row]:
        """Take the first row, of a line or one that may expire; or set it aside, or end it.

        From lines as many are taken, up to `most`, as would be taken one by one.
        """
        line = self.next_line(lane) if lane in self._lined else None
        if line is not None:
            return self._take_from_line(line, Bounds(most, before, waited, self._first(lane)))
        read = self._lanes[lane]
        row = read.rows[read.position]
        read.position += 1
        read.find_special()
        if row[SPECIAL] <= self._tx.now:
            self._expire(row)
            return []
        return self._start(lane, [row])

    def _take_from_line(self, line: Line, bounds: Bounds) -> list[Row]:
        """Take from a ready line, and others; or set it aside, or end what has expired."""
        lane, key, limits = line.name
        if bounds.most > 1 and not limits:
            turns = of_keys(self._tx, self._book, lane, partial(self._weight, lane), bounds)
            if turns:
                run = self._lease_in_lines(lane, [each.row for each in turns])
                take_turns(self._tx, self._book, lane, turns)
                return run
        row = self._first_in(line)
        if row is None:
            return []
        if 0 <= row[SPECIAL] <= self._tx.now:
            self._expire(row)
            return []
        name = lacks(self._book, line)
        if name is not None:
            set_aside(self._book, line, name)
            return []
        weight = self._weight(lane, key)
        run = self._lease_in_lines(lane, of_line(self._tx, self._book, line, weight, bounds))
        self._book.start(line.costs, len(run))
        self._book.take_turns(lane, key, weight, len(run))
        go_on(self._book, line)
        return run

    def _lease_in_lines(self, lane: Lane, run: list[Row]) -> list[Row]:
        """Let jobs run that stood in lines of the lane."""
        numbers = as_json([row[NUMBER] for row in run])
        worker, now = self._worker, self._tx.now
        self._tx.db.execute(_LEASE_IN_LINES, (worker.id, worker.region, now, now, numbers))
        self._tx.db.execute(_LEAVE_LINES, (numbers,))
        self._taken.append((lane, run))
        self.number += len(run)
        return run

    def tell_awaiting(self) -> None:
        """Tell those that await what was found expired, now that the walk is over."""
        if self._expired:
            apply(self._tx, tell_expired, self._expired)

    def _expire(self, row: Row) -> None:
        """End the job."""
        apply(self._tx, expire, row[ID])
        self._expired.append(row[ID])

    def room(self, limit: Limit) -> int:
        """How many more starts the limit allows now."""
        return self.limits.room(limit)

    def reopens_in(self, limit: Limit) -> float | None:
        """Seconds until a closed limit opens by itself; None for a cap."""
        return self.limits.reopens_in(limit)

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """(due, sequence) of the lane's first job, due or not; exact only for what was read."""
        read = self._lanes[lane]
        if lane in self._lined:
            row = self.first(lane)
            if row is not None:
                return row[DUE], row[SEQUENCE]
            due = min(next_at(self._book, lane), FOREVER if read.head is None else read.head)
            return None if due == FOREVER else (due, 0)
        if read.loaded:
            row = self.first(lane)
            if row is not None:
                return row[DUE], row[SEQUENCE]
        return None if read.head is None else (read.head, 0)

    def look_ahead(self) -> None:
        """See when the lanes that were emptied have their next job; after the claim is written."""
        emptied = [
            read for read in self._lanes.values() if read.loaded and self._first(read.lane) is None
        ]
        if emptied:
            self._find_heads(emptied, as_json([read.lane for read in emptied]))


def heads(tx: Transaction, lanes: Sequence[Lane]) -> list[tuple[Lane, float]]:
    """When the first job of each lane is due, of those where one stands."""
    found = tx.db.execute(_HEADS, (as_json(lanes),))
    dues = {lanes[index]: due for index, due in found if due is not None}
    for lane in lined_lanes(tx):
        if lane in lanes:
            due = min(due_of(LineBook(tx), lane), dues.get(lane, FOREVER))
            if due != FOREVER:
                dues[lane] = due
    return list(dues.items())


@lru_cache(maxsize=64)
def lanes_of(groups: tuple[Group, ...]) -> tuple[tuple[Lane, ...], str]:
    """The lanes of a plan, each once, also as the JSON that a statement reads."""
    lanes = tuple(dict.fromkeys(s.lane for g in groups for tier in g.tiers for s in tier))
    return lanes, as_json(lanes)
