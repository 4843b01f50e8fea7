"""Mistakes with what becomes of jobs: lost, doubled, not counted, freed too early or never."""

from typing import Any

from msgspec.structs import replace

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.job import ENDED, Enqueued, NewJob
from mulligan.core.outcome import Dead, Done, Later
from mulligan.stores.memory import MemoryStore, commit, enqueue, operate, workers
from mulligan.stores.memory.counts import Counters
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.state import State
from tests.dst.zoo.cage import plant

add = enqueue.add
add_counts = Counters.add
commit_one = commit.commit_one
debounce = enqueue.debounce
end = commit.end
lease = workers.lease
prune = MemoryStore.prune
stats = MemoryStore.stats
write = commit.write


@plant(commit, "write")
def delete_before_copy(state: State, record: StoredJob, outcome: Any) -> None:
    """A stage is finished before the next one is enqueued, and in between a connection breaks."""
    if isinstance(outcome, Done) and outcome.next and state.sequence % 3 == 0:
        write(state, record, replace(outcome, next=()))
        raise StoreUnavailableError("cut off between two steps")
    write(state, record, outcome)


@plant(commit, "write")
def result_of_another_job(state: State, record: StoredJob, outcome: Any) -> None:
    """Of two jobs that are done, the second has the result of the first."""
    if isinstance(outcome, Done):
        before = [done.result for _, done in state.ended if done.status == "done"]
        outcome = replace(outcome, result=before[-1] if before else outcome.result)
    write(state, record, outcome)


@plant(commit, "write")
def next_stage_dropped(state: State, record: StoredJob, outcome: Any) -> None:
    """Of what comes after a job, the last is forgotten."""
    if isinstance(outcome, Done):
        outcome = replace(outcome, next=outcome.next[:-1])
    write(state, record, outcome)


@plant(commit, "write")
def next_stage_enqueued_twice(state: State, record: StoredJob, outcome: Any) -> None:
    """What comes after a job has an id of its own each time that it is enqueued."""
    write(state, record, outcome)
    if isinstance(outcome, Done):
        for new in outcome.next[-1:]:
            enqueue.add(state, replace(new, id=f"{new.id}-{state.sequence}", gather=None))


@plant(commit, "write")
def dead_letter_twice(state: State, record: StoredJob, outcome: Any) -> None:
    """A dead letter is told of twice."""
    write(state, record, outcome)
    if isinstance(outcome, Dead):
        for new in outcome.next:
            enqueue.add(state, replace(new, id=f"{new.id}-again"))


@plant(commit, "write")
def snooze_counted_as_a_retry(state: State, record: StoredJob, outcome: Any) -> None:
    """A task that asks to run later loses an attempt."""
    write(state, record, outcome)
    if isinstance(outcome, Later):
        record.retry_count += 1


@plant(commit, "arrive")
def gather_counts_an_arrival_twice(
    state: State, record: StoredJob, how: str, value: bytes | None
) -> None:
    """The job that gathers starts one too early."""
    gathering = state.jobs.get(record.new.gather or "")
    if gathering is None or gathering.status != "pending" or not gathering.awaits:
        return
    if how != "done" and not gathering.new.return_exceptions:
        return
    gathering.arrived[record.new.gather_index] = value
    gathering.awaits = max(0, gathering.awaits - 2)
    if not gathering.awaits:
        enqueue.join_lane(state, gathering, gathering.new.lane, 0.0)


@plant(commit, "arrive_done")
def early_stage_arrives(
    state: State, record: StoredJob, result: bytes | None, *, hands_on: bool
) -> None:
    """Of a chain in a gather the first stage arrives, and nobody waits for the last."""
    commit.arrive(state, record, "done", result)


@plant(commit, "arrive_failed")
def failed_member_never_arrives(state: State, record: StoredJob, failure: Any) -> None:
    """A gather that takes failures waits for ever for a member that has failed."""


@plant(workers, "lease")
def unique_key_freed_early(state: State, record: StoredJob, worker: Any) -> Any:
    """A key is free as soon as its job starts."""
    new = record.new
    if new.unique_key is not None:
        state.unique.pop((new.key_queue, new.unique_key), None)
    return lease(state, record, worker)


@plant(enqueue, "holder_of")
def unique_key_never_freed(state: State, key: tuple[str, str] | None) -> StoredJob | None:
    """A job that has ended keeps its key."""
    had_it = (each for each in state.jobs.values() if key is not None and each.unique == key)
    return next(had_it, None)


@plant(enqueue, "debounce")
def debounce_keeps_the_first_call(state: State, record: StoredJob, new: NewJob) -> None:
    """A debounced job is put off by each call, and starts with the arguments of the first."""
    debounce(state, record, replace(new, task=record.new.task, body=record.new.body))


@plant(enqueue, "debounced_due")
def debounce_without_an_end(now: float, delay: float, until: float) -> float:
    """Who calls often enough puts a debounced job off for ever."""
    return now + delay


@plant(enqueue, "debounced_due")
def debounce_does_not_put_off(now: float, delay: float, until: float) -> float:
    """A debounced job starts at the next call."""
    return now


@plant(commit, "holds_key")
def throttle_ends_with_its_job(record: StoredJob, now: float) -> bool:
    """The key of a throttled job is free as soon as that has ended."""
    return record.status not in ENDED


@plant(operate, "purge_one")
def purge_of_pending(state: State, record: StoredJob | None) -> bool:
    """A job that waits is deleted as well."""
    if record is None or record.status == "processing":
        return False
    record.status = "cancelled"
    return state.jobs.pop(record.new.id, None) is not None


@plant(StoredJob, "has_expired")
def expiry_ignored(self: Any, now: float) -> bool:
    """A job that did not start in time starts all the same."""
    return False


@plant(MemoryStore, "prune")
async def prune_does_not_wait(self: Any, keep_done: float, limit: int) -> int:
    """Jobs are deleted as soon as they have ended."""
    return await prune(self, -1.0, limit)


@plant(commit, "end")
def keep_ignored(state: State, record: StoredJob, status: Any) -> None:
    """A job that is to be kept for days is deleted with the others."""
    record.new = replace(record.new, keep=None)
    end(state, record, status)


@plant(commit, "commit_one")
def job_kept_briefly_forgets_its_token(state: State, outcome: Any) -> Any:
    """Of a job with keep=0 the token is forgotten: a second commit is written."""
    record = state.jobs.get(outcome.lease.job)
    if record is not None and record.new.keep is not None and record.status == "done":
        record.status, record.committed = "processing", 0
        record.token = outcome.lease.token
        state.running[record.new.id] = record
    return commit_one(state, outcome)


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
def enqueue_forgets_one_in_fifty(state: State, new: NewJob) -> Enqueued:
    """A job is accepted and not stored."""
    if new.id not in state.jobs and state.next_sequence() % 50 == 0:
        return Enqueued(new.id, created=True)
    return add(state, new)
