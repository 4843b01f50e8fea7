"""The committer: sends outcomes in batches, and sends them again until they are answered."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.errors import (
    ShardAwayError,
    StoreDamagedError,
    StoreError,
    StoreUnavailableError,
)
from mulligan.core.event import JobEvent
from mulligan.core.job import Lease
from mulligan.core.outcome import Again, Cancelled, Later, Outcome, Verdict
from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine.breakers import Ending
from mulligan.engine.events import Events
from mulligan.engine.loops import StoreRetry
from mulligan.engine.reporter import Reporter
from mulligan.stores.contract import Store

AWAY = (StoreUnavailableError, OSError)
DELAYED = (Again, Later)
# How often outcomes are sent again that are all for shards which are away.
LOOK_EVERY = 0.5
# Outcomes that come in such numbers are worth a wait for more: each commit costs what it costs.
MANY = 10
# They are given as long to gather as this many commits take, and no longer than that.
GATHER_FOR = 2
LONGEST_GATHER = 0.005
log = logging.getLogger("mulligan.worker")


class Unanswered(Struct, frozen=True, gc=False):
    """An outcome that the store has not answered: when it was added, and what it counts as."""

    outcome: Outcome
    added: float
    ending: Ending
    event: JobEvent | None = None

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of a log line about it."""
        job, queue, region = self.outcome.lease.job, self.ending.queue, self.ending.region
        return {"job": job, "queue": queue, "region": region}


