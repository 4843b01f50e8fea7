"""Schedules: a record each, and the ticks that are placed and withdrawn with it."""

from mulligan.core.job import never_started
from mulligan.core.reschedule import WITHDRAWN, Reschedule
from mulligan.core.settings import check_batch
from mulligan.stores.memory import commit, enqueue, operate
from mulligan.stores.memory.state import State


def schedules(state: State) -> dict[str, bytes]:
    """The records by name."""
    with state.lock:
        return dict(sorted(state.schedules.items()))


def reschedule(state: State, change: Reschedule) -> bool:
    """Replace the record if it is still the one before, with its ticks."""
    check_batch(len(change.place))
    with state.lock:
        state.tick()
        stored = state.schedules.get(change.name)
        if stored != change.before:
            return stored == change.after
        if change.after is None:
            state.schedules.pop(change.name, None)
        else:
            state.schedules[change.name] = change.after
        for job in change.withdraw:
            withdraw(state, job)
        for new in change.place:
            enqueue.add(state, new)
        if change.edit:
            operate.change_facts(state)
        return True


def withdraw(state: State, job: str) -> None:
    """Delete a tick that is pending and has never started."""
    stored = state.jobs.get(job)
    if stored is None or stored.status != "pending":
        return
    if never_started(stored.retry_count, stored.snoozes, stored.replay):
        commit.cancel(state, stored, WITHDRAWN)
        operate.purge_one(state, stored)
