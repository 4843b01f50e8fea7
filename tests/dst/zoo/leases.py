"""Mistakes with leases, tokens and commits."""

from typing import Any

from msgspec.structs import replace

from mulligan.core.job import first_token
from mulligan.core.outcome import Again, Dead, Verdict
from mulligan.stores.memory import MemoryStore
from mulligan.stores.memory import record as records
from mulligan.stores.memory.record import Record
from mulligan.stores.memory.state import State
from tests.dst.zoo.cage import Change, plant

commit = MemoryStore._commit
commit_all = MemoryStore.commit
cancel = MemoryStore._cancel
reclaim = MemoryStore.reclaim
replay = MemoryStore._replay


@plant(MemoryStore, "_commit")
def ack_by_id(self: Any, outcome: Any) -> Verdict:
    """A commit looks at the job alone, not at the token."""
    record = self._jobs.get(outcome.lease.job)
    if record is not None and record.status == "processing":
        outcome = replace(outcome, lease=outcome.lease._replace(token=record.token))
    return commit(self, outcome)


@plant(MemoryStore, "_commit")
def stale_commit_accepted(self: Any, outcome: Any) -> Verdict:
    """The outcome of a lost lease is written if the job waits again."""
    record = self._jobs.get(outcome.lease.job)
    if record is not None and record.status == "pending" and not record.awaits:
        self._lease(record, self._claimer)
        outcome = replace(outcome, lease=outcome.lease._replace(token=record.token))
    return commit(self, outcome)


@plant(MemoryStore, "reclaim")
async def token_not_bumped_by_reclaim(self: Any, limit: int, worker: Any) -> Any:
    """The reaper holds a job under the token of the worker that lost it."""
    claims = await reclaim(self, limit, worker)
    for claim in claims:
        self._jobs[claim.id].token -= 1
    return [replace(claim, token=claim.token - 1) for claim in claims]


@plant(MemoryStore, "reclaim")
async def reclaim_of_a_live_lease(self: Any, limit: int, worker: Any) -> Any:
    """A lease is taken to have run out after a quarter of its time."""
    workers = dict(self._workers)
    for name, (each, beat_at, joined) in workers.items():
        if name != worker.id:
            self._workers[name] = (replace(each, lease=each.lease / 4), beat_at, joined)
    claims = await reclaim(self, limit, worker)
    self._workers |= {name: known for name, known in workers.items() if name != worker.id}
    return claims


@plant(MemoryStore, "commit")
async def stale_member_fails_the_batch(self: Any, outcomes: Any) -> Any:
    """One stale outcome, and none of its batch is written."""

    def held(outcome: Any) -> bool:
        record = self._jobs.get(outcome.lease.job)
        return record is not None and record.token == outcome.lease.token

    if all(held(outcome) for outcome in outcomes):
        return await commit_all(self, outcomes)
    return ["stale"] * len(outcomes)


@plant(MemoryStore, "_commit")
def non_idempotent_commit(self: Any, outcome: Any) -> Verdict:
    """An outcome that is sent again is written again."""
    verdict = commit(self, outcome)
    if verdict == "already":
        record = self._jobs[outcome.lease.job]
        self._running[record.new.id] = record
        record.status = "processing"
        return commit(self, outcome)
    return verdict


@plant(MemoryStore, "_commit")
def zombies_error_text_stored(self: Any, outcome: Any) -> Verdict:
    """What a worker says that lost its lease is refused, but its error is kept."""
    verdict = commit(self, outcome)
    record = self._jobs.get(outcome.lease.job)
    if verdict == "stale" and record is not None and isinstance(outcome, Again | Dead):
        self._remember(record, outcome.failure)
    return verdict


@plant(MemoryStore, "_holds")
def beat_extends_a_lost_lease(self: Any, worker: Any, lease: Any) -> bool:
    """A heartbeat keeps whatever the worker believes to hold."""
    return True


@plant(MemoryStore, "_replay")
def replay_resets_the_token(self: Any, record: Record | None) -> bool:
    """A job that is replayed begins with its first token again."""
    done = replay(self, record)
    if done and record is not None:
        record.token = first_token(record.place)
    return done


@plant(records, "first_token")
def second_life_has_the_first_tokens(sequence: int) -> int:
    """A job whose id was used before begins with the same token."""
    return 0


def without_status(self: Any, outcome: Any) -> Verdict:
    """A commit whose token fits is written, whatever has become of the job."""
    record = self._jobs.get(outcome.lease.job)
    ended = record is not None and record.status == "cancelled"
    if ended and record.token == outcome.lease.token and record.committed != record.token:
        record.status = "processing"
        self._running[record.new.id] = record
    return commit(self, outcome)


@plant(State, "_cancel", Change(MemoryStore, "_commit", without_status))
def terminal_job_revived(self: Any, record: Record | None, reason: str) -> bool:
    """A cancelled job keeps its token, and the next commit finds it good."""
    done = cancel(self, record, reason)
    if done and record is not None:
        record.token -= 1
    return done
