"""`doctor`: is the store well, and is everything served?"""

import time
from collections.abc import AsyncIterator, Iterable, Sequence

import click

from mulligan.app import Mulligan
from mulligan.app.ids import new_id
from mulligan.app.schedules import list_schedules
from mulligan.app.shard_away import unless_away
from mulligan.cli.find_app import about_an_app_or_store, find_app, json_option, with_store
from mulligan.cli.group import printable
from mulligan.cli.show import print_json, span
from mulligan.core.declared_settings import disputes
from mulligan.core.facts import Facts
from mulligan.core.finding import Finding
from mulligan.core.job import NewJob
from mulligan.core.known_tasks import (
    KNOWS,
    UNKNOWN,
    Registration,
    Unknown,
    clashes,
    nobody_knows,
    read_registrations,
    read_unknown,
)
from mulligan.core.lane import ANYWHERE
from mulligan.core.long_attempts import LONG_ATTEMPTS, all_stuck, read_long_attempts
from mulligan.core.stats import Stats
from mulligan.core.status import names, warnings
from mulligan.core.unserved import may_take, start_one, unserved
from mulligan.stores.contract import Store

MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "bad": ("✗", "red")}
# Clocks that differ by more seconds make `run_after` and the times shown wrong.
SKEW_LIMIT = 1.0
PROBE_QUEUE = "mulligan-doctor"
PROBE_DELAY = 86_400.0


@click.command()
@click.option("--probe", "probes", is_flag=True, help="Write a job, read it back and delete it.")
@json_option
@about_an_app_or_store
def doctor(
    named: str | None, *, probes: bool, as_json: bool, app: str | None, store: str | None
) -> None:
    """Check a store and its workers; say what to do.

    Nothing is written, except a probe job with --probe. Exit code 1 if anything is bad.
    """
    target = find_app(named, app, store, looks=True)

    async def look(opened: Store) -> list[Finding]:
        probed = [await probe(opened)] if probes else []
        return probed + [finding async for finding in findings(opened, target)]

    seen = with_store(target, look, writes=probes, tells_away=False)
    found = [Finding("ok", f"the store {target.shown_url} opens"), *seen]
    if as_json:
        print_json({"findings": [each._asdict() for each in found]})
    else:
        for each in found:
            mark, colour = MARKS[each.level]
            click.echo(f"{click.style(mark, fg=colour)} {printable(each.sentence)}")
            if each.remedy:
                click.echo(f"  → {printable(each.remedy)}")
    if any(each.level == "bad" for each in found):
        click.get_current_context().exit(1)


async def findings(store: Store, app: Mulligan) -> AsyncIterator[Finding]:
    """All findings: the store first, then workers, tasks and queues."""
    before = time.time()
    stats = await store.stats()
    yield skew(stats.now, before, time.time())
    for finding in await store.doctor():
        yield finding
    facts = await store.facts()
    known = read_registrations(await unless_away(store.notes(KNOWS), {}))
    unknown = read_unknown(await unless_away(store.notes(UNKNOWN), {}))
    of_tasks = list(tasks(known, unknown, stats.now))
    all_known = all(finding.level != "bad" for finding in of_tasks)
    for finding in (*workers(stats, app), *service(stats, facts, app, all_known=all_known)):
        yield finding
    for finding in of_tasks:
        yield finding
    async for finding in slots(store, stats, facts):
        yield finding
    for view in await unless_away(list_schedules(store), []):
        if view.problem is not None:
            sentence, _, remedy = view.problem.partition("; ")
            yield Finding("warn", sentence, remedy)


async def slots(store: Store, stats: Stats, facts: Facts) -> AsyncIterator[Finding]:
    """Jobs that cannot start, as all slots wait for the results of such jobs."""
    found = read_long_attempts(await unless_away(store.notes(LONG_ATTEMPTS), {}))
    live = [view.worker for view in stats.workers if view.runs_jobs]
    told: set[str] = set()
    for each in found:
        child = await store.get(each.child) if each.is_stuck else None
        if child is None or child.status != "pending" or child.due > stats.now:
            continue
        able = [worker.id for worker in live if may_take(worker, child.lane, facts)]
        clause = all_stuck(able, found)
        if clause is not None and child.queue not in told:
            told.add(child.queue)
            said, _, remedy = clause.partition("; ")
            yield Finding("bad", f"job {child.id} of queue {child.queue} waits: {said}", remedy)


