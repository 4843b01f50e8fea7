"""Mistakes with what runs next: order, due times, shares and limits."""

from typing import Any

from msgspec.structs import replace

from mulligan.core import decide, fairness
from mulligan.core.limits import LimitState, costs_of
from mulligan.core.outcome import Again
from mulligan.core.plan import Cap, Rate
from mulligan.engine.claim_planner import ClaimPlanner
from mulligan.stores.memory import operate, rows
from mulligan.stores.memory.claim import ClaimLanes
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.limits import Limits
from mulligan.stores.memory.lines import Lines
from mulligan.stores.memory.state import Lanes, State
from mulligan.stores.memory.wakeup import Sleepers
from mulligan.stores.rules import commit, enqueue
from tests.dst.zoo.cage import Change, keep, plant

count = Limits.count
end_of_use = Limits.end
first = Lines.first
join_lane, place = enqueue.join_lane, enqueue.place
room = ClaimLanes.room
take = ClaimLanes.take
head = Lanes.head
write = commit.write
keep(
    "urgent work starves the rest",
    "Urgent jobs take every start.",
    Change(fairness, "URGENT_SHARE", 1.0),
)


@plant(Lanes, "head")
def promoted_early(self: Any, lane: Any) -> Any:
    """A job may start half a minute before its time."""
    first = head(self, lane)
    return first and (first[0] - 30.0, first[1])


@plant(enqueue, "place")
def due_in_the_wrong_unit(tx: Any, row: Any, sequence: int, delay: float) -> None:
    """Seconds are taken for milliseconds."""
    place(tx, row, sequence, delay / 1000)


@plant(commit, "write")
async def retry_put_off_too_long(tx: Any, row: Any, outcome: Any) -> None:
    """A retry waits ten minutes more than it was to."""
    if isinstance(outcome, Again):
        outcome = replace(outcome, delay=outcome.delay + 600)
    await write(tx, row, outcome)


@plant(enqueue, "join_lane")
def retry_in_the_fresh_lane(tx: Any, row: Any, lane: Any, delay: float) -> None:
    """A retry stands among jobs that have never failed."""
    join_lane(tx, row, row.first_lane, delay)


@plant(commit, "write")
async def retry_stays_in_its_region(tx: Any, row: Any, outcome: Any) -> None:
    """A retry that any region may take is left to the one that it came from."""
    if isinstance(outcome, Again):
        outcome = replace(outcome, lane=outcome.lane._replace(scope=row.region))
    await write(tx, row, outcome)


@plant(ClaimLanes, "take")
def order_broken_among_retries(self: Any, lane: Any, limits: Any) -> Any:
    """Of several that are due the last is taken first."""
    heap = self.state.lanes.heaps[lane]
    due = [entry for entry in heap if entry[0] <= self.now and stands(entry)]
    if len(due) > 1 and lane.is_retry:
        last = max(due, key=lambda entry: entry[:2])
        heap.remove(last)
        heap.sort()
        heap.insert(0, last)
    return take(self, lane, limits)


def stands(entry: tuple[float, int, StoredJob]) -> bool:
    """Whether the job is still where the entry says."""
    _, sequence, record = entry
    return record.status == "pending" and record.sequence == sequence


@plant(ClaimPlanner, "settle")
def weight_without_carry(*_: Any) -> None:
    """What a kind of work is owed is forgotten after each claim."""


@plant(ClaimLanes, "room")
def cap_per_process(self: Any, limit: Any) -> int:
    """A cap counts what one worker runs, and not all of them."""
    if not isinstance(limit, Cap):
        return room(self, limit)
    mine = [r for r in self.state.running.values() if r.worker == self.worker.id]
    held: int = limit.limit - sum(limit.key in record.permits for record in mine)
    return held


@plant(Limits, "room_at")
def limit_ignored(self: Any, name: str, cost: int, now: float) -> float:
    """There is always room."""
    return now


@plant(Limits, "end")
def permit_never_freed(self: Any, record: StoredJob, now: float, *, refunded: bool) -> Any:
    """A job that has ended counts as running."""
    record.held = None
    return ()


