"""What a result means for its job: the one place where a failure becomes a retry or an end."""

from msgspec import MsgspecError
from msgspec.structs import replace

from mulligan.core.facts import Facts
from mulligan.core.fetch import Fifo
from mulligan.core.job import Attempt, Claim, NewJob, Policy, decode_policy, encode
from mulligan.core.lane import ANYWHERE, Lane, Priority, away_from
from mulligan.core.outcome import (
    Again,
    Dead,
    Done,
    Drained,
    Failed,
    Later,
    Lost,
    Outcome,
    Result,
    Returned,
    Snoozed,
    Succeeded,
)
from mulligan.core.retry import Retry

SNOOZE_LIMIT = 100
LOST = Failed("Lost", "the worker stopped beating while it held the job")
OVERSLEPT = Failed("Snooze", f"the job was snoozed more than {SNOOZE_LIMIT} times")


def decide(claim: Claim, result: Result, facts: Facts, draw: float, depth: int = 0) -> Outcome:
    """Say what becomes of a claimed job.

    `draw` in [0, 1) is the chance behind jitter; `depth` is the fresh work that waits in the
    job's queue and region, for adaptive backoff.
    """
    match result:
        case Succeeded(value, following):
            return Done(claim.lease, value, following)
        case Drained():
            return Returned(claim.lease)
        case Snoozed(delay) if claim.snoozes < SNOOZE_LIMIT:
            return Later(claim.lease, delay)
        case Snoozed():
            return after_failure(claim, OVERSLEPT, facts, draw, depth)
        case Lost():
            # It has already waited a whole lease.
            lost = replace(LOST, delay=0.0, permanent=result.permanent)
            return after_failure(claim, lost, facts, draw, depth)
        case failure:
            return after_failure(claim, failure, facts, draw, depth)


def after_failure(claim: Claim, failed: Failed, facts: Facts, draw: float, depth: int) -> Outcome:
    """A retry while one is left and the failure is not permanent; otherwise a dead letter."""
    policy = policy_of(claim.body)
    if policy is None:
        policy = Policy(Retry(0))
        failed = replace(failed, message=f"{failed.message}; its retry policy cannot be read")
    failure = Attempt(
        number=claim.attempt,
        replay=claim.replay,
        region=claim.worker_region,
        worker=claim.worker,
        started_at=claim.started_at,
        type=failed.type,
        message=failed.message,
        code=failed.code,
        refused=failed.refused,
    )
    if failed.permanent or policy.retry.spent(claim.retry_count):
        return Dead(claim.lease, failure, told(claim, policy, failure))
    delay = failed.delay
    if delay is None:
        delay = policy.retry.backoff.delay(claim.attempt, draw, depth)
    lane = route(claim, policy.retry, facts)
    return Again(claim.lease, lane, delay, replace(failure, delay=delay))


def policy_of(body: bytes) -> Policy | None:
    """The policy that a job carries; None if it is of a kind that this release does not know."""
    try:
        return decode_policy(body)
    except MsgspecError:
        return None


def route(claim: Claim, retry: Retry, facts: Facts) -> Lane:
    """The lane of a job's next retry.

    A first retry is left to other regions than the one that failed it, for a grace, while
    another one is alive.
    """
    urgent = claim.priority == Priority.URGENT
    settings = facts.queue(claim.queue)
    if isinstance(settings.policy, Fifo):
        return Lane(claim.queue, claim.region, claim.priority)
    priority = Priority.URGENT_RETRY if urgent else Priority.RETRY
    if retry.scope == "region":
        return Lane(claim.queue, claim.region, priority)
    failed_in = claim.worker_region
    elsewhere = (
        claim.retry_count == 0 and settings.grace_seconds > 0 and facts.live_elsewhere(failed_in)
    )
    return Lane(claim.queue, away_from(failed_in) if elsewhere else ANYWHERE, priority)


def told(claim: Claim, policy: Policy, failure: Attempt) -> tuple[NewJob, ...]:
    """The job that tells of a dead letter, once: its id is fixed by the letter's id and replay."""
    if policy.on_dead is None:
        return ()
    letter = {
        "id": claim.id,
        "queue": claim.queue,
        "task": claim.task,
        "attempts": claim.attempt,
        "type": failure.type,
        "message": failure.message,
    }
    body = {"task": policy.on_dead, "args": [letter], "kwargs": {}, "retry": policy.on_dead_retry}
    return (
        NewJob(
            id=f"{claim.id}.dead.{claim.replay}",
            queue=policy.on_dead_queue,
            task=policy.on_dead,
            body=encode(body),
            region=claim.region,
        ),
    )
