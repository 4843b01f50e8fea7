"""`copy`: moves all jobs that are not done from one store to another."""

import asyncio

import click

from mulligan.cli.copy_jobs import MOVED, PAGE, Moved, jobs_to_move, move_all
from mulligan.cli.dead import confirm
from mulligan.cli.find_app import bare_app, json_option, opened, yes_option
from mulligan.cli.group import RefusalError, printable
from mulligan.cli.show import print_json
from mulligan.core.errors import InvalidError
from mulligan.core.limits import ALL_LIMITS, StoredLimit
from mulligan.core.page import Selection
from mulligan.core.reschedule import Reschedule
from mulligan.core.schedule import read_schedules
from mulligan.core.status import names
from mulligan.stores import redact
from mulligan.stores.contract import Store


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