@plant(Limits, "end")
def permit_freed_twice(self: Any, record: StoredJob, now: float, *, refunded: bool) -> Any:
    """The end of one job makes room for two."""
    for name, _ in costs_of(record.held):
        self.states.setdefault(name, LimitState()).used -= 1
    return end_of_use(self, record, now, refunded=refunded)


@plant(Limits, "end")
def start_refunded_at_its_end(self: Any, record: StoredJob, now: float, *, refunded: bool) -> Any:
    """A start is counted only while the job runs."""
    return end_of_use(self, record, now, refunded=True)


@plant(Limits, "pause")
def pause_of_a_limit_ignored(self: Any, name: str, until: float, *, at_least: bool = False) -> None:
    """A paused limit goes on."""


@plant(rows, "opened", Change(operate, "opened", lambda *_: None))
def waiting_lines_never_woken(*_: Any) -> None:
    """Who waits for a permit is not told that one was freed."""


@plant(Lines, "first")
def last_of_a_line_first(self: Any, name: Any) -> StoredJob:
    """Of the jobs of a line that are due the last is taken first."""
    heap = self.members[name]
    now = first(self, name).due
    due = [entry for entry in heap if stands(entry) and entry[0] <= now + 3600]
    last = max(due, key=lambda entry: entry[:2])
    heap.remove(last)
    heap.sort()
    heap.insert(0, last)
    return first(self, name)


def uncounted(self: Any, rate: Rate, now: float) -> None:
    """A start is counted only where fresh ones are."""
    if rate.limit is None:
        count(self, rate, now)


@plant(commit, "write", Change(Limits, "count", uncounted))
async def budget_counted_at_failure(tx: Any, row: Any, outcome: Any) -> None:
    """A retry is charged to the budget when its attempt fails, not when it starts."""
    await write(tx, row, outcome)
    state: State = tx._state
    settings = state.queues.get(row.queue)
    budget = None if settings is None else settings.budget
    if isinstance(outcome, Again) and budget is not None:
        count(state.limits, budget.retry_limit(row.queue), state.now)


@plant(State, "change_facts")
def paused_queue_served(state: State) -> None:
    """Plans that were made before a pause are still walked."""
    state.sleepers.wake_all()


@plant(Sleepers, "wake_for_job")
def sleeper_never_woken(self: Any, lane: Any, due: float) -> None:
    """Whoever sleeps is not woken for a new job."""


# -- breakers ----------------------------------------------------------------------------------

laid_out = fairness.laid_out


@plant(fairness, "laid_out")
def probes_not_paced(queue: Any, settings: Any, context: Any, only: Any) -> Any:
    """An open region takes one job at a time, but as soon as the last one has failed."""
    groups = laid_out(queue, settings, context, only)
    return tuple(replace(group, tiers=unpaced(group.tiers)) for group in groups)


def unpaced(tiers: Any) -> Any:
    """The tiers without the limit that keeps the pace."""
    return tuple(
        tuple(
            replace(source, limits=tuple(g for g in source.limits if not g.key.startswith("pace:")))
            for source in tier
        )
        for tier in tiers
    )


@plant(fairness, "laid_out")
def open_region_given_a_global_retry(queue: Any, settings: Any, context: Any, only: Any) -> Any:
    """An open region may probe with retries that any region may take."""
    urgent, retry, fresh = laid_out(queue, settings, context, only)
    if context.pause is None or not retry.tiers:
        return urgent, retry, fresh
    own = retry.tiers[1][0]
    usual = laid_out(queue, settings, context._replace(pause=None), only)[1]
    tier = tuple(replace(s, waited=0.0, limits=own.limits) for s in usual.tiers[0])
    return urgent, replace(retry, tiers=(tier, *retry.tiers[1:])), fresh


@plant(decide, "is_probe")
def failed_probe_charged(*_: Any) -> bool:
    """A failed probe uses a retry of its job."""
    return False
