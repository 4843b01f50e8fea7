"""What a result means for its job: only this code turns a failure into a retry or an end.

Isolation is decided here too: after a worker died, which of its jobs run alone, and which beside a
few others. A job that kills its worker must not take other attempts with it. Nobody can tell which
of the jobs that a dead worker held was to blame. So each is a crash suspect until one of its
attempts ends in any other way than being lost. A job that was lost once runs beside a few other
suspects. It runs alone if it was lost again, or if it has no retry left that another suspect could
cost it.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.facts import Facts
from mulligan.core.fetch import Fifo
from mulligan.core.flow import FlowError, called_with, follower_id, following, hands_on, new_job
from mulligan.core.health import FREE_PROBES
from mulligan.core.job import (
    ARRIVES,
    Attempt,
    Claim,
    NewJob,
    Policy,
    arrives_of,
    decode_policy,
    traced,
)
from mulligan.core.lane import ANYWHERE, Lane, away_from, is_pinned, retry_priority, towards
from mulligan.core.limits import costs_of
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Drained,
    Failed,
    Later,
    Limited,
    LimitUse,
    Lost,
    Outcome,
    Result,
    Returned,
    Snoozed,
    Succeeded,
)
from mulligan.core.retry import Retry, Trail, read_trail

SNOOZE_LIMIT = 100
LOST = Failed("Lost", "the worker stopped beating while it held the job")
OVERSLEPT = Failed(
    "Snooze", f"the job was snoozed more than {SNOOZE_LIMIT} times", about_region=False
)
# How many crash suspects run beside each other.
FEW = 10
ALONE = 1


def decide(claim: Claim, result: Result, facts: Facts, draw: float, depth: int = 0) -> Outcome:
    """Say what becomes of a claimed job.

    `draw` is a random number from [0, 1) for jitter; `depth` is how many fresh jobs wait in the
    job's queue and region, for adaptive backoff.
    """
    if isinstance(result, Succeeded):
        return after_success(claim, result.result, facts)
    match result:
        case Drained():
            return Returned(claim.lease)
        case Snoozed(delay) if claim.snoozes < SNOOZE_LIMIT:
            return Later(claim.lease, delay)
        case Snoozed():
            return after_failure(claim, OVERSLEPT, facts, draw, depth)
        case Lost():
            # It has waited for a whole lease already.
            lost = replace(LOST, delay=0.0, non_retryable=result.non_retryable)
            return after_failure(claim, lost, facts, draw, depth, lost=True)
        case failure:
            return after_failure(claim, failure, facts, draw, depth)


def with_use(outcome: Outcome, result: Result, spent: Mapping[str, int]) -> Outcome:
    """The outcome, with what its attempt says of limits: what it spent, and what is to wait."""
    pauses: tuple[tuple[str, float], ...] = ()
    wait = None
    if isinstance(result, Failed):
        asked = result.least_delay if result.delay is None else result.delay
        wait = asked if asked > 0 else None
        pauses = tuple((name, asked) for name in result.pause)
    if not (spent or pauses or wait) or isinstance(outcome, (Returned, Limited, Cancelled)):
        return outcome
    return replace(outcome, use=LimitUse(tuple(sorted(spent.items())), pauses, wait))


def after_success(claim: Claim, value: bytes | None, facts: Facts) -> Outcome:
    """Done, with what comes next; a dead letter if that cannot be made from the result."""
    if not claim.is_followed:
        arrives = arrives_of(claim.body) if ARRIVES in claim.body else None
        return Done(claim.lease, value, arrives=arrives)
    try:
        jobs = following(claim, value)
        arrives = arrives_of(claim.body)
        return Done(claim.lease, value, jobs, hands_on=hands_on(jobs), arrives=arrives)
    except FlowError as error:
        wrong = Failed("Flow", str(error), non_retryable=True)
        return after_failure(claim, wrong, facts, draw=0.0, depth=0)


def after_failure(
    claim: Claim, failed: Failed, facts: Facts, draw: float, depth: int, *, lost: bool = False
) -> Outcome:
    """A retry while one is left and the policy retries such failures; otherwise a dead letter.

    The first three failed probes of a job use no retry: a probe is made for the region, while a
    healthy region serves. A lost probe does use one.
    """
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
        traceback=failed.traceback,
    )
    before = read_trail(claim.trail)
    free = (
        not lost
        and before.probes < FREE_PROBES
        and blames_region(failed)
        and is_probe(claim, facts)
    )
    retried = not failed.non_retryable and policy.retry.covers(failed.type, failed.classes)
    if not retried or (policy.retry.spent(claim.retry_count) and not free):
        return Dead(claim.lease, failure, dead_letter_job(claim, policy, failure))
    delay = failed.delay
    if delay is None:
        # Another program may have made the count negative, which is no index.
        delay = policy.retry.backoff.delay(max(1, claim.attempt), draw, depth)
        delay = max(delay, failed.least_delay)
    trail = before.after(claim.worker_region, delay, lost=lost, free=free)
    lane = route(claim, policy.retry, facts, trail)
    return Again(claim.lease, lane, delay, replace(failure, delay=delay), trail.write(), free)


def beyond(claim: Claim) -> Failed | None:
    """The failure of a claim with too many retries, or with limits that cannot be read.

    It must not run. No store makes such a claim, but another program may have changed the job.
    """
    if claim.limits is not None and not costs_of(claim.limits):
        said = "its limits cannot be read: another program has changed them; enqueue it again"
        return Failed("Limits", said, code="limits", non_retryable=True)
    policy = policy_of(claim.body) if claim.retry_count else None
    most = None if policy is None else policy.retry.max_retries
    if most is None or claim.retry_count <= most:
        return None
    said = f"it has had {claim.retry_count} retries, and max_retries is {most}; replay it to retry"
    return Failed("Spent", said, code="spent", non_retryable=True)


def policy_of(body: bytes) -> Policy | None:
    """The policy of a job; None if this release does not know its kind."""
    try:
        return decode_policy(body)
    except (*UNREADABLE, InvalidError):
        return None


def blames_region(result: Result) -> bool:
    """Whether a failure counts against the region, and not only against the job."""
    match result:
        case Failed():
            return result.about_region and not result.non_retryable and result.refused is None
        case Lost():
            return True
        case _:
            return False


def is_probe(claim: Claim, facts: Facts) -> bool:
    """Whether the attempt started while its region's breaker was open and another region served."""
    if not facts.is_open(claim.queue, claim.worker_region):
        return False
    return claim.started_at >= facts.health_of(claim.queue, claim.worker_region).breaker.since


