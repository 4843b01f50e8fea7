"""`history`: writes what became of recent jobs, for `simulate` to play again."""

import asyncio
import re
from collections.abc import Sequence

import click

from mulligan.cli.find_app import about_an_app_or_store, find_app, with_store
from mulligan.cli.group import printable
from mulligan.cli.show import as_json, progress
from mulligan.core.checks import check_seconds
from mulligan.core.errors import InvalidError
from mulligan.core.job import Attempt, Job
from mulligan.core.page import Selection
from mulligan.core.stats import Stats
from mulligan.sim.trace import header_of, traced
from mulligan.stores.contract import Store

PAGE = 500
AT_ONCE = 50
UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


@click.command()
@click.option(
    "--since", metavar="SPAN", default="1h", show_default=True,
    help="How far to look back: 90s, 30m, 1h, 2d.",
)  # fmt: skip
@click.option("-q", "--queue", help="Only jobs of this queue; a simulation plays one.")
@about_an_app_or_store
def history(
    *, since: str, queue: str | None, named: str | None, app: str | None, store: str | None
) -> None:
    """Write what became of jobs, for `simulate` to play again.

    One JSON line for each job that was enqueued or ended within --since and is still stored, with
    the times, regions and errors of its attempts, but neither arguments nor results. The first line
    lists the workers that are alive now.
    """
    back = seconds_of(since)
    with_store(find_app(named, app, store, looks=True), lambda opened: write(opened, back, queue))


def seconds_of(since: str) -> float:
    """The span in seconds."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", since.strip())
    if found is None or found[2] not in UNITS:
        raise InvalidError(f"since {since!r} is not a span of time, such as 90s, 30m, 1h or 2d")
    return check_seconds("since", float(found[1]) * UNITS[found[2]])


async def write(store: Store, back: float, queue: str | None) -> None:
    """Write the lines page by page, so that only one page is in memory."""
    stats = await store.stats()
    since = stats.now - back
    header, asleep = header_of(stats, await store.facts(), since)
    click.echo(as_json(header))
    for region in asleep:
        click.echo(
            f"note: no worker of region {printable(region)!r} is alive; the first line says one"
            " with one slot: change it to what was there",
            err=True,
        )
    after: str | None = None
    with progress() as bar:
        row = bar.add_task("jobs read", total=stored(stats))
        while True:
            page = await store.page(Selection(queue=queue), PAGE, after)
            recent = [job for job in page.jobs if is_recent(job, since)]
            for begin in range(0, len(recent), AT_ONCE):
                await write_jobs(store, recent[begin : begin + AT_ONCE])
            bar.advance(row, len(page.jobs))
            after = page.after
            if after is None:
                return


def stored(stats: Stats) -> int:
    """How many jobs there are in all."""
    waiting = sum(lane.ready + lane.delayed for lane in stats.lanes)
    gathering = sum(stats.gathering.values())
    return waiting + gathering + sum(stats.running.values()) + sum(stats.ended.values())


def is_recent(job: Job, since: float) -> bool:
    """Whether the job was enqueued or ended since then."""
    return job.created_at >= since or (job.ended_at is not None and job.ended_at >= since)


async def write_jobs(store: Store, jobs: Sequence[Job]) -> None:
    """Write the lines of these jobs."""
    histories = await asyncio.gather(*(failures(store, job) for job in jobs))
    for job, attempts in zip(jobs, histories, strict=True):
        click.echo(as_json(traced(job, attempts)))


async def failures(store: Store, job: Job) -> list[Attempt]:
    """The failed attempts of a job; a job without a failure needs no query."""
    return [] if job.last_failure_reason is None else await store.history(job.id)
