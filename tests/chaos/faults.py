"""What is done to a running system, one thing after the other, by chance but from a seed."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import redis

from tests.chaos import opposite_locks
from tests.chaos.app import LEASE
from tests.chaos.fleet import Fleet, supervised
from tests.chaos.quiet import busiest
from tests.chaos.stand import Stand, fake_clock
from tests.history import Clerk, Fault

# Others look for lost leases every second, if they are not busy.
BEYOND_LEASE = 2.5 * LEASE
MEMORY = "maxmemory"
KILLED, STOPPED, OPPOSED = "worker killed", "worker stopped past its lease", "opposed locks"
CLOCK_OFF, DISK_FULL = "clock off", "disk full"
# How far off the clocks of workers are, where that may be: most are right.
CLOCKS = (0, 0, 0, -600, 90, 3600)


class Undo(NamedTuple):
    """How a fault is taken back, and when."""

    at: float
    do: Callable[[], None]


class Faults:
    """Strikes whenever asked to: every kind once, then as often as its weight, in mixed order."""

    def __init__(
        self, stand: Stand, fleet: Fleet, state: Path, clerk: Clerk, chance: random.Random
    ) -> None:
        self._stand = stand
        self._fleet = fleet
        self._state = state
        self._clerk = clerk
        self._chance = chance
        self._undo: list[Undo] = []
        self._deck: list[str] = []
        # Which kinds strike; None: every one that can.
        self.only: tuple[str, ...] | None = None
        self.done: Counter[str] = Counter()
        self.deadlocks = opposite_locks.Struck()

    @property
    def kinds(self) -> dict[str, tuple[Callable[[], str | None], int]]:
        """Everything that can be done here, and how often; None is told where it could not be."""
        kinds: dict[str, tuple[Callable[[], str | None], int]] = {
            KILLED: (self._kill_worker, 4),
            STOPPED: (self._stop_worker, 3),
            "producer killed": (lambda: as_text(self._fleet.kill("producer")), 1),
            "operator killed": (lambda: as_text(self._fleet.kill("operator")), 1),
            "supervisor killed": (lambda: as_text(self._fleet.kill("supervisor")), 1),
            "supervised worker killed": (self._kill_supervised, 1),
        }
        if self._stand.server is not None:
            kinds |= {
                "server killed": (self._kill_server, 1),
                "connections cut": (self._cut, 2),
                "network slow": (self._slow, 1),
                "bytes dribbled": (self._dribble, 1),
                "replies lost": (self._lose_replies, 3),
            }
        if self._stand.store == "redis":
            kinds["out of memory"] = (self._starve, 1)
        if self._stand.store == "postgres":
            kinds[OPPOSED] = (self._oppose, 2)
        if self._stand.disk is not None:
            kinds[DISK_FULL] = (self._fill_disk, 2)
        return {kind: kinds[kind] for kind in self.only or kinds if kind in kinds}

    @property
    def missing(self) -> list[str]:
        """What belongs to chaos on this store and has not been done, be it that it cannot be.

        Locks that no commit has met in the opposite order are as good as none.
        """
        of_place = DISK_FULL if self._stand.server is None else CLOCK_OFF
        struck = +self.done
        if not self.deadlocks.ours:
            del struck[OPPOSED]
        return [kind for kind in dict.fromkeys([*self.kinds, of_place]) if kind not in struck]

    def strike(self, kind: str | None = None) -> None:
        """Do the next thing, or this one, unless it cannot be done now."""
        if not self._deck:
            self._deck = [
                each
                for each, (_, weight) in self.kinds.items()
                for _ in range(weight if self.done else 1)
            ]
            self._chance.shuffle(self._deck)
        kind = kind or self._deck.pop()
        about = self.kinds[kind][0]()
        if about is not None:
            self._note(kind, about)

    def clock(self) -> dict[str, str]:
        """The environment of the next worker, whose clock may be off."""
        # A file is shared by one machine, and so is its clock: that is the store's.
        seconds = 0 if self._stand.server is None else self._chance.choice(CLOCKS)
        env = fake_clock(seconds)
        if env:
            self._note(CLOCK_OFF, f"{seconds:+} s")
        return env

    def _note(self, kind: str, about: str) -> None:
        self.done[kind] += 1
        self._clerk.note(Fault(what=kind, about=about))

    def undo(self, *, every: bool = False) -> None:
        """Take back what has lasted long enough, or everything."""
        now = time.monotonic()
        due = [each for each in self._undo if every or each.at <= now]
        self._undo = [each for each in self._undo if each not in due]
        for each in due:
            each.do()

    def _until(self, least: float, most: float, do: Callable[[], None]) -> str:
        self._undo.append(Undo(time.monotonic() + self._chance.uniform(least, most), do))
        return ""

    # -- processes -------------------------------------------------------------------------

    def _kill_worker(self) -> str | None:
        return as_text(self._fleet.kill("worker"))

    def _stop_worker(self) -> str | None:
        """Stop the one that has most to lose: it comes back too late with some of it."""
        return as_text(self._fleet.pause("worker", BEYOND_LEASE, busiest(self._stand.direct)))

    def _kill_supervised(self) -> str | None:
        pids = supervised(self._state)
        if not pids:
            return None
        pid = self._chance.choice(pids)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return str(pid)

    # -- server and network ----------------------------------------------------------------

    def _kill_server(self) -> str:
        self._stand.server.kill()
        return self._until(0.2, 2.0, self._stand.server.start)

    def _cut(self) -> str:
        self._proxy.cut()
        return ""

    def _slow(self) -> str:
        self._proxy.delay = self._chance.uniform(0.05, 0.3)
        return self._until(1.0, 2.0, lambda: setattr(self._proxy, "delay", 0.0))

    def _dribble(self) -> str:
        self._proxy.dribbles = True
        return self._until(1.0, 2.0, lambda: setattr(self._proxy, "dribbles", False))

    def _lose_replies(self) -> str:
        self._proxy.deaf = True
        return self._until(0.05, 0.4, self._proxy.hear)

    @property
    def _proxy(self) -> Any:
        return self._stand.proxy

    # -- resources -------------------------------------------------------------------------

    def _starve(self) -> str | None:
        """Leave Redis no memory beyond what it has."""
        try:
            with redis.Redis.from_url(self._stand.direct) as client:
                client.config_set("maxmemory-policy", "noeviction")
                client.config_set(MEMORY, "1mb")
        except redis.RedisError:
            return None  # it is being restarted

        def feed() -> None:
            with suppress(redis.RedisError), redis.Redis.from_url(self._stand.direct) as client:
                client.config_set(MEMORY, "0")

        return self._until(0.5, 2.0, feed)

    def _oppose(self) -> str:
        """Lock jobs against the order in which commits do, in a session of our own."""
        url = self._stand.direct
        threading.Thread(
            target=opposite_locks.oppose, args=(url, self.deadlocks), daemon=True
        ).start()
        return ""

    def _fill_disk(self) -> str:
        """Take all the room that is left."""
        assert self._stand.disk is not None
        ballast = self._stand.disk / "ballast"
        with suppress(OSError), ballast.open("wb") as file:
            while True:
                file.write(bytes(64 * 1024))
                file.flush()
        return self._until(0.5, 2.0, lambda: ballast.unlink(missing_ok=True))


def as_text(pid: int | None) -> str | None:
    """The process that was struck, None if none was."""
    return None if pid is None else str(pid)