async def probe(store: Store) -> Finding:
    """Write a job that no worker serves, read it back and delete it."""
    new = NewJob(f"doctor-{new_id()}", PROBE_QUEUE, "probe", b"{}", delay=PROBE_DELAY)
    start = time.perf_counter()
    await store.enqueue([new])
    try:
        read = await store.get(new.id)
    finally:
        await store.cancel([new.id], "it was a probe")
        gone = await store.purge([new.id])
    took = (time.perf_counter() - start) * 1000
    if read is None or read.body != new.body or gone != [True]:
        return Finding(
            "bad",
            "a probe that was written could not be read back and deleted",
            "look at the store's own log; do not trust it with jobs before that",
        )
    return Finding("ok", f"a probe could be written, read and deleted, in {took:.1f} ms")


def skew(now: float, before: float, after: float) -> Finding:
    """Whether the store's clock and this machine's agree."""
    off = now - after if now > after else min(0.0, now - before)
    if abs(off) <= SKEW_LIMIT:
        return Finding("ok", "the clocks of the store and of this machine agree")
    way = "ahead of" if off > 0 else "behind"
    return Finding(
        "warn",
        f"the store's clock is {span(abs(off))} {way} this machine's",
        "set both by NTP: the store's time decides, and run_after is read on this machine",
    )


def workers(stats: Stats, app: Mulligan) -> Iterable[Finding]:
    """Which workers are alive, and what dead ones hold."""
    live = [view for view in stats.workers if view.runs_jobs]
    regions = sorted({view.worker.region for view in live})
    if live:
        count = f"{len(live)} live worker{'s' if len(live) > 1 else ''}"
        yield Finding("ok", f"{count} in {', '.join(regions)}")
    else:
        yield Finding("warn", "no worker is alive", f"start one with: mulligan worker {app.called}")
    for view in stats.workers:
        if not view.live and view.running:
            yield Finding(
                "warn" if live else "bad",
                f"worker {view.worker.id} stopped beating {span(stats.now - view.beat_at)} ago"
                f" and holds {view.running} jobs",
                "" if live else "start a worker: any one reclaims them within seconds",
            )


def tasks(
    known: Sequence[Registration], unknown: Sequence[Unknown], now: float
) -> Iterable[Finding]:
    """Whether live workers know the tasks of all jobs, and agree on names and settings."""
    for each in sorted(unknown, key=lambda met: met.task):
        said = nobody_knows(each, known, now)
        if said is not None:
            yield Finding(
                "bad",
                f"{said}; job {each.job} of queue {each.queue} waits for one that does",
                f"deploy a worker that knows it, or cancel the job: mulligan cancel {each.job}",
            )
    for sentence in [*clashes(known, now), *disputes(known, now)]:
        said, _, remedy = sentence.partition("; ")
        yield Finding("warn", said, remedy)


def service(stats: Stats, facts: Facts, app: Mulligan, *, all_known: bool) -> Iterable[Finding]:
    """Whether a live worker may take each waiting job; `all_known` if their tasks are known."""
    live = [view.worker for view in stats.workers if view.runs_jobs]
    left = unserved(stats, facts)
    for each in left:
        yield Finding("bad", each.sentence, each.remedy(app.called))
    for queue in sorted(facts.paused & set(names(stats, facts))):
        yield Finding("warn", f"queue {queue} is paused", f"mulligan resume {queue}")
    for queue in app.queue_names if app.tasks else ():
        if live and not any(queue in w.queues for w in live):
            yield Finding(
                "warn",
                f"queue {queue} of the app has no live worker",
                start_one(queue, ANYWHERE, app.called),
            )
    one_sided = warnings(stats, facts)
    for sentence in one_sided:
        said, _, remedy = sentence.partition("; ")
        yield Finding("bad", said, remedy)
    if live and not left and not one_sided and all_known:
        yield Finding("ok", "every waiting job has a worker that may take it")
