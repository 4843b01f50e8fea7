"""Mistakes with what becomes of jobs: lost, doubled, not counted, freed too early or never."""

from typing import Any

from msgspec.structs import replace

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.job import ENDED, Enqueued, NewJob
from mulligan.core.outcome import Dead, Done, Later
from mulligan.stores.memory import MemoryStore, workers
from mulligan.stores.memory.counts import Counters
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.state import State
from mulligan.stores.rules import commit, end, enqueue, gather, operate
from mulligan.stores.rules.row import Row
from tests.dst.zoo.cage import plant

add = enqueue.add
add_counts = Counters.add
arrive = commit.arrive
commit_one = commit.commit_one
debounce = enqueue.debounce
end_job = end.end
follow = commit.follow
lease = workers.lease
prune = MemoryStore.prune
stats = MemoryStore.stats
write = commit.write


@plant(commit, "write")
async def delete_before_copy(tx: Any, row: Any, outcome: Any) -> None:
    """A stage is finished before the next one is enqueued, and in between a connection breaks."""
    if isinstance(outcome, Done) and outcome.next and tx.next_sequence() % 3 == 0:
        await write(tx, row, replace(outcome, next=()))
        raise StoreUnavailableError("cut off between two steps")
    await write(tx, row, outcome)


class LastResult:
    """The result of the job that was done last."""

    value: bytes | None = None


@plant(commit, "write")
async def result_of_another_job(tx: Any, row: Any, outcome: Any) -> None:
    """Of two jobs that are done, the second has the result of the first."""
    if isinstance(outcome, Done):
        before, LastResult.value = LastResult.value, outcome.result
        outcome = replace(outcome, result=before or outcome.result)
    await write(tx, row, outcome)


@plant(commit, "follow")
async def next_stage_dropped(tx: Any, jobs: Any) -> None:
    """Of what comes after a job, the last is forgotten."""
    await follow(tx, jobs[:-1])


@plant(commit, "write")
async def next_stage_enqueued_twice(tx: Any, row: Any, outcome: Any) -> None:
    """What comes after a job has an id of its own each time that it is enqueued."""
    await write(tx, row, outcome)
    if isinstance(outcome, Done):
        for new in outcome.next[-1:]:
            await add(tx, replace(new, id=f"{new.id}-{tx.next_sequence()}", gather=None))


@plant(commit, "write")
async def dead_letter_twice(tx: Any, row: Any, outcome: Any) -> None:
    """A dead letter is told of twice."""
    await write(tx, row, outcome)
    if isinstance(outcome, Dead):
        for new in outcome.next:
            await add(tx, replace(new, id=f"{new.id}-again"))


@plant(commit, "write")
async def snooze_counted_as_a_retry(tx: Any, row: Any, outcome: Any) -> None:
    """A task that asks to run later loses an attempt."""
    row.retry_count += isinstance(outcome, Later)
    await write(tx, row, outcome)


@plant(gather, "arrive")
async def gather_counts_an_arrival_twice(tx: Any, arrived: Any) -> None:
    """The job that gathers starts one too early."""
    gathering = await gather.gathering_of(tx, arrived.gathering)
    if gathering is None or (arrived.how != "done" and not gathering.return_exceptions):
        return
    tx.add_arrival(gathering, arrived.index, arrived.value)
    gathering.awaits = max(0, gathering.awaits - 2)
    if gathering.awaits:
        tx.update(gathering)
    else:
        enqueue.join_lane(tx, gathering, gathering.first_lane, 0.0)


@plant(commit, "write")
async def early_stage_arrives(tx: Any, row: Any, outcome: Any) -> None:
    """Of a chain in a gather the first stage arrives, and nobody waits for the last."""
    if isinstance(outcome, Done):
        outcome = replace(outcome, hands_on=False)
    await write(tx, row, outcome)


@plant(commit, "arrive")
async def failed_member_never_arrives(tx: Any, row: Row, how: str, value: bytes | None) -> None:
    """A gather that takes failures waits for ever for a member that has failed."""
    if how != "failed":
        await arrive(tx, row, how, value)


@plant(workers, "lease")
def unique_key_freed_early(state: State, record: StoredJob, worker: Any) -> Any:
    """A key is free as soon as its job starts."""
    if record.has_key:
        record.has_key = False
        del state.unique[record.key_queue, record.unique_key or ""]
    return lease(state, record, worker)


@plant(end, "holds_key")
def unique_key_never_freed(row: Row, now: float) -> bool:
    """A job that has ended keeps its key."""
    return True


@plant(enqueue, "debounce")
def debounce_keeps_the_first_call(tx: Any, row: Any, new: NewJob) -> None:
    """A debounced job is put off by each call, and starts with the arguments of the first."""
    task, body = row.task, row.body
    debounce(tx, row, new)
    row.task, row.body = task, body


@plant(enqueue, "debounced_due")
def debounce_without_an_end(now: float, delay: float, until: float) -> float:
    """Who calls often enough puts a debounced job off for ever."""
    return now + delay


@plant(enqueue, "debounced_due", first=220)
def debounce_does_not_put_off(now: float, delay: float, until: float) -> float:
    """A debounced job starts at the next call."""
    return now


@plant(end, "holds_key")
def throttle_ends_with_its_job(row: Row, now: float) -> bool:
    """The key of a throttled job is free as soon as that has ended."""
    return row.status not in ENDED


@plant(operate, "purge_one")
async def purge_of_pending(tx: Any, row: Any) -> bool:
    """A job that waits is deleted as well."""
    if row is None or row.status == "processing":
        return False
    if row.status == "pending":
        tx.leave(row)
        end_job(tx, row, "cancelled")
    tx.free_key(row)
    tx.delete(row)
    return True


@plant(StoredJob, "has_expired")
def expiry_ignored(self: Any, now: float) -> bool:
    """A job that did not start in time starts all the same."""
    return False


@plant(MemoryStore, "prune")
async def prune_does_not_wait(self: Any, keep_done: float, limit: int) -> int:
    """Jobs are deleted as soon as they have ended."""
    return await prune(self, -1.0, limit)


@plant(end, "end")
def keep_ignored(tx: Any, row: Any, status: Any) -> None:
    """A job that is to be kept for days is deleted with the others."""
    row.keep = None
    end_job(tx, row, status)


@plant(commit, "commit_one")
async def job_kept_briefly_forgets_its_token(tx: Any, outcome: Any) -> Any:
    """Of a job with keep=0 the token is forgotten: a second commit is written."""
    row = await tx.job(outcome.lease.job)
    if row is not None and row.keep is not None and row.status == "done":
        row.status, row.committed = "processing", 0
        row.token = outcome.lease.token
    return await commit_one(tx, outcome)


@plant(MemoryStore, "stats")
async def counters_drift(self: Any) -> Any:
    """What is cancelled is taken off another counter."""
    counted = await stats(self)
    return replace(
        counted,
        ended={key: n for key, n in counted.ended.items() if key[1] != "cancelled"},
    )


@plant(Counters, "add")
def counts_are_added_twice(self: Any, counts: Any, now: float) -> None:
    """What a worker tells is added again."""
    counts = list(counts)
    add_counts(self, counts, now)
    add_counts(self, counts, now)


@plant(enqueue, "add")
async def enqueue_forgets_one_in_fifty(tx: Any, new: NewJob) -> Enqueued:
    """A job is accepted and not stored."""
    if await tx.job(new.id) is None and tx.next_sequence() % 50 == 0:
        return Enqueued(new.id, created=True)
    return await add(tx, new)
