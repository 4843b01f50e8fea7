"""Claim: the walk of `core.walk` over the database, in runs of rows instead of single jobs."""

from collections.abc import Callable

from mulligan.core.answers import Claimed
from mulligan.core.job import Claim
from mulligan.core.lane import Lane
from mulligan.core.plan import Cap, ClaimPlan, Rate, Source
from mulligan.core.settings import check_batch
from mulligan.core.walk import group_waits, next_yield
from mulligan.core.worker import Worker
from mulligan.stores.sqlite._lines import A_MOMENT, SPECIAL, Lines, Row, started_at
from mulligan.stores.sqlite._sql import load
from mulligan.stores.sqlite._transaction import Transaction
from mulligan.stores.sqlite._waiting import Sleep, sleep, wake
from mulligan.stores.sqlite._workers import join

_BEGIN = load("claim_begin")
_CHARGE = load("permits_charge")
_COUNT = load("starts_count")
_PRUNE_STARTS = load("starts_prune")

NO_GATE = 1 << 30


def claim(
    tx: Transaction, plan: ClaimPlan, worker: Worker, address: Callable[[], str | None]
) -> Claimed:
    """Walk the plan and hand its jobs to the worker; who gets too few is noted as waiting."""
    check_batch(plan.demand)
    epoch, lapses_at, *sleeping = tx.db.execute(_BEGIN, (worker.id, worker.id)).fetchone()
    if lapses_at is None or lapses_at <= tx.now:
        epoch += join(tx, worker, anew=True)
    if plan.epoch != epoch:
        return Claimed([], stale=True)
    tx.myself = worker.id
    lines = Lines(tx, plan.groups, plan.demand, worker)
    walk(plan, lines)
    settle(tx, lines)
    left = tuple(group_waits(group, lines, tx.now) for group in plan.groups)
    again_in = None
    if lines.number < plan.demand:
        lines.look_ahead()
        again_in = next_yield(plan, lines, tx.now)
        until = float("inf") if again_in is None else tx.now + again_in
        sleep(tx, worker.id, plan, Sleep(*sleeping), address(), until=until)
    else:
        wake(tx, worker.id, plan, Sleep(*sleeping))
    return Claimed(claims_of(lines.taken, worker, tx.now), left, again_in)


def walk(plan: ClaimPlan, lines: Lines) -> None:
    """Take what `core.walk.walk` would take, in the same order."""
    counts = [0] * len(plan.groups)
    for step in plan.steps:
        room = step.room(counts, plan.demand)
        for tier in plan.groups[step.group].tiers:
            if room <= 0:
                break
            took = drain(tier, lines, room)
            counts[step.group] += took
            room -= took


def drain(tier: tuple[Source, ...], lines: Lines, room: int) -> int:
    """Take up to `room` jobs from the tier, whose sources are merged by (due, sequence)."""
    before = lines.number
    # A start at one source may open a gate that counts a share of starts at another.
    one_by_one = any(isinstance(g, Rate) and g.of for source in tier for g in source.limits)
    while (rest := room - (lines.number - before)) > 0:
        ready = [
            (row, source, allowed)
            for source in tier
            if (row := lines.first(source.lane, lines.waits(source))) is not None
            and (allowed := allowance(source, lines)) > 0
        ]
        if not ready:
            break
        row, source, allowed = min(ready, key=lambda each: each[0][:2])
        if row[SPECIAL] is not None:
            taken = lines.take_special(source.lane)
        else:
            others = [r for r, s, _ in ready if s.lane != source.lane]
            most = 1 if one_by_one else min(rest, allowed)
            bound = min(others, default=None)
            taken = lines.take_plain(source.lane, most, bound, lines.waits(source))
        charge(source, lines, taken)
    return lines.number - before


def allowance(source: Source, lines: Lines) -> int:
    """How many jobs the gates of the source let through now."""
    if not source.limits:
        return NO_GATE
    return min(
        NO_GATE if isinstance(gate, Rate) and gate.limit is None else lines.room(gate)
        for gate in source.limits
    )


def charge(source: Source, lines: Lines, taken: list[Row]) -> None:
    """Charge the gates of the source for these rows."""
    for gate in source.limits:
        if isinstance(gate, Cap):
            for row in taken:
                lines.charge(gate.key, row)
        elif taken:
            lines.count(gate, len(taken))


def settle(tx: Transaction, lines: Lines) -> None:
    """Store what the gates were charged."""
    if lines.charges:
        tx.db.executemany(_CHARGE, lines.charges)
    for gate, count in lines.counts.items():
        tx.db.execute(_PRUNE_STARTS, (gate.key, tx.now - gate.per - A_MOMENT))
        tx.db.execute(_COUNT, (gate.key, started_at(gate, tx.now), count))
    lines.counts.clear()  # whoever asks from now on reads them from the database


def claims_of(taken: list[tuple[Lane, list[Row]]], worker: Worker, now: float) -> list[Claim]:
    """What was taken, as claims of the worker."""
    me, region = worker.id, worker.region
    return [
        Claim(
            id_,
            token + 1,
            queue,
            task,
            body,
            own,
            priority,
            scope,
            lane_priority,
            due,
            retry_count,
            replay,
            snoozes,
            me,
            region,
            now,
            trail,
        )
        for (queue, scope, lane_priority), rows in taken
        for (
            due,
            _,
            _,
            id_,
            token,
            task,
            body,
            own,
            priority,
            retry_count,
            replay,
            snoozes,
            trail,
            _,
        ) in rows
    ]
