"""The lanes and gates of the database as a walk sees them, each read once per claim."""

from bisect import insort
from functools import lru_cache
from typing import Any

from msgspec.json import Decoder

from mulligan.core.durations import rounded
from mulligan.core.job import EXPIRED
from mulligan.core.lane import Lane
from mulligan.core.plan import Cap, Group, Limit, Rate, Source
from mulligan.core.worker import Worker
from mulligan.stores.sqlite._gathering import miss
from mulligan.stores.sqlite._keys import let_go
from mulligan.stores.sqlite._sql import as_json, load
from mulligan.stores.sqlite._standing import cancel
from mulligan.stores.sqlite._transaction import Transaction

_HEADS = load("claim_heads")
_ROWS = load("claim_rows")
_ROW = load("claim_row")
_LEASE = load("claim_lease")
_TAKE = load("claim_take")
_HOLD = load("claim_hold")
_GATHER = load("gather_of")
_PERMITS = load("permits_used")
_STARTS = load("starts")
_SOONER = load("waiting_sooner")

# (due, sequence) first, so that rows compare by them; the last is the claim's concern only.
Row = tuple[Any, ...]
DUE, SEQUENCE, PLACE, ID, SPECIAL = 0, 1, 2, 3, -1
decode_special = Decoder(tuple[str | None, int, float | None]).decode
FIRST: tuple[float, int] = (float("-inf"), 0)
# More than rounding can move a time, so that a range read from an index is wide enough.
A_MOMENT = 0.001


class Line:
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
        self.last = FIRST

    @property
    def is_empty(self) -> bool:
        """Whether no job stands in the lane, as far as has been looked."""
        read = self.position == len(self.rows) and (self.complete or not self.loaded)
        return read and self.head is None

    def find_special(self) -> None:
        """Note where the first row stands, from here on, that a key or an expiry concerns."""
        rows = self.rows
        self.plain = next(
            (i for i in range(self.position, len(rows)) if rows[i][SPECIAL] is not None), len(rows)
        )


