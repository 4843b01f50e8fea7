"""Mistakes with what runs next: order, due times, shares and gates."""

from typing import Any

from msgspec.structs import replace

from mulligan.core import decide, fairness
from mulligan.core.outcome import Again
from mulligan.core.plan import Cap, Rate
from mulligan.engine.claim_planner import ClaimPlanner
from mulligan.stores.memory import MemoryStore
from mulligan.stores.memory.bells import Bells
from mulligan.stores.memory.limits import Limits
from mulligan.stores.memory.record import Record
from mulligan.stores.memory.state import State
from tests.dst.zoo.cage import Change, keep, plant

claim = MemoryStore.claim
count = Limits.count
put = State._put
room = MemoryStore.room
take = MemoryStore.take
head = MemoryStore.head
write = MemoryStore._write
keep(
    "urgent work starves the rest",
    "Urgent jobs take every start.",
    Change(fairness, "URGENT_SHARE", 1.0),
)


@plant(MemoryStore, "head")
def promoted_early(self: Any, lane: Any) -> Any:
    """A job may start half a minute before its time."""
    first = head(self, lane)
    return first and (first[0] - 30.0, first[1])


@plant(State, "_put")
def due_in_the_wrong_unit(self: Any, record: Record, lane: Any, delay: float) -> None:
    """Seconds are taken for milliseconds."""
    put(self, record, lane, delay / 1000)


@plant(MemoryStore, "_write")
def retry_put_off_too_long(self: Any, record: Record, outcome: Any) -> None:
    """A retry waits ten minutes more than it was to."""
    if isinstance(outcome, Again):
        outcome = replace(outcome, delay=outcome.delay + 600)
    write(self, record, outcome)


@plant(State, "_put")
def retry_in_the_fresh_lane(self: Any, record: Record, lane: Any, delay: float) -> None:
    """A retry stands among jobs that have never failed."""
    put(self, record, record.new.lane, delay)


@plant(MemoryStore, "_write")
def retry_stays_in_its_region(self: Any, record: Record, outcome: Any) -> None:
    """A retry that any region may take is left to the one that it came from."""
    if isinstance(outcome, Again):
        outcome = replace(outcome, lane=outcome.lane._replace(scope=record.new.region))
    write(self, record, outcome)


@plant(MemoryStore, "take")
def order_broken_among_retries(self: Any, lane: Any, gates: Any) -> Any:
    """Of several that are due the last is taken first."""
    heap = self._lanes[lane]
    due = [entry for entry in heap if entry[0] <= self._now and stands(entry)]
    if len(due) > 1 and lane.is_retry:
        last = max(due, key=lambda entry: entry[:2])
        heap.remove(last)
        heap.sort()
        heap.insert(0, last)
    return take(self, lane, gates)


def stands(entry: tuple[float, int, Record]) -> bool:
    """Whether the entry is the job's place."""
    _, sequence, record = entry
    return record.status == "pending" and record.sequence == sequence and not record.held


@plant(ClaimPlanner, "settle")
def weight_without_carry(*_: Any) -> None:
    """What a kind of work is owed is forgotten after each claim."""


@plant(MemoryStore, "room")
def cap_per_process(self: Any, gate: Any) -> int:
    """A cap counts what one worker runs, and not all of them."""
    if not isinstance(gate, Cap):
        return room(self, gate)
    mine = [r for r in self._running.values() if r.worker == self._claimer.id]
    held: int = gate.limit - sum(gate.key in record.permits for record in mine)
    return held


@plant(Limits, "held")
def concurrency_key_ignored(self: Any, key: str) -> int:
    """Nobody counts how many jobs of a key run."""
    return 0


def uncounted(self: Any, gate: Rate, now: float) -> None:
    """A start is counted only where fresh ones are."""
    if gate.limit is None:
        count(self, gate, now)


@plant(MemoryStore, "_write", Change(Limits, "count", uncounted))
def budget_counted_at_failure(self: Any, record: Record, outcome: Any) -> None:
    """A retry is charged to the budget when its attempt fails, not when it starts."""
    write(self, record, outcome)
    budget = self._queues[record.new.queue].budget if record.new.queue in self._queues else None
    if isinstance(outcome, Again) and budget is not None:
        count(self._gates, budget.retry_gate(record.new.queue), self._now)


@plant(MemoryStore, "_change")
def paused_queue_served(self: Any) -> None:
    """Plans that were made before a pause are still walked."""
    self._bells.ring_all()


@plant(Bells, "ring_for")
def bell_never_rings(self: Any, lane: Any, due: float) -> None:
    """Whoever sleeps is not woken for a new job."""


# -- breakers ----------------------------------------------------------------------------------

laid_out = fairness.laid_out


@plant(fairness, "laid_out")
def probes_not_paced(queue: Any, settings: Any, place: Any, only: Any) -> Any:
    """An open region takes one job at a time, but as soon as the last one has failed."""
    groups = laid_out(queue, settings, place, only)
    return tuple(replace(group, tiers=unpaced(group.tiers)) for group in groups)


def unpaced(tiers: Any) -> Any:
    """The tiers without the gate that keeps the pace."""
    return tuple(
        tuple(
            replace(source, limits=tuple(g for g in source.limits if not g.key.startswith("pace:")))
            for source in tier
        )
        for tier in tiers
    )


@plant(fairness, "laid_out")
def open_region_given_a_global_retry(queue: Any, settings: Any, place: Any, only: Any) -> Any:
    """An open region may probe with retries that any region may take."""
    urgent, retry, fresh = laid_out(queue, settings, place, only)
    if place.pause is None or not retry.tiers:
        return urgent, retry, fresh
    [own] = retry.tiers[1]
    usual = laid_out(queue, settings, place._replace(pause=None), only)[1]
    tier = tuple(replace(s, waited=0.0, limits=own.limits) for s in usual.tiers[0])
    return urgent, replace(retry, tiers=(tier, *retry.tiers[1:])), fresh


@plant(decide, "is_probe")
def failed_probe_charged(*_: Any) -> bool:
    """A failed probe uses a retry of its job."""
    return False
