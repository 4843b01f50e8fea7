"""Reading jobs, pages of them, and what the store holds."""

from collections.abc import Sequence
from typing import cast
from urllib.parse import unquote

import msgspec

from mulligan.core.gather import as_read
from mulligan.core.job import Job, Status
from mulligan.core.page import Page, Selection, cursor_number
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import Worker, WorkerView
from mulligan.stores.redis.connection import Run
from mulligan.stores.redis.fields import UNPACK, attempt_of, escape, job_of, lane_of

WORKER = msgspec.json.Decoder(Worker)
# How many jobs of the index one script looks at.
PIECE = 200


async def read_page(
    read: Run, selection: Selection, limit: int, after: str | None, *, bodies: bool, looks: int
) -> Page:
    """The newest `limit` jobs that match, below the sequence `after`.

    The index is looked through piece by piece until the page is full.
    """
    found: list[tuple[str, Job]] = []
    # The failed jobs of one queue have an index of their own, however many jobs there are beside;
    # those that run are known from their leases.
    index = "order"
    if selection.status == "failed" and selection.queue is not None:
        index = f"failed:{escape(selection.queue)}"
    elif selection.status == "processing":
        index = "running"
    below = "+inf" if after is None else f"({cursor_number(after)}"
    wanted = (
        selection.status or "",
        escape(selection.queue or ""),
        escape(selection.region or ""),
        selection.task or "",
        int(bodies),
    )
    looked, last = 0, None
    while below and len(found) <= limit and last is None:
        following, *rows = await read("page", index, below, PIECE, *wanted)
        for id_, sequence, *row in rows:
            looked += 1
            if says(row[-1], selection.text):
                found.append((sequence.decode(), job_of(id_.decode(), row)))
            if selection.text is not None and looked == looks:
                last = sequence.decode()
                break
        below = f"({following.decode()}" if following else ""
    page = found[:limit]
    if len(found) > limit and page:
        last = page[-1][0]
    return Page([job for _, job in page], last)


def says(failure: bytes, text: str | None) -> bool:
    """Whether the last failure contains the text that is sought."""
    if text is None:
        return True
    if not failure:
        return False
    return text in attempt_of(failure).reason


def statuses_of(jobs: Sequence[str], found: Sequence[bytes]) -> dict[str, Status]:
    """The statuses of the stored ones of the jobs, from what statuses.lua gave."""
    pairs = zip(jobs, found, strict=True)
    return {job: cast("Status", status.decode()) for job, status in pairs if status}


def arrivals_of(cells: list[bytes]) -> dict[int, bytes | None]:
    """What has arrived at a job, in the order of the indexes; a sign comes before each result."""
    pairs = zip(cells[::2], cells[1::2], strict=True)
    return dict(sorted((int(index), as_read(text[1:]) if text else None) for index, text in pairs))


def stats_of(packed: bytes) -> Stats:
    """What stats.lua counted."""
    now, lanes, running, ended, delayed, workers, gathering = UNPACK.decode(packed)
    counts: dict[tuple[str, str], int] = {}
    for name, region, count in running:
        where = (lane_of(name).queue, region)
        counts[where] = counts.get(where, 0) + count
    return Stats(
        float(now),
        sorted(
            (
                LaneStats(lane_of(name), ready, later, float(oldest))
                for name, ready, later, oldest in lanes
            ),
            key=lambda each: each.lane,
        ),
        counts,
        {ended_key(name): count for name, count in ended},
        {unquote(queue): DelayedStats(*numbers) for queue, *numbers in delayed},
        [
            WorkerView(WORKER.decode(about), float(beat), float(joined), live, held)
            for about, beat, joined, live, held in workers
        ],
        {unquote(queue): count for queue, count in gathering},
    )


def ended_key(name: str) -> tuple[str, Status]:
    """Queue and status from the name of a count."""
    status, _, queue = name.partition(":")
    return unquote(queue), cast("Status", status)
