"""Jobs, workers, plans and outcomes, in the few words that a test needs."""

from typing import Any

from mulligan.core.answers import Claimed
from mulligan.core.facts import QueueSettings
from mulligan.core.fairness import Carry, plan_claim
from mulligan.core.job import TOKENS_PER_LIFE, Adopted, Attempt, Claim, Job, Lease, NewJob, encode
from mulligan.core.lane import ANYWHERE, Lane, Priority
from mulligan.core.outcome import Again, Dead, Done
from mulligan.core.plan import ClaimPlan, Group, Limit, Source, Take
from mulligan.core.retry import Exponential, Retry
from mulligan.core.worker import Worker
from mulligan.engine.current import CurrentJob
from mulligan.stores.contract import Store

FRESH = Lane("default", "default", Priority.NORMAL)
ANYONE = Lane("default", ANYWHERE, Priority.NORMAL)
URGENT = Lane("default", "default", Priority.URGENT)
RETRY = Lane("default", ANYWHERE, Priority.RETRY)

ANN = Worker("ann-1", name="ann")
BOB = Worker("bob-1", name="bob")
REAPER = Worker("reaper-1", name="reaper")


def body(retry: Retry | None = None, **more: Any) -> bytes:
    """A body as the app encodes it; the retry waits 2, 4, 8 seconds unless told otherwise."""
    policy = retry or Retry(3, Exponential(2, 2, 60, "none"))
    return encode({"task": "ask", "args": [], "kwargs": {}, "retry": policy, **more})


def job(name: str, **fields: Any) -> NewJob:
    """A job with this id, in the default queue and region unless told otherwise."""
    given = {"queue": "default", "task": "ask", "body": body(), "region": "default", **fields}
    return NewJob(name, **given)


def jobs(*names: str, **fields: Any) -> list[NewJob]:
    """Jobs with these ids, alike in everything else."""
    return [job(name, **fields) for name in names]


def source(lane: Lane = FRESH, *limits: Limit, waited: float = 0.0, yields: bool = False) -> Source:
    """A lane behind these limits."""
    return Source(lane, waited, limits, yields)


def group(*tiers: tuple[Source, ...] | Source | Lane) -> Group:
    """A group of tiers, most of which have one source."""
    return Group("default", "fresh", tuple(tier_of(tier) for tier in tiers))


def tier_of(tier: tuple[Source, ...] | Source | Lane) -> tuple[Source, ...]:
    """The tier that is meant."""
    if isinstance(tier, Lane):
        return (Source(tier),)
    return (tier,) if isinstance(tier, Source) else tier


def one_tier(*sources: Source | Lane) -> tuple[Source, ...]:
    """Sources that are merged by (due, sequence)."""
    return tuple(Source(each) if isinstance(each, Lane) else each for each in sources)


def in_turn(demand: int, *groups: Group, until: tuple[int, ...] = ()) -> ClaimPlan:
    """A plan that takes from the groups in order, each until the claim has that many in all."""
    steps = [Take(i, until[i] if until else demand) for i in range(len(groups))]
    return ClaimPlan(demand, groups, tuple(steps))


async def walk(store: Store, plan: ClaimPlan, worker: Worker = ANN) -> Claimed:
    """Claim by the plan as made from the facts of this moment.

    The first worker of a region changes the facts by its coming, and is refused once.
    """
    for _ in range(2):
        epoch = (await store.facts()).epoch
        current = ClaimPlan(plan.demand, plan.groups, plan.steps, epoch)
        claimed = await store.claim(current, worker)
        if not claimed.stale:
            return claimed
    raise AssertionError("a plan of the newest epoch was refused")


async def claim(
    store: Store, *sources: Source | Lane, demand: int = 1, worker: Worker = ANN
) -> Claimed:
    """Claim from one tier of these sources; without any, from the default fresh and retry lanes."""
    tier = one_tier(*(sources or (FRESH, ANYONE, RETRY)))
    return await walk(store, in_turn(demand, group(tier)), worker)


async def start(store: Store, *sources: Source | Lane, worker: Worker = ANN) -> Claim:
    """Claim one job that is known to be there."""
    claimed = await claim(store, *sources, worker=worker)
    assert len(claimed.claims) == 1, "there was nothing to start"
    return claimed.claims[0]


async def begin(store: Store, *new: NewJob, worker: Worker = ANN) -> list[Claim]:
    """Enqueue jobs and claim all that can start, from their own lanes."""
    await store.enqueue(new)
    lanes = dict.fromkeys(each.lane for each in new)
    return (await claim(store, *lanes, demand=len(new), worker=worker)).claims


async def run_by_policy(
    store: Store, demand: int, worker: Worker = ANN, settings: QueueSettings | None = None
) -> Claimed:
    """Claim as an engine does, by the plan of the queue's policy."""
    if settings is not None:
        await store.configure("default", settings)
    facts = (await store.beat(worker, [])).facts
    queues = [(queue, Carry()) for queue in worker.queues]
    plan = plan_claim(demand, worker.region, queues, facts, worker.only)
    return await store.claim(plan, worker)


def names(claimed: Claimed) -> list[str]:
    """The ids that a claim gave, in its order."""
    return [each.id for each in claimed.claims]


TRACEBACK = 'Traceback:\n  File "ask.py", line 1, in ask\n    1 / 0  # ☃ "quoted"\n'


def attempt(claim: Claim, message: str = "boom", **fields: Any) -> Attempt:
    """A failed attempt of this claim."""
    return Attempt(
        number=claim.attempt,
        replay=claim.replay,
        region=claim.worker_region,
        worker=claim.worker,
        started_at=claim.started_at,
        type="ValueError",
        message=message,
        **fields,
    )


def done(claim: Claim, result: bytes | None = b"1", *following: NewJob) -> Done:
    """Finished, with what comes next."""
    return Done(claim.lease, result, following)


def again(claim: Claim, delay: float = 0.0, lane: Lane = RETRY, message: str = "boom") -> Again:
    """Failed, to be tried again after the delay."""
    failure = attempt(claim, message, delay=delay, traceback=TRACEBACK)
    return Again(claim.lease, lane, delay, failure)


def dead(claim: Claim, message: str = "boom", *following: NewJob) -> Dead:
    """Failed for good."""
    return Dead(claim.lease, attempt(claim, message), following)


async def adopted_from(other: Store, *ids: str) -> list[Adopted]:
    """The jobs of the other store with their histories, as they are handed over."""
    found = [(await other.get(each), each) for each in ids]
    return [
        Adopted(
            job,
            await other.history(each),
            await other.arrivals(each),
            await other.records(each),
        )
        for job, each in found
        if job is not None
    ]


def used(job: Job | Claim | CurrentJob) -> int:
    """How many tokens the job has used in its present life."""
    return job.token % TOKENS_PER_LIFE


def lease(claim: Claim, token: int) -> Lease:
    """A hold on the claim's job with another token."""
    return Lease(claim.id, token)