class Lines:
    """What `core.walk` asks of lanes and gates, answered from the database.

    What is taken is leased to the worker at once, a run of neighbours in a lane at a time.
    """

    def __init__(
        self, tx: Transaction, groups: tuple[Group, ...], demand: int, worker: Worker
    ) -> None:
        self._tx = tx
        self._demand = demand
        self._worker = worker
        self.taken: list[tuple[Lane, list[Row]]] = []
        self.number = 0
        self.charges: list[tuple[str, str]] = []
        self.counts: dict[Rate, int] = {}
        self._used: dict[str, int] = {}
        self._started: dict[tuple[str, float], tuple[int, float | None]] = {}
        self._sooner: dict[Source, bool] = {}
        lanes, text = lanes_of(groups)
        self._lines = {lane: Line(lane) for lane in lanes}
        self._probe(list(self._lines.values()), text)

    # -- lanes -----------------------------------------------------------------------------

    def _probe(self, lines: list[Line], text: str) -> None:
        for index, due in self._tx.db.execute(_HEADS, (text,)):
            lines[index].head = due

    def first(self, lane: Lane, waited: float = 0.0) -> Row | None:
        """The first row of the lane, if it has been due for that long."""
        line = self._lines[lane]
        if line.position == len(line.rows):
            if line.complete:
                return None
            if not line.loaded and (
                line.head is None or rounded(line.head + waited) > self._tx.now
            ):
                return None
            self._read(line)
            if not line.rows:
                return None
        row = line.rows[line.position]
        return row if rounded(row[DUE] + waited) <= self._tx.now else None

    def _read(self, line: Line) -> None:
        """Read as many more rows as the claim could still take, and one to see what is left."""
        wanted = self._demand - self.number + 1
        bounds = (*line.lane, self._tx.now, *line.last, wanted)
        line.rows = self._tx.db.execute(_ROWS, bounds).fetchall()
        line.position = 0
        line.loaded = True
        line.head = None
        line.complete = len(line.rows) < wanted
        line.find_special()
        if line.rows:
            line.last = line.rows[-1][:2]

    def waits(self, source: Source) -> float:
        """How long a job must have been due; only where one stands is it asked who sleeps."""
        if not source.yields or not source.waited or self._lines[source.lane].is_empty:
            return source.waited
        if source not in self._sooner:
            asked = (*source.lane, source.waited, self._tx.myself, self._tx.now)
            self._sooner[source] = self._tx.db.execute(_SOONER, asked).fetchone() is not None
        return source.waited if self._sooner[source] else 0.0

    def take_plain(self, lane: Lane, most: int, before: Row | None, waited: float) -> list[Row]:
        """Take up to `most` rows that no key and no expiry concerns, and that go before another."""
        line = self._lines[lane]
        rows, start = line.rows, line.position
        stop = min(start + most, line.plain)
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
        line.position = stop
        return self._lease(lane, rows[start:stop])

    def _lease(self, lane: Lane, run: list[Row]) -> list[Row]:
        """Let neighbours in a lane run."""
        ends = (*lane, *run[0][:2], *run[-1][:2])
        worker, now = self._worker, self._tx.now
        self._tx.db.execute(_LEASE, (worker.id, worker.region, now, now, *ends))
        self._tx.db.execute(_TAKE, ends)
        self.taken.append((lane, run))
        self.number += len(run)
        return run

    def take_special(self, lane: Lane) -> list[Row]:
        """Take the first row, or set it aside: expired, or its key has no room."""
        line = self._lines[lane]
        row = line.rows[line.position]
        line.position += 1
        line.find_special()
        key, limit, expires_at = decode_special(row[SPECIAL])
        if expires_at is not None and expires_at <= self._tx.now:
            self._expire(row, key)
            return []
        if key is not None:
            permit = f"key:{key}"
            if self._permits(permit) >= limit:
                self._tx.db.execute(_HOLD, (row[PLACE],))
                self._tx.db.execute(_TAKE, (*lane, *row[:2], *row[:2]))
                return []
            self.charge(permit, row)
        return self._lease(lane, [row])

    def _expire(self, row: Row, own: str | None) -> None:
        """End the job, and those that await it; held jobs of its key may have room now."""
        [gather] = self._tx.db.execute(_GATHER, (row[PLACE],)).fetchone()
        cancel(self._tx, row[PLACE], EXPIRED, outdated=False)
        miss(self._tx, row[ID], gather, "cancelled")
        if own is not None:
            self._let_go(own)

    def _let_go(self, key: str) -> None:
        """Let held jobs of the key stand in their lanes again, also in those read already."""
        for lane, place in let_go(self._tx, key, self._permits(f"key:{key}")):
            line = self._lines.get(lane)
            if line is None:
                continue
            row: Row = self._tx.db.execute(_ROW, (place,)).fetchone()
            if not line.loaded:
                line.head = row[DUE] if line.head is None else min(line.head, row[DUE])
            elif line.complete or row[:2] < line.last:
                del line.rows[: line.position]
                line.position = 0
                insort(line.rows, row)
                line.find_special()

    # -- gates -----------------------------------------------------------------------------

    def charge(self, key: str, row: Row) -> None:
        """Give the row's job a permit."""
        self._used[key] = self._permits(key) + 1
        self.charges.append((key, row[ID]))

    def count(self, gate: Rate, starts: int) -> None:
        """Count starts at a gate."""
        self.counts[gate] = self.counts.get(gate, 0) + starts
        at = started_at(gate, self._tx.now)
        for (key, per), (number, oldest) in self._started.items():
            if key == gate.key and rounded(at + per) > self._tx.now:
                self._started[key, per] = (number + starts, at if oldest is None else oldest)

    def room(self, gate: Limit) -> int:
        """How many more starts the gate allows now."""
        if isinstance(gate, Cap):
            return gate.limit - self._permits(gate.key)
        if gate.limit is None:
            return 1
        limit = gate.limit
        if gate.of:
            limit = max(limit, int(gate.ratio * self._starts(gate.of, gate.per)[0]))
        return limit - self._starts(gate.key, gate.per)[0]

    def reopens_in(self, gate: Limit) -> float | None:
        """Seconds until the oldest start leaves the window; None for a gate of permits."""
        if isinstance(gate, Cap):
            return None
        oldest = self._starts(gate.key, gate.per)[1]
        return None if oldest is None else rounded(oldest + gate.per) - self._tx.now

    def _permits(self, key: str) -> int:
        if key not in self._used:
            self._used[key] = self._tx.db.execute(_PERMITS, (key,)).fetchone()[0]
        return self._used[key]

    def _starts(self, key: str, per: float) -> tuple[int, float | None]:
        if (key, per) not in self._started:
            now = self._tx.now
            starts = self._tx.db.execute(_STARTS, (key, now - per - A_MOMENT)).fetchall()
            starts += [(started_at(g, now), n) for g, n in self.counts.items() if g.key == key]
            within = [(at, number) for at, number in starts if rounded(at + per) > now]
            oldest = within[0][0] if within else None
            self._started[key, per] = (sum(number for _, number in within), oldest)
        return self._started[key, per]

    # -- after the walk --------------------------------------------------------------------

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """(due, sequence) of the lane's first job, due or not; exact only for what was read."""
        line = self._lines[lane]
        if line.loaded:
            row = self.first(lane)
            if row is not None:
                return row[DUE], row[SEQUENCE]
        return None if line.head is None else (line.head, 0)

    def look_ahead(self) -> None:
        """See when the lanes that were emptied have their next job; after the claim is written."""
        emptied = [
            line for line in self._lines.values() if line.loaded and self.first(line.lane) is None
        ]
        if emptied:
            self._probe(emptied, as_json([line.lane for line in emptied]))


def started_at(gate: Rate, now: float) -> float:
    """The time under which a start is counted.

    Fresh starts are many and need no exact window: a second each is enough, rounded down.
    """
    return now if gate.limit is not None else float(int(now))


@lru_cache(maxsize=64)
def lanes_of(groups: tuple[Group, ...]) -> tuple[tuple[Lane, ...], str]:
    """The lanes of a plan, each once, also as the JSON that the probe reads."""
    lanes = tuple(dict.fromkeys(s.lane for g in groups for tier in g.tiers for s in tier))
    return lanes, as_json(lanes)
