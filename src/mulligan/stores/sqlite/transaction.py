"""One operation on the database at one instant, and who is to be woken after it."""

from typing import NamedTuple

from mulligan.core.checks import rounded
from mulligan.core.lane import Lane
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transactional_sink import StoreConnection

SQL = load("transaction")
_RESERVE = SQL["reserve"]
_ANYONE_ASLEEP = SQL["anyone_asleep"]
_NEXT_EPOCH = SQL["next_epoch"]


class WakeUp(NamedTuple):
    """A sleeper to be woken, at which socket, and what for: a job in a lane, or a free permit."""

    worker: str
    socket: str | None
    joined: tuple[Lane, float] | None = None
    freed: str | None = None


class Transaction:
    """The connection inside a transaction, the time of it, and what it does that may wake others.

    `joined` lists the lanes that jobs joined, with their due times; `freed` the keys of limits that
    got a permit back; `wakes_all` is set when facts changed. The `claimant` is not woken. `wakeups`
    are the sleepers that were picked.
    """

    __slots__ = ("_anyone", "claimant", "db", "freed", "joined", "now", "wakes_all", "wakeups")

    def __init__(self, db: StoreConnection, now: float) -> None:
        self.db = db
        self.now = now
        self.joined: list[tuple[Lane, float]] = []
        self.freed: list[str] = []
        self.wakes_all = False
        self.claimant: str | None = None
        self.wakeups: list[WakeUp] = []
        self._anyone: bool | None = None

    def reserve(self, count: int) -> int:
        """The first of `count` new sequence numbers."""
        last: int = self.db.execute(_RESERVE, (count,)).fetchone()[0]
        return last - count + 1

    def due(self, delay: float) -> float:
        """When a job falls due that joins a lane with this delay."""
        return rounded(self.now + delay) if delay else self.now

    @property
    def anyone_asleep(self) -> bool:
        """Whether anyone could be woken; asked once."""
        if self._anyone is None:
            self._anyone = bool(self.db.execute(_ANYONE_ASLEEP).fetchone()[0])
        return self._anyone

    def join(self, lane: Lane, due: float) -> None:
        """Note that a job joined the lane."""
        self.joined.append((lane, due))

    def change_facts(self) -> None:
        """Refuse plans made before from now on, and let every sleeper make a new one."""
        self.db.execute(_NEXT_EPOCH)
        self.wakes_all = True
