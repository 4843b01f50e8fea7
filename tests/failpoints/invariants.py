"""What must hold when all work has ended, whatever died on the way."""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psycopg

from mulligan.core.counts import Count
from mulligan.core.job import ENDED, Job, Lease
from mulligan.core.outcome import Done
from mulligan.core.record import Record, Recording
from mulligan.core.schedule import read_schedules, tick_id
from mulligan.stores.contract import Store
from tests.failpoints.scene import Scene
from tests.history import AnyEvent, Attempt, in_order, load, report, take_stock
from tests.history import check as violations

# What stays the same for so long is not being written any more.
SETTLED = 0.05


class Records(NamedTuple):
    """What all processes of a play wrote down, in one folder.

    A place is used more than once, so that what was counted there before is written down too.
    """

    folder: Path

    async def begin(self, store: Store) -> None:
        """Write down what has been counted so far, for the process that looks in the end."""
        found = await store.counts()
        counts = [[*place, value] for place, value in found.ever.items()]
        self._before.write_text(json.dumps(counts))

    def counted_before(self) -> list[Count]:
        """What was counted when the play began."""
        return [Count(*each) for each in json.loads(self._before.read_text())]

    def events(self) -> list[AnyEvent]:
        """The history."""
        return in_order(load(self.folder.glob("*.jsonl")))

    @property
    def _before(self) -> Path:
        return self.folder / "before.json"


async def leases_of(scene: Scene) -> list[Lease]:
    """The leases that the dead left behind, once the server has done the last that it heard."""
    found = await processing(scene)
    while True:
        before = found
        await asyncio.sleep(SETTLED)
        found = await processing(scene)
        if found == before:
            return found


async def processing(scene: Scene) -> list[Lease]:
    """The leases that are held."""
    return [Lease(job.id, job.token) for job in await scene.jobs() if job.status == "processing"]


async def check(
    scene: Scene, ends: Mapping[str, str], held: Sequence[Lease], records: Records
) -> list[str]:
    """Everything that is wrong, in words; empty if nothing is."""
    jobs = await scene.jobs()
    return [
        *lost_or_doubled(scene, jobs, ends),
        *ran_twice(records.events()),
        *[words for job in jobs for words in await miscounted(scene, job)],
        *await accepted_stale(scene, held),
        *await other_than_recounted(scene),
        *await ticked_wrong(scene, jobs),
        *sunk_twice(scene, sum(".sink." in job.id for job in jobs)),
    ]


def lost_or_doubled(scene: Scene, jobs: Sequence[Job], ends: Mapping[str, str]) -> list[str]:
    """Every job is stored once, has ended as it should, and no other is there."""
    found = Counter(job.id for job in jobs)
    statuses = {scene.name(job.id): job.status for job in jobs}
    wrong = [f"{job} is listed {times} times" for job, times in found.items() if times > 1]
    wrong += [f"{name} is lost" for name in ends if name not in statuses]
    wrong += [f"{name} was never enqueued" for name in statuses if name not in ends]
    return wrong + [
        f"{name} is {statuses[name]} and not {status}"
        for name, status in ends.items()
        if statuses.get(name, status) != status
    ]


def ran_twice(events: Sequence[AnyEvent]) -> list[str]:
    """No lease was used for two runs."""
    runs = Counter(
        Lease(event.job, event.token)
        for event in events
        if isinstance(event, Attempt) and event.said == "started"
    )
    return [f"{lease} ran {times} times" for lease, times in runs.items() if times > 1]


async def contradicted(scene: Scene, records: Records) -> list[str]:
    """The history of all processes, with what is stored in the end, can be true."""
    stock = await take_stock(scene.store, rest=False)
    counts = Counter({count[:3]: count.value for count in stock.counts})
    counts.subtract({count[:3]: count.value for count in records.counted_before()})
    stock.counts = [Count(*place, value) for place, value in counts.items()]
    found = violations([*records.events(), stock])
    return [report(found)] if found else []


async def miscounted(scene: Scene, job: Job) -> list[str]:
    """Each failed or lost attempt is in the history once, and counted."""
    history = [each for each in await scene.store.history(job.id) if each.replay == job.replay]
    expected = job.retry_count + (job.status == "failed")
    if [each.number for each in history] != list(range(1, expected + 1)):
        numbers = [each.number for each in history]
        return [f"{job.id}: retry_count {job.retry_count}, but attempts {numbers} in history"]
    return []


async def accepted_stale(scene: Scene, held: Sequence[Lease]) -> list[str]:
    """A commit under a lease that the dead had is refused, and changes nothing."""
    before = {job.id: job for job in await scene.jobs()}
    verdicts = await scene.store.commit([Done(lease, b'"stale"') for lease in held])
    after = {job.id: job for job in await scene.jobs()}
    late = (Record("step", 1, b"1", "stale"),)
    recorded = await scene.store.record([Recording(lease, late) for lease in held])
    wrong = [
        f"{lease.job}: a stale record was {verdict}"
        for lease, verdict in zip(held, recorded, strict=True)
        if verdict != "stale"
    ]
    wrong += [
        f"{lease.job}: a stale commit was {verdict}"
        for lease, verdict in zip(held, verdicts, strict=True)
        if verdict != "stale"
    ]
    return wrong + [f"{job} was changed by a stale commit" for job in before
                    if before[job] != after.get(job)]  # fmt: skip


async def other_than_recounted(scene: Scene) -> list[str]:
    """The store's own counts are what one finds by counting its jobs."""
    stats = await scene.store.stats()
    everything = await scene.all_jobs()
    ended = Counter((job.queue, job.status) for job in everything if job.status in ENDED)
    waiting = sum(job.status == "pending" for job in everything)
    counted = sum(lane.ready + lane.delayed for lane in stats.lanes)
    wrong = []
    if dict(stats.ended) != dict(ended):
        wrong.append(f"stats count {stats.ended} ended, and there are {dict(ended)}")
    if counted != waiting or stats.running or stats.gathering:
        wrong.append(f"stats count {counted} waiting and {stats.running} running of {waiting}")
    return wrong


async def ticked_wrong(scene: Scene, jobs: Sequence[Job]) -> list[str]:
    """The tick that lies ahead is the one of its schedule's record, with its call; no other is."""
    schedules = read_schedules(await scene.store.schedules())
    expected = {
        tick_id(name, each.placed): each.new_job("", 0.0).body
        for name, (each, _) in schedules.items()
        if name.startswith(f"{scene.mark}-") and each.placed is not None
    }
    found = {job.id: job.body for job in jobs if "@" in job.id and job.status == "pending"}
    return [] if found == expected else [f"ticks {found} lie ahead, and not {expected}"]


def sunk_twice(scene: Scene, sinks: int) -> list[str]:
    """What a sink writes within the commit is there exactly once."""
    if not sinks:
        return []
    url = scene.app.url
    query = f"SELECT key FROM kept WHERE key LIKE '{scene.mark}-%'"  # noqa: S608 - a mark of ours
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(urlsplit(url).path)) as connection:
            keys = [key for (key,) in connection.execute(query)]
    else:
        with psycopg.connect(urlsplit(url)._replace(query="").geturl()) as session:
            keys = [key for (key,) in session.execute(query.encode()).fetchall()]
    return [] if len(keys) == sinks else [f"{sinks} sinks have written {keys}"]
