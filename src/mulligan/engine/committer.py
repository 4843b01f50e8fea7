"""The committer: sends outcomes in batches, and sends them again until they are answered."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.core.job import Lease
from mulligan.core.outcome import Again, Cancelled, Later, Outcome
from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine.patience import Patience
from mulligan.stores.contract import Store, Verdict

AWAY = (StoreUnavailableError, OSError)
log = logging.getLogger("mulligan.worker")


class Committer:
    """Whatever gathers while one batch is under way is the next batch: small when idle."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._waiting: list[tuple[Outcome, float]] = []
        self._wake = asyncio.Event()
        self._flushed = asyncio.Event()
        self._flushed.set()
        self._patience = Patience("commit")
        self._size = BATCH_LIMIT
        self.written = 0
        self.stale = 0

    @property
    def backlog(self) -> int:
        """How many outcomes have not been answered yet."""
        return len(self._waiting)

    @property
    def holding(self) -> list[Lease]:
        """The leases of outcomes that have not been answered; may be read from any thread."""
        return [outcome.lease for outcome, _ in list(self._waiting)]

    def add(self, outcome: Outcome) -> None:
        """Have the outcome written as soon as may be; its delay counts from now."""
        self._waiting.append((outcome, self._monotonic()))
        self._flushed.clear()
        self._wake.set()

    async def run(self) -> None:
        """Send batches until cancelled."""
        while True:
            await self._wake.wait()
            batch = self._waiting[: self._size]
            try:
                verdicts = await self._patience.insist(partial(self._send, batch), AWAY)
            except Exception as error:  # noqa: BLE001 - one bad outcome must not hold up the rest
                await self._put_aside(batch, error)
                continue
            del self._waiting[: len(batch)]
            self._size = min(BATCH_LIMIT, 2 * self._size)
            stale = verdicts.count("stale")
            self.written += len(verdicts) - stale
            self.stale += stale
            if stale:
                self._report(batch, verdicts)
            if not self._waiting:
                self._wake.clear()
                self._flushed.set()

    async def _send(self, batch: list[tuple[Outcome, float]]) -> list[Verdict]:
        return await self._store.commit(self._aged(batch))

    async def _put_aside(self, batch: list[tuple[Outcome, float]], error: Exception) -> None:
        """The store refuses something in the batch: find out what.

        What it refuses for now, because its disk is full perhaps, goes to the end of the line.
        What it can make nothing of ends its job, with the reason.
        """
        if len(batch) > 1:
            self._size = 1
            return
        outcome, added = self._waiting.pop(0)
        if isinstance(error, StoreError):
            self._waiting.append((outcome, added))
            await self._patience.pause(error)
            return
        log.error("job %s: its outcome cannot be stored: %r", outcome.lease.job, error)
        if not isinstance(outcome, Cancelled):
            reason = f"its outcome could not be stored: {type(error).__name__}"
            self._waiting.insert(0, (Cancelled(outcome.lease, reason), added))
        elif not self._waiting:
            self._wake.clear()
            self._flushed.set()

    async def flushed(self) -> None:
        """Wait until everything added so far has been answered."""
        await self._flushed.wait()

    def _aged(self, batch: list[tuple[Outcome, float]]) -> list[Outcome]:
        """The outcomes with their delays counted from when they were decided, not sent."""
        now = self._monotonic()
        return [
            replace(outcome, delay=outcome.delay - (now - added))
            if isinstance(outcome, Again | Later)
            else outcome
            for outcome, added in batch
        ]

    def _report(self, batch: list[tuple[Outcome, float]], verdicts: list[Verdict]) -> None:
        for (outcome, _), verdict in zip(batch, verdicts, strict=True):
            if verdict == "stale":
                log.warning(
                    "job %s: its lease (token %d) was no longer held; the outcome %s was refused",
                    outcome.lease.job,
                    outcome.lease.token,
                    type(outcome).__name__,
                )
