"""What changes the store from outside a lease: facts, settings, counts, notes and ended jobs."""

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop
from itertools import islice, takewhile

from mulligan.core.at_once import at_once
from mulligan.core.checks import rounded
from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.health import Breaker, Health, changes_plans
from mulligan.core.job import EXPIRED
from mulligan.core.limits import Limit, StoredLimit, covering
from mulligan.core.lines import opened
from mulligan.stores.memory.fields import StoredJob
from mulligan.stores.memory.rows import Rows
from mulligan.stores.memory.state import State
from mulligan.stores.rules.end import cancel_one

# -- facts and settings --------------------------------------------------------------------------


def facts(state: State) -> Facts:
    """What plans are made from."""
    with state.lock:
        state.tick()
        return facts_now(state)


def facts_now(state: State) -> Facts:
    """The facts at the instant of the operation under way."""
    serves: dict[str, set[str]] = {name: set() for name in state.regions}
    for worker, beat_at, _ in state.workers.values():
        if beat_at + worker.lease > state.now:
            serves[worker.region].update(worker.queues)
    return Facts(
        epoch=state.epoch,
        queues=dict(state.queues),
        regions=tuple([Region(name, frozenset(serves[name])) for name in sorted(serves)]),
        paused=frozenset(state.paused),
        health=state.counters.all_health(state.now),
        now=state.now,
    )


def configure(state: State, queue: str, settings: QueueSettings) -> None:
    """Store the settings of a queue."""
    with state.lock:
        if state.queues.get(queue) != settings:
            state.queues[queue] = settings
            state.change_facts()


def pause(state: State, queue: str, *, paused: bool) -> None:
    """Stop or resume claims from a queue."""
    with state.lock:
        if (queue in state.paused) != paused:
            (state.paused.add if paused else state.paused.discard)(queue)
            state.change_facts()


def set_limit(state: State, name: str, limit: Limit | None, *, declared: bool) -> None:
    """Store what an app declares or an operator sets; who waits may have room now."""
    with state.lock:
        state.tick()
        before = state.limits.stored.get(name, StoredLimit())
        after = before.with_declared(limit) if declared else before.with_set(limit)
        if after != before:
            state.limits.store(name, after, state.now)
            for waited_for in sorted(state.lines.limits_waited_for()):
                if covering(waited_for, [name]) is not None:
                    opened(state.lines, waited_for)


def pause_limit(state: State, name: str, seconds: float, *, at_least: bool) -> None:
    """Start nobody of the limit for so long; 0 ends a pause."""
    with state.lock:
        state.limits.pause(name, rounded(state.tick() + seconds), at_least=at_least)
        state.limits.forget(name, state.now)
        opened(state.lines, name)


def spend(state: State, name: str, cost: int) -> None:
    """Charge a limit so much."""
    with state.lock:
        state.limits.spend(name, cost, state.tick())


# -- counts and notes ----------------------------------------------------------------------------


def count(state: State, counts: Sequence[Count]) -> dict[tuple[str, str], Health]:
    """Add the counts, and say how the queues and regions named are now."""
    with state.lock:
        now = state.tick()
        state.counters.add(counts, now)
        named = {(each.queue, each.region) for each in counts}
        return {queue_region: state.counters.health(queue_region, now) for queue_region in named}


def counts(state: State) -> Counts:
    """All that was counted."""
    with state.lock:
        return state.counters.counts(state.tick())


def switch(state: State, queue: str, region: str, before: Breaker, after: Breaker) -> bool:
    """Replace a breaker; False if it was no longer `before`."""
    with state.lock:
        done = state.counters.switch((queue, region), before, after, state.tick())
        if done and changes_plans(before, after):
            state.change_facts()
        return done


def note(state: State, key: str, value: bytes | None, keep: float) -> None:
    """Keep a value under the key for so many seconds; None forgets it."""
    with state.lock:
        state.tick()
        state.note(key, value, keep)


def notes(state: State, prefix: str) -> dict[str, bytes]:
    """The values kept under keys that begin so."""
    with state.lock:
        now = state.tick()
        first = islice(state.note_keys, bisect_left(state.note_keys, prefix), None)
        found = takewhile(lambda key: key.startswith(prefix), first)
        return {key: state.notes[key][0] for key in found if state.notes[key][1] > now}


# -- jobs ----------------------------------------------------------------------------------------


def promote(state: State, limit: int) -> int:
    """Cancel what has expired. Nothing need be moved: heaps are in the order of due times."""
    with state.lock:
        now = state.tick()
        ended = 0
        while state.expiring and state.expiring[0][0] <= now and ended < limit:
            stored = heappop(state.expiring)[2]
            if stored.status == "pending" and stored.has_expired(now):
                ended += at_once(cancel_one(Rows(state), stored, EXPIRED))
        return ended


def prune(state: State, keep_done: float, limit: int) -> int:
    """Delete done and cancelled jobs that are old enough, and what else is past its time."""
    with state.lock:
        now = state.tick()
        state.counters.forget(now)
        for key in [key for key, (_, until) in state.notes.items() if until <= now]:
            state.note(key, None, 0.0)
        for name in list(state.limits.states):
            state.limits.forget(name, now)
        pruned = 0
        while state.kept and state.kept[0][0] < now and pruned < limit:
            _, _, ended_at, stored = heappop(state.kept)
            pruned += forget(state, stored, ended_at)
        while state.ended and state.ended[0][0] < now - keep_done and pruned < limit:
            ended_at, stored = state.ended.popleft()
            if stored.keep is None:  # else it failed then, and may have ended anew since
                pruned += forget(state, stored, ended_at)
        return pruned


def forget(state: State, stored: StoredJob, ended_at: float) -> bool:
    """Delete the job, if it is still the one that ended then; a dead letter stays."""
    is_old = stored.status in ("done", "cancelled") and stored.ended_at == ended_at
    if is_old and state.jobs.get(stored.id) is stored:
        del state.jobs[stored.id]
        Rows(state).free_key(stored)
        return True
    return False
