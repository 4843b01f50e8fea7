"""One run: a producer, some workers, something that happens to the servers, and the counts."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mulligan import Mulligan
from mulligan.core.errors import StoreUnavailableError
from tests.failover.app import RUNS, URL, work
from tests.store_kit import calls_for

PROJECT = Path(__file__).parents[2]
BATCH = 50
# How long after the last progress a run counts as stuck.
LONGEST_WAIT = 60.0
Say = Callable[[str], None]
# Something that happens to the servers; it is told how to say what it does.
Trouble = Callable[[Say], None]


class Counted(NamedTuple):
    """What came of a run: so many jobs accepted, done, neither (lost), and run more than once."""

    accepted: int
    done: int
    lost: int
    again: int
    refusals: int
    seconds: float


async def run(
    url: str, jobs: int, troubles: list[Trouble], *, shards: int, workers: int, say: Say
) -> Counted:
    """Enqueue so many jobs; a trouble comes whenever a further part of them is done."""
    started = time.monotonic()
    with tempfile.NamedTemporaryFile(prefix="mulligan-runs-") as runs:
        app = Mulligan(url)
        with working(url, runs.name, workers):
            async with app.connected():
                refusals, _ = await asyncio.gather(
                    produce(app, jobs, shards), disturb(app, jobs, troubles, say)
                )
                say(f"{jobs} jobs accepted; the producer was refused {refusals} times")
                done = await until_still(app, jobs)
        times = Counter(runs.read().split())
    again = sum(1 for ran in times.values() if ran > 1)
    return Counted(jobs, done, jobs - done, again, refusals, time.monotonic() - started)


@contextmanager
def working(url: str, runs: str, count: int) -> Iterator[None]:
    """So many worker processes, ended as an operator ends them."""
    command = [sys.executable, "-m", "mulligan", "worker", "tests.failover.app:app"]
    env = {**os.environ, URL: url, RUNS: runs}
    started = [
        subprocess.Popen(
            [*command, "--log-level", "error"], cwd=PROJECT, env=env, stdout=sys.stderr
        )
        for _ in range(count)
    ]
    try:
        yield
        assert [each.poll() for each in started] == [None] * count, "a worker has ended"
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(30)


async def produce(app: Mulligan, jobs: int, shards: int) -> int:
    """Enqueue under ids of its own, each batch until it is accepted; returns the refusals.

    A batch is for one shard, and one that is refused waits while the others go on. The producer is
    never far ahead of the workers, so that it goes on while things happen.
    """
    left = deque(
        [
            range(jobs)[shard::shards][first : first + BATCH]
            for first in range(0, -(-jobs // shards), BATCH)
            for shard in range(shards)
        ]
    )
    refusals = accepted = 0
    while left:
        await until_done(app, accepted - jobs // 4)
        numbers = left.popleft()
        calls = [work.using(id=f"{each % shards}_{each}").call(each) for each in numbers]
        try:
            await app.aenqueue_many(calls_for(app, calls))
        except StoreUnavailableError:
            left.append(numbers)
            refusals += 1
            await asyncio.sleep(0.02)
        else:
            accepted += len(numbers)
    return refusals


async def disturb(app: Mulligan, jobs: int, troubles: list[Trouble], say: Say) -> None:
    """Let each trouble come when its part of the jobs is done, and all others still go on."""
    for number, trouble in enumerate(troubles, 1):
        part = jobs * number // (len(troubles) + 2)
        say(f"{await until_done(app, part)} of {jobs} done:")
        await asyncio.to_thread(trouble, say)


async def until_done(app: Mulligan, part: int) -> int:
    """Return when so many jobs are done, or when a shard is away whose jobs cannot be counted."""
    while True:
        with suppress(StoreUnavailableError):
            stats = await app.access.acall(lambda store: store.stats())
            done = sum(stats.ended.values())
            if done >= part or any(shard.away is not None for shard in stats.shards):
                return done
        await asyncio.sleep(0.05)


async def until_still(app: Mulligan, jobs: int) -> int:
    """How many jobs are done when all are, or when nothing waits or runs any more."""
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < LONGEST_WAIT:
        with suppress(StoreUnavailableError):
            stats = await app.access.acall(lambda store: store.stats())
            done = sum(stats.ended.values())
            idle = not any(lane.ready + lane.delayed for lane in stats.lanes)
            whole = all(shard.away is None for shard in stats.shards)
            if done == jobs or (whole and idle and not sum(stats.running.values())):
                return done
            if done != seen:
                seen, since = done, time.monotonic()
        await asyncio.sleep(0.1)
    raise AssertionError(f"stuck at {seen} of {jobs}")
