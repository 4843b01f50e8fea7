"""Fan-in: results and failures arrive at the job that awaits them, or never will."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mulligan.core.gather import arrives_at, cancelled_value, failure_in, purged_value
from mulligan.core.job import never_arrives
from mulligan.core.lane import Lane
from mulligan.stores.sqlite.stand import cancel_stored, stop_holding
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction

SQL = load("gather")
_AWAITS = SQL["awaits"]
_ARRIVE = SQL["arrive"]
_COUNT = SQL["count"]
_MAKE_DUE = SQL["make_due"]
_ARRIVED = SQL["arrived"]
_WITHDRAW = SQL["withdraw"]
_MEMBER = SQL["member"]


class Arrival(NamedTuple):
    """What a member gave, on its way to the job `gather`, and `how` it ended.

    `sequence` is that by which the gathering job joins its lane if this is the last.
    """

    gather: str
    gather_index: int
    result: bytes | None
    sequence: int
    how: str = "done"


class Awaiting(NamedTuple):
    """A job that awaits others."""

    number: int
    awaits: int
    return_exceptions: bool
    gather: str | None


class Counted:
    """What has arrived at one gathering job in a batch of arrivals."""

    def __init__(self, awaiting: Awaiting | None) -> None:
        self.job = awaiting
        self.left = 0 if awaiting is None else awaiting.awaits
        self.failed = self.cancelled = 0

    def add(self, how: str, index: int) -> None:
        """Count one more."""
        self.left -= index >= 0
        self.failed += how == "failed"
        self.cancelled += how == "cancelled"


def awaiting(tx: Transaction, gather: str | None) -> Awaiting | None:
    """The job of this id, if it awaits others."""
    row = None if gather is None else tx.db.execute(_AWAITS, (gather,)).fetchone()
    return None if row is None else Awaiting(*row)


def arrive(tx: Transaction, arrivals: Sequence[Arrival]) -> None:
    """Keep what each gave if it is still awaited; the last one lets the job join its lane."""
    counted: dict[str, Counted] = {}
    complete: list[tuple[int, int]] = []
    for gather, index, result, sequence, how in arrivals:
        if gather not in counted:
            counted[gather] = Counted(awaiting(tx, gather))
        count = counted[gather]
        if count.job is None or not count.left:
            continue
        at = arrives_at(index, how, return_exceptions=bool(count.job.return_exceptions))
        if tx.db.execute(_ARRIVE, (gather, at, result)).rowcount:
            count.add(how, at)
            if not count.left:
                complete.append((sequence, count.job.number))
    for count in counted.values():
        if count.job is not None:
            less = count.left - count.job.awaits
            tx.db.execute(_COUNT, (less, count.failed, count.cancelled, count.job.number))
    for sequence, number in complete:  # a job that still awaits others stands in no line
        stands_in_lane, *lane = tx.db.execute(_MAKE_DUE, (tx.now, sequence, number)).fetchone()
        stop_holding(tx, number)
        if stands_in_lane:
            tx.join(Lane(*lane), tx.now)


def keep_arrived(tx: Transaction, job: str, arrived: Iterable[tuple[int, bytes | None]]) -> None:
    """Keep results that had arrived at the job in another store, by index."""
    tx.db.executemany(_ARRIVE, [(job, index, result) for index, result in arrived])


class Member(NamedTuple):
    """A job that another may await."""

    id: str
    gather: str | None
    gather_index: int
    retry_count: int


def member_of(tx: Transaction, job: str) -> Member | None:
    """The job as one that another may await; None if nobody does."""
    row = tx.db.execute(_MEMBER, (job,)).fetchone()
    return None if row is None else Member(job, *row)


def miss(tx: Transaction, member: Member, reason: str, *, ran: bool) -> None:
    """A cancelled member arrives as a failure, or cancels who awaits it, and so on upwards."""
    job = awaiting(tx, member.gather)
    if job is None or member.gather is None:
        return
    if job.return_exceptions:
        value = cancelled_value(member.id, reason, member.retry_count, ran=ran)
        arrive_late(tx, member, value, "cancelled")
    else:
        cancel_upwards(tx, member, job, "cancelled")


def purge_awaited(tx: Transaction, member: Member, reason: str | None) -> None:
    """The same for a failed member that is purged: it cannot be replayed any more."""
    job = awaiting(tx, member.gather)
    if job is None or member.gather is None:
        return
    if job.return_exceptions:
        value = purged_value(member.id, reason, member.retry_count)
        arrive_late(tx, member, value, "failed")
    else:
        cancel_upwards(tx, member, job, "purged")


def arrive_late(tx: Transaction, member: Member, value: bytes, how: str) -> None:
    """A member arrives otherwise than by its own commit."""
    gather = member.gather or ""
    arrive(tx, [Arrival(gather, member.gather_index, value, tx.reserve(1), how)])


def cancel_upwards(tx: Transaction, member: Member, job: Awaiting, how: str) -> None:
    """Cancel the job that awaits the member, and tell who awaits that."""
    reason, gather = never_arrives(member.id, how), member.gather or ""
    cancel_stored(tx, job.number, reason, outdated=True)
    above = member_of(tx, gather)
    if above is not None:
        miss(tx, above, reason, ran=False)


def withdraw(tx: Transaction, member: Member) -> None:
    """A failed member is replayed: it is awaited again, if it still can be."""
    job = awaiting(tx, member.gather)
    if job is None:
        return
    at = arrives_at(member.gather_index, "failed", return_exceptions=bool(job.return_exceptions))
    row = tx.db.execute(_ARRIVED, (member.gather, at)).fetchone()
    failure = None if row is None else failure_in(row[0])
    if failure is not None and failure.job == member.id:
        tx.db.execute(_WITHDRAW, (member.gather, at))
        tx.db.execute(_COUNT, (int(at >= 0), -1, 0, job.number))
