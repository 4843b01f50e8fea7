"""Events: the worker tells the app's hooks what has happened to its jobs.

Hooks are told in order, one at a time, beside the work: coroutines on the loop, plain functions in
a thread. No hook changes or delays an outcome. What a hook raises is logged and counted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from mulligan.core.counts import EVENT_DROPPED, HOOK_FAILED
from mulligan.core.event import EventName, JobEvent, ended, enqueued, of_attempt
from mulligan.core.job import Claim, Enqueued, NewJob
from mulligan.core.outcome import Dead, Done, Outcome, Verdict
from mulligan.engine.reporter import Reporter
from mulligan.engine.threads import Threads

log = logging.getLogger("mulligan.worker")
# How many events wait at most for hooks that are slower than the work; more are dropped.
MOST_WAITING = 10_000


class EventHook(Struct, frozen=True):
    """A function of the app that is told of events."""

    name: str
    function: Callable[[JobEvent], Any]
    is_async: bool = False


Hooks = Mapping[EventName, Sequence[EventHook]]


class Events:
    """Keeps events until the hooks are told of them; without hooks it keeps none."""

    def __init__(self, hooks: Hooks, reporter: Reporter, threads: Threads | None) -> None:
        self.hooks = hooks
        self._reporter = reporter
        self._threads = threads
        self._waiting: deque[JobEvent] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def started(self, claim: Claim) -> None:
        """An attempt starts."""
        if "start" in self.hooks:
            self.add(of_attempt("start", claim))

    def of_outcome(
        self,
        claim: Claim,
        outcome: Outcome,
        runtime: float | None = None,
        exception: BaseException | None = None,
    ) -> JobEvent | None:
        """The event to add once the outcome is written; None if no hook needs one."""
        return ended(claim, outcome, runtime, exception) if self.hooks else None

    def answered(self, outcome: Outcome, event: JobEvent | None, verdict: Verdict) -> None:
        """The store has answered an outcome: nothing happened if it was stale."""
        if verdict == "stale":
            return
        if event is not None and event.name in self.hooks:
            self.add(event)
        if isinstance(outcome, Done | Dead) and outcome.next:
            self.stored(outcome.next)

    def stored(self, jobs: Sequence[NewJob], answers: Sequence[Enqueued] | None = None) -> None:
        """The store has accepted jobs; with `answers`, those that it had not had before."""
        if "enqueue" in self.hooks:
            for job in created(jobs, answers):
                self.add(enqueued(job))

    def add(self, event: JobEvent) -> None:
        """Have the hooks told of the event as soon as they are through with those before."""
        if len(self._waiting) >= MOST_WAITING:
            self._reporter.count(event.queue, event.worker_region, EVENT_DROPPED)
            return
        self._waiting.append(event)
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Tell hooks until cancelled."""
        while True:
            await self._wake.wait()
            while self._waiting:
                event = self._waiting.popleft()
                for hook in self.hooks.get(event.name, ()):
                    await self._tell(hook, event)
            self._wake.clear()
            self._idle.set()

    async def told(self) -> None:
        """Wait until the hooks are through with all events."""
        await self._idle.wait()

    @property
    def are_told(self) -> bool:
        """Whether no event waits, and no hook runs."""
        return self._idle.is_set()

    @property
    def untold(self) -> int:
        """How many events wait."""
        return len(self._waiting)

    async def _tell(self, hook: EventHook, event: JobEvent) -> None:
        try:
            if hook.is_async:
                await hook.function(event)
            elif self._threads is None:
                hook.function(event)
            else:
                await self._threads.run(partial(hook.function, event), None)
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # the worker ends
            log_hook_failure(hook, event, error)
            self._reporter.count(event.queue, event.worker_region, HOOK_FAILED + event.name)


def created(jobs: Sequence[NewJob], answers: Sequence[Enqueued] | None) -> list[NewJob]:
    """The jobs that were not stored before."""
    if answers is None:
        return list(jobs)
    return [job for job, answer in zip(jobs, answers, strict=True) if answer.created]


def log_hook_failure(hook: EventHook, event: JobEvent, error: BaseException) -> None:
    """Log what a hook has raised, with its traceback."""
    log.error(
        "job %s: hook %s raised when it was told of event %s; the job goes on",
        event.id,
        hook.name,
        event.name,
        exc_info=error,
        extra={"job": event.id, "task": event.task, "queue": event.queue},
    )
