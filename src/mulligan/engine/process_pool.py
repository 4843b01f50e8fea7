"""The process pool of a worker: when attempts may run in child processes, and what they give."""

import asyncio
import logging
import time
from collections.abc import Callable

from mulligan.core.errors import InvalidError
from mulligan.core.job import Claim
from mulligan.core.outcome import Drained, Result
from mulligan.engine.child_messages import Run
from mulligan.engine.job_log import job_fields
from mulligan.engine.loop_watch import LoopWatch
from mulligan.engine.loops import StoreRetry
from mulligan.engine.pool_room import PoolRoom
from mulligan.engine.processes import Processes
from mulligan.engine.recorder import Recorder
from mulligan.engine.result_gate import failed
from mulligan.engine.task_caller import Target, read_call
from mulligan.engine.tracing import Tracing, carried
from mulligan.stores.for_attempts import HasArrivals, arrivals_for_attempt

log = logging.getLogger("mulligan.worker")
# How long to wait before a job is given back because no child process could be started.
TRY_AGAIN_IN = 1.0


class ProcessPool:
    """Runs the attempts of tasks with pool="process": `room` says when, `processes` where."""

    def __init__(
        self,
        processes: Processes,
        room: PoolRoom,
        store: HasArrivals,
        watch: LoopWatch | None = None,
        *,
        recorder: Recorder,
        monotonic: Callable[[], float] = time.monotonic,
        tracing: Tracing | None = None,
    ) -> None:
        self.room = room
        self._tracing = tracing
        self._processes = processes
        self._store = store
        self._watch = watch
        self._recorder = recorder
        self._store_retry = StoreRetry("arrivals")
        self._monotonic = monotonic
        if watch is not None:
            processes.held = watch.held

    async def result(self, claim: Claim, target: Target) -> Result:
        """The result of an attempt that has room. A cancellation kills its child."""
        if self._watch is not None:
            self._watch.begin()
        try:
            call, arrived = read_call(claim), None
            if call.flow.gathers:
                arrived = await self._store_retry.call(
                    lambda: arrivals_for_attempt(self._store, claim.id)
                )
        except Exception as error:  # noqa: BLE001 - such as a body that cannot be read
            return failed(error)
        most = target.runs.max_memory
        try:
            child = await self._processes.child(most)
        except (OSError, InvalidError) as error:
            log.error("job %s: %s; giving it back", claim.id, error, extra=job_fields(claim))  # noqa: TRY400
            await asyncio.sleep(TRY_AGAIN_IN)
            return Drained()
        try:
            run, records = Run(claim, arrived, carried(self._tracing)), self._recorder.of
            return await self._processes.result(
                child, run, call.timeout, most, lambda: records(claim)
            )
        finally:
            self._processes.done_with(child)
