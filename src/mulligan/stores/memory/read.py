"""Reads jobs, histories, pages and stats."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from msgspec.structs import replace

from mulligan.core.errors import UnknownJobError
from mulligan.core.job import Attempt, Job, Status
from mulligan.core.lane import Lane
from mulligan.core.limits import KeyView, LimitView
from mulligan.core.page import Page, Selection, cursor_number
from mulligan.core.record import Record, in_order
from mulligan.core.settings import check_batch
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import WorkerView
from mulligan.stores.memory.fields import StoredJob, job_of
from mulligan.stores.memory.state import State
from mulligan.stores.watches import Tell, Watch


def get(state: State, job: str) -> Job | None:
    """The job as it is now."""
    with state.lock:
        stored = state.jobs.get(job)
        return None if stored is None else job_of(stored, waits_for(state, stored))


def statuses(state: State, jobs: Sequence[str]) -> dict[str, Status]:
    """The statuses of the stored ones of these jobs."""
    check_batch(len(jobs))
    with state.lock:
        return {job: state.jobs[job].status for job in jobs if job in state.jobs}


def waits_for(state: State, stored: StoredJob) -> str | None:
    """The limit that its line waits for."""
    if stored.status != "pending" or stored.awaits:
        return None
    name = stored.line
    line = None if name is None else state.lines.line(name)
    return None if line is None else line.at


def watch(state: State, job: str, tell: Tell) -> Watch:
    """Have `tell` called when the job ends."""
    state.watches.add(job, tell)
    return Watch(partial(state.watches.remove, job, tell), is_told=True)


def history(state: State, job: str) -> list[Attempt]:
    """Its failed and lost attempts."""
    with state.lock:
        stored = state.jobs.get(job)
        return [] if stored is None else list(stored.history)


def records(state: State, job: str, most: int | None) -> list[Record]:
    """What the job has recorded."""
    with state.lock:
        stored = state.jobs.get(job)
        return [] if stored is None else in_order(stored.records.values(), most)


def schedules(state: State) -> dict[str, bytes]:
    """The records of schedules by name."""
    with state.lock:
        return dict(sorted(state.schedules.items()))


def arrivals(state: State, job: str) -> dict[int, bytes | None]:
    """What has arrived at it, by its index."""
    with state.lock:
        stored = state.jobs.get(job)
        return {} if stored is None else dict(sorted(stored.arrived.items()))


def page(
    state: State, selection: Selection, limit: int, after: str | None, *, bodies: bool, looks: int
) -> Page:
    """Jobs that match, those that were accepted last first."""
    with state.lock:
        below = state.sequence + 1 if after is None else cursor_number(after)
        found = [
            stored
            for stored in state.jobs.values()
            if stored.number < below and matches(selection, stored)
        ]
        found.sort(key=lambda stored: -stored.number)
        last: int | None = None
        if selection.text is not None:
            last = found[looks - 1].number if len(found) >= looks else None
            found = [stored for stored in found[:looks] if failed_with(selection.text, stored)]
        if len(found) > limit:
            last = found[limit - 1].number
        jobs = [job_of(stored, waits_for(state, stored)) for stored in found[:limit]]
        if not bodies:
            jobs = [replace(job, body=b"", result=None) for job in jobs]
        return Page(jobs, None if last is None else str(last))


def matches(selection: Selection, stored: StoredJob) -> bool:
    """Whether the job is selected, whatever its last failure says."""
    return (
        selection.status in (None, stored.status)
        and selection.queue in (None, stored.queue)
        and selection.region in (None, stored.region)
        and selection.task in (None, stored.task)
    )


def failed_with(text: str, stored: StoredJob) -> bool:
    """Whether the text is in the reason of the job's last failure."""
    return stored.last_failure_reason is not None and text in stored.last_failure_reason


def depth(state: State, lane: Lane, limit: int) -> int:
    """How many jobs of the lane could start now."""
    with state.lock:
        now = state.tick()
        ready = sum(due <= now for due, _, _ in standing(state, lane, waiting=False))
        return min(ready, limit)


