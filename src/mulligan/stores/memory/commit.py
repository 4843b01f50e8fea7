"""Writes outcomes: what becomes of a job, what follows it, and what awaits it."""

from collections.abc import Sequence
from heapq import heappush

from msgspec.structs import replace

from mulligan.core.checks import rounded
from mulligan.core.gather import (
    arrives_at,
    cancelled_value,
    failure_in,
    lost_value,
    purged_value,
)
from mulligan.core.job import ENDED, Attempt, Status, never_arrives
from mulligan.core.limits import costs_of, pauses_of
from mulligan.core.lines import left, opened
from mulligan.core.outcome import (
    Again,
    Cancelled,
    Dead,
    Done,
    Later,
    Limited,
    Outcome,
    Returned,
    Verdict,
)
from mulligan.core.settings import HISTORY_LIMIT, check_batch
from mulligan.core.unique import holds_key
from mulligan.stores.memory import enqueue
from mulligan.stores.memory.fields import Record
from mulligan.stores.memory.state import State


def commit(state: State, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Write each outcome whose lease is still held."""
    check_batch(len(outcomes))
    with state.lock:
        state.tick()
        return [commit_one(state, outcome) for outcome in outcomes]


def commit_one(state: State, outcome: Outcome) -> Verdict:
    """Write the outcome, unless its lease is no longer held."""
    record = state.jobs.get(outcome.lease.job)
    token = outcome.lease.token
    if record is None or record.token != token or record.status != "processing":
        return "already" if record is not None and record.committed == token else "stale"
    record.committed = token
    state.running.pop(record.new.id)
    note_use(state, record, outcome)
    write(state, record, outcome)
    release(state, record, refunded=isinstance(outcome, Returned | Limited))
    return "written"


def write(state: State, record: Record, outcome: Outcome) -> None:
    """Change the job as the outcome says."""
    match outcome:
        case Done(_, result, following, hands_on, _):
            record.result = result
            end(state, record, "done")
            arrive_done(state, record, result, hands_on=hands_on)
            for job in following:
                enqueue.add(state, job)
        case Again(_, lane, delay, failure, trail, free, _):
            remember(state, record, failure)
            record.retry_count += not free
            record.snoozes += free
            record.trail = trail
            enqueue.join_lane(state, record, lane, delay)
        case Later(_, delay, _):
            record.snoozes += 1
            enqueue.join_lane(state, record, record.lane, delay)
        case Dead(_, failure, following, _):
            remember(state, record, failure)
            end(state, record, "failed")
            arrive_failed(state, record, failure)
            for job in following:
                enqueue.add(state, job)
        case Returned():
            give_back(state, record)
        case Limited(_, limits, key, trail):
            record.new = replace(record.new, limits=limits, fairness_key=key)
            record.trail = trail
            give_back(state, record)
        case Cancelled(_, reason):
            record.cancel_reason = reason
            end(state, record, "cancelled")
            cancel_awaiting(state, record, ran=True)


def note_use(state: State, record: Record, outcome: Outcome) -> None:
    """Charge what the attempt spent of limits besides, and pause those that it says to pause."""
    use = None if isinstance(outcome, Returned | Limited | Cancelled) else outcome.use
    if use is None:
        return
    for name, cost in use.spent:
        state.limits.spend(name, cost, state.now)
    names = [(name, state.limits.limit_of(name)) for name, _ in costs_of(record.new.limits)]
    for name, pause in pauses_of(use.pauses, use.retry_after, names):
        state.limits.pause(name, rounded(state.now + pause), at_least=True)


def give_back(state: State, record: Record) -> None:
    """Put the job back where it stood before the claim."""
    enqueue.watch_expiry(state, record)
    enqueue.make_claimable(state, record)


def remember(state: State, record: Record, failure: Attempt) -> None:
    """Add the failed attempt to the job's history."""
    record.history.append(replace(failure, ended_at=state.now))
    del record.history[:-HISTORY_LIMIT]


def end(state: State, record: Record, status: Status) -> None:
    """End the job, and free its unique key."""
    record.status = status
    record.ended_at = state.now
    record.worker = None
    new = record.new
    if new.keep is None or status == "failed":
        state.ended.append((state.now, record))
    else:
        until = state.now + new.keep
        heappush(state.kept, (until, record.first_sequence, state.now, record))
    if not holds_key(record, state.now):
        free_key(state, record)
    if state.watches:
        state.watches.tell((new.id,))


def free_key(state: State, record: Record) -> None:
    """Give up the unique key of a job, if it has one."""
    key = record.unique
    if key is not None and state.unique.get(key) == record.new.id:
        del state.unique[key]


def release(state: State, record: Record, *, refunded: bool = False) -> None:
    """Free the job's permits, so that others may have them; what never ran is refunded."""
    if record.permits:
        for permit in state.limits.free(record):
            state.sleepers.wake_for_limit(permit)
    if record.charged:
        for name in state.limits.end(record, state.now, refunded=refunded):
            opened(state.lines, name)


def leave_line(state: State, record: Record) -> None:
    """A pending job has ended: another of its line may be first now."""
    line = record.line
    if line is not None:
        left(state.lines, line, record.sequence)


def cancel(state: State, record: Record | None, reason: str) -> bool:
    """End the job as cancelled, and make its lease stale; False if it is unknown or has ended."""
    if record is None or record.status in ENDED:
        return False
    ran = record.status == "processing"
    record.token += 1
    record.cancel_reason = reason
    was_running = state.running.pop(record.new.id, None) is not None
    end(state, record, "cancelled")
    if was_running:
        release(state, record)
    elif not record.awaits:  # a job that awaits others stands in no line
        leave_line(state, record)
    cancel_awaiting(state, record, ran=ran)
    return True


def arrive(state: State, record: Record, how: str, value: bytes | None) -> None:
    """Hand what a member gave to the job that awaits it, which may start after the last."""
    gathering = awaiting(state, record)
    if gathering is None:
        return
    index = arrives_at(
        record.new.gather_index, how, return_exceptions=gathering.new.return_exceptions
    )
    if index in gathering.arrived:
        return
    gathering.arrived[index] = value
    gathering.members_failed += how == "failed"
    gathering.members_cancelled += how == "cancelled"
    if index >= 0:
        gathering.awaits -= 1
        if not gathering.awaits:
            enqueue.join_lane(state, gathering, gathering.new.lane, 0.0)


def arrive_done(state: State, record: Record, result: bytes | None, *, hands_on: bool) -> None:
    """A member is done, and arrives unless one of its next jobs will in its place."""
    if not hands_on:
        arrive(state, record, "done", result)


def arrive_failed(state: State, record: Record, failure: Attempt) -> None:
    """A member has failed for good, and arrives or is noted as that."""
    if record.new.gather is not None:
        arrive(state, record, "failed", lost_value(record.new.id, failure))


def withdraw(state: State, record: Record) -> None:
    """A failed member is replayed: it is awaited again, if it still can be."""
    gathering = awaiting(state, record)
    if gathering is None:
        return
    index = arrives_at(
        record.new.gather_index, "failed", return_exceptions=gathering.new.return_exceptions
    )
    failure = failure_in(gathering.arrived.get(index))
    if failure is not None and failure.job == record.new.id:
        del gathering.arrived[index]
        gathering.members_failed -= 1
        gathering.awaits += index >= 0


def cancel_awaiting(state: State, record: Record, *, ran: bool) -> None:
    """A cancelled member arrives as a failure, or cancels the job that awaits its result."""
    gathering = awaiting(state, record)
    if gathering is None:
        return
    if gathering.new.return_exceptions:
        name, reason = record.new.id, record.cancel_reason or ""
        value = cancelled_value(name, reason, record.retry_count, ran=ran)
        arrive(state, record, "cancelled", value)
    else:
        cancel(state, gathering, never_arrives(record.new.id, "cancelled"))


def purge_awaited(state: State, record: Record) -> None:
    """The same for a failed member that is purged: it cannot be replayed any more."""
    gathering = awaiting(state, record)
    if gathering is None:
        return
    if gathering.new.return_exceptions:
        name, reason = record.new.id, record.last_failure_reason
        arrive(state, record, "failed", purged_value(name, reason, record.retry_count))
    else:
        cancel(state, gathering, never_arrives(record.new.id, "purged"))


def awaiting(state: State, record: Record) -> Record | None:
    """The job that awaits this one, if there is one and it still does."""
    gathering = state.jobs.get(record.new.gather or "")
    if gathering is None or gathering.status in ENDED or not gathering.awaits:
        return None
    return gathering
