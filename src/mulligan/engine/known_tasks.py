"""Registers the tasks of this worker, and leaves jobs of other tasks to workers that know them.

Two apps may share a queue, and a claim takes the next job whichever app knows its task. A job whose
task another live worker knows goes back at once. For a while after that, this worker takes from the
queue only what no other idle worker would take sooner. A job whose task nobody knows waits for a
release that does, and is dead after it has waited too often.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import signature
from typing import Any

from msgspec.json import encode

from mulligan.core.checks import clean
from mulligan.core.decide import SNOOZE_LIMIT
from mulligan.core.declared_settings import disputes
from mulligan.core.errors import UNREADABLE, StoreError
from mulligan.core.job import Claim, decode_call
from mulligan.core.known_tasks import (
    KEEP_KNOWLEDGE,
    KEEP_UNKNOWN,
    KNOWS,
    NO_SIGNATURE,
    REGISTER_EVERY,
    SIGNATURE_LIMIT,
    Registration,
    Unknown,
    clashes,
    is_known,
    read_registrations,
    unknown_note,
)
from mulligan.core.outcome import Drained, Failed, Result, Snoozed
from mulligan.core.signals import BadSignature
from mulligan.core.worker import Worker
from mulligan.engine.job_log import job_fields
from mulligan.engine.loops import StoreRetry
from mulligan.engine.result_gate import failed
from mulligan.engine.task_caller import Target
from mulligan.stores.contract import Store

log = logging.getLogger("mulligan.worker")
# How old the list of the other workers' tasks may be.
LOOK_EVERY = 1.0
# How often a note is written that nobody knows a task.
NOTE_EVERY = 10.0
# A job for another worker is put off by this: an idle worker has taken it by then.
BRIEFLY = 0.02
# After so many times the others seem busy, and the delay doubles each time.
BRIEF_TIMES = 10
# So many of a job's snoozes are not used up while somebody knows its task.
KEPT_SNOOZES = 10
# How often the log says that a task is unknown, and of how many tasks it is remembered.
LOG_EVERY, LOGGED_TASKS = 60.0, 1000
NO_SETTINGS: Mapping[str, str] = {}

# Leaves a queue to other workers, and takes nothing from it for so many seconds.
LeaveToOthers = Callable[[str, float], Awaitable[None]]


class KnownTasks:
    """Registers the tasks of this worker, and reads which tasks other workers registered."""

    def __init__(
        self,
        store: Store,
        worker: Worker,
        tasks: Mapping[str, Target],
        *,
        monotonic: Callable[[], float],
        longest: float,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        self._store = store
        self._worker = worker
        self._tasks = tasks
        self._monotonic = monotonic
        self._longest = longest
        self._settings = dict(settings)
        self._known: list[Registration] = []
        self._now = 0.0
        self._looked_at: float | None = None
        self._looking = asyncio.Lock()
        self._noted: dict[str, float] = {}
        self._store_retry = StoreRetry("known tasks")

    async def run(self) -> None:
        """Warn of clashes, then renew the registration until cancelled."""
        await self._store_retry.call(self.compare)
        while True:
            await asyncio.sleep(REGISTER_EVERY)
            await self._store_retry.call(self.register)

    async def compare(self) -> None:
        """Register, and warn of tasks and settings that another live worker declares otherwise."""
        mine = await self.register()
        others = [each for each in await self._look() if each.note != mine.note]
        known = [mine, *others]
        for sentence in [*clashes(known, self._now), *disputes(known, self._now)]:
            if f"worker {mine.worker}" in sentence:
                log.warning("%s", sentence)

    async def register(self, *, left: bool = False) -> Registration:
        """Write a note of the tasks known here; `left` says that the worker leaves."""
        mine = Registration(
            self._worker.name or self._worker.id,
            (await self._store.facts()).now,
            self._worker.queues,
            {name: signature_of(task.function) for name, task in self._tasks.items()},
            left,
            self._settings,
        )
        await self._store.note(mine.note, encode(mine), KEEP_KNOWLEDGE)
        return mine

    async def left_to_others(self, claim: Claim) -> Result | None:
        """How to give back a job whose task another live worker knows; None if nobody knows it.

        That nobody knows it is noted for `explain` and `doctor`.
        """
        if not (
            is_known(claim.task, await self._look(LOOK_EVERY), self._now)
            or is_known(claim.task, await self._look(), self._now)
        ):
            await self._note(claim)
            return None
        log.debug(
            "job %s: left to workers that know task %r",
            claim.id,
            claim.task,
            extra=job_fields(claim),
        )
        if claim.snoozes >= SNOOZE_LIMIT - KEPT_SNOOZES:
            return Drained()
        later = 2 ** max(0, claim.snoozes + 1 - BRIEF_TIMES)
        return Snoozed(min(self._longest, BRIEFLY * later))

    async def _look(self, age: float = 0.0) -> list[Registration]:
        """The tasks that all workers registered, read at most `age` seconds before this call."""
        asked = self._monotonic()
        async with self._looking:
            if self._looked_at is None or self._looked_at < asked - age:
                self._looked_at = self._monotonic()
                self._known = read_registrations(await self._store.notes(KNOWS))
                self._now = (await self._store.facts()).now
        return self._known

    async def _note(self, claim: Claim) -> None:
        now, key = self._monotonic(), unknown_note(claim.task)
        if now - self._noted.get(key, -NOTE_EVERY) < NOTE_EVERY:
            return
        self._noted[key] = now
        met = Unknown(clean(claim.task), claim.queue, claim.id, self._now)
        await self._store.note(key, encode(met), KEEP_UNKNOWN)


def signature_of(function: Callable[..., Any]) -> str:
    """The signature of a task as text."""
    try:
        return clean(str(signature(function)))[:SIGNATURE_LIMIT]
    except (TypeError, ValueError):
        return NO_SIGNATURE


class UnknownTasks:
    """Gives a job of an unknown task to a worker that knows the task, or tries it again later.

    Without `known_tasks` nothing is known of other workers.
    """

    def __init__(
        self,
        delay: float,
        known_tasks: KnownTasks | None,
        leave_to_others: LeaveToOthers,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._delay = delay
        self._known_tasks = known_tasks
        self._leave_to_others = leave_to_others
        self._monotonic = monotonic
        self._logged: dict[str, float] = {}

    async def result(self, claim: Claim) -> Result:
        """How the attempt ends: the job is for another worker, is snoozed, or fails for good."""
        if self._known_tasks is not None:
            left = None
            with contextlib.suppress(StoreError, OSError):
                left = await self._known_tasks.left_to_others(claim)
            if left is not None:
                rest = self._delay if isinstance(left, Drained) else 0.0
                await self._leave_to_others(claim.queue, rest)
                return left
        return self._later(claim)

    def _later(self, claim: Claim) -> Result:
        """Wait for a release that knows the task; a job that has waited too often is dead."""
        with contextlib.suppress(*UNREADABLE):
            if (refused := decode_call(claim.body).refused) is not None:
                return failed(BadSignature(refused, "signature"))
        if claim.snoozes < SNOOZE_LIMIT:
            self._log(claim)
            return Snoozed(self._delay)
        message = f"no worker knows the task {claim.task!r}; deploy one that does, then replay"
        return Failed("UnknownTask", message, non_retryable=True)

    def _log(self, claim: Claim) -> None:
        """Say that nobody knows the task: as an error once in a while, however many jobs wait."""
        now, level = self._monotonic(), logging.DEBUG
        if now - self._logged.get(claim.task, -LOG_EVERY) >= LOG_EVERY:
            level = logging.ERROR
            if len(self._logged) >= LOGGED_TASKS:
                self._logged.clear()
            self._logged[claim.task] = now
        log.log(
            level,
            "job %s: no live worker knows the task %r, so its jobs wait; import the module that"
            " declares it where this worker's app is, or start a worker that knows it",
            claim.id,
            claim.task,
            extra=job_fields(claim),
        )
