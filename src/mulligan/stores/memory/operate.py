"""What changes the store from outside a lease: facts, settings, counts, notes and ended jobs."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from heapq import heappop
from itertools import islice, takewhile

from mulligan.core.checks import rounded
from mulligan.core.counts import Count, Counts
from mulligan.core.facts import Facts, QueueSettings, Region
from mulligan.core.health import Breaker, Health, changes_plans
from mulligan.core.job import ENDED, EXPIRED, Adopted, adopted_token
from mulligan.core.limits import Limit, StoredLimit, covering
from mulligan.core.lines import opened
from mulligan.core.settings import check_batch
from mulligan.stores.memory import commit, enqueue
from mulligan.stores.memory.fields import StoredJob, stored_of
from mulligan.stores.memory.record import drop, take_over
from mulligan.stores.memory.state import State

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


def change_facts(state: State) -> None:
    """Facts changed: plans made before are refused, and every sleeper makes a new one."""
    state.epoch += 1
    state.sleepers.wake_all()


def configure(state: State, queue: str, settings: QueueSettings) -> None:
    """Store the settings of a queue."""
    with state.lock:
        if state.queues.get(queue) != settings:
            state.queues[queue] = settings
            change_facts(state)


def pause(state: State, queue: str, *, paused: bool) -> None:
    """Stop or resume claims from a queue."""
    with state.lock:
        if (queue in state.paused) != paused:
            (state.paused.add if paused else state.paused.discard)(queue)
            change_facts(state)


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
            change_facts(state)
        return done


def note(state: State, key: str, value: bytes | None, keep: float) -> None:
    """Keep a value under the key for so many seconds; None forgets it."""
    with state.lock:
        if value is None:
            forget_note(state, key)
        else:
            if key not in state.notes:
                insort(state.note_keys, key)
            state.notes[key] = (value, state.tick() + keep)


def notes(state: State, prefix: str) -> dict[str, bytes]:
    """The values kept under keys that begin so."""
    with state.lock:
        now = state.tick()
        first = islice(state.note_keys, bisect_left(state.note_keys, prefix), None)
        found = takewhile(lambda key: key.startswith(prefix), first)
        return {key: state.notes[key][0] for key in found if state.notes[key][1] > now}


def forget_note(state: State, key: str) -> None:
    """Delete the note, if there is one."""
    if state.notes.pop(key, None) is not None:
        del state.note_keys[bisect_left(state.note_keys, key)]


# -- jobs ----------------------------------------------------------------------------------------


def promote(state: State, limit: int) -> int:
    """Cancel what has expired. Nothing need be moved: heaps are in the order of due times."""
    with state.lock:
        now = state.tick()
        ended = 0
        while state.expiring and state.expiring[0][0] <= now and ended < limit:
            stored = heappop(state.expiring)[2]
            if stored.status == "pending" and stored.has_expired(now):
                ended += commit.cancel(state, stored, EXPIRED)
        return ended


def prune(state: State, keep_done: float, limit: int) -> int:
    """Delete done and cancelled jobs that are old enough, and what else is past its time."""
    with state.lock:
        now = state.tick()
        state.counters.forget(now)
        for key in [key for key, (_, until) in state.notes.items() if until <= now]:
            forget_note(state, key)
        for name in list(state.limits.states):
            state.limits.forget(name, now)
        pruned = 0
        while state.kept and state.kept[0][0] < now and pruned < limit:
            _, _, ended_at, stored = heappop(state.kept)
            pruned += forget(state, stored, ended_at)
        while state.ended and state.ended[0][0] < now - keep_done and pruned < limit:
            ended_at, stored = state.ended.popleft()
            if stored.new.keep is None:  # else it failed then, and may have ended anew since
                pruned += forget(state, stored, ended_at)
        return pruned


def forget(state: State, stored: StoredJob, ended_at: float) -> bool:
    """Delete the job, if it is still the one that ended then; a dead letter stays."""
    is_old = stored.status in ("done", "cancelled") and stored.ended_at == ended_at
    if is_old and state.jobs.get(stored.new.id) is stored:
        del state.jobs[stored.new.id]
        commit.free_key(state, stored)
        return True
    return False


def replay(state: State, jobs: Sequence[str], *, from_start: bool) -> list[bool]:
    """Make failed jobs pending again."""
    with state.lock:
        state.tick()
        return [replay_one(state, stored, from_start=from_start) for stored in found(state, jobs)]


def replay_one(state: State, stored: StoredJob | None, *, from_start: bool) -> bool:
    """Put a failed job back into its first lane, unless another has its unique key now."""
    if stored is None or stored.status != "failed":
        return False
    new = stored.new
    key = stored.unique
    if key is not None and stored.debounce_until is None:
        if enqueue.holder_of(state, key) not in (None, stored):
            return False
        state.unique[key] = new.id
    stored.retry_count = stored.snoozes = 0
    stored.replay += 1
    stored.trail = ""
    stored.ended_at = None
    if from_start:
        drop(stored)
    commit.withdraw(state, stored)
    enqueue.join_lane(state, stored, new.lane, 0.0)
    return True


def cancel(state: State, jobs: Sequence[str], reason: str) -> list[bool]:
    """End pending and running jobs."""
    with state.lock:
        state.tick()
        return [commit.cancel(state, stored, reason) for stored in found(state, jobs)]


def adopt(state: State, jobs: Sequence[Adopted]) -> list[bool]:
    """Take over jobs of another store."""
    check_batch(len(jobs))
    with state.lock:
        state.tick()
        return [adopt_one(state, each) for each in jobs]


def adopt_one(state: State, adopted: Adopted) -> bool:
    """Take over the job, unless its id or its unique key is stored already."""
    job = adopted.job
    key = None if job.unique_key is None else (job.key_queue, job.unique_key)
    taken = job.status != "failed" and enqueue.holder_of(state, key) is not None
    if job.id in state.jobs or (taken and job.debounce_until is None):
        return False
    stored = state.jobs[job.id] = stored_of(job, state.next_sequence())
    stored.token = adopted_token(stored.first_sequence, job.token)
    stored.history, stored.arrived = list(adopted.history), dict(adopted.arrived)
    take_over(stored, adopted.records, job.token)
    enqueue.watch_expiry(state, stored)
    if job.status == "failed":
        stored.status, stored.ended_at = "failed", job.ended_at
        stored.lane, stored.due = job.lane, job.due
        return True
    if key is not None and not taken:
        state.unique[key] = job.id
    if not stored.awaits:
        enqueue.join_lane(state, stored, job.lane, job.due - state.now)
    return True


def purge(state: State, jobs: Sequence[str]) -> list[bool]:
    """Delete jobs that have ended."""
    with state.lock:
        state.tick()
        return [purge_one(state, stored) for stored in found(state, jobs)]


def purge_one(state: State, stored: StoredJob | None) -> bool:
    """Delete the job if it has ended; one that failed will never arrive now."""
    if stored is None or stored.status not in ENDED:
        return False
    del state.jobs[stored.new.id]
    commit.free_key(state, stored)
    if stored.status == "failed":
        commit.purge_awaited(state, stored)
    return True


def found(state: State, jobs: Sequence[str]) -> Iterator[StoredJob | None]:
    """Each job as it is stored, looked up when its turn comes."""
    check_batch(len(jobs))
    return (state.jobs.get(job) for job in jobs)
