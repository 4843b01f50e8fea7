"""The lanes of a plan as a walk sees them, each read once per claim, in runs of rows."""

from bisect import insort
from collections.abc import Sequence
from functools import lru_cache

from msgspec.json import Decoder

from mulligan.core.checks import rounded
from mulligan.core.job import EXPIRED, Claim
from mulligan.core.lane import Lane
from mulligan.core.plan import Group, Limit, Source
from mulligan.core.worker import Worker
from mulligan.stores.sqlite.fields import CLAIMED, CLAIMED_LIST, WALKED, Row, claims_of
from mulligan.stores.sqlite.gather import member_of, miss
from mulligan.stores.sqlite.limits import Limits, let_go, permit_key
from mulligan.stores.sqlite.statements import as_json, load
from mulligan.stores.sqlite.transaction import Transaction, cancel_stored

SQL = load("lanes", claimed=CLAIMED_LIST)
_HEADS = SQL["heads"]
_ROWS = SQL["rows"]
_ROW = SQL["row"]
_LEASE = SQL["lease"]
_TAKE = SQL["take"]
_HOLD = SQL["hold"]
_SOONER = SQL["sooner"]

DUE, SEQUENCE, NUMBER, SPECIAL = range(len(WALKED))
ID = len(WALKED) + CLAIMED.index("id")
# Rows compare by (due, sequence).
BEFORE_ALL: tuple[float, int] = (float("-inf"), 0)
decode_special = Decoder(tuple[str | None, int, float | None]).decode


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
        """Note where the first row stands, from here on, that a key or an expiry concerns."""
        rows = self.rows
        self.plain = next(
            (i for i in range(self.position, len(rows)) if rows[i][SPECIAL] is not None), len(rows)
        )


class Lanes:
    """What `walk` asks of lanes and limits, answered from the database.

    What is taken is leased to the worker at once, a run of neighbours in a lane at a time.
    """

    def __init__(
        self, tx: Transaction, groups: tuple[Group, ...], demand: int, worker: Worker
    ) -> None:
        self._tx = tx
        self._demand = demand
        self._worker = worker
        self.limits = Limits(tx)
        self.number = 0
        self._taken: list[tuple[Lane, list[Row]]] = []
        self._expired: list[str] = []
        self._sooner: dict[Source, bool] = {}
        names, text = lanes_of(groups)
        self._lanes = {lane: LaneRows(lane) for lane in names}
        self._find_heads(list(self._lanes.values()), text)

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
        if not source.yields or not source.waited or self._lanes[source.lane].is_empty:
            return source.waited
        if source not in self._sooner:
            asked = (*source.lane, source.waited, self._tx.claimant, self._tx.now)
            self._sooner[source] = self._tx.db.execute(_SOONER, asked).fetchone() is not None
        return source.waited if self._sooner[source] else 0.0

    def take_plain(self, lane: Lane, most: int, before: Row | None, waited: float) -> list[Row]:
        """Take up to `most` rows that no key and no expiry concerns, and that go before another."""
        read = self._lanes[lane]
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
        return self._lease(lane, rows[start:stop])

    def _lease(self, lane: Lane, run: list[Row]) -> list[Row]:
        """Let neighbours in a lane run."""
        ends = (*lane, *run[0][:2], *run[-1][:2])
        worker, now = self._worker, self._tx.now
        self._tx.db.execute(_LEASE, (worker.id, worker.region, now, now, *ends))
        self._tx.db.execute(_TAKE, ends)
        self._taken.append((lane, run))
        self.number += len(run)
        return run

    def take_special(self, lane: Lane) -> list[Row]:
        """Take the first row, or set it aside: expired, or its key has no room."""
        read = self._lanes[lane]
        row = read.rows[read.position]
        read.position += 1
        read.find_special()
        key, limit, expires_at = decode_special(row[SPECIAL])
        if expires_at is not None and expires_at <= self._tx.now:
            self._expire(row, key)
            return []
        if key is not None:
            permit = permit_key(key)
            if self.limits.permits(permit) >= limit:
                self._tx.db.execute(_HOLD, (row[NUMBER],))
                self._tx.db.execute(_TAKE, (*lane, *row[:2], *row[:2]))
                return []
            self.limits.charge(permit, row[ID])
        return self._lease(lane, [row])

    def tell_awaiting(self) -> None:
        """Tell those that await what was found expired, now that the walk is over."""
        for job in self._expired:
            member = member_of(self._tx, job)
            if member is not None:
                miss(self._tx, member, EXPIRED, ran=False)

    def _expire(self, row: Row, key: str | None) -> None:
        """End the job; held jobs of its key may have room now."""
        cancel_stored(self._tx, row[NUMBER], EXPIRED, outdated=False)
        self._expired.append(row[ID])
        if key is not None:
            self._let_go(key)

    def _let_go(self, key: str) -> None:
        """Let held jobs of the key stand in their lanes again, also in those read already."""
        for lane, number in let_go(self._tx, key, self.limits.permits(permit_key(key))):
            read = self._lanes.get(lane)
            if read is None:
                continue
            row: Row = self._tx.db.execute(_ROW, (number,)).fetchone()
            if not read.loaded:
                read.head = row[DUE] if read.head is None else min(read.head, row[DUE])
            elif read.complete or row[:2] < read.last:
                del read.rows[: read.position]
                read.position = 0
                insort(read.rows, row)
                read.find_special()

    def room(self, limit: Limit) -> int:
        """How many more starts the limit allows now."""
        return self.limits.room(limit)

    def reopens_in(self, limit: Limit) -> float | None:
        """Seconds until a closed limit opens by itself; None for a cap."""
        return self.limits.reopens_in(limit)

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """(due, sequence) of the lane's first job, due or not; exact only for what was read."""
        read = self._lanes[lane]
        if read.loaded:
            row = self.first(lane)
            if row is not None:
                return row[DUE], row[SEQUENCE]
        return None if read.head is None else (read.head, 0)

    def look_ahead(self) -> None:
        """See when the lanes that were emptied have their next job; after the claim is written."""
        emptied = [
            read for read in self._lanes.values() if read.loaded and self.first(read.lane) is None
        ]
        if emptied:
            self._find_heads(emptied, as_json([read.lane for read in emptied]))


def heads(tx: Transaction, lanes: Sequence[Lane]) -> list[tuple[Lane, float]]:
    """When the first job of each lane is due, of those where one stands."""
    found = tx.db.execute(_HEADS, (as_json(lanes),))
    return [(lanes[index], due) for index, due in found if due is not None]


@lru_cache(maxsize=64)
def lanes_of(groups: tuple[Group, ...]) -> tuple[tuple[Lane, ...], str]:
    """The lanes of a plan, each once, also as the JSON that a statement reads."""
    lanes = tuple(dict.fromkeys(s.lane for g in groups for tier in g.tiers for s in tier))
    return lanes, as_json(lanes)
