"""What readers ask. None of these writes anything."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mulligan.core.errors import UnknownJobError
from mulligan.core.gather import as_read
from mulligan.core.job import Attempt, Job, Status
from mulligan.core.lane import Lane
from mulligan.core.page import Page, Selection, cursor_number
from mulligan.core.settings import check_batch
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView
from mulligan.stores.postgres import fields
from mulligan.stores.postgres.arrays import texts
from mulligan.stores.postgres.database import Database
from mulligan.stores.postgres.fields import lane_name, micros

LAST_NUMBER = 2**63 - 1


async def get(database: Database, job: str) -> Job | None:
    """The job as it is now."""
    rows = await database.call("get", in_id=job)
    return fields.job(rows[0]) if rows else None


async def statuses(database: Database, jobs: Sequence[str]) -> dict[str, Status]:
    """The statuses of the stored ones of these jobs."""
    check_batch(len(jobs))
    return dict(await database.call("statuses", ids=texts(jobs)))


async def arrivals(database: Database, job: str) -> dict[int, bytes | None]:
    """The results that have arrived at a gathering job."""
    found = await database.call("arrivals", in_id=job)
    return {index: as_read(result) for index, result in found}


async def history(database: Database, job: str) -> list[Attempt]:
    """Its failed and lost attempts."""
    return [fields.attempt(failure) for [failure] in await database.call("history", in_id=job)]


async def page(
    database: Database,
    selection: Selection,
    limit: int,
    after: str | None,
    *,
    bodies: bool,
    looks: int,
) -> Page:
    """Jobs that match, newest first; a text is sought in no more than `looks` of them."""
    wanted: dict[str, Any] = {
        "in_status": selection.status,
        "in_queue": selection.queue,
        "in_region": selection.region,
        "in_task": selection.task,
        "below": LAST_NUMBER if after is None else cursor_number(after),
        "lowest": -LAST_NUMBER,
    }
    last: int | None = None
    if selection.text is not None:  # down to the last of those that it is sought in
        for [number] in await database.call(
            "page_numbers", **wanted, sought=None, most=1, skip=looks - 1
        ):
            wanted["lowest"] = last = number
    rows = await database.call(
        "page" if bodies else "lean_page", **wanted, sought=selection.text, most=limit + 1, skip=0
    )
    if len(rows) > limit:
        last = rows[limit - 1][-1]
    jobs = [fields.job(row[:-1]) for row in rows[:limit]]
    return Page(jobs, None if last is None else str(last))


async def depth(database: Database, lane: Lane, limit: int) -> int:
    """How many jobs of the lane could start now, counted up to `limit`."""
    [[many]] = await database.call("depth", in_lane=lane_name(lane), most=limit)
    return int(many)


async def ahead(database: Database, job: str) -> int:
    """How many jobs are before this one in its lane."""
    rows = await database.call("ahead", in_id=job)
    if not rows:
        raise UnknownJobError(f"no job {job!r} is stored")
    return int(rows[0][0])


async def tail(database: Database, lane: Lane, due: float) -> str | None:
    """The last job waiting in the lane of those that were due by then."""
    [[last]] = await database.call("tail", in_lane=lane_name(lane), by=micros(due))
    return None if last is None else str(last)


async def stats(database: Database) -> Stats:
    """Counts of everything, at one instant."""
    [[document]] = await database.call("stats")
    return read_stats(document)


def read_stats(document: dict[str, Any]) -> Stats:
    """The document of `stats`."""
    return Stats(
        document["now"] / 1e6,
        sorted(
            (
                LaneStats(Lane(queue, scope, priority), ready, delayed, oldest / 1e6)
                for queue, scope, priority, ready, delayed, oldest in document["lanes"]
            ),
            key=lambda lane: lane.lane,
        ),
        {(queue, region): many for queue, region, many in document["running"]},
        {(queue, status): many for queue, status, many in document["ended"]},
        {queue: DelayedStats(*counts) for queue, *counts in document["delayed"]},
        [
            WorkerView(msgspec.convert(me, Worker), beat / 1e6, joined / 1e6, live, int(running))
            for me, beat, joined, live, running in document["workers"]
        ],
        document["gathering"],
    )
