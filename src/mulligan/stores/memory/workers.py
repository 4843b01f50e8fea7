"""Leases and those who hold them: beat, leave and reclaim."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from mulligan.core.answers import Beat
from mulligan.core.job import Claim, Lease
from mulligan.core.lane import Lane
from mulligan.core.limits import FOREVER
from mulligan.core.lines import due_of
from mulligan.core.worker import Worker
from mulligan.stores.memory import operate
from mulligan.stores.memory.fields import StoredJob, claim_of
from mulligan.stores.memory.rows import Rows
from mulligan.stores.memory.state import Presence, State


def lease(state: State, stored: StoredJob, worker: Worker) -> Claim:
    """Let the worker hold the job, under a new token."""
    stored.token += 1
    stored.leased_at = state.now
    stored.status = "processing"
    stored.worker, stored.worker_region = worker.id, worker.region
    state.running[stored.id] = stored
    return claim_of(stored)


def beat(state: State, worker: Worker, holding: Sequence[Lease]) -> Beat:
    """Keep the worker's leases, and compare what it holds with what it knows of."""
    with state.lock:
        now = state.tick()
        known = state.workers.get(worker.id)
        join(state, worker, now if known is None else known.joined_at)
        lost = [each for each in holding if not holds(state, worker, each)]
        unknown = unknown_to(state, worker, set(holding))
        forgotten = [stored.lease for stored in unknown if not stored.reclaimed]
        reclaimed = [claim_of(stored) for stored in unknown if stored.reclaimed]
        return Beat(lost, operate.facts_now(state), forgotten, reclaimed)


def holds(state: State, worker: Worker, lease: Lease) -> bool:
    """Whether the worker still holds the lease."""
    stored = state.running.get(lease.job)
    return stored is not None and stored.token == lease.token and stored.worker == worker.id


def unknown_to(state: State, worker: Worker, holding: set[Lease]) -> list[StoredJob]:
    """What the worker has held for longer than a lease time without knowing of it."""
    return [
        stored
        for stored in state.running.values()
        if stored.worker == worker.id
        and (stored.leased_at or 0.0) + worker.lease < state.now
        and stored.lease not in holding
    ]


def join(state: State, worker: Worker, joined_at: float) -> None:
    """The worker is alive now; a region that is new changes the facts."""
    state.workers[worker.id] = Presence(worker, state.now, joined_at)
    if worker.region not in state.regions:
        state.regions[worker.region] = None
        state.change_facts()


def keep(state: State, worker: Worker) -> None:
    """A worker that claims is alive, even before its first beat or after a pause."""
    if not state.is_live(worker.id):
        join(state, worker, state.now)


def leave(state: State, worker: Worker) -> None:
    """Forget the worker, and wake another for what it slept for."""
    with state.lock:
        state.tick()
        state.workers.pop(worker.id, None)
        wake_for_lanes(state, state.sleepers.remove(worker.id))


def reclaim(state: State, limit: int, worker: Worker) -> list[Claim]:
    """Lease to the worker what dead ones held, and forget dead sleepers."""
    with state.lock:
        state.tick()
        keep(state, worker)
        for dead in state.sleepers.dead():
            wake_for_lanes(state, state.sleepers.remove(dead))
        lost = [stored for stored in state.running.values() if not state.is_live(stored.worker)]
        lost.sort(key=lambda stored: (stored.started_at, stored.sequence))
        claims = []
        for stored in lost[:limit]:
            before = claim_of(stored)
            claims.append(replace(before, token=lease(state, stored, worker).token))
            Rows(state).release(stored)
            # The attempt stays that of the worker that lost it.
            stored.worker_region = before.worker_region
        return claims


def wake_for_lanes(state: State, lanes: Iterable[Lane]) -> None:
    """Wake another sleeper for the first job of each lane that is not empty."""
    for lane in lanes:
        first = state.lanes.head(lane)
        due = FOREVER if first is None else first[0]
        if lane in state.lines.lanes:
            due = min(due, due_of(state.lines, lane))
        if due != FOREVER:
            state.sleepers.wake_for_job(lane, due)
