"""The claim planner: makes the claim plans of a worker, and settles the shares they granted."""

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from mulligan.core.facts import Facts
from mulligan.core.fairness import (
    KINDS,
    NO_BOUND,
    Bound,
    Carry,
    ClaimCounts,
    plan_claim,
    settle,
)
from mulligan.core.job import Claim
from mulligan.core.plan import KIND_OF, ClaimPlan, Kind, yielding
from mulligan.core.worker import Worker

Asked = tuple[int, tuple[tuple[str, Carry], ...], frozenset[str], Bound]
# Plans differ by demand and carries: in practice there are few. Beyond this they are dropped.
MOST_PLANS = 1000
# After a job whose task only another worker knows, others go first in its queue for so long.
YIELD_FOR = 5.0
# Meanwhile it leaves each job of the queue for so long to a worker that sleeps.
YIELD_WAIT = 2.0


class ClaimPlanner:
    """Plans a worker's claims one after the other, so that shares hold over many claims.

    Plans are cached by demand and carries, until the facts change that they are made from.
    """

    def __init__(self, worker: Worker, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._worker = worker
        self._monotonic = monotonic
        self._yielding: dict[str, float] = {}
        self._resting: dict[str, float] = {}
        self._carries = {queue: Carry() for queue in worker.queues}
        self._turn = list(self._carries)
        self._facts = Facts()
        self._plans: dict[Asked, ClaimPlan] = {}

    def plan(
        self,
        demand: int,
        facts: Facts,
        resting: frozenset[str] = frozenset(),
        bound: Bound = NO_BOUND,
    ) -> ClaimPlan:
        """The next plan, without the queues that are `resting`; each time another queue is first.

        Cached plans are dropped if a breaker changed: one judged by this worker changes no epoch.
        """
        if len(self._turn) > 1:
            self._turn = self._turn[1:] + self._turn[:1]
        if facts is not self._facts:
            known = self._facts
            same = (
                facts.epoch == known.epoch
                and facts.regions == known.regions
                and facts.breakers == known.breakers
            )
            self._facts = facts
            if not same or len(self._plans) > MOST_PLANS:
                self._plans.clear()
        queues = tuple([(queue, self._carries[queue]) for queue in self._turn])
        if self._yielding or self._resting:
            return self._plan_yielding(demand, queues, facts, resting, bound)
        asked = demand, queues, resting, bound
        plan = self._plans.get(asked)
        if plan is None:
            worker = self._worker
            plan = plan_claim(
                demand, worker.region, queues, facts, worker.only, resting=resting, bound=bound
            )
            self._plans[asked] = plan
        return plan

    def leave_to_others(self, queue: str, rest: float = 0.0) -> bool:
        """Let other workers go first in the queue; with `rest`, take nothing for so many seconds.

        Returns whether this changes the plans.
        """
        now = self._monotonic()
        before = queue in self._yielding and (not rest or queue in self._resting)
        self._yielding[queue] = now + YIELD_FOR
        if rest:
            self._resting[queue] = now + rest
        return not before

    def _plan_yielding(
        self,
        demand: int,
        queues: Sequence[tuple[str, Carry]],
        facts: Facts,
        resting: frozenset[str],
        bound: Bound,
    ) -> ClaimPlan:
        """A plan that skips the queues it rests in, and lets others go first where it yields."""
        now = self._monotonic()
        self._yielding = {queue: until for queue, until in self._yielding.items() if until > now}
        self._resting = {queue: until for queue, until in self._resting.items() if until > now}
        open_queues = [each for each in queues if each[0] not in self._resting]
        worker = self._worker
        plan = plan_claim(
            demand, worker.region, open_queues, facts, worker.only, resting=resting, bound=bound
        )
        groups = tuple(
            yielding(group, YIELD_WAIT) if group.queue in self._yielding else group
            for group in plan.groups
        )
        return replace(plan, groups=groups)

    def settle(
        self, plan: ClaimPlan, claims: Sequence[Claim], remain: Sequence[bool], facts: Facts
    ) -> None:
        """Carry over what each kind of work got too much or too little of its share."""
        region = self._worker.region
        probing = {q for q in self._carries if facts.is_open(q, region)} if facts.health else ()
        if len(claims) <= 1 and not any(remain) and not probing:
            return  # at most one kind was there: nothing was shared
        started: dict[tuple[str, Kind], int] = {}
        for claim in claims:
            kind = KIND_OF[claim.lane_priority]
            started[claim.queue, kind] = started.get((claim.queue, kind), 0) + 1
        waiting = {
            (group.queue, group.kind)
            for group, left in zip(plan.groups, remain, strict=True)
            if left
        }
        for queue in {queue for queue, _ in started.keys() | waiting}:
            counts = ClaimCounts(
                started.get((queue, "urgent"), 0),
                started.get((queue, "retry"), 0),
                started.get((queue, "fresh"), 0),
                # After a probe the store gives no more, so other jobs may wait unseen.
                frozenset(k for k in KINDS if queue in probing or (queue, k) in waiting),
            )
            self._carries[queue] = settle(self._carries[queue], counts, facts.queue(queue))
