"""The committer: sends outcomes in batches, and sends them again until they are answered."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.errors import StoreError, StoreUnavailableError
from mulligan.core.job import Lease
from mulligan.core.outcome import Again, Cancelled, Later, Outcome, Verdict
from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine.breakers import Ending
from mulligan.engine.reporter import Reporter
from mulligan.engine.store_retry import StoreRetry
from mulligan.stores.contract import Store

AWAY = (StoreUnavailableError, OSError)
DELAYED = (Again, Later)
log = logging.getLogger("mulligan.worker")


class Waiting(Struct, frozen=True, gc=False):
    """An outcome that has not been answered: when it was added, and what it counts as."""

    outcome: Outcome
    added: float
    ending: Ending

    @property
    def about(self) -> dict[str, str]:
        """The fields of a line about it."""
        job, queue, region = self.outcome.lease.job, self.ending.queue, self.ending.region
        return {"job": job, "queue": queue, "region": region}


class Committer:
    """Whatever gathers while one batch is under way is the next batch: small when idle."""

    def __init__(self, store: Store, reporter: Reporter, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._reporter = reporter
        self._monotonic = monotonic
        self._waiting: list[Waiting] = []
        self._wake = asyncio.Event()
        self._answered = 0
        self._progress = asyncio.Event()
        self._store_retry = StoreRetry("commit")
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
        return [waiting.outcome.lease for waiting in list(self._waiting)]

    def add(self, outcome: Outcome, ending: Ending) -> None:
        """Have the outcome written as soon as may be; its delay counts from now."""
        if not self._waiting:
            self._wake.set()
        self._waiting.append(Waiting(outcome, self._monotonic(), ending))
        self._reporter.ended(ending)

    async def run(self) -> None:
        """Send batches until cancelled."""
        while True:
            await self._wake.wait()
            batch = self._waiting[: self._size]
            try:
                verdicts = await self._store_retry.call(partial(self._send, batch), AWAY)
            except Exception as error:  # noqa: BLE001 - one bad outcome must not hold up the rest
                await self._put_aside(batch, error)
                continue
            self._forget(len(batch))
            self._size = min(BATCH_LIMIT, 2 * self._size)
            endings = zip([waiting.ending for waiting in batch], verdicts, strict=True)
            for (ending, verdict), alike in groupby(endings):
                self._reporter.answered(ending, verdict, len(list(alike)))
            stale = verdicts.count("stale")
            self.written += len(verdicts) - stale
            self.stale += stale
            if stale:
                self._report(batch, verdicts)

    async def _send(self, batch: list[Waiting]) -> list[Verdict]:
        return await self._store.commit(self._aged(batch))

    async def _put_aside(self, batch: list[Waiting], error: Exception) -> None:
        """The store refuses something in the batch: find out what.

        What it refuses for now, because its disk is full perhaps, goes to the end of the line.
        What it can make nothing of ends its job, with the reason.
        """
        if len(batch) > 1:
            self._size = 1
            return
        first = self._waiting[0]
        outcome = first.outcome
        if isinstance(error, StoreError):
            self._waiting.append(self._waiting.pop(0))
            await self._store_retry.pause(error)
            return
        log.error(
            "job %s: its outcome cannot be stored: %r",
            outcome.lease.job,
            error,
            extra=first.about,
        )
        if not isinstance(outcome, Cancelled):
            self._reporter.breakers.forget(first.ending)
            reason = f"its outcome could not be stored: {type(error).__name__}"
            ending = Ending(first.ending.queue, first.ending.region)
            self._waiting[0] = Waiting(Cancelled(outcome.lease, reason), first.added, ending)
        else:
            self._forget(1)

    def _forget(self, count: int) -> None:
        """So many of the first need not be sent any more."""
        del self._waiting[:count]
        self._answered += count
        if not self._waiting:
            self._wake.clear()
        self._progress.set()
        self._progress.clear()

    async def flushed(self) -> None:
        """Wait until as many have been answered as wait now; others may be added meanwhile."""
        until = self._answered + len(self._waiting)
        while self._answered < until:
            await self._progress.wait()

    def _aged(self, batch: list[Waiting]) -> list[Outcome]:
        """The outcomes with their delays counted from when they were decided, not sent."""
        now = self._monotonic()
        return [
            replace(waiting.outcome, delay=waiting.outcome.delay - (now - waiting.added))
            if isinstance(waiting.outcome, DELAYED)
            else waiting.outcome
            for waiting in batch
        ]

    def _report(self, batch: list[Waiting], verdicts: list[Verdict]) -> None:
        for waiting, verdict in zip(batch, verdicts, strict=True):
            outcome = waiting.outcome
            if verdict == "stale":
                log.warning(
                    "job %s: its lease (token %d) was no longer held; the outcome %s was refused",
                    outcome.lease.job,
                    outcome.lease.token,
                    type(outcome).__name__,
                    extra=waiting.about,
                )
