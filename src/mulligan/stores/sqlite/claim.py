"""Claim: the walk of `core.plan` over the database, in runs of rows instead of single jobs."""

from collections.abc import Callable

from mulligan.core.answers import Claimed
from mulligan.core.plan import Cap, ClaimPlan, Rate, Source, group_waits, next_yield
from mulligan.core.settings import check_batch
from mulligan.core.worker import Worker
from mulligan.stores.sqlite.fields import Row
from mulligan.stores.sqlite.lanes import ID, SPECIAL, Lanes
from mulligan.stores.sqlite.statements import load
from mulligan.stores.sqlite.transaction import Transaction
from mulligan.stores.sqlite.wakeup import Sleep, awake, sleep
from mulligan.stores.sqlite.workers import join

SQL = load("claim")
_BEGIN = SQL["begin"]

NO_LIMIT = 1 << 30


def claim(
    tx: Transaction, plan: ClaimPlan, worker: Worker, socket: Callable[[], str | None]
) -> Claimed:
    """Walk the plan and lease its jobs to the worker; one that gets too few becomes a sleeper."""
    check_batch(plan.demand)
    begin = tx.db.execute(_BEGIN, (worker.id, worker.id)).fetchone()
    epoch, lapses_at, has_lines, *sleeping = begin
    if lapses_at is None or lapses_at <= tx.now:
        epoch += join(tx, worker, anew=True)
    if plan.epoch != epoch:
        return Claimed([], stale=True)
    tx.claimant = worker.id
    lanes = Lanes(tx, plan, worker, has_lines=bool(has_lines))
    walk(plan, lanes)
    lanes.settle()
    left = tuple(group_waits(group, lanes, tx.now) for group in plan.groups)
    again_in = None
    if lanes.number < plan.demand:
        lanes.look_ahead()
        again_in = next_yield(plan, lanes, tx.now)
        until = float("inf") if again_in is None else tx.now + again_in
        sleep(tx, worker.id, plan, Sleep(*sleeping), socket(), until=until)
    else:
        awake(tx, worker.id, plan, Sleep(*sleeping))
    lanes.tell_awaiting()
    return Claimed(lanes.claims(), left, again_in)


def walk(plan: ClaimPlan, lanes: Lanes) -> None:
    """Take what `core.plan.walk` would take, in the same order."""
    counts = [0] * len(plan.groups)
    for step in plan.steps:
        room = step.room(counts, plan.demand)
        for tier in plan.groups[step.group].tiers:
            if room <= 0:
                break
            took = drain(tier, lanes, room)
            counts[step.group] += took
            room -= took


def drain(tier: tuple[Source, ...], lanes: Lanes, room: int) -> int:
    """Take up to `room` jobs from the tier, whose sources are merged by (due, sequence)."""
    before = lanes.number
    # A start at one source may open a rate that counts a share of starts at another.
    one_by_one = any(isinstance(g, Rate) and g.of for source in tier for g in source.limits)
    while (rest := room - (lanes.number - before)) > 0:
        ready = [
            (row, source, allowed)
            for source in tier
            if (row := lanes.first(source.lane, lanes.waits(source))) is not None
            and (allowed := allowance(source, lanes)) > 0
        ]
        if not ready:
            break
        row, source, allowed = min(ready, key=lambda each: each[0][:2])
        others = [r for r, s, _ in ready if s.lane != source.lane]
        most = 1 if one_by_one else min(rest, allowed)
        take = lanes.take_plain if row[SPECIAL] is None else lanes.take_special
        taken = take(source.lane, most, min(others, default=None), lanes.waits(source))
        charge(source, lanes, taken)
    return lanes.number - before


def allowance(source: Source, lanes: Lanes) -> int:
    """How many jobs the limits of the source let through now."""
    if not source.limits:
        return NO_LIMIT
    return min(
        NO_LIMIT if isinstance(limit, Rate) and limit.limit is None else lanes.room(limit)
        for limit in source.limits
    )


def charge(source: Source, lanes: Lanes, taken: list[Row]) -> None:
    """Charge the limits of the source for these rows."""
    for limit in source.limits:
        if isinstance(limit, Cap):
            for row in taken:
                lanes.limits.charge(limit.key, row[ID])
        elif taken:
            lanes.limits.count(limit, len(taken))
