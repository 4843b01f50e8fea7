"""How `copy` moves jobs: in batches, so that each is in one of the two stores at any time."""

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple

from msgspec.structs import replace

from mulligan.cli.group import RefusalError
from mulligan.cli.show import progress
from mulligan.core.batch_letter import batch_letter
from mulligan.core.job import Adopted, Job, Status, decode_call
from mulligan.core.lane import ANYWHERE
from mulligan.core.limits import costs_of
from mulligan.core.page import Selection
from mulligan.stores import redact
from mulligan.stores.contract import Store

PAGE = 500
BATCH = 100
MOVED: tuple[Status, ...] = ("pending", "failed")


class JobToMove(NamedTuple):
    """A job to move, in the order to move it: by depth, then as in its lane.

    `depth` puts a job that awaits others before those others.
    """

    depth: int
    due: float
    sequence: int
    id: str


class Moved(NamedTuple):
    """How many jobs and schedules were moved, and which jobs were left."""

    pending: int
    failed: int
    left: list[str]
    schedules: int = 0


async def move_all(source: Store, target: Store, reason: str) -> Moved:
    """Move until no job is left: producers may still add jobs to the source."""
    counts = await finish_interrupted(source, target, reason)
    left: list[str] = []
    with interruptible() as interrupted, progress() as bar:
        for status in MOVED:
            task = bar.add_task(f"{status} jobs", total=0)
            while new := [j for j in await jobs_to_move(source, status) if j.id not in set(left)]:
                bar.update(task, total=counts[status] + len(new))
                for start in range(0, len(new), BATCH):
                    batch = [job.id for job in new[start : start + BATCH]]
                    moved, stuck = await move(source, target, status, batch, reason)
                    counts[status] += moved
                    left += stuck
                    bar.advance(task, moved)
                    if interrupted.is_set():
                        raise RefusalError(
                            f"interrupted after {sum(counts.values())} jobs; copy again to go on",
                            1,
                        )
    return Moved(counts["pending"], counts["failed"], left)


async def jobs_to_move(source: Store, status: Status) -> list[JobToMove]:
    """All jobs of the status in the order to move them, without their bodies."""
    found: list[JobToMove] = []
    gathering: dict[str, str | None] = {}
    after: str | None = None
    while True:
        page = await source.page(Selection(status=status), PAGE, after, bodies=False)
        ready = [job for job in page.jobs if not job.awaits]
        found += [JobToMove(0, job.due, job.sequence, job.id) for job in ready]
        gathering |= {job.id: job.gather for job in page.jobs if job.awaits}
        after = page.after
        if after is None:
            return [*awaiting(gathering), *sorted(set(found))]


def awaiting(gathering: Mapping[str, str | None]) -> list[JobToMove]:
    """Jobs that await others, each before those that it awaits.

    A moved job is cancelled in the source, which would cancel the job that awaits it there.
    """

    def depth(job: str) -> int:
        above = gathering[job]
        return 0 if above is None or above not in gathering else 1 + depth(above)

    return sorted(JobToMove(depth(job), 0.0, 0, job) for job in gathering)


def adapted(job: Job) -> Job:
    """The job for the target: a global retry names no regions to take it first, which differ there.

    Limits that cannot be read become empty ones, with which the job fails there too.
    """
    if job.limits is not None and not costs_of(job.limits):
        job = replace(job, limits="{}")
    return replace(job, scope=ANYWHERE) if job.lane.is_global else job


async def move(
    source: Store, target: Store, status: Status, ids: Sequence[str], reason: str
) -> tuple[int, list[str]]:
    """Store a batch in the target, then end it in the source; how many, and which jobs could not.

    Until the batch has ended in the source, the target holds a letter that names its jobs. If this
    process dies in between, the letter stays: it is a dead letter, which is never pruned.
    """
    read = [each for each in await asyncio.gather(*(whole(source, i) for i in ids)) if each]
    here = [each._replace(job=adapted(each.job)) for each in read if each.job.status == status]
    there = await asyncio.gather(*(target.get(each.job.id) for each in here))
    new = [each for each, stored in zip(here, there, strict=True) if stored is None]
    taken: set[str] = set()
    if new:
        adopted = await target.adopt([*new, letter(source, [each.job for each in new])])
        taken = {each.job.id for each, took in zip(new, adopted, strict=False) if took}
    ours = [each.job for each in here]
    safe = [job.id for job in ours if job.id in taken or same(job, await target.get(job.id))]
    await end(source, status, safe, reason)
    await target.purge([letter_id(source)])
    kept = set(safe)
    return len(safe), [each.job.id for each in here if each.job.id not in kept]


async def end(source: Store, status: Status, ids: Sequence[str], reason: str) -> None:
    """End jobs in the source that are stored in the target."""
    if status == "failed":
        await source.purge(ids)
    else:
        await source.cancel(ids, reason)


def letter_id(source: Store) -> str:
    """The id of the letter about a batch of this source."""
    return f"copy-{sha256(source.url.encode()).hexdigest()[:16]}"


def letter(source: Store, jobs: Sequence[Job]) -> Adopted:
    """The dead letter that names the jobs of a batch."""
    why = f"a move from {redact(source.url)} was interrupted; run mulligan copy again to finish it"
    return batch_letter(letter_id(source), "mulligan.copy", jobs, why, time.time())


async def finish_interrupted(source: Store, target: Store, reason: str) -> dict[Status, int]:
    """End in the source what an interrupted move had stored in the target; how many, by status.

    A job that the target no longer has was run there. A job with a unique key may be missing
    because another job had the key, so it is moved again.
    """
    counts = dict.fromkeys(MOVED, 0)
    found = await target.get(letter_id(source))
    if found is None or found.status != "failed":
        return counts
    for status in MOVED:
        safe = []
        for id_ in decode_call(found.body).args:
            job = await source.get(id_)
            if job is None or job.status != status:
                continue
            stored = await target.get(id_)
            if same(job, stored) or (stored is None and job.unique_key is None):
                safe.append(id_)
        await end(source, status, safe, reason)
        counts[status] += len(safe)
    await target.purge([found.id])
    return counts


async def whole(source: Store, job: str) -> Adopted | None:
    """A job with all that is kept beside it."""
    stored = await source.get(job)
    if stored is None:
        return None
    return Adopted(
        stored, await source.history(job), await source.arrivals(job), await source.records(job)
    )


def same(job: Job, stored: Job | None) -> bool:
    """Whether the target has this very job, from an interrupted move."""
    if stored is None:
        return False
    return (job.queue, job.task, job.body, job.region) == (
        stored.queue,
        stored.task,
        stored.body,
        stored.region,
    )


@contextmanager
def interruptible() -> Iterator[asyncio.Event]:
    """Let Ctrl-C and SIGTERM end the move between two batches, never inside one."""
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    try:
        yield interrupted
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