def route(claim: Claim, retry: Retry, facts: Facts, trail: Trail) -> Lane:
    """The lane of a job's next retry: global unless its policy pins it to its own region."""
    settings = facts.queue(claim.queue)
    if isinstance(settings.policy, Fifo):
        return Lane(claim.queue, claim.region, claim.priority)
    priority = retry_priority(claim.priority)
    if retry.scope == "region" or is_pinned(claim.region):
        return Lane(claim.queue, claim.region, priority)
    scope = ANYWHERE
    if settings.grace_seconds > 0:
        scope = elsewhere(claim, facts) if claim.retry_count == 0 else reliable(claim, facts, trail)
    return Lane(claim.queue, scope, priority)


def elsewhere(claim: Claim, facts: Facts) -> str:
    """The scope of a first retry: any region but the one that failed, if another is healthy."""
    failed_in = claim.worker_region
    others = any(region != failed_in for region in facts.healthy(claim.queue))
    # The region is unknown if another program took the job.
    return away_from(failed_in) if others and failed_in != ANYWHERE else ANYWHERE


def reliable(claim: Claim, facts: Facts, trail: Trail) -> str:
    """The scope of a later retry: first the most successful region that has not failed the job.

    If all have failed it, the most successful of all; of equals, the one that failed longest ago.
    """
    able = facts.healthy(claim.queue) or facts.serving(claim.queue)
    if len(able) < 2:  # noqa: PLR2004 - with one region there is no choice
        return ANYWHERE
    untried = [region for region in able if region not in trail.regions]

    def rank(region: str) -> tuple[float, int]:
        ago = trail.regions.index(region) if region in trail.regions else -1
        return -facts.health_of(claim.queue, region).success_rate, ago

    return towards(min(untried or able, key=rank))


def dead_letter_job(claim: Claim, policy: Policy, failure: Attempt) -> tuple[NewJob, ...]:
    """The job for `on_dead`, one for each time that its job died."""
    if policy.on_dead is None:
        return ()
    letter = {
        "id": claim.id,
        "queue": claim.queue,
        "task": claim.task,
        "attempts": claim.attempt,
        "type": failure.type,
        "message": failure.message,
        "traceback": failure.traceback,
    }
    job = follower_id(claim, "dead", named=policy.named)
    said = called_with(policy.on_dead, letter)
    return (traced(new_job(job, policy.on_dead, claim.region, said), policy.trace),)


def group_limit(claim: Claim) -> int | None:
    """How many suspects, this one included, may run at a time; None if the job is no suspect."""
    lost = read_trail(claim.trail).lost
    if not lost:
        return None
    policy = policy_of(claim.body)
    last = policy is None or policy.retry.spent(claim.retry_count)
    return ALONE if lost > 1 or last else FEW


def isolated(claims: Sequence[Claim]) -> list[Claim]:
    """The suspects to run now, while all other claims are given back; empty if there is none."""
    tried = [claim for claim in claims if claim.trail]
    found = [(claim, most) for claim in tried if (most := group_limit(claim)) is not None]
    if not found:
        return []
    first = found[0][1]
    return [claim for claim, most in found if most >= first][:first]
