"""`copy`: moves all jobs that are not done from one store to another."""

import asyncio
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple

import click
from msgspec.structs import replace

from mulligan.cli.dead import confirm
from mulligan.cli.find_app import bare_app, json_option, opened, yes_option
from mulligan.cli.group import RefusalError, printable
from mulligan.cli.show import print_json, progress
from mulligan.core.batch_letter import batch_letter
from mulligan.core.errors import InvalidError
from mulligan.core.job import Adopted, Job, Status, decode_call
from mulligan.core.lane import ANYWHERE
from mulligan.core.limits import ALL_LIMITS, StoredLimit
from mulligan.core.page import Selection
from mulligan.core.reschedule import Reschedule
from mulligan.core.schedule import read_schedules
from mulligan.core.status import names
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


@click.command()
@click.argument("from_url", metavar="FROM_URL")
@click.argument("to_url", metavar="TO_URL")
@yes_option
@json_option
def copy(from_url: str, to_url: str, *, yes: bool, as_json: bool) -> None:
    """Move unfinished and failed jobs, and schedules, to another store.

    Jobs keep their ids, order, retries and history. Every queue of FROM_URL is paused first and
    stays paused; the move is refused while a job runs or a worker is alive there. A moved job is
    stored in TO_URL before it ends in FROM_URL, as cancelled with the reason "moved to …"; failed
    ones are purged there. After an interruption run it again: nothing is lost or doubled.
    """
    if from_url == to_url:
        raise InvalidError(f"store {redact(from_url)!r} is given twice; give two stores")
    moved = asyncio.run(move_between(from_url, to_url, yes=yes))
    if as_json:
        print_json(moved._asdict())
    else:
        others = f" and {moved.schedules} schedules" if moved.schedules else ""
        click.echo(
            f"Moved {moved.pending} pending and {moved.failed} failed jobs{others} to"
            f" {redact(to_url)}."
        )
        click.echo(f"The queues of {redact(from_url)} stay paused; done jobs stay there.")
    if moved.left:
        raise RefusalError(
            f"{len(moved.left)} jobs were left where they are, because another job in the target"
            f" has their id or unique key: {printable(', '.join(moved.left[:5]))}",
            1,
        )


async def move_between(from_url: str, to_url: str, *, yes: bool) -> Moved:
    """Check both stores, ask for confirmation, and move."""
    apps = bare_app(from_url), bare_app(to_url)
    async with opened(apps[0], writes=True) as source, opened(apps[1], create=True) as target:
        was_paused = (await source.facts()).paused
        queues = await pause_all(source)
        try:
            await refuse_if_busy(source)
            pending, failed = [await jobs_to_move(source, status) for status in MOVED]
            if (pending or failed) and not yes:
                confirm(
                    f"Move {len(pending)} pending and {len(failed)} failed jobs"
                    f" from {redact(from_url)} to {redact(to_url)}?",
                    "moved",
                )
        except BaseException:
            for queue in set(queues) - was_paused:
                await source.pause(queue, paused=False)
            raise
        reason = f"moved to {redact(to_url)}"
        # After an earlier move all queues are paused, and that pause was not the user's.
        own = frozenset[str]() if await began(source, reason) else was_paused
        await take_over_queues(source, target, own)
        await take_over_limits(source, target)
        schedules = await take_over_schedules(source, target)
        moved = await move_all(source, target, reason)
        for name, record in schedules.items():
            # Its next tick, which was placed, has been moved.
            await source.reschedule(Reschedule(name, record, None))
        return moved._replace(schedules=len(schedules))


async def began(source: Store, reason: str) -> bool:
    """Whether an earlier move to the same store ended or was interrupted."""
    page = await source.page(Selection(status="cancelled"), PAGE, bodies=False)
    return any(job.cancel_reason == reason for job in page.jobs)


async def pause_all(source: Store) -> list[str]:
    """Pause every queue, so that nothing starts any more."""
    queues = names(await source.stats(), await source.facts())
    for queue in queues:
        await source.pause(queue, paused=True)
    return queues


