"""A slot: a number under which one process of a kind runs at a time."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from mulligan.core.errors import MulliganError
from mulligan.supervisor.decide import Phase, SlotView
from mulligan.supervisor.fleet import Kind
from mulligan.supervisor.liveness import (
    Holder,
    acquire,
    holders,
    is_held,
    read_holder,
    write_holder,
)
from mulligan.supervisor.output import Output
from mulligan.supervisor.process import (
    Command,
    Process,
    adopt,
    age_of,
    in_words,
    is_leader,
    start,
)

# How long after its drain timeout a process is killed: a worker that cuts jobs off still has to
# commit their outcomes.
GRACE = 5.0


class Ending(Struct, frozen=True):
    """How a process ended; `drain_reason` is "" if it ended by itself."""

    pid: int
    code: int | None
    lived: float
    drain_reason: str
    killed: bool

    @property
    def words(self) -> str:
        """How it ended and after how long, in one line."""
        return f"{in_words(self.code)} after {self.lived:.1f} s"

    @property
    def in_order(self) -> bool:
        """Whether a drained process ended as it should; a worker that cut jobs off did not."""
        return not self.killed and self.code in (0, None, -signal.SIGTERM)


class TakenError(MulliganError):
    """The slot is held by a process that cannot be seen or ended."""


class Slot:
    """The files of a slot, and its process if it has one.

    `clock` is monotonic. Whoever learns that the process is ready sets `ready`.
    """

    def __init__(
        self, kind: Kind, number: int, folder: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.kind = kind
        self.number = number
        self.name = f"{kind.name}-{number}"
        self.process: Process | None = None
        self.digest = ""
        self.ready = False
        self.deaths = 0
        self.rests_until = 0.0
        self._clock = clock
        self._lock = folder / f"{self.name}.lock"
        self.output = Output(folder / f"{self.name}.log")
        self._began = 0.0
        self._drain_reason = ""
        self._killed = False
        self._kill_at = 0.0

    @property
    def phase(self) -> Phase:
        """What the slot or its process is doing."""
        if self.process is None:
            return "resting" if self.deaths else "empty"
        if self._drain_reason:
            return "draining"
        return "running" if self.ready else "starting"

    @property
    def age(self) -> float:
        """Seconds since its process started."""
        return self._clock() - self._began if self.process else 0.0

    @property
    def last_start(self) -> float:
        """When a process was last started in it, in seconds since 1970; 0 if never."""
        return read_holder(self._lock).began

    def view(self, kept: str, idle: str) -> SlotView:
        """The slot now; outdated if its process has neither of these two digests."""
        return SlotView(
            self.number,
            self.phase,
            self.age,
            self.process.memory if self.process and self.kind.memory_limit else 0,
            outdated=self.process is not None and self.digest not in (kept, idle),
            rest=self.rests_until - self._clock() if self.deaths else 0.0,
            kept=self.process is not None and self.digest == kept,
        )

    def adopt(self) -> Process | None:
        """Take over the process that holds the slot; None if none does.

        Children of an earlier process of the slot, which has ended, are killed.
        """
        if not is_held(self._lock):
            return None
        for pid in sorted(holders(self._lock), key=is_leader, reverse=True):
            found = adopt(pid, self._lock)
            if found is None:
                continue
            if not is_leader(pid):
                found.send(signal.SIGKILL)
                found.close()
                continue
            self._occupy(found, age_of(pid), read_holder(self._lock).digest)
            self.ready = True
            return found
        return None

    def start(self, command: Command) -> Process:
        """Start a process, or take over the one that runs in the slot.

        Refuses while children of an earlier process still hold the slot.
        """
        lock = acquire(self._lock, wait=0.0)
        if lock is None:
            found = self.adopt()
            if found is not None:
                return found
            raise TakenError(f"slot {self.name} is held by a process that has yet to end")
        try:
            # Written first, so that a later supervisor knows how the process was started.
            write_holder(self._lock, Holder(0, command.digest, time.time()))
            with self.output.open() as log:
                process = start(command, lock, log)
            write_holder(self._lock, Holder(process.pid, command.digest, time.time()))
        finally:
            os.close(lock)
        self._occupy(process, 0.0, command.digest)
        return process

    def _occupy(self, process: Process, age: float, digest: str) -> None:
        self.process = process
        self.digest = digest
        self.ready = self._killed = False
        self._drain_reason = ""
        self._began = self._clock() - age

    def drain(self, why: str) -> None:
        """Let the process finish its work and end; kill it when that takes too long."""
        if self.process is None or self._drain_reason:
            return
        self._drain_reason = why
        self._kill_at = self._clock() + self.kind.drain_timeout + GRACE
        self.process.send(signal.SIGTERM)

    def hurry(self) -> None:
        """Let a draining process end at once."""
        if self.process is not None and not self._killed:
            self.process.send(signal.SIGTERM)
            self._kill_at = min(self._kill_at, self._clock() + GRACE)

    def check(self) -> Ending | None:
        """Kill a process that took too long to end; if it has ended, empty the slot and say how."""
        if self.process is None:
            return None
        if self._drain_reason and not self._killed and self._clock() >= self._kill_at:
            self._killed = True
            self.process.send(signal.SIGKILL)
        if not self.process.ended:
            return None
        process, lived = self.process, self.age
        self.process = None
        process.close()
        ending = Ending(process.pid, process.code, lived, self._drain_reason, self._killed)
        self._drain_reason = ""
        return ending

    def rest(self, lived: float, least: float) -> float:
        """Leave the slot empty after a death, longer after each death in a row; for how long."""
        self.deaths = 1 if lived > self.kind.backoff_max else self.deaths + 1
        seconds = max(self.kind.rest_after(self.deaths), least)
        self.rests_until = self._clock() + seconds
        return seconds
