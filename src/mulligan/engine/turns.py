"""Whose turn it is among the queues of a worker, and what each kind of work is owed."""

from collections.abc import Sequence

from mulligan.core.facts import Facts
from mulligan.core.fairness import KINDS, Carry, Tally, plan_claim, settle
from mulligan.core.job import Claim
from mulligan.core.lane import Priority
from mulligan.core.plan import ClaimPlan, Kind
from mulligan.core.worker import Worker

KIND_OF: dict[int, Kind] = {
    Priority.NORMAL: "fresh",
    Priority.RETRY: "retry",
    Priority.URGENT: "urgent",
    Priority.URGENT_RETRY: "urgent",
}
# Plans differ by demand and by what is owed: few in practice, and none is worth much memory.
MOST_PLANS = 1000


class Turns:
    """Plans a worker's claims one after the other, so that shares hold over many.

    An equal claim has the same plan, made once, until facts change that plans are made from.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._carries = {queue: Carry() for queue in worker.queues}
        self._turn = list(self._carries)
        self._facts = Facts()
        self._plans: dict[tuple[int, tuple[tuple[str, Carry], ...]], ClaimPlan] = {}

    def plan(self, demand: int, facts: Facts) -> ClaimPlan:
        """The next claim; another queue is first each time."""
        self._turn = self._turn[1:] + self._turn[:1]
        if facts is not self._facts:
            same = facts.epoch == self._facts.epoch and facts.regions == self._facts.regions
            self._facts = facts
            if not same or len(self._plans) > MOST_PLANS:
                self._plans.clear()
        queues = tuple((queue, self._carries[queue]) for queue in self._turn)
        plan = self._plans.get((demand, queues))
        if plan is None:
            plan = plan_claim(demand, self._worker.region, queues, facts, self._worker.only)
            self._plans[demand, queues] = plan
        return plan

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
