"""Mistakes with leases, tokens and commits."""

from typing import Any

from msgspec.structs import replace

from mulligan.core.job import first_token
from mulligan.core.outcome import Again, Dead, Verdict
from mulligan.stores.memory import MemoryStore, workers
from mulligan.stores.memory.state import State
from mulligan.stores.rules import commit, end, operate, row
from tests.dst.zoo.cage import Change, plant

commit_one = commit.commit_one
commit_all = MemoryStore.commit
cancel = end.cancel_one
reclaim = MemoryStore.reclaim
replay = operate.replay_one


@plant(commit, "commit_one")
async def ack_by_id(tx: Any, outcome: Any) -> Verdict:
    """A commit looks at the job alone, not at the token."""
    job = await tx.job(outcome.lease.job)
    if job is not None and job.status == "processing":
        outcome = replace(outcome, lease=job.lease)
    return await commit_one(tx, outcome)


@plant(commit, "commit_one")
async def stale_commit_accepted(tx: Any, outcome: Any) -> Verdict:
    """The outcome of a lost lease is written if the job waits again."""
    job = await tx.job(outcome.lease.job)
    if job is not None and job.status == "pending" and not job.awaits:
        tx.leave(job)
        job.token += 1
        job.status = "processing"
        outcome = replace(outcome, lease=job.lease)
    return await commit_one(tx, outcome)


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
async def non_idempotent_commit(tx: Any, outcome: Any) -> Verdict:
    """An outcome that is sent again is written again."""
    verdict = await commit_one(tx, outcome)
    if verdict == "already":
        job = await tx.job(outcome.lease.job)
        job.status, job.token = "processing", outcome.lease.token
        return await commit_one(tx, outcome)
    return verdict


@plant(commit, "commit_one")
async def zombies_error_text_stored(tx: Any, outcome: Any) -> Verdict:
    """The store refuses the outcome of a lost lease, but stores its error."""
    verdict = await commit_one(tx, outcome)
    job = await tx.job(outcome.lease.job)
    if verdict == "stale" and job is not None and isinstance(outcome, Again | Dead):
        tx.add_history(job, [replace(outcome.failure, ended_at=tx.now)])
    return verdict


@plant(workers, "holds")
def beat_extends_a_lost_lease(state: State, worker: Any, lease: Any) -> bool:
    """A heartbeat keeps whatever the worker believes to hold."""
    return True


@plant(operate, "replay_one")
async def replay_resets_the_token(tx: Any, job: Any, **options: bool) -> bool:
    """A job that is replayed begins with its first token again."""
    done = await replay(tx, job, **options)
    if done:
        job.token = first_token(job.number)
    return done


@plant(row, "first_token")
def second_life_has_the_first_tokens(sequence: int) -> int:
    """A job whose id was used before begins with the same token."""
    return 0


async def without_status(tx: Any, outcome: Any) -> Verdict:
    """A commit whose token fits is written, whatever has become of the job."""
    job = await tx.job(outcome.lease.job)
    ended = job is not None and job.status == "cancelled"
    if ended and job.token == outcome.lease.token and job.committed != job.token:
        job.status = "processing"
    return await commit_one(tx, outcome)


@plant(end, "cancel_one", Change(commit, "commit_one", without_status))
async def terminal_job_revived(tx: Any, job: Any, reason: str) -> bool:
    """A canceled job keeps its token, and the next commit finds it good."""
    done = await cancel(tx, job, reason)
    if done:
        job.token -= 1
    return done