async def refuse_if_busy(source: Store) -> None:
    """Refuse while a job runs or a worker lives: the job could end in both stores."""
    stats = await source.stats()
    running, live = sum(stats.running.values()), [v for v in stats.workers if v.live]
    if live:
        raise RefusalError(
            f"{len(live)} workers are alive in {redact(source.url)}: stop them, then copy again."
            " Nothing was moved.",
            1,
        )
    if running:
        raise RefusalError(
            f"{running} jobs of {redact(source.url)} are held by workers that stopped beating:"
            " pause its queues, start a worker there until it has reclaimed them, stop it,"
            " then copy again. Nothing was moved.",
            1,
        )


async def take_over_queues(source: Store, target: Store, paused: frozenset[str]) -> None:
    """Give the target the queue settings that it lacks, and the pauses that the user made."""
    known = (await target.facts()).queues
    for name, settings in (await source.facts()).queues.items():
        if name not in known:
            await target.configure(name, settings)
    for name in sorted(paused):
        await target.pause(name, paused=True)
        click.echo(
            f"note: queue {printable(name)!r} was paused and is paused in the target too; resume"
            " it there when it should go on",
            err=True,
        )


async def take_over_limits(source: Store, target: Store) -> None:
    """Give the target the limits that it lacks, what is owed of them, and their pauses.

    Nothing is owed twice if the move is made again: it is topped up to what is owed in the source.
    """
    now = (await source.facts()).now
    views = await source.limits(ALL_LIMITS)
    known = {view.name: view.stored for view in await target.limits(ALL_LIMITS)}
    for view in views:
        there = known.get(view.name, StoredLimit())
        if view.stored.declared is not None and there.declared is None:
            await target.set_limit(view.name, view.stored.declared, declared=True)
        if view.stored.set is not None and there.set is None:
            await target.set_limit(view.name, view.stored.set, declared=False)
    later = (await target.facts()).now
    used = {view.name: view for view in await target.limits(ALL_LIMITS)}
    for view in views:
        beside = used.get(view.name)
        owed = view.used - (beside.used if beside else 0)
        if owed > 0:
            await target.spend(view.name, owed)
        rest = (view.paused_until or now) - now
        if rest > ((beside and beside.paused_until) or later) - later:
            await target.pause_limit(view.name, rest)


async def take_over_schedules(source: Store, target: Store) -> dict[str, bytes]:
    """Give the target the schedules as they stand; returns the records of those that it has.

    One that the target has already, of the same name and moment, is there from an interrupted move.
    """
    known = read_schedules(await target.schedules())
    taken: dict[str, bytes] = {}
    for name, (schedule, record) in read_schedules(await source.schedules()).items():
        there = known.get(name)
        if there is None:
            await target.reschedule(Reschedule(name, None, record, edit=True))
        elif (there.schedule.changed_at, there.schedule.task) != (
            schedule.changed_at,
            schedule.task,
        ):
            click.echo(
                f"note: schedule {printable(name)!r} is another one in the target; it stays in the"
                " source and does not tick there without a worker",
                err=True,
            )
            continue
        taken[name] = record
    return taken


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


def anywhere(job: Job) -> Job:
    """A global retry without the regions that were to take it first: the target has others."""
    return replace(job, scope=ANYWHERE) if job.lane.is_global else job


async def move(
    source: Store, target: Store, status: Status, ids: Sequence[str], reason: str
) -> tuple[int, list[str]]:
    """Store a batch in the target, then end it in the source; how many, and which jobs could not.

    Until the batch has ended in the source, the target holds a letter that names its jobs. If this
    process dies in between, the letter stays: it is a dead letter, which is never pruned.
    """
    read = [each for each in await asyncio.gather(*(whole(source, i) for i in ids)) if each]
    here = [each._replace(job=anywhere(each.job)) for each in read if each.job.status == status]
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
