"""`copy`: moves all jobs that are not done from one store to another."""

import asyncio
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import click
from msgspec.structs import replace

from mulligan.cli.dead import confirm
from mulligan.cli.group import RefusalError, printable
from mulligan.cli.show import print_json, progress
from mulligan.cli.target import bare_app, json_option, opened, yes_option
from mulligan.core.errors import InvalidError
from mulligan.core.job import Job, Status
from mulligan.core.lane import ANYWHERE
from mulligan.core.status import names
from mulligan.stores import redact
from mulligan.stores.contract import Adopted, Selection, Store

PAGE = 500
BATCH = 100
MOVED: tuple[Status, ...] = ("pending", "failed")


class Place(NamedTuple):
    """A job to be moved, by its place in line; `depth` orders those that await each other."""

    depth: int
    due: float
    sequence: int
    id: str


class Moved(NamedTuple):
    """How it went."""

    pending: int
    failed: int
    left: list[str]


@click.command()
@click.argument("from_url", metavar="FROM_URL")
@click.argument("to_url", metavar="TO_URL")
@yes_option
@json_option
def copy(from_url: str, to_url: str, *, yes: bool, as_json: bool) -> None:
    """Move all unfinished and failed jobs to another store.

    Jobs keep their ids, places, retries and history. Every queue of FROM_URL is paused first and
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
        click.echo(
            f"Moved {moved.pending} pending and {moved.failed} failed jobs to {redact(to_url)}."
        )
        click.echo(f"The queues of {redact(from_url)} stay paused; done jobs stay there.")
    if moved.left:
        raise RefusalError(
            f"{len(moved.left)} jobs were left where they are, because another job in the target"
            f" has their id or unique key: {printable(', '.join(moved.left[:5]))}",
            1,
        )


async def move_between(from_url: str, to_url: str, *, yes: bool) -> Moved:
    """Check, ask, and move."""
    apps = bare_app(from_url), bare_app(to_url)
    async with opened(apps[0]) as source, opened(apps[1], create=True) as target:
        was_paused = (await source.facts()).paused
        queues = await pause_all(source)
        try:
            await refuse_if_busy(source)
            pending, failed = [await places(source, status) for status in MOVED]
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
        return await move_all(source, target, reason)


async def began(source: Store, reason: str) -> bool:
    """Whether an earlier move to the same store ended or was interrupted."""
    page = await source.page(Selection(status="cancelled"), PAGE)
    return any(job.cancel_reason == reason for job in page.jobs)


async def pause_all(source: Store) -> list[str]:
    """Pause every queue, so that nothing starts any more."""
    queues = names(await source.stats(), await source.facts())
    for queue in queues:
        await source.pause(queue, paused=True)
    return queues


async def refuse_if_busy(source: Store) -> None:
    """A job that runs could end in both stores; so could one that a live worker is about to."""
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
            " pause its queues, start a worker there until it has seized them, stop it, then copy"
            " again. Nothing was moved.",
            1,
        )


async def take_over_queues(source: Store, target: Store, paused: frozenset[str]) -> None:
    """Settings that the target lacks, and pauses that were there before: as safe as they were."""
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


async def places(source: Store, status: Status) -> list[Place]:
    """All jobs of the status in the order of their lines, by key alone: bodies may be large."""
    found: list[Place] = []
    gathering: dict[str, str | None] = {}
    after: str | None = None
    while True:
        page = await source.page(Selection(status=status), PAGE, after)
        found += [Place(0, job.due, job.sequence, job.id) for job in page.jobs if not job.awaits]
        gathering |= {job.id: job.gather for job in page.jobs if job.awaits}
        after = page.after
        if after is None:
            return [*awaiting(gathering), *sorted(set(found))]


def awaiting(gathering: Mapping[str, str | None]) -> list[Place]:
    """Jobs that await others, each before those that it awaits.

    What is moved is cancelled in the source, and that would cancel whoever awaits it there.
    """

    def depth(job: str) -> int:
        above = gathering[job]
        return 0 if above is None or above not in gathering else 1 + depth(above)

    return sorted(Place(depth(job), 0.0, 0, job) for job in gathering)


async def move_all(source: Store, target: Store, reason: str) -> Moved:
    """Move until a look finds nothing new: producers may still add jobs to the source."""
    counts = dict.fromkeys(MOVED, 0)
    left: list[str] = []
    with interruptible() as interrupted, progress() as bar:
        for status in MOVED:
            task = bar.add_task(f"{status} jobs", total=0)
            while new := [p for p in await places(source, status) if p.id not in set(left)]:
                bar.update(task, total=counts[status] + len(new))
                for start in range(0, len(new), BATCH):
                    batch = [place.id for place in new[start : start + BATCH]]
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
    """A retry that was meant for certain regions first is for any: the target has others."""
    return replace(job, scope=ANYWHERE) if job.lane.is_global else job


async def move(
    source: Store, target: Store, status: Status, ids: Sequence[str], reason: str
) -> tuple[int, list[str]]:
    """Store a batch in the target, then end it in the source; how many, and which could not."""
    read = [each for each in await asyncio.gather(*(whole(source, i) for i in ids)) if each]
    here = [each._replace(job=anywhere(each.job)) for each in read if each.job.status == status]
    adopted = await target.adopt(here)
    safe = [
        job.id
        for (job, _, _), new in zip(here, adopted, strict=True)
        if new or same(job, await target.get(job.id))
    ]
    if status == "failed":
        await source.purge(safe)
    else:
        await source.cancel(safe, reason)
    kept = set(safe)
    return len(safe), [each.job.id for each in here if each.job.id not in kept]


async def whole(source: Store, job: str) -> Adopted | None:
    """A job with all that is known of it."""
    stored = await source.get(job)
    if stored is None:
        return None
    return Adopted(stored, await source.history(job), await source.arrivals(job))


def same(job: Job, stored: Job | None) -> bool:
    """Whether the target has this very job, from a move that was interrupted."""
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
