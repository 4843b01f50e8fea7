"""Whose turn it is among the queues of a worker, and what each kind of work is owed."""

import time
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from mulligan.core.facts import Facts
from mulligan.core.fairness import KINDS, Carry, Tally, plan_claim, settle
from mulligan.core.job import Claim
from mulligan.core.lane import Priority
from mulligan.core.plan import ClaimPlan, Kind, yielding
from mulligan.core.worker import Worker

KIND_OF: dict[int, Kind] = {
    Priority.NORMAL: "fresh",
    Priority.RETRY: "retry",
    Priority.URGENT: "urgent",
    Priority.URGENT_RETRY: "urgent",
}
Asked = tuple[int, tuple[tuple[str, Carry], ...], frozenset[str]]
# Plans differ by demand and by what is owed: few in practice, and none is worth much memory.
MOST_PLANS = 1000
# Who met a job that another knows leaves its queue to others first for so long,
SHY_FOR = 5.0
# and each job of it for this long, while one of them sleeps.
LEFT_TO_OTHERS = 2.0


class ClaimPlanner:
    """Plans a worker's claims one after the other, so that shares hold over many.

    An equal claim has the same plan, made once, until facts change that plans are made from.
    """

    def __init__(self, worker: Worker, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._worker = worker
        self._monotonic = monotonic
        self._shy: dict[str, float] = {}
        self._resting: dict[str, float] = {}
        self._carries = {queue: Carry() for queue in worker.queues}
        self._turn = list(self._carries)
        self._facts = Facts()
        self._plans: dict[Asked, ClaimPlan] = {}

    def plan(self, demand: int, facts: Facts, resting: frozenset[str] = frozenset()) -> ClaimPlan:
        """The next claim, of nothing where the worker is resting; another queue is first each time.

        Breakers are compared too: what a worker knows before the store does changes no epoch.
        """
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
        queues = tuple((queue, self._carries[queue]) for queue in self._turn)
        if self._shy or self._resting:
            return self._among_strangers(demand, queues, facts, resting)
        asked = demand, queues, resting
        plan = self._plans.get(asked)
        if plan is None:
            worker = self._worker
            plan = plan_claim(demand, worker.region, queues, facts, worker.only, resting=resting)
            self._plans[asked] = plan
        return plan

    def leave_to_others(self, queue: str, rest: float = 0.0) -> bool:
        """Let others go first in the queue for a while; with `rest`, take nothing for so long.

        True if plans are others than before.
        """
        now = self._monotonic()
        before = queue in self._shy and (not rest or queue in self._resting)
        self._shy[queue] = now + SHY_FOR
        if rest:
            self._resting[queue] = now + rest
        return not before

    def _among_strangers(
        self,
        demand: int,
        queues: Sequence[tuple[str, Carry]],
        facts: Facts,
        resting: frozenset[str],
    ) -> ClaimPlan:
        """A plan that leaves out where it rests, and where it is shy takes what others leave."""
        now = self._monotonic()
        self._shy = {queue: until for queue, until in self._shy.items() if until > now}
        self._resting = {queue: until for queue, until in self._resting.items() if until > now}
        open_queues = [each for each in queues if each[0] not in self._resting]
        worker = self._worker
        plan = plan_claim(demand, worker.region, open_queues, facts, worker.only, resting=resting)
        groups = tuple(
            yielding(group, LEFT_TO_OTHERS) if group.queue in self._shy else group
            for group in plan.groups
        )
        return replace(plan, groups=groups)

    def settle(
        self, plan: ClaimPlan, claims: Sequence[Claim], remain: Sequence[bool], facts: Facts
    ) -> None:
        """Set what each kind of work got against its share."""
        region = self._worker.region
        probing = {q for q in self._carries if facts.is_open(q, region)} if facts.health else ()
        if len(claims) <= 1 and not any(remain) and not probing:
            return  # at most one kind was there to be taken: nobody had to share
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
            tally = Tally(
                started.get((queue, "urgent"), 0),
                started.get((queue, "retry"), 0),
                started.get((queue, "fresh"), 0),
                # A probe shuts the gate behind it: whatever else waits cannot be seen.
                frozenset(k for k in KINDS if queue in probing or (queue, k) in waiting),
            )
            self._carries[queue] = settle(self._carries[queue], tally, facts.queue(queue))
