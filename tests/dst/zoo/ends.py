"""Mistakes with what becomes of jobs: lost, doubled, not counted, freed too early or never."""

from typing import Any

from msgspec.structs import replace

from mulligan.core.errors import StoreUnavailableError
from mulligan.core.job import Enqueued, NewJob
from mulligan.core.outcome import Dead, Done, Later
from mulligan.stores.memory import MemoryStore
from mulligan.stores.memory.counts import Counted
from mulligan.stores.memory.record import Record
from mulligan.stores.memory.state import State
from tests.dst.zoo.cage import plant

add = State._add
add_counts = Counted.add
end = State._end
lease = MemoryStore._lease
prune = MemoryStore.prune
stats = MemoryStore.stats
write = MemoryStore._write


@plant(MemoryStore, "_write")
def delete_before_copy(self: Any, record: Record, outcome: Any) -> None:
    """A stage is finished before the next one is enqueued, and in between a connection breaks."""
    if isinstance(outcome, Done) and outcome.next and self._sequence % 3 == 0:
        write(self, record, replace(outcome, next=()))
        raise StoreUnavailableError("cut off between two steps")
    write(self, record, outcome)


@plant(MemoryStore, "_write")
def result_of_another_job(self: Any, record: Record, outcome: Any) -> None:
    """Of two jobs that are done, the second has the result of the first."""
    if isinstance(outcome, Done):
        before = [done.result for _, done in self._past if done.status == "done"]
        outcome = replace(outcome, result=before[-1] if before else outcome.result)
    write(self, record, outcome)


@plant(MemoryStore, "_write")
def next_stage_dropped(self: Any, record: Record, outcome: Any) -> None:
    """Of what comes after a job, the last is forgotten."""
    if isinstance(outcome, Done):
        outcome = replace(outcome, next=outcome.next[:-1])
    write(self, record, outcome)


@plant(MemoryStore, "_write")
def next_stage_enqueued_twice(self: Any, record: Record, outcome: Any) -> None:
    """What comes after a job has an id of its own each time that it is enqueued."""
    write(self, record, outcome)
    if isinstance(outcome, Done):
        for new in outcome.next[-1:]:
            self._add(replace(new, id=f"{new.id}-{self._sequence}", gather=None))


@plant(MemoryStore, "_write")
def dead_letter_twice(self: Any, record: Record, outcome: Any) -> None:
    """A dead letter is told of twice."""
    write(self, record, outcome)
    if isinstance(outcome, Dead):
        for new in outcome.next:
            self._add(replace(new, id=f"{new.id}-again"))


@plant(MemoryStore, "_write")
def snooze_counted_as_a_retry(self: Any, record: Record, outcome: Any) -> None:
    """A task that asks to run later loses an attempt."""
    write(self, record, outcome)
    if isinstance(outcome, Later):
        record.retry_count += 1


@plant(State, "_arrive")
def gather_counts_an_arrival_twice(self: Any, record: Record) -> None:
    """The job that gathers starts one too early."""
    gathering = self._jobs.get(record.new.gather or "")
    if gathering is None or gathering.status != "pending" or not gathering.awaits:
        return
    gathering.arrived[record.new.gather_index] = record.result
    gathering.awaits = max(0, gathering.awaits - 2)
    if not gathering.awaits:
        self._put(gathering, gathering.new.lane, 0.0)


@plant(MemoryStore, "_lease")
def unique_key_freed_early(self: Any, record: Record, worker: Any) -> Any:
    """A key is free as soon as its job starts."""
    new = record.new
    if new.unique_key is not None:
        self._unique.pop((new.key_queue, new.unique_key), None)
    return lease(self, record, worker)


@plant(State, "_end")
def unique_key_never_freed(self: Any, record: Record, status: Any) -> None:
    """A job that has ended keeps its key."""
    end(self, record, status)
    if record.new.unique_key is not None:
        self._unique[record.new.key_queue, record.new.unique_key] = record.new.id


@plant(MemoryStore, "_purge")
def purge_of_pending(self: Any, record: Record | None) -> bool:
    """A job that waits is deleted as well."""
    if record is None or record.status == "processing":
        return False
    record.status = "cancelled"
    return self._jobs.pop(record.new.id, None) is not None


@plant(Record, "has_expired")
def expiry_ignored(self: Any, now: float) -> bool:
    """A job that did not start in time starts all the same."""
    return False


@plant(MemoryStore, "prune")
async def prune_does_not_wait(self: Any, keep_done: float, limit: int) -> int:
    """Jobs are deleted as soon as they have ended."""
    return await prune(self, -1.0, limit)


@plant(MemoryStore, "stats")
async def counters_drift(self: Any) -> Any:
    """What is cancelled is taken off another counter."""
    counted = await stats(self)
    return replace(
        counted,
        ended={place: n for place, n in counted.ended.items() if place[1] != "cancelled"},
    )


@plant(Counted, "add")
def counts_are_added_twice(self: Any, counts: Any, now: float) -> None:
    """What a worker tells is added again."""
    counts = list(counts)
    add_counts(self, counts, now)
    add_counts(self, counts, now)


@plant(State, "_add")
def enqueue_forgets_one_in_fifty(self: Any, new: NewJob) -> Enqueued:
    """A job is accepted and not stored."""
    if new.id not in self._jobs and self._next_sequence() % 50 == 0:
        return Enqueued(new.id, created=True)
    return add(self, new)