class Committer:
    """Sends one batch at a time; the outcomes added meanwhile are the next batch.

    A lone outcome is sent at once. After a batch of many the next has a few milliseconds to gather.
    """

    def __init__(
        self, store: Store, reporter: Reporter, events: Events, monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._reporter = reporter
        self._events = events
        self._monotonic = monotonic
        self._waiting: list[Unanswered] = []
        self._wake = asyncio.Event()
        self._answered = 0
        self._progress = asyncio.Event()
        self._store_retry = StoreRetry("commit")
        self._refusing = False  # whether the store answers, and refuses some outcome for now
        self._size = BATCH_LIMIT
        self._more: asyncio.Event | None = None  # while only what is for absent shards waits
        self._flushing = 0  # how many wait until all is written
        self._hurry = asyncio.Event()
        self.written = 0
        self.stale = 0

    @property
    def backlog(self) -> int:
        """How many outcomes the store has not answered yet."""
        return len(self._waiting)

    @property
    def failing(self) -> bool:
        """Whether the store commits nothing now."""
        return bool(self._waiting) and self._store_retry.failing and not self._refusing

    @property
    def holding(self) -> list[Lease]:
        """The leases of unanswered outcomes; may be read from any thread."""
        return [waiting.outcome.lease for waiting in list(self._waiting)]

    def add(self, outcome: Outcome, ending: Ending, event: JobEvent | None = None) -> None:
        """Have the outcome written as soon as possible; its delay counts from now.

        The event happens when it is written.
        """
        if not self._waiting:
            self._wake.set()
        elif self._more is not None:
            self._more.set()
        self._waiting.append(Unanswered(outcome, self._monotonic(), ending, event))
        self._reporter.ended(ending)

    async def run(self) -> None:
        """Send batches until cancelled."""
        while True:
            await self._wake.wait()
            batch, sent = self._waiting[: self._size], self._monotonic()
            try:
                answers = await self._store_retry.call(partial(self._send, batch), AWAY)
            except Exception as error:  # noqa: BLE001 - one bad outcome must not hold up the rest
                await self._put_aside(batch, error)
                continue
            self._refusing = False
            verdicts = [verdict for verdict in answers if verdict is not None]
            if len(verdicts) < len(batch):
                batch = await self._put_off(batch, answers)
            else:
                self._forget(len(batch))
            took = self._monotonic() - sent
            self._size = min(BATCH_LIMIT, 2 * self._size)
            endings = zip([waiting.ending for waiting in batch], verdicts, strict=True)
            for (ending, verdict), alike in groupby(endings):
                self._reporter.answered(ending, verdict, len(list(alike)))
            if self._events.hooks:
                for waiting, verdict in zip(batch, verdicts, strict=True):
                    self._events.answered(waiting.outcome, waiting.event, verdict)
            stale = verdicts.count("stale")
            self.written += len(verdicts) - stale
            self.stale += stale
            if stale:
                self._report(batch, verdicts)
            if len(batch) >= MANY:
                await self._gather(min(GATHER_FOR * took, LONGEST_GATHER))

    async def _gather(self, seconds: float) -> None:
        """Let outcomes gather for so long, unless somebody waits until all are written."""
        if self._flushing or seconds <= 0:
            return
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    async def _send(self, batch: list[Unanswered]) -> Sequence[Verdict | None]:
        try:
            return await self._store.commit(self._aged(batch))
        except ShardAwayError as error:
            return error.answers or [None] * len(batch)

    async def _put_off(
        self, batch: list[Unanswered], answers: Sequence[Verdict | None]
    ) -> list[Unanswered]:
        """Send what is for a shard that is away after all others; returns what was answered.

        If that is nothing, there is a pause, until there is more to send.
        """
        pairs = list(zip(batch, answers, strict=True))
        answered = [waiting for waiting, answer in pairs if answer is not None]
        self._waiting.extend([waiting for waiting, answer in pairs if answer is None])
        self._forget(len(batch))
        self._answered -= len(batch) - len(answered)
        if not answered:
            self._more = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._more.wait(), LOOK_EVERY)
            self._more = None
        return answered

    async def _put_aside(self, batch: list[Unanswered], error: Exception) -> None:
        """Find the outcome of the batch that the store refuses, by sending one at a time.

        One that it refuses for now, perhaps because its disk is full, is sent again after the
        others. One that it cannot store at all is replaced: its job is cancelled, with the reason.
        """
        if len(batch) > 1:
            self._size = 1
            return
        first = self._waiting[0]
        outcome = first.outcome
        if isinstance(error, StoreError) and not isinstance(error, StoreDamagedError):
            self._refusing = True
            self._waiting.append(self._waiting.pop(0))
            await self._store_retry.pause(error)
            return
        log.error(
            "job %s: its outcome cannot be stored: %r",
            outcome.lease.job,
            error,
            extra=first.log_fields,
        )
        if not isinstance(outcome, Cancelled):
            self._reporter.breakers.forget(first.ending)
            reason = f"its outcome could not be stored: {type(error).__name__}"
            ending = Ending(first.ending.queue, first.ending.region)
            self._waiting[0] = Unanswered(Cancelled(outcome.lease, reason), first.added, ending)
        else:
            self._forget(1)

    def _forget(self, count: int) -> None:
        """Drop the first `count` outcomes: they need not be sent again."""
        del self._waiting[:count]
        self._answered += count
        if not self._waiting:
            self._wake.clear()
        self._progress.set()
        self._progress.clear()

    async def flushed(self) -> None:
        """Wait until all outcomes added so far are answered; more may be added meanwhile."""
        until = self._answered + len(self._waiting)
        self._flushing += 1
        self._hurry.set()
        try:
            while self._answered < until:
                await self._progress.wait()
        finally:
            self._flushing -= 1

    def _aged(self, batch: list[Unanswered]) -> list[Outcome]:
        """The outcomes, with the time since they were added taken off their delays."""
        now = self._monotonic()
        return [
            replace(waiting.outcome, delay=waiting.outcome.delay - (now - waiting.added))
            if isinstance(waiting.outcome, DELAYED)
            else waiting.outcome
            for waiting in batch
        ]

    def _report(self, batch: list[Unanswered], verdicts: list[Verdict]) -> None:
        for waiting, verdict in zip(batch, verdicts, strict=True):
            outcome = waiting.outcome
            if verdict == "stale":
                self._reporter.lost_leases.add(
                    outcome.lease,
                    f"the outcome {type(outcome).__name__} was refused",
                    waiting.log_fields,
                )
