"""What becomes of a job whose task this worker does not know."""

import contextlib
import logging
from collections.abc import Awaitable, Callable

from mulligan.core.decide import SNOOZE_LIMIT
from mulligan.core.errors import UNREADABLE, StoreError
from mulligan.core.job import Claim, decode_call
from mulligan.core.outcome import Drained, Failed, Result, Snoozed
from mulligan.core.signals import Fail
from mulligan.engine.job_log import job_fields
from mulligan.engine.known_tasks import KnownTasks
from mulligan.engine.result_gate import failed

log = logging.getLogger("mulligan.worker")
# Leaves a queue to other workers, and takes nothing from it for so many seconds.
LeaveToOthers = Callable[[str, float], Awaitable[None]]


class UnknownTasks:
    """Gives a job of an unknown task to a worker that knows the task, or tries it again later.

    Without `known_tasks` nothing is known of other workers.
    """

    def __init__(
        self, delay: float, known_tasks: KnownTasks | None, leave_to_others: LeaveToOthers
    ) -> None:
        self._delay = delay
        self._known_tasks = known_tasks
        self._leave_to_others = leave_to_others

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
                return failed(Fail(refused, "signature"))
        if claim.snoozes < SNOOZE_LIMIT:
            log.error(
                "job %s: no task is named %r here; trying later",
                claim.id,
                claim.task,
                extra=job_fields(claim),
            )
            return Snoozed(self._delay)
        message = f"no worker knows the task {claim.task!r}; deploy one that does, then replay"
        return Failed("UnknownTask", message, non_retryable=True)
