"""One operation on the database at one instant, and what others should hear of it afterwards."""

from typing import NamedTuple

from mulligan.core.durations import rounded
from mulligan.core.lane import Lane
from mulligan.stores.sqlite._lending import Lendable
from mulligan.stores.sqlite._sql import load

_RESERVE = load("reserve")
_ANYONE = load("anyone_asleep")
_NEXT_EPOCH = load("epoch_next")


class Call(NamedTuple):
    """A sleeper to be woken, and what for: the dues of jobs per lane, or a gate."""

    worker: str
    address: str | None
    joined: tuple[Lane, float] | None = None
    gate: str | None = None


class Transaction:
    """The connection inside a transaction, the time of it, and the news it makes.

    `joined` lists the lanes that jobs joined, with their due times; `freed` the gates that got a
    permit back; `everyone` is set when facts changed. `myself` is not to be woken.
    """

    __slots__ = ("_anyone", "calls", "db", "everyone", "freed", "joined", "myself", "now")

    def __init__(self, db: Lendable, now: float) -> None:
        self.db = db
        self.now = now
        self.joined: list[tuple[Lane, float]] = []
        self.freed: list[str] = []
        self.everyone = False
        self.myself: str | None = None
        self.calls: list[Call] = []
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
        """Whether news would interest anyone; asked once."""
        if self._anyone is None:
            self._anyone = bool(self.db.execute(_ANYONE).fetchone()[0])
        return self._anyone

    def join(self, lane: Lane, due: float) -> None:
        """Note that a job joined the lane."""
        self.joined.append((lane, due))

    def change_facts(self) -> None:
        """Refuse plans made before from now on, and let every sleeper make a new one."""
        self.db.execute(_NEXT_EPOCH)
        self.everyone = True
