"""The recorder: sends what running attempts record, in batches, under their leases.

Steps and checkpoints are sent at once, and whoever records one waits for the answer. Progress and
log lines of all attempts are sent together, twice a second at most; lines also go along with a
step. Whatever gathers while a call is under way is the next batch. While nobody records, nothing
runs here.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, TypeVar

from mulligan.core.counts import STALE_RECORD, STEP
from mulligan.core.errors import ShardAwayError
from mulligan.core.job import Claim, Lease
from mulligan.core.record import Record, Recording, RecordVerdict
from mulligan.core.settings import BATCH_LIMIT, PROGRESS_EVERY
from mulligan.core.signals import Fail
from mulligan.engine.attempt_records import AttemptRecords, Known, Write, lease_lost
from mulligan.engine.committer import AWAY
from mulligan.engine.job_log import job_fields
from mulligan.engine.loops import StoreRetry
from mulligan.engine.reporter import Reporter
from mulligan.engine.task_caller import Target
from mulligan.stores.contract import Store
from mulligan.stores.for_attempts import records_for_attempt

log = logging.getLogger("mulligan.worker")
T = TypeVar("T")
# Bytes of values that one call may carry.
LARGEST_CALL = 4 * 1024 * 1024
# How often what is for a shard that is away is sent again; the rest does not wait for it.
LOOK_EVERY = 0.5
# How many ended attempts are remembered, so that a thread that outlived one records no more.
REMEMBERED = 1000
NOTHING_SPENT: Mapping[str, int] = {}


class Recorder:
    """Sends the records of all attempts of a worker.

    `lost` stops the attempts of leases that are no longer held. With `inline` plain functions run
    on the loop itself, as in a simulation, on a store that never waits.
    """

    def __init__(
        self,
        store: Store,
        tasks: Mapping[str, Target],
        lost: Callable[[Iterable[Lease]], None],
        *,
        monotonic: Callable[[], float],
        inline: bool = False,
        reporter: Reporter,
        limits: Collection[str] = (),
    ) -> None:
        self.limits = limits
        self.loop = asyncio.get_running_loop()
        # Those that have recorded something, or read what others have.
        self.attempts: dict[Lease, AttemptRecords] = {}
        self.at_step: Callable[..., None] = go_on
        self._store = store
        self._tasks = tasks
        self._lost = lost
        self._monotonic = monotonic
        self._inline = inline
        self._reporter = reporter
        self._ended: OrderedDict[Lease, None] = OrderedDict()
        self._sending: asyncio.Task[None] | None = None
        self._notes_sent_at = -inf
        self._woken = asyncio.Event()
        self._store_retry = StoreRetry("record")
        self._read_retry = StoreRetry("records")

    def of(self, claim: Claim) -> AttemptRecords:
        """What the attempt records, from any thread; raises LeaseLost if it has ended."""
        found = self.attempts.get(claim.lease)
        if found is not None:
            return found
        if claim.lease in self._ended:
            raise lease_lost(claim)
        target = self._tasks.get(claim.task)
        made = AttemptRecords(self, claim, is_async=target is not None and target.is_async)
        return self.attempts.setdefault(claim.lease, made)

    def spent_by(self, claim: Claim) -> Mapping[str, int]:
        """What the attempt has spent of limits."""
        attempt = self.attempts.get(claim.lease)
        return NOTHING_SPENT if attempt is None else attempt.spent

    async def finish(self, claim: Claim) -> None:
        """The attempt is over: store its notes before its outcome. Raises LeaseLost.

        Notes that the store refuses are lost, the outcome is not.
        """
        attempt = self.attempts.get(claim.lease)
        if attempt is not None:
            with contextlib.suppress(Exception):
                await attempt.flush()
            self.forget(claim)

    def forget(self, claim: Claim) -> None:
        """The attempt records no more."""
        attempt = self.attempts.pop(claim.lease, None)
        if attempt is None:
            return
        attempt.end()
        self._ended[claim.lease] = None
        while len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def wake(self, *, at_once: bool) -> None:
        """Something waits to be sent; from any thread."""
        if running_loop() is self.loop:
            self._wake(at_once=at_once)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(partial(self._wake, at_once=at_once))

    async def read(self, job: str) -> Known:
        """What the job has recorded."""
        found = await self._read_retry.call(lambda: records_for_attempt(self._store, job), AWAY)
        steps = {each.name: each.value or b"" for each in found if each.kind == "step"}
        checkpoints = [each.value for each in found if each.kind == "checkpoint"]
        return Known(steps, checkpoints[-1] if checkpoints else None)

    def wait_for(self, attempt: AttemptRecords, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine for a plain function, which waits for it."""
        if self._inline and not attempt.is_async:
            return self._on_loop(work)
        if running_loop() is not self.loop:
            return asyncio.run_coroutine_threadsafe(work(), self.loop).result()
        raise Fail(
            f"job {attempt.claim.id}: this would hold up every job of the worker; in a task"
            " that is a coroutine function use the twin that begins with a, such as"
            " await astep(…) or await current_job().acheckpoint(…)",
            "blocking",
        )

    def _on_loop(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine at once, for a plain function that the loop calls."""
        outer = running_loop()
        asyncio._set_running_loop(self.loop)  # noqa: SLF001 - a test may hide it from the function
        try:
            return self._at_once(work())
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001

    def _at_once(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end where nothing can be awaited, on a store that never waits."""
        for _ in range(BATCH_LIMIT):
            try:
                work.send(None)
            except StopIteration as answer:
                value: T = answer.value
                return value
            with contextlib.suppress(StopIteration):  # what it waits for is to be sent
                self._send(list(self.attempts.values())).send(None)
        work.close()
        raise Fail(
            "a plain task of a test on a real store cannot wait for it; test it in memory, without"
            " a store, or make it a coroutine function",
            "blocking",
        )

    def _wake(self, *, at_once: bool) -> None:
        if self._sending is None:
            self._sending = self.loop.create_task(self._run())
        if at_once:
            self._woken.set()

    async def _run(self) -> None:
        """Send what is due, until nothing waits."""
        try:
            while waiting := [each for each in list(self.attempts.values()) if each.is_waiting]:
                self._woken.clear()
                now = self._monotonic()
                notes_due = self._notes_sent_at + PROGRESS_EVERY
                due = [each for each in waiting if each.not_before <= now]
                hurried = [each for each in due if each.hurries]
                if due and notes_due <= now:
                    await self._send(due)
                elif hurried:
                    await self._send(hurried)
                else:
                    next_due = min(
                        [each.not_before if each.hurries else notes_due for each in waiting]
                    )
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(next_due - now):
                            await self._woken.wait()
        finally:
            self._sending = None

    async def _send(self, attempts: list[AttemptRecords]) -> None:
        """One call with the records of these attempts, or as many as it may carry."""
        now, size = self._monotonic(), 0
        notes = now >= self._notes_sent_at + PROGRESS_EVERY
        if notes:
            self._notes_sent_at = now
        sent: list[tuple[AttemptRecords, list[Write]]] = []
        recordings: list[Recording] = []
        for attempt in attempts[:BATCH_LIMIT]:
            records, writes = attempt.take(progress=notes)
            if not records:
                self._answer(attempt, writes, "recorded")
                continue
            sent.append((attempt, writes))
            recordings.append(Recording(attempt.claim.lease, records))
            size += sum(len(each.value or b"") for each in records)
            if size >= LARGEST_CALL:
                break
        if not recordings:
            return
        try:
            verdicts = await self._store_retry.call(partial(self._record, recordings), AWAY)
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            log.warning("record: %s; what was noted is lost", error)
            for _, writes in sent:
                for each in writes:
                    each.fail(error)
            return
        for (attempt, writes), recording, verdict in zip(sent, recordings, verdicts, strict=True):
            self._answer(attempt, writes, verdict, recording.records)

    async def _record(self, recordings: list[Recording]) -> Sequence[RecordVerdict | None]:
        try:
            return await self._store.record(recordings)
        except ShardAwayError as error:
            return error.answers or [None] * len(recordings)

    def _answer(
        self,
        attempt: AttemptRecords,
        writes: list[Write],
        verdict: RecordVerdict | None,
        records: tuple[Record, ...] = (),
    ) -> None:
        claim = attempt.claim
        if verdict is None:
            attempt.put_back(records, writes, self._monotonic() + LOOK_EVERY)
            return
        if verdict == "recorded":
            for each in writes:
                if each.kind == "step":
                    self._reporter.count(claim.queue, claim.worker_region, STEP)
                each.succeed()
            return
        what = "what it recorded was refused"
        self._reporter.lost_leases.add(claim.lease, what, job_fields(claim))
        self._reporter.count(claim.queue, claim.worker_region, STALE_RECORD)
        attempt.lost = True
        for each in writes:
            each.fail(lease_lost(claim))
        if not writes:
            self._lost([claim.lease])


def go_on(name: str, *, ran: bool) -> None:
    """What happens at a step: nothing, but in tests."""


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
