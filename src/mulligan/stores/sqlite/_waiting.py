"""Who sleeps, what for, and who is to be woken by what a transaction did.

Picking happens inside the transaction that made the news, so that each piece of news wakes exactly
one sleeper; the bell itself is rung after it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mulligan.core.lane import Lane
from mulligan.core.plan import ClaimPlan
from mulligan.core.walk import sources
from mulligan.stores.sqlite._sql import as_json, load
from mulligan.stores.sqlite._transaction import Call, Transaction

_SLEEP = load("waiting_sleep")
_WAKE = load("waiting_wake")
_FORGET = load("waiting_forget")
_FORGET_LANES = load("waiting_forget_lanes")
_FORGET_GATES = load("waiting_forget_gates")
_ADD_LANE = load("waiting_add_lane")
_ADD_GATE = load("waiting_add_gate")
_IN_LANE = load("waiting_in_lane")
_AT_GATE = load("waiting_at_gate")
_RING = load("waiting_ring")
_RING_ALL = load("waiting_ring_all")
_IS_RUNG = load("waiting_is_rung")
_ORPHANED = load("waiting_orphaned")
_LANES_OF = load("waiting_lanes_of")
_HEADS = load("claim_heads")


class Sleeper(NamedTuple):
    """Who waits for a lane, after what wait it may take from it, and until when it sleeps."""

    worker: str
    address: str | None
    waited: float
    yields: bool
    until: float
    asleep: bool


class Sleep(NamedTuple):
    """A worker's row of `waiting`; every field is None where there is none."""

    asleep: int | None
    rung: int | None
    until: float | None
    address: str | None
    plan: int | None


def sleep(
    tx: Transaction,
    worker: str,
    plan: ClaimPlan,
    before: Sleep,
    address: str | None,
    *,
    until: float,
) -> None:
    """Remember the worker as waiting for the lanes and gates of its plan, writing what is new."""
    now = Sleep(1, 0, until, address, hash(plan.groups))
    if now == before:
        return
    tx.db.execute(_SLEEP, (worker, until, address, now.plan))
    if now.plan == before.plan:
        return
    if before.plan is not None:
        forget_plan(tx, worker)
    lanes: dict[Lane, tuple[float, bool]] = {}
    for source in sources(plan):
        wait = (source.waited, source.yields)
        lanes[source.lane] = min(wait, lanes.get(source.lane, wait))
    tx.db.executemany(_ADD_LANE, [(*lane, worker, *wait) for lane, wait in lanes.items()])
    gates = {gate.key for source in sources(plan) for gate in source.limits}
    tx.db.executemany(_ADD_GATE, [(key, worker) for key in gates])


def wake(tx: Transaction, worker: str, plan: ClaimPlan, before: Sleep) -> None:
    """Note that the worker is busy; what its lanes still hold is for another sleeper."""
    if before.asleep or before.rung:
        tx.db.execute(_WAKE, (worker,))
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
    tx.db.execute(_FORGET_GATES, (worker,))


def pass_on(tx: Transaction, lanes: Sequence[Lane]) -> None:
    """Let sleepers know of the first job of each lane, as if it had just joined."""
    if lanes and tx.anyone_asleep:
        for index, due in tx.db.execute(_HEADS, (as_json(lanes),)):
            if due is not None:
                tx.join(lanes[index], due)


def bury(tx: Transaction) -> None:
    """Let those who died in their sleep leave."""
    for (worker,) in tx.db.execute(_ORPHANED, (tx.now,)).fetchall():
        leave(tx, worker)


def is_rung(tx: Transaction, worker: str) -> bool:
    """Whether the worker was picked since its last claim."""
    return tx.db.execute(_IS_RUNG, (worker,)).fetchone() is not None


def data_version(tx: Transaction) -> int:
    """A number that changes when another connection has written."""
    version: int = tx.db.execute("PRAGMA data_version").fetchone()[0]
    return version


def pick(tx: Transaction) -> None:
    """Choose whom to wake for the news of this transaction, and note that they are awake."""
    if not (tx.everyone or tx.joined or tx.freed) or not tx.anyone_asleep:
        return
    if tx.everyone:
        rows = tx.db.execute(_RING_ALL, (tx.myself,))
        tx.calls += [Call(worker, address) for worker, address in rows]
        return
    chosen: dict[str, Call] = {}
    for_lanes(tx, chosen)
    for_gates(tx, chosen)
    if chosen:
        tx.db.execute(_RING, (as_json(list(chosen)),))
        tx.calls += chosen.values()


def for_lanes(tx: Transaction, chosen: dict[str, Call]) -> None:
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
            if each.asleep and each.worker not in chosen and each.worker != tx.myself
        ]
        if not free:
            continue
        waited = free[0].waited
        first = [each for each in free if each.waited == waited]
        nobody_sooner = sleepers[lane][0].waited == waited
        wait = 0.0 if nobody_sooner and all(each.yields for each in first) else waited
        if all(due + wait < each.until for each in first):
            chosen[first[0].worker] = Call(first[0].worker, first[0].address, joined=(lane, due))


def for_gates(tx: Transaction, chosen: dict[str, Call]) -> None:
    """One sleeper for each permit that was freed."""
    sleepers: dict[str, list[tuple[str, str | None]]] = {}
    for gate in tx.freed:
        if gate not in sleepers:
            sleepers[gate] = tx.db.execute(_AT_GATE, (gate, tx.myself, tx.now)).fetchall()
        for worker, address in sleepers[gate]:
            if worker not in chosen:
                chosen[worker] = Call(worker, address, gate=gate)
                break


def ring_another(tx: Transaction, call: Call) -> None:
    """Forget a sleeper that is dead, and give its news to another."""
    leave(tx, call.worker)
    if call.joined is not None:
        tx.join(*call.joined)
    elif call.gate is not None:
        tx.freed.append(call.gate)
