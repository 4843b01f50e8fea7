"""The decider: has core decide what becomes of a job, and hands the outcome to the committer."""

import contextlib
import random
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from mulligan.core.decide import decide, policy_of, with_use
from mulligan.core.declared import completed, limited
from mulligan.core.errors import StoreError
from mulligan.core.job import Claim
from mulligan.core.lane import Lane, Priority
from mulligan.core.outcome import Again, Dead, Failed, Lost, Outcome, Result
from mulligan.engine.breakers import Ending, FactsCell
from mulligan.engine.committer import Committer
from mulligan.engine.events import Events
from mulligan.engine.job_log import log_failure
from mulligan.engine.reporter import ending_of
from mulligan.engine.result_gate import Raised, asked
from mulligan.engine.task_caller import Target, predicate_of
from mulligan.stores.contract import Store

# How old a known depth may be.
DEPTH_AGE = 1.0
DEPTH_LIMIT = 10_000


class Decider:
    """Decides for attempts that ended here, and for those that were lost with another worker.

    An exception may ask for a delay of at most `longest_wait`.
    """

    def __init__(
        self,
        tasks: Mapping[str, Target],
        committer: Committer,
        events: Events,
        facts: FactsCell,
        *,
        longest_wait: float,
        chance: random.Random,
        monotonic: Callable[[], float],
    ) -> None:
        self._tasks = tasks
        self._committer = committer
        self._events = events
        self._facts = facts
        self._longest_wait = longest_wait
        self._chance = chance
        self._monotonic = monotonic

    def as_declared(self, claim: Claim) -> Claim | None:
        """The completed claim; None if the job is given back to get its task's limits."""
        if not claim.is_foreign:
            return claim
        target = self._tasks.get(claim.task)
        outcome = None if target is None else limited(claim, target.declared)
        if outcome is None:
            return self.completed(claim)
        self._committer.add(outcome, Ending(claim.queue, claim.worker_region))
        return None

    def completed(self, claim: Claim) -> Claim:
        """The claim with what its task declares, where the job came without."""
        target = self._tasks.get(claim.task)
        return claim if target is None else completed(claim, target.declared)

    def ended(
        self, claim: Claim, result: Result, depth: int, spent: Mapping[str, int], began: float
    ) -> Outcome:
        """Decide an attempt that began then, and log it if it failed; returns the outcome."""
        facts = self._facts.current
        error = None
        if isinstance(result, Failed):
            target = self._tasks.get(claim.task)
            bounded = replace(result, least_delay=min(result.least_delay, self._longest_wait))
            result = asked(bounded, None if target is None else predicate_of(target, claim))
            error = result.error if isinstance(result, Raised) else None
        outcome = decide(claim, result, facts, self._chance.random(), depth)
        if spent or isinstance(result, Failed):
            outcome = with_use(outcome, result, spent)
        if isinstance(outcome, (Again, Dead)):
            log_failure(claim, outcome, error)
        event = None
        if self._events.hooks:
            event = self._events.of_outcome(claim, outcome, self._monotonic() - began, error)
        self._committer.add(outcome, ending_of(claim, result, outcome, facts), event)
        return outcome

    def lost(self, claim: Claim) -> None:
        """Decide a lost attempt whose job was reclaimed here."""
        facts, claim = self._facts.current, self.completed(claim)
        outcome = decide(claim, Lost(), facts, self._chance.random())
        if isinstance(outcome, Dead):
            log_failure(claim, outcome)
        event = self._events.of_outcome(claim, outcome)
        self._committer.add(outcome, ending_of(claim, Lost(), outcome, facts), event)


class LaneDepths:
    """The depths of fresh lanes, for adaptive backoff.

    They are at most DEPTH_AGE seconds old while the store answers.
    """

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    async def of(self, claim: Claim) -> int:
        """How many fresh jobs wait in its queue and region; 0 if its backoff does not need it."""
        policy = policy_of(claim.body)
        if policy is None or not policy.retry.needs_depth:
            return 0
        at, depth = self._known.get((claim.queue, claim.region), (-DEPTH_AGE, 0))
        if self._monotonic() - at >= DEPTH_AGE:
            lane = Lane(claim.queue, claim.region, Priority.NORMAL)
            with contextlib.suppress(StoreError, OSError):  # the last known depth will do
                depth = await self._store.depth(lane, DEPTH_LIMIT)
                self._known[claim.queue, claim.region] = (self._monotonic(), depth)
        return depth
