"""Who sleeps, what for, and who is woken by what a transaction did.

Sleepers are picked inside the transaction that may matter to them, so that each job and each permit
wakes exactly one; they are woken after it, through their sockets.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mulligan.core.lane import Lane
from mulligan.core.plan import ClaimPlan
from mulligan.stores.sqlite.fields import as_json
from mulligan.stores.sqlite.lanes import heads
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction, WakeUp

SQL = load("wakeup")
_SLEEP = SQL["sleep"]
_AWAKE = SQL["awake"]
_FORGET = SQL["forget"]
_FORGET_LANES = SQL["forget_lanes"]
_FORGET_LIMITS = SQL["forget_limits"]
_ADD_LANE = SQL["add_lane"]
_ADD_LIMIT = SQL["add_limit"]
_IN_LANE = SQL["in_lane"]
_AT_LIMIT = SQL["at_limit"]
_WAKE = SQL["wake"]
_WAKE_ALL = SQL["wake_all"]
_IS_WOKEN = SQL["is_woken"]
_ORPHANED = SQL["orphaned"]
_LANES_OF = SQL["lanes_of"]


class Sleeper(NamedTuple):
    """Who waits for a lane, after what wait it may take from it, and until when it sleeps."""

    worker: str
    socket: str | None
    waited: float
    yields: bool
    until: float
    asleep: bool


class Sleep(NamedTuple):
    """A worker's row of `sleeper`; every field is None where there is none."""

    asleep: int | None
    woken: int | None
    until: float | None
    socket: str | None
    plan: int | None


def sleep(
    tx: Transaction,
    worker: str,
    plan: ClaimPlan,
    before: Sleep,
    socket: str | None,
    *,
    until: float,
) -> None:
    """Remember the worker as waiting for the lanes and limits of its plan, writing what is new."""
    now = Sleep(1, 0, until, socket, hash(plan.groups))
    if now == before:
        return
    tx.db.execute(_SLEEP, (worker, until, socket, now.plan))
    if now.plan == before.plan:
        return
    if before.plan is not None:
        forget_plan(tx, worker)
    lanes: dict[Lane, tuple[float, bool]] = {}
    for source in plan.sources:
        wait = (source.waited, source.yields)
        lanes[source.lane] = min(wait, lanes.get(source.lane, wait))
    tx.db.executemany(_ADD_LANE, [(*lane, worker, *wait) for lane, wait in lanes.items()])
    tx.db.executemany(_ADD_LIMIT, [(key, worker) for key in plan.limit_keys])


def awake(tx: Transaction, worker: str, plan: ClaimPlan, before: Sleep) -> None:
    """Note that the worker is busy; what its lanes still hold is for another sleeper."""
    if before.asleep or before.woken:
        tx.db.execute(_AWAKE, (worker,))
    pass_on(tx, plan.lanes)


def leave(tx: Transaction, worker: str) -> None:
    """Forget the worker; what stands in the lanes that it waited for is for another now."""
    lanes = [Lane(*row) for row in tx.db.execute(_LANES_OF, (worker,))]
    tx.db.execute(_FORGET, (worker,))
    forget_plan(tx, worker)
    pass_on(tx, lanes)


def forget_plan(tx: Transaction, worker: str) -> None:
    """Remove what the worker waited for."""
    tx.db.execute(_FORGET_LANES, (worker,))
    tx.db.execute(_FORGET_LIMITS, (worker,))


def pass_on(tx: Transaction, lanes: Sequence[Lane]) -> None:
    """Let the first job of each lane wake another, as if it had just joined."""
    if lanes and tx.anyone_asleep:
        for lane, due in heads(tx, lanes):
            tx.join(lane, due)


def forget_dead(tx: Transaction) -> None:
    """Let sleepers leave that have stopped beating."""
    for (worker,) in tx.db.execute(_ORPHANED, (tx.now,)).fetchall():
        leave(tx, worker)


def is_woken(tx: Transaction, worker: str) -> bool:
    """Whether the worker was picked since its last claim."""
    return tx.db.execute(_IS_WOKEN, (worker,)).fetchone() is not None


def data_version(tx: Transaction) -> int:
    """A number that changes when another connection has written."""
    version: int = tx.db.execute("PRAGMA data_version").fetchone()[0]
    return version


def pick(tx: Transaction) -> None:
    """Choose the sleepers to wake for what this transaction did, and note that they are awake."""
    if not (tx.wakes_all or tx.joined or tx.freed) or not tx.anyone_asleep:
        return
    if tx.wakes_all:
        rows = tx.db.execute(_WAKE_ALL, (tx.claimant,))
        tx.wakeups += [WakeUp(worker, socket) for worker, socket in rows]
        return
    picked: dict[str, WakeUp] = {}
    pick_for_lanes(tx, picked)
    pick_for_limits(tx, picked)
    if picked:
        tx.db.execute(_WAKE, (as_json(list(picked)),))
        tx.wakeups += picked.values()


def pick_for_lanes(tx: Transaction, picked: dict[str, WakeUp]) -> None:
    """One sleeper for each job that joined a lane, unless one will wake in time by itself.

    It is one of those that may take the job soonest: at once rather than after a grace.
    """
    sleepers: dict[Lane, list[Sleeper]] = {}
    for lane, due in tx.joined:
        if lane not in sleepers:
            rows = tx.db.execute(_IN_LANE, (*lane, tx.now))
            sleepers[lane] = [Sleeper(*row) for row in rows]
        free = [
            each
            for each in sleepers[lane]
            if each.asleep and each.worker not in picked and each.worker != tx.claimant
        ]
        if not free:
            continue
        waited = free[0].waited
        first = [each for each in free if each.waited == waited]
        nobody_sooner = sleepers[lane][0].waited == waited
        wait = 0.0 if nobody_sooner and all(each.yields for each in first) else waited
        if all(due + wait < each.until for each in first):
            worker, socket, *_ = first[0]
            picked[worker] = WakeUp(worker, socket, joined=(lane, due))


def pick_for_limits(tx: Transaction, picked: dict[str, WakeUp]) -> None:
    """One sleeper for each permit that was freed."""
    sleepers: dict[str, list[tuple[str, str | None]]] = {}
    for key in tx.freed:
        if key not in sleepers:
            sleepers[key] = tx.db.execute(_AT_LIMIT, (key, tx.claimant, tx.now)).fetchall()
        for worker, socket in sleepers[key]:
            if worker not in picked:
                picked[worker] = WakeUp(worker, socket, freed=key)
                break


def wake_another(tx: Transaction, wakeup: WakeUp) -> None:
    """Forget a sleeper that is dead, and wake another for the same."""
    leave(tx, wakeup.worker)
    if wakeup.joined is not None:
        tx.join(*wakeup.joined)
    elif wakeup.freed is not None:
        tx.freed.append(wakeup.freed)
