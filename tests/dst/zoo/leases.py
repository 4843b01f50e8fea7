"""Mistakes with leases, tokens and commits."""

from typing import Any

from msgspec.structs import replace

from mulligan.core.job import first_token
from mulligan.core.outcome import Again, Dead, Verdict
from mulligan.core.worker import Worker
from mulligan.stores.memory import MemoryStore, commit, fields, operate, workers
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.state import State
from tests.dst.zoo.cage import Change, plant

commit_one = commit.commit_one
commit_all = MemoryStore.commit
cancel = commit.cancel
reclaim = MemoryStore.reclaim
replay = operate.replay_one


@plant(commit, "commit_one")
def ack_by_id(state: State, outcome: Any) -> Verdict:
    """A commit looks at the job alone, not at the token."""
    record = state.jobs.get(outcome.lease.job)
    if record is not None and record.status == "processing":
        outcome = replace(outcome, lease=outcome.lease._replace(token=record.token))
    return commit_one(state, outcome)


@plant(commit, "commit_one")
def stale_commit_accepted(state: State, outcome: Any) -> Verdict:
    """The outcome of a lost lease is written if the job waits again."""
    record = state.jobs.get(outcome.lease.job)
    if record is not None and record.status == "pending" and not record.awaits:
        workers.lease(state, record, Worker(""))
        outcome = replace(outcome, lease=outcome.lease._replace(token=record.token))
    return commit_one(state, outcome)


@plant(MemoryStore, "reclaim")
async def token_not_bumped_by_reclaim(self: Any, limit: int, worker: Any) -> Any:
    """The reaper holds a job under the token of the worker that lost it."""
    claims = await reclaim(self, limit, worker)
    for claim in claims:
        self.state.jobs[claim.id].token -= 1
    return [replace(claim, token=claim.token - 1) for claim in claims]


@plant(MemoryStore, "reclaim")
async def reclaim_of_a_live_lease(self: Any, limit: int, worker: Any) -> Any:
    """A lease is taken to have run out after a quarter of its time."""
    present = dict(self.state.workers)
    for name, known in present.items():
        if name != worker.id:
            each = replace(known.worker, lease=known.worker.lease / 4)
            self.state.workers[name] = known._replace(worker=each)
    claims = await reclaim(self, limit, worker)
    self.state.workers |= {name: known for name, known in present.items() if name != worker.id}
    return claims


@plant(MemoryStore, "commit")
async def stale_member_fails_the_batch(self: Any, outcomes: Any) -> Any:
    """One stale outcome, and none of its batch is written."""

    def held(outcome: Any) -> bool:
        record = self.state.jobs.get(outcome.lease.job)
        return record is not None and record.token == outcome.lease.token

    if all(held(outcome) for outcome in outcomes):
        return await commit_all(self, outcomes)
    return ["stale"] * len(outcomes)


@plant(commit, "commit_one")
def non_idempotent_commit(state: State, outcome: Any) -> Verdict:
    """An outcome that is sent again is written again."""
    verdict = commit_one(state, outcome)
    if verdict == "already":
        record = state.jobs[outcome.lease.job]
        state.running[record.new.id] = record
        record.status = "processing"
        return commit_one(state, outcome)
    return verdict


@plant(commit, "commit_one")
def zombies_error_text_stored(state: State, outcome: Any) -> Verdict:
    """What a worker says that lost its lease is refused, but its error is kept."""
    verdict = commit_one(state, outcome)
    record = state.jobs.get(outcome.lease.job)
    if verdict == "stale" and record is not None and isinstance(outcome, Again | Dead):
        commit.remember(state, record, outcome.failure)
    return verdict


@plant(workers, "holds")
def beat_extends_a_lost_lease(state: State, worker: Any, lease: Any) -> bool:
    """A heartbeat keeps whatever the worker believes to hold."""
    return True


@plant(operate, "replay_one")
def replay_resets_the_token(state: State, record: StoredJob | None, **given: bool) -> bool:
    """A job that is replayed begins with its first token again."""
    done = replay(state, record, **given)
    if done and record is not None:
        record.token = first_token(record.first_sequence)
    return done


@plant(fields, "first_token")
def second_life_has_the_first_tokens(sequence: int) -> int:
    """A job whose id was used before begins with the same token."""
    return 0


def without_status(state: Any, outcome: Any) -> Verdict:
    """A commit whose token fits is written, whatever has become of the job."""
    record = state.jobs.get(outcome.lease.job)
    ended = record is not None and record.status == "cancelled"
    if ended and record.token == outcome.lease.token and record.committed != record.token:
        record.status = "processing"
        state.running[record.new.id] = record
    return commit_one(state, outcome)


@plant(commit, "cancel", Change(commit, "commit_one", without_status))
def terminal_job_revived(state: State, record: StoredJob | None, reason: str) -> bool:
    """A cancelled job keeps its token, and the next commit finds it good."""
    done = cancel(state, record, reason)
    if done and record is not None:
        record.token -= 1
    return done
