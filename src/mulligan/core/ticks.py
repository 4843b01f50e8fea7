"""Every rule about ticks: when a schedule ticks, which missed ticks run, what an edit withdraws.

A store replaces the record of a schedule only where it is still what the caller has read. So of any
number of processes one places a tick. The next tick is a delayed job. What is decided here is a
`Reschedule`: the new record, the tick to withdraw and the ticks to place, which a store carries out
in one step.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from mulligan.core.checks import rounded
from mulligan.core.job import NewJob
from mulligan.core.reschedule import Reschedule
from mulligan.core.schedule import CatchUp, Schedule, Stored, record_of, tick_id
from mulligan.core.timing import ticks_between

# How many missed ticks are made up for at most.
MOST_MISSED = 1000
# How many ticks are placed in one step at most, and how large their bodies are together.
PLACED_AT_ONCE, PLACED_BYTES = 100, 4 << 20
# A tick that is placed or made up for within this time is late, not missed.
LATE = 60.0
# Schedules that no worker has declared for so long are forgotten.
KEEP_UNDECLARED = 7 * 86_400.0


# -- edits ---------------------------------------------------------------------------------------


def put(before: Stored | None, new: Schedule, now: float) -> Reschedule:
    """Store the schedule, or give the stored one this call and timing.

    Its next tick replaces the one that was placed. One that is paused stays so.
    """
    if before is None:
        begun = replace(new, changed_at=now, handled=now)
        return rescheduled(begun, None, begun, now, edit=True)
    old = before.schedule
    came = settled(old, now)
    same = same_timing(old, new) and old.state == "active"
    changed = replace(
        came,
        job=new.job,
        body=new.body,
        cron=new.cron,
        every=new.every,
        timezone=new.timezone,
        catch_up=new.catch_up,
        declared=new.declared,
        undeclared=None,
        changed_at=now,
        handled=min(came.handled, now) if same or old.undeclared is not None else now,
    )
    return rescheduled(changed, before, old, now, edit=True)


def declare(before: Stored | None, new: Schedule, now: float) -> Reschedule | None:
    """Store what a task declares; None if that is stored, or a stored schedule has its name."""
    if before is not None:
        old = before.schedule
        if not old.declared:
            return None
        same = (old.job, old.body, old.catch_up) == (new.job, new.body, new.catch_up)
        if same and same_timing(old, new) and old.undeclared is None:
            return None
    return put(before, new, now)


def pause(before: Stored, now: float) -> Reschedule | None:
    """Tick no more until it is resumed; None if it is paused."""
    old = before.schedule
    if old.paused:
        return None
    changed = replace(settled(old, now), paused=True, handled=now, changed_at=now)
    return rescheduled(changed, before, old, now, edit=True)


def resume(before: Stored, now: float) -> Reschedule | None:
    """Tick again from now on; None if it is not paused."""
    old = before.schedule
    if not old.paused:
        return None
    changed = replace(old, paused=False, handled=now, placed=None, changed_at=now)
    return rescheduled(changed, before, old, now, edit=True)


def remove(before: Stored, now: float) -> Reschedule:
    """Forget the schedule, and withdraw the tick that is placed."""
    old = before.schedule
    return Reschedule(old.name, before.record, None, withdrawn(old, now), edit=True)


def undeclared(before: Stored, now: float) -> Reschedule | None:
    """Tick no more until a worker declares it again; after a long while forget it."""
    old = before.schedule
    if old.undeclared is not None:
        return remove(before, now) if now - old.undeclared > KEEP_UNDECLARED else None
    came = settled(old, now)
    changed = replace(came, undeclared=now, handled=min(came.handled, now))
    return rescheduled(changed, before, old, now)


def same_timing(one: Schedule, other: Schedule) -> bool:
    """Whether both tick at the same times."""
    return one.timing.words == other.timing.words


def settled(schedule: Schedule, now: float) -> Schedule:
    """The schedule without a tick that is placed: one that came due has ticked."""
    if schedule.placed is None:
        return schedule
    if schedule.placed > now:
        return replace(schedule, placed=None)
    return replace(schedule, placed=None, last=schedule.placed, ticks=schedule.ticks + 1)


def withdrawn(schedule: Schedule, now: float) -> tuple[str, ...]:
    """The id of the tick that is placed and has not come due."""
    if schedule.placed is None or schedule.placed <= now:
        return ()
    return (tick_id(schedule.name, schedule.placed),)


def rescheduled(
    changed: Schedule, before: Stored | None, old: Schedule, now: float, *, edit: bool = False
) -> Reschedule:
    """The change with the ticks that follow from it, and without the one that was placed."""
    step = following(changed, now) if changed.state == "active" else None
    after, _, ticks = step or (changed, (), ())
    return Reschedule(
        changed.name,
        None if before is None else before.record,
        record_of(after),
        withdrawn(old, now),
        jobs_of(after, ticks, now),
        edit,
    )


# -- ticks ---------------------------------------------------------------------------------------


def tick(before: Stored, now: float) -> Reschedule | None:
    """What is to be placed now: missed ticks by the rule, and the next; None if nothing is."""
    old = before.schedule
    if old.state != "active":
        return None
    step = following(old, now)
    if step is None:
        return None
    after, gone, ticks = step
    ids = tuple([tick_id(old.name, each) for each in gone])
    return Reschedule(old.name, before.record, record_of(after), ids, jobs_of(after, ticks, now))


def look_again_in(schedule: Schedule, now: float, offset: float) -> float | None:
    """Seconds until `tick` has something to do; None for one that does not tick.

    Of many processes that look, each waits for its `offset`, so that one does it and the others
    find it done. That is early enough: the tick after is placed already.
    """
    if schedule.state != "active":
        return None
    timing = schedule.timing
    if schedule.waits_for_the_tick:
        return timing.after(max(now, schedule.handled)) - now
    gap = timing.after(schedule.handled) - schedule.handled
    return schedule.handled + min(offset, gap / 4) - now


def following(
    schedule: Schedule, now: float
) -> tuple[Schedule, tuple[float, ...], tuple[float, ...]] | None:
    """The schedule as it is next, which ticks to withdraw for it, and which to place."""
    timing = schedule.timing
    ahead = timing.after(now)
    if schedule.handled > now:
        if schedule.handled <= timing.after(ahead):
            return None
        # The clock was far ahead when that tick was placed, and has been set right.
        far = () if schedule.placed is None else (schedule.placed,)
        begun = replace(schedule, handled=now, placed=None)
        after, _, ticks = following(begun, now) or (begun, (), ())
        return after, far, ticks
    missed = ticks_between(timing, schedule.handled, now, MOST_MISSED)
    gone = overdue(schedule, missed, now)
    made_up = made_up_for(schedule.catch_up, missed, now)
    ticks = tuple(made_up if schedule.waits_for_the_tick else [*made_up, ahead])
    room = max(1, PLACED_BYTES // max(1, len(schedule.body)))
    ticks = ticks[: min(PLACED_AT_ONCE, room)]
    came = settled(schedule, now)
    if gone:
        came = replace(schedule, placed=None)
    if not ticks:
        handled = missed[-1] if missed else schedule.handled
        after = replace(came, handled=handled)
        return None if handled == schedule.handled and not gone else (after, gone, ())
    if len(ticks) > 1:
        came = replace(came, ticks=came.ticks + len(ticks) - 1, last=ticks[-2])
    if made_up:
        came = replace(came, late=rounded(max(0.0, now - min(ticks[-1], made_up[-1]))))
    elif schedule.placed is not None:
        came = replace(came, late=0.0)
    return replace(came, handled=ticks[-1], placed=ticks[-1]), gone, ticks


def made_up_for(catch_up: CatchUp, missed: list[float], now: float) -> list[float]:
    """The missed ticks that are placed after all."""
    match catch_up:
        case "all":
            return missed
        case "one":
            return missed[-1:]
        case _:
            return [tick for tick in missed if now - tick <= LATE]


def overdue(schedule: Schedule, missed: list[float], now: float) -> tuple[float, ...]:
    """The placed tick that came due while no worker ran, if the rule for missed ticks drops it."""
    placed = schedule.placed
    if placed is None or schedule.catch_up == "all":
        return ()
    if schedule.catch_up == "one":
        return (placed,) if missed else ()
    return (placed,) if now - placed > LATE else ()


def jobs_of(schedule: Schedule, ticks: Iterable[float], now: float) -> tuple[NewJob, ...]:
    """The jobs of these ticks."""
    return tuple(
        [schedule.new_job(tick_id(schedule.name, t), max(0.0, rounded(t - now))) for t in ticks]
    )
