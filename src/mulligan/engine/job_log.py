"""Log lines about jobs, and the fields that they carry beside their text."""

import logging
import sys
from typing import Any

from msgspec.structs import replace

from mulligan.core.job import Claim
from mulligan.core.outcome import Again, Dead
from mulligan.core.retry import read_trail
from mulligan.engine.current import RUNNING
from mulligan.engine.traceback import trace_of

log = logging.getLogger("mulligan.worker")
MINUTE = 60.0
JOB_FIELDS = ("job", "task", "attempt", "queue", "region", "lane", "worker")
TRACE_FIELDS = ("trace_id", "span_id")


def job_fields(claim: Claim) -> dict[str, Any]:
    """The fields of a log line about an attempt: which it is, where it runs, who runs it."""
    return {
        "job": claim.id,
        "task": claim.task,
        "attempt": claim.attempt,
        "queue": claim.queue,
        "region": claim.worker_region,
        "lane": claim.lane.label,
        "worker": claim.worker,
    }


def current_fields() -> dict[str, Any]:
    """The fields of the job that runs here, and of the trace; empty outside of both."""
    claim = RUNNING.get(None)
    return ({} if claim is None else job_fields(claim)) | span_ids()


def span_ids() -> dict[str, str]:
    """The ids of the current trace and span; empty without one, or if nothing here traces."""
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is None:
        return {}
    current = tracing.get_current_span().get_span_context()
    if not current.is_valid:
        return {}
    return {"trace_id": f"{current.trace_id:032x}", "span_id": f"{current.span_id:016x}"}


def log_start(claim: Claim) -> None:
    """Log that an attempt starts; for a retry also how long it was delayed."""
    if claim.retry_count:
        log.info(
            "job %s: back in queue %s after %s; attempt %d starts from lane %s",
            claim.id,
            claim.queue,
            in_words(read_trail(claim.trail).delay + max(0.0, claim.started_at - claim.due)),
            claim.attempt,
            claim.lane.label,
            extra=job_fields(claim),
        )
    else:
        log.debug(
            "job %s: starts from lane %s of %s",
            claim.id,
            claim.lane.label,
            claim.queue,
            extra=job_fields(claim),
        )


def in_words(seconds: float) -> str:
    """A delay in words: seconds, or minutes if it is a minute or longer."""
    return f"{seconds:.1f} seconds" if seconds < MINUTE else f"{seconds / MINUTE:.1f} minutes"


def log_success(claim: Claim, seconds: float) -> None:
    """Log an attempt that succeeded, at level debug."""
    log.debug(
        "job %s: attempt %d of task %s succeeded in %.3f s",
        claim.id,
        claim.attempt,
        claim.task,
        seconds,
        extra=job_fields(claim),
    )


def log_failure(claim: Claim, outcome: Again | Dead, error: BaseException | None = None) -> None:
    """Log a failed attempt: at level error if it was the last one, else at level warning.

    The record has the exception, for handlers such as Sentry's. Formatters write what the job's
    history keeps of it: the exception itself may have secrets in it, and no bounds. If a retry
    follows, the line stays alone, unless the level is debug: a thousand jobs may fail at once.
    """
    level = logging.ERROR if isinstance(outcome, Dead) else logging.WARNING
    if not log.isEnabledFor(level):
        return
    failure = outcome.failure
    if level == logging.WARNING and not log.isEnabledFor(logging.DEBUG):
        failure, error = replace(failure, traceback=None), None
    file, line, function, _ = log.findCaller()
    record = log.makeRecord(
        log.name,
        level,
        file,
        line,
        "job %s: attempt %d of task %s failed: %s: %s",
        (claim.id, claim.attempt, claim.task, failure.type, failure.message.replace("\n", "\\n")),
        None,
        function,
        job_fields(claim) | {"traceback": failure.traceback},
    )
    record.exc_text = failure.traceback
    if error is not None:
        record.exc_info = (type(error), error, trace_of(error))
        record.exc_text = failure.traceback or f"{failure.type}: {failure.message}"
    try:
        log.handle(record)
    except BaseException:  # noqa: BLE001 - a handler may ask a broken exception for its message
        record.exc_info = None
        log.handle(record)


def log_holding(claim: Claim | None, seconds: float, where: str) -> None:
    """Log that a coroutine blocks the loop, while it does."""
    log.warning(
        "%s has held the worker's loop for %.1f s at %s; nothing else runs meanwhile: await instead"
        " of blocking, or make it a plain function, which has a thread",
        holder(claim),
        seconds,
        where,
        extra={} if claim is None else job_fields(claim),
    )


def log_held(claim: Claim | None, seconds: float, where: str) -> None:
    """Log for how long a coroutine has blocked the loop, once it has ended."""
    log.warning(
        "%s held the worker's loop for %.1f s, at %s",
        holder(claim),
        seconds,
        where,
        extra={} if claim is None else job_fields(claim),
    )


def log_late(claim: Claim | None, seconds: float) -> None:
    """Log that a coroutine was cancelled by its timeout, and has not ended."""
    log.warning(
        "%s still runs %g s after its timeout: it takes long to end, or has caught what cancels"
        ' it; let asyncio.CancelledError pass, or use pool="process", which is killed',
        holder(claim),
        seconds,
        extra={} if claim is None else job_fields(claim),
    )


def holder(claim: Claim | None) -> str:
    """What blocks the loop, in words."""
    return "a coroutine" if claim is None else f"job {claim.id}: task {claim.task}"
