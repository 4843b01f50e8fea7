"""What a worker tells the store of itself, and what it is told.

The heartbeat renews all leases of a worker, on a thread that no task can block. Its note describes
the process, and is where the worker looks for orders of an operator.
"""

import asyncio
import logging
import os
import platform
import socket
import sys
from collections import deque
from collections.abc import Callable, Container, Sequence
from pathlib import Path

from msgspec.structs import replace

from mulligan.core.answers import Beat
from mulligan.core.job import Claim, Lease
from mulligan.core.long_attempts import KEEP_ATTEMPTS, LONG_ATTEMPTS, LongAttempts
from mulligan.core.outcome import Outcome, Returned
from mulligan.core.worker import (
    ABOUT,
    KEEP_ABOUT,
    LOOK_EVERY,
    ORDER,
    Order,
    Worker,
    WorkerAbout,
    encode_note,
    read_order,
)
from mulligan.engine.breakers import Ending
from mulligan.engine.loops import StoreRetry
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
# A dead worker is found by its lease: a slow store may stretch it to this many times its length.
LONGEST = 10
# The package itself is above this layer, and loaded whenever this is.
VERSION: str = sys.modules["mulligan"].__version__
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Heartbeat:
    """Beats every `every` seconds and hands each answer to `on_beat`.

    If the store took longer than that to answer twice in a row, the next lease is longer in the
    same proportion. Otherwise a worker would lose its jobs before its next beat, the one that
    reclaims them would too, and jobs would go round without end. A single late answer may have been
    a pause of this process.
    """

    def __init__(
        self,
        store: Store,
        worker: Worker,
        every: float,
        holding: Callable[[], Sequence[Lease]],
        on_beat: Callable[[Beat], None],
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._worker = worker
        self._every = every
        self._holding = holding
        self._on_beat = on_beat
        self._monotonic = monotonic
        self._store_retry = StoreRetry("heartbeat")
        self._last_two = deque([0.0, 0.0], 2)  # seconds that the last two beats took

    async def once(self) -> None:
        """Beat until the store has answered."""
        self._on_beat(await self._store_retry.call(self._beat))

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self.once()
            await asyncio.sleep(self._every)

    async def run_on(self, store: Store) -> None:
        """Beat until cancelled, on another handle that is opened and closed here."""
        self._store = store
        try:
            await self._store_retry.call(store.open)
            await self.run()
        finally:
            await store.close()

    async def _beat(self) -> Beat:
        asked = self._monotonic()
        beat = await self._store.beat(self._lasting(), self._holding())
        self._last_two.append(self._monotonic() - asked)
        return beat

    def _lasting(self) -> Worker:
        """The worker, with a lease long enough for how slowly the store answers."""
        times = min(*self._last_two, LONGEST * self._every) / self._every
        if times <= 1:
            return self._worker
        return replace(self._worker, lease=times * self._worker.lease)


class LostReplies:
    """Puts right what the store gave to this worker in a reply that never arrived.

    `end` takes an outcome, `count` a job of a dead worker whose attempt counts as failed.
    """

    def __init__(
        self,
        worker: Worker,
        end: Callable[[Outcome, Ending], None],
        count: Callable[[Claim], None],
    ) -> None:
        self._worker = worker
        self._end = end
        self._count = count

    def return_claims(self, leases: Sequence[Lease], held: Container[Lease]) -> None:
        """Return the jobs of leases that nobody here holds."""
        for lease in leases:
            if lease not in held:
                log.warning(
                    "job %s: the reply to its claim was lost; returning it",
                    lease.job,
                    extra={"job": lease.job, "worker": self._worker.id},
                )
                self._end(Returned(lease), Ending("", self._worker.region))

    def count_reclaims(self, claims: Sequence[Claim], held: Container[Lease]) -> None:
        """Count the attempts of dead workers that were reclaimed, and that nobody here counts."""
        for claim in claims:
            if claim.lease not in held:
                log.warning(
                    "job %s: the reply to its reclaim was lost; attempt %d counts as failed",
                    claim.id,
                    claim.attempt,
                    extra={"job": claim.id, "worker": self._worker.id},
                )
                self._count(claim)


class WorkerNote:
    """Renews the note, looks for an order, and hands each to `obey` once."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        app: str,
        obey: Callable[[Order], None],
        long_attempts: Callable[[], LongAttempts | None] = lambda: None,
    ) -> None:
        self._long_attempts = long_attempts
        self._noted_attempts = False
        self._store = store
        self._worker = worker
        self._app = app
        self._obey = obey
        self._obeyed: Order | None = None
        self._store_retry = StoreRetry("worker note")

    async def run(self) -> None:
        """Do so until cancelled."""
        while True:
            await self._store_retry.call(self.look)
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Tell of this process, and obey an order that is new."""
        about = WorkerAbout(
            socket.gethostname(),
            os.getpid(),
            self._app,
            platform.python_version(),
            VERSION,
            memory(),
        )
        await self._store.note(ABOUT + self._worker.id, encode_note(about), KEEP_ABOUT)
        await self._note_attempts(self._long_attempts())
        key = ORDER + self._worker.id
        notes = await self._store.notes(key)
        order = read_order(notes, self._worker.id) if notes else None
        if order is not None and order != self._obeyed:
            self._obeyed = order
            self._obey(order)

    async def _note_attempts(self, found: LongAttempts | None) -> None:
        if found is not None or self._noted_attempts:
            written = None if found is None else encode_note(found)
            self._noted_attempts = True
            await self._store.note(LONG_ATTEMPTS + self._worker.id, written, KEEP_ATTEMPTS)
            self._noted_attempts = found is not None

    async def forget(self) -> None:
        """Tell no more: the worker leaves."""
        await self._store.note(ABOUT + self._worker.id, None, 0.0)
        await self._note_attempts(None)


def memory() -> int | None:
    """The bytes of memory that this process uses; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    except (OSError, ValueError, IndexError):
        return None
