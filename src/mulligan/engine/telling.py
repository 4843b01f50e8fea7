"""What a worker logs about jobs, and the fields that such lines carry beside their text."""

import logging
from typing import Any

from mulligan.core.job import Claim
from mulligan.core.outcome import Failed
from mulligan.core.trail import read_trail

log = logging.getLogger("mulligan.worker")
ABOUT = ("job", "task", "attempt", "queue", "region", "lane", "worker")


def about(claim: Claim) -> dict[str, Any]:
    """The fields of a line about an attempt: which it is, where it runs, who runs it."""
    return {
        "job": claim.id,
        "task": claim.task,
        "attempt": claim.attempt,
        "queue": claim.queue,
        "region": claim.worker_region,
        "lane": claim.lane.label,
        "worker": claim.worker,
    }


def log_start(claim: Claim) -> None:
    """One line for an attempt that starts; of a retry it says how long it was delayed."""
    if claim.retry_count:
        log.info(
            "job %s: back in queue %s after %.1f minutes; attempt %d starts from lane %s",
            claim.id,
            claim.queue,
            (read_trail(claim.trail).delay + max(0.0, claim.started_at - claim.due)) / 60,
            claim.attempt,
            claim.lane.label,
            extra=about(claim),
        )
    else:
        log.debug(
            "job %s: starts from lane %s of %s",
            claim.id,
            claim.lane.label,
            claim.queue,
            extra=about(claim),
        )


def log_failure(claim: Claim, result: Failed) -> None:
    """One line per failed attempt."""
    log.warning(
        "job %s: attempt %d of task %s failed: %s: %s",
        claim.id,
        claim.attempt,
        claim.task,
        result.type,
        result.message.replace("\n", "\\n"),
        extra=about(claim),
    )
