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
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.state import State


def commit(state: State, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Write each outcome whose lease is still held."""
    check_batch(len(outcomes))
    with state.lock:
        state.tick()
        return [commit_one(state, outcome) for outcome in outcomes]


def commit_one(state: State, outcome: Outcome) -> Verdict:
    """Write the outcome, unless its lease is no longer held."""
    stored = state.jobs.get(outcome.lease.job)
    token = outcome.lease.token
    if stored is None or stored.token != token or stored.status != "processing":
        return "already" if stored is not None and stored.committed == token else "stale"
    stored.committed = token
    state.running.pop(stored.new.id)
    note_use(state, stored, outcome)
    write(state, stored, outcome)
    release(state, stored, refunded=isinstance(outcome, Returned | Limited))
    return "written"


def write(state: State, stored: StoredJob, outcome: Outcome) -> None:
    """Change the job as the outcome says."""
    match outcome:
        case Done(_, result, following, hands_on, _):
            stored.result = result
            end(state, stored, "done")
            arrive_done(state, stored, result, hands_on=hands_on)
            for job in following:
                enqueue.add(state, job)
        case Again(_, lane, delay, failure, trail, free, _):
            remember(state, stored, failure)
            stored.retry_count += not free
            stored.snoozes += free
            stored.trail = trail
            enqueue.join_lane(state, stored, lane, delay)
        case Later(_, delay, _):
            stored.snoozes += 1
            enqueue.join_lane(state, stored, stored.lane, delay)
        case Dead(_, failure, following, _):
            remember(state, stored, failure)
            end(state, stored, "failed")
            arrive_failed(state, stored, failure)
            for job in following:
                enqueue.add(state, job)
        case Returned():
            give_back(state, stored)
        case Limited(_, limits, key, trail):
            stored.new = replace(stored.new, limits=limits, fairness_key=key)
            stored.trail = trail
            give_back(state, stored)
        case Cancelled(_, reason):
            stored.cancel_reason = reason
            end(state, stored, "cancelled")
            cancel_awaiting(state, stored, ran=True)


def note_use(state: State, stored: StoredJob, outcome: Outcome) -> None:
    """Charge what the attempt spent of limits besides, and pause those that it says to pause."""
    use = None if isinstance(outcome, Returned | Limited | Cancelled) else outcome.use
    if use is None:
        return
    for name, cost in use.spent:
        state.limits.spend(name, cost, state.now)
    names = [(name, state.limits.limit_of(name)) for name, _ in costs_of(stored.new.limits)]
    for name, pause in pauses_of(use.pauses, use.retry_after, names):
        state.limits.pause(name, rounded(state.now + pause), at_least=True)


def give_back(state: State, stored: StoredJob) -> None:
    """Put the job back where it stood before the claim."""
    enqueue.watch_expiry(state, stored)
    enqueue.make_claimable(state, stored)


def remember(state: State, stored: StoredJob, failure: Attempt) -> None:
    """Add the failed attempt to the job's history."""
    stored.history.append(replace(failure, ended_at=state.now))
    del stored.history[:-HISTORY_LIMIT]


def end(state: State, stored: StoredJob, status: Status) -> None:
    """End the job, and free its unique key."""
    stored.status = status
    stored.ended_at = state.now
    stored.worker = None
    new = stored.new
    if new.keep is None or status == "failed":
        state.ended.append((state.now, stored))
    else:
        until = state.now + new.keep
        heappush(state.kept, (until, stored.first_sequence, state.now, stored))
    if not holds_key(stored, state.now):
        free_key(state, stored)
    if state.watches:
        state.watches.tell((new.id,))


def free_key(state: State, stored: StoredJob) -> None:
    """Give up the unique key of a job, if it has one."""
    key = stored.unique
    if key is not None and state.unique.get(key) == stored.new.id:
        del state.unique[key]


def release(state: State, stored: StoredJob, *, refunded: bool = False) -> None:
    """Free the job's permits, so that others may have them; what never ran is refunded."""
    if stored.permits:
        for permit in state.limits.free(stored):
            state.sleepers.wake_for_limit(permit)
    if stored.charged:
        for name in state.limits.end(stored, state.now, refunded=refunded):
            opened(state.lines, name)


def leave_line(state: State, stored: StoredJob) -> None:
    """A pending job has ended: another of its line may be first now."""
    line = stored.line
    if line is not None:
        left(state.lines, line, stored.sequence)


def cancel(state: State, stored: StoredJob | None, reason: str) -> bool:
    """End the job as cancelled, and make its lease stale; False if it is unknown or has ended."""
    if stored is None or stored.status in ENDED:
        return False
    ran = stored.status == "processing"
    stored.token += 1
    stored.cancel_reason = reason
    was_running = state.running.pop(stored.new.id, None) is not None
    end(state, stored, "cancelled")
    if was_running:
        release(state, stored)
    elif not stored.awaits:  # a job that awaits others stands in no line
        leave_line(state, stored)
    cancel_awaiting(state, stored, ran=ran)
    return True


def arrive(state: State, stored: StoredJob, how: str, value: bytes | None) -> None:
    """Hand what a member gave to the job that awaits it, which may start after the last."""
    gathering = awaiting(state, stored)
    if gathering is None:
        return
    index = arrives_at(
        stored.new.gather_index, how, return_exceptions=gathering.new.return_exceptions
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


def arrive_done(state: State, stored: StoredJob, result: bytes | None, *, hands_on: bool) -> None:
    """A member is done, and arrives unless one of its next jobs will in its place."""
    if not hands_on:
        arrive(state, stored, "done", result)


def arrive_failed(state: State, stored: StoredJob, failure: Attempt) -> None:
    """A member has failed for good, and arrives or is noted as that."""
    if stored.new.gather is not None:
        arrive(state, stored, "failed", lost_value(stored.new.id, failure))


def withdraw(state: State, stored: StoredJob) -> None:
    """A failed member is replayed: it is awaited again, if it still can be."""
    gathering = awaiting(state, stored)
    if gathering is None:
        return
    index = arrives_at(
        stored.new.gather_index, "failed", return_exceptions=gathering.new.return_exceptions
    )
    failure = failure_in(gathering.arrived.get(index))
    if failure is not None and failure.job == stored.new.id:
        del gathering.arrived[index]
        gathering.members_failed -= 1
        gathering.awaits += index >= 0


def cancel_awaiting(state: State, stored: StoredJob, *, ran: bool) -> None:
    """A cancelled member arrives as a failure, or cancels the job that awaits its result."""
    gathering = awaiting(state, stored)
    if gathering is None:
        return
    if gathering.new.return_exceptions:
        name, reason = stored.new.id, stored.cancel_reason or ""
        value = cancelled_value(name, reason, stored.retry_count, ran=ran)
        arrive(state, stored, "cancelled", value)
    else:
        cancel(state, gathering, never_arrives(stored.new.id, "cancelled"))


def purge_awaited(state: State, stored: StoredJob) -> None:
    """The same for a failed member that is purged: it cannot be replayed any more."""
    gathering = awaiting(state, stored)
    if gathering is None:
        return
    if gathering.new.return_exceptions:
        name, reason = stored.new.id, stored.last_failure_reason
        arrive(state, stored, "failed", purged_value(name, reason, stored.retry_count))
    else:
        cancel(state, gathering, never_arrives(stored.new.id, "purged"))


def awaiting(state: State, stored: StoredJob) -> StoredJob | None:
    """The job that awaits this one, if there is one and it still does."""
    gathering = state.jobs.get(stored.new.gather or "")
    if gathering is None or gathering.status in ENDED or not gathering.awaits:
        return None
    return gathering