def standing(state: State, lane: Lane, *, waiting: bool) -> Iterator[tuple[float, int, StoredJob]]:
    """The pending jobs of the lane and of its lines; those that wait for a limit if `waiting`."""
    lines = state.lines.lanes[lane].lines if lane in state.lines.lanes else {}
    heaps = [state.lines.members[name] for name, line in lines.items() if waiting or not line.at]
    for due, sequence, stored in chain(state.lanes.heaps.get(lane, ()), *heaps):
        if stored.sequence == sequence and stored.status == "pending":
            yield due, sequence, stored


def ahead(state: State, job: str) -> int:
    """How many jobs stand before this one in its lane."""
    with state.lock:
        stored = state.jobs.get(job)
        if stored is None:
            raise UnknownJobError(f"no job {job!r} is stored")
        if stored.status != "pending" or stored.awaits:
            return 0
        return sum(
            other.status == "pending"
            and not other.awaits
            and other.lane == stored.lane
            and (other.due, other.sequence) < (stored.due, stored.sequence)
            for other in state.jobs.values()
        )


def tail(state: State, lane: Lane, due: float) -> str | None:
    """The last job waiting in the lane of those that were due by then."""
    with state.lock:
        waiting = [
            (at, sequence, stored.id)
            for at, sequence, stored in standing(state, lane, waiting=True)
            if at <= due
        ]
        return max(waiting)[2] if waiting else None


def limits(state: State, most: int) -> list[LimitView]:
    """The limits that are stored or in use, in order of names."""
    with state.lock:
        now = state.tick()
        waiting = state.lines.waiting_jobs()
        names = sorted({*state.limits.stored, *state.limits.states, *waiting})
        return [state.limits.view(name, waiting.get(name, 0), now) for name in names[:most]]


def keys(state: State, queue: str, most: int) -> list[KeyView]:
    """The fairness keys of the queue with work waiting, those with most work first."""
    with state.lock:
        state.tick()
        found = [
            KeyView(lane, key, waiting, state.lines.turns_behind(lane, key))
            for (lane, key), waiting in state.lines.jobs_by_key(queue).items()
        ]
        return sorted(found, key=lambda each: (-each.waiting, each.lane, each.key))[:most]


def stats(state: State) -> Stats:
    """Go over all jobs once and count them."""
    with state.lock:
        now = state.tick()
        lanes: dict[Lane, list[float]] = defaultdict(list)
        running: dict[tuple[str, str], int] = defaultdict(int)
        ended: dict[tuple[str, Status], int] = defaultdict(int)
        delayed: dict[str, list[float]] = defaultdict(list)
        held_by: dict[str, int] = defaultdict(int)
        gathering: dict[str, int] = defaultdict(int)
        for stored in state.jobs.values():
            queue = stored.queue
            if stored.status == "pending" and stored.awaits:
                gathering[queue] += 1
            elif stored.status == "pending":
                lanes[stored.lane].append(stored.due)
                if stored.delayed:
                    delayed[queue].append(stored.due)
            elif stored.status == "processing":
                running[queue, stored.worker_region or stored.region] += 1
                held_by[stored.worker or ""] += 1
            else:
                ended[queue, stored.status] += 1
        return Stats(
            now=now,
            lanes=[lane_stats(lane, dues, now) for lane, dues in sorted(lanes.items())],
            running=dict(running),
            ended=dict(ended),
            delayed={queue: delayed_stats(dues, now) for queue, dues in delayed.items()},
            workers=[
                WorkerView(worker, beat_at, joined_at, state.is_live(worker.id), held_by[worker.id])
                for worker, beat_at, joined_at in state.workers.values()
            ],
            gathering=dict(gathering),
        )


def lane_stats(lane: Lane, dues: list[float], now: float) -> LaneStats:
    """How many of the lane's jobs could start now, and how many not yet."""
    ready = sum(due <= now for due in dues)
    return LaneStats(lane, ready, len(dues) - ready, min(dues))


def delayed_stats(dues: list[float], now: float) -> DelayedStats:
    """The delayed set of a queue, by when its jobs fall due."""
    soon = sum(due <= now + 3600 for due in dues)
    return DelayedStats(len(dues), sum(due <= now for due in dues), soon)
