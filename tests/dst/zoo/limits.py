"""Mistakes with limits that jobs name: where they are counted, when, and for how long."""

from typing import Any
from unittest.mock import patch

from mulligan.core.limits import LimitState, costs_of, micros
from mulligan.core.limits import room_at as room_under
from mulligan.stores.memory import workers
from mulligan.stores.memory.claim import ClaimLanes
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.limits import Limits
from mulligan.stores.memory.state import State
from mulligan.stores.rules import enqueue
from tests.dst.zoo.cage import Change, plant

end_of_use = Limits.end
init = ClaimLanes.__init__
place = enqueue.place
reclaim = workers.reclaim


class Asking:
    """Whose claim is walked, and in which store."""

    state: State
    worker: str


def note_who_asks(self: Any, state: State, plan: Any, worker: Any) -> None:
    """A claim begins."""
    Asking.state, Asking.worker = state, worker.id
    init(self, state, plan, worker)


@plant(Limits, "room_at", Change(ClaimLanes, "__init__", note_who_asks))
def limit_per_process(self: Any, name: str, cost: int, now: float) -> float:
    """A limit counts what one worker runs, and not all of them."""
    running = Asking.state.running.values()
    mine = sum(name in dict(costs_of(r.held)) for r in running if r.worker == Asking.worker)
    shared = self.state(name)
    state = LimitState(mine, shared.starts, shared.full_at, shared.paused_until)
    at = room_under(self.limit_of(name), state, cost, micros(now))
    return at if at == float("inf") else max(now, at / 1e6)


def take_permits(self: Any, record: StoredJob, now: float) -> None:
    """A start is not counted."""
    record.held = record.limits
    for name, _ in costs_of(record.held):
        self.states.setdefault(name, LimitState()).used += 1


@plant(enqueue, "place", Change(Limits, "start", take_permits))
def limit_charged_at_enqueue(tx: Any, row: Any, sequence: int, delay: float) -> None:
    """A job is counted when it is enqueued, however late it starts, and its retries never are."""
    place(tx, row, sequence, delay)
    if not row.retry_count:
        for name, cost in costs_of(row.limits):
            tx.spend(name, cost)


def keep_permits(self: Any, record: StoredJob, now: float, *, refunded: bool) -> tuple[str, ...]:
    """The job gives nothing back."""
    record.held = None
    return ()


@plant(workers, "reclaim")
def permit_leaked_by_reclaim(state: State, limit: int, worker: Any) -> Any:
    """What a dead worker held counts as running for ever."""
    with patch.object(Limits, "end", keep_permits):
        return reclaim(state, limit, worker)


@plant(Limits, "forget")
def state_of_a_limit_forgotten(self: Any, name: str, now: float) -> None:
    """When the last job of a limit ends, its pause and its starts are forgotten."""
    state = self.states.get(name)
    if state is not None and not state.used:
        del self.states[name]


@plant(Limits, "end")
def refund_lost(self: Any, record: StoredJob, now: float, *, refunded: bool) -> Any:
    """What is given back before it has begun has used the limit all the same."""
    return end_of_use(self, record, now, refunded=False)
