"""Fan-in: members arrive at the job that gathers them, withdraw, or never arrive."""

from mulligan.core.gather import arrives_at, cancelled_value, failure_in, purged_value
from mulligan.core.job import never_arrives
from mulligan.stores.rules.consequence import Arrived, Missed, Purged, Withdrawn
from mulligan.stores.rules.end import cancel_one
from mulligan.stores.rules.enqueue import join_lane
from mulligan.stores.rules.row import Row
from mulligan.stores.rules.tx import Tx


async def gathering_of(tx: Tx, id_: str) -> Row | None:
    """Return the job that gathers, if it still awaits members."""
    row = await tx.job(id_)
    if row is None or row.has_ended or not row.awaits:
        return None
    return row


async def arrive(tx: Tx, arrived: Arrived) -> None:
    """Store the value of a member, once."""
    gathering = await gathering_of(tx, arrived.gathering)
    if gathering is not None:
        await arrive_at(tx, gathering, arrived.index, arrived.how, arrived.value)


async def arrive_at(tx: Tx, row: Row, member: int, how: str, value: bytes | None) -> None:
    """Store the value of a member at the job that gathers, which may start after the last."""
    index = arrives_at(member, how, return_exceptions=row.return_exceptions)
    if await tx.arrived(row, index) is not None:
        return
    tx.add_arrival(row, index, value)
    row.members_failed += how == "failed"
    row.members_cancelled += how == "cancelled"
    row.awaits -= index >= 0
    if row.awaits:
        tx.update(row)
    else:
        join_lane(tx, row, row.first_lane, 0.0)


async def member_missed(tx: Tx, missed: Missed) -> None:
    """Let a canceled member arrive as a failure, or cancel the job that needs its result."""
    gathering = await gathering_of(tx, missed.gathering)
    if gathering is None:
        return
    if gathering.return_exceptions:
        value = cancelled_value(missed.member, missed.reason, missed.retry_count, ran=missed.ran)
        await arrive_at(tx, gathering, missed.index, "cancelled", value)
    else:
        await cancel_one(tx, gathering, never_arrives(missed.member, "cancelled"))


async def member_purged(tx: Tx, purged: Purged) -> None:
    """Do the same for a failed member that is purged."""
    gathering = await gathering_of(tx, purged.gathering)
    if gathering is None:
        return
    if gathering.return_exceptions:
        value = purged_value(purged.member, purged.last_failure, purged.retry_count)
        await arrive_at(tx, gathering, purged.index, "failed", value)
    else:
        await cancel_one(tx, gathering, never_arrives(purged.member, "purged"))


async def withdraw(tx: Tx, withdrawn: Withdrawn) -> None:
    """Delete the failure of a member that is replayed, and await the member again."""
    gathering = await gathering_of(tx, withdrawn.gathering)
    if gathering is None:
        return
    index = arrives_at(withdrawn.index, "failed", return_exceptions=gathering.return_exceptions)
    found = await tx.arrived(gathering, index)
    failure = None if found is None else failure_in(found[0])
    if failure is not None and failure.job == withdrawn.member:
        tx.delete_arrival(gathering, index)
        gathering.members_failed -= 1
        gathering.awaits += index >= 0
        tx.update(gathering)
