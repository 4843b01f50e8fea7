"""Writes outcomes: what becomes of a job, what follows it, and which job gathers it."""

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from mulligan.core.checks import rounded
from mulligan.core.gather import lost_value
from mulligan.core.job import NewJob
from mulligan.core.limits import costs_of, pauses_of
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
from mulligan.core.settings import check_batch
from mulligan.stores.rules.consequence import Arrived, Next
from mulligan.stores.rules.end import end, tell_gathering
from mulligan.stores.rules.enqueue import go_back, join_lane
from mulligan.stores.rules.row import Row
from mulligan.stores.rules.tx import Tx

# Outcomes of jobs that never ran under the lease, and outcomes that charge no limit.
UNSTARTED = (Returned, Limited)
UNCHARGED = (Returned, Limited, Cancelled)
# Outcomes that may name next jobs.
FOLLOWED = (Done, Dead)


async def commit(tx: Tx, outcomes: Sequence[Outcome]) -> list[Verdict]:
    """Write each outcome whose lease is still held."""
    check_batch(len(outcomes))
    ids = [outcome.lease.job for outcome in outcomes]
    following = [
        job.id for outcome in outcomes if isinstance(outcome, FOLLOWED) for job in outcome.next
    ]
    rows = await tx.jobs([*ids, *following])
    gathers = {row.gather for row in rows if row is not None and row.gather is not None}
    if gathers:
        await tx.jobs(sorted(gathers))
    return [await commit_one(tx, outcome) for outcome in outcomes]


async def commit_one(tx: Tx, outcome: Outcome) -> Verdict:
    """Write the outcome, unless its lease is no longer held."""
    row = await tx.job(outcome.lease.job)
    if row is None or not row.is_held_by(outcome.lease):
        return "already" if row is not None and row.committed == outcome.lease.token else "stale"
    row.committed = outcome.lease.token
    await charge(tx, row, outcome)
    await write(tx, row, outcome)
    tx.release(row, refunded=isinstance(outcome, UNSTARTED))
    return "written"


async def write(tx: Tx, row: Row, outcome: Outcome) -> None:
    """Change the job as the outcome says."""
    match outcome:
        case Done(_, result, following, hands_on, _):
            row.result = result
            end(tx, row, "done")
            if not hands_on:
                await arrive(tx, row, "done", result)
            await follow(tx, following)
        case Again(_, lane, delay, failure, trail, free, _):
            tx.add_history(row, [replace(failure, ended_at=tx.now)])
            row.retry_count += not free
            row.snoozes += free
            row.trail = trail
            join_lane(tx, row, lane, delay)
        case Later(_, delay, _):
            row.snoozes += 1
            join_lane(tx, row, row.lane, delay)
        case Dead(_, failure, following, _):
            tx.add_history(row, [replace(failure, ended_at=tx.now)])
            end(tx, row, "failed")
            await arrive(tx, row, "failed", lost_value(row.id, failure))
            await follow(tx, following)
        case Returned():
            go_back(tx, row)
        case Limited(_, limits, key, trail):
            row.limits, row.fairness_key, row.trail = limits, key, trail
            go_back(tx, row)
        case Cancelled(_, reason):
            row.cancel_reason = reason
            end(tx, row, "cancelled")
            await tell_gathering(tx, row, ran=True)
        case _:
            assert_never(outcome)


async def arrive(tx: Tx, row: Row, how: str, value: bytes | None) -> None:
    """State that the job ended, if another gathers it."""
    if row.gather is not None:
        await tx.then(Arrived(row.gather, row.gather_index, how, value))


async def follow(tx: Tx, jobs: Sequence[NewJob]) -> None:
    """State which jobs come next."""
    for job in jobs:
        await tx.then(Next(job))


async def charge(tx: Tx, row: Row, outcome: Outcome) -> None:
    """Charge the limits that the attempt spent from, and pause those that it asked to pause."""
    if isinstance(outcome, UNCHARGED) or outcome.use is None:
        return
    use = outcome.use
    for name, cost in use.spent:
        tx.spend(name, cost)
    names = [(name, await tx.limit_of(name)) for name, _ in costs_of(row.limits)]
    for name, pause in pauses_of(use.pauses, use.retry_after, names):
        tx.pause(name, rounded(tx.now + pause))
