"""Mistakes of workers: what they run, count, send and forget."""

from typing import Any

from msgspec.structs import replace

from mulligan.core.decide import decide
from mulligan.core.outcome import Drained, Failed
from mulligan.core.retry import Retry
from mulligan.engine import decider, result_gate
from mulligan.engine.breakers import Ending
from mulligan.engine.committer import AWAY, Committer
from mulligan.engine.executor import Executor
from mulligan.engine.heartbeat import LostReplies
from mulligan.engine.slots import Slots
from tests.dst.zoo.cage import plant

send = Committer._send
covers = Retry.covers


@plant(Committer, "_send")
async def retry_lost_on_commit_failure(self: Any, batch: Any) -> Any:
    """A commit that fails is taken for done."""
    try:
        return await send(self, batch)
    except AWAY:
        return ["written"] * len(batch)


@plant(decider, "Lost")
def lost_attempt_not_counted() -> Drained:
    """A job whose worker died goes back as if it had never started."""
    return Drained()


@plant(Executor, "give_back")
def drained_attempt_counted(self: Any, claims: Any) -> None:
    """A job that a draining worker has not started has failed."""
    for claim in claims:
        failed = Failed("Drained", "the worker stopped")
        outcome = decide(claim, failed, self._breakers.facts.current, 0.5)
        self._committer.add(outcome, Ending(claim.queue, claim.worker_region))


@plant(result_gate, "refusal")
def refused_result_passed_on(accept: Any, value: Any) -> None:
    """Nobody asks whether a result is good."""


@plant(Slots, "abandon")
def cancelled_job_runs_on(self: Any, leases: Any) -> None:
    """An attempt whose lease is lost is not stopped."""


@plant(Retry, "spent")
def one_retry_too_many(self: Any, retry_count: int) -> bool:
    """The last retry is taken for the last but one."""
    return self.max_retries is not None and retry_count > self.max_retries


@plant(Retry, "spent")
def one_retry_too_few(self: Any, retry_count: int) -> bool:
    """The last retry but one is taken for the last."""
    return self.max_retries is not None and retry_count >= max(0, self.max_retries - 1)


@plant(Retry, "covers")
def never_is_ignored(self: Any, kind: str, classes: Any) -> bool:
    """A failure that a policy never retries is retried."""
    return covers(replace(self, never=()), kind, classes)


@plant(Retry, "covers")
def on_is_ignored(self: Any, kind: str, classes: Any) -> bool:
    """A policy retries what it does not name."""
    return covers(replace(self, on=()), kind, classes)


@plant(Retry, "covers")
def class_matched_without_its_bases(self: Any, kind: str, classes: Any) -> bool:
    """A policy that names a class does not mean those derived from it."""
    return covers(self, kind, classes[:1])


@plant(LostReplies, "return_claims")
def forgotten_claim_never_returned(self: Any, leases: Any, held: Any) -> None:
    """What a claim gave whose answer was lost is held for ever."""


@plant(LostReplies, "count_reclaims")
def forgotten_reclaim_returned(self: Any, claims: Any, held: Any) -> None:
    """What a reclaim gave whose answer was lost goes back as if it had never begun."""
    self.return_claims([claim.lease for claim in claims], held)
