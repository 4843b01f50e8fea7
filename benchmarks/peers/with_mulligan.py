"""mulligan with its defaults: concurrency 100, leases of 15 s, done jobs kept for an hour.

The policy of the queue is the default, balanced, or the one in brackets. uvloop. Counted by
`depth` and `stats` of the store.
"""

from jobs import BURST, BYTES, CONCURRENCY, PERMITS, RATE, URL, VARIANT, append, work_async
from talk import become

from mulligan import Mulligan, Retry, RetryAfter, __version__
from mulligan.core.lane import Lane, Priority

VERSION = __version__
READY = Lane("default", "default", Priority.NORMAL)
app = Mulligan(URL)
if VARIANT:
    app.queue("default", policy=VARIANT)


@app.task
async def noop(_number: int) -> None:
    """Do nothing on the loop, or write what was asked for."""
    if BYTES:
        append()


@app.task
def plain_noop(_number: int) -> None:
    """The same in a thread."""
    if BYTES:
        append()


LIMITED = {}
if RATE or PERMITS:
    app.limit("bench", rate=RATE or None, burst=BURST, concurrency=PERMITS or None)
    LIMITED = {"limits": "bench"}


@app.task(retry=Retry(1), **LIMITED)
async def work(job: str, seconds: float, delay: float) -> None:
    """Take so long, and fail once if there is a delay."""
    if await work_async(job, seconds, delay):
        raise RetryAfter(delay)


class Client:
    """Enqueues and counts."""

    async def open(self):
        """The schema is made by opening the store."""
        self.connection = app.connected()
        await self.connection.__aenter__()
        await app.aconfigure()

    async def enqueue_one(self, count):
        """One by one."""
        for number in range(count):
            await noop.aenqueue(number)

    def enqueue_plain(self, count):
        """One by one, from plain code."""
        for number in range(count):
            noop.enqueue(number)

    async def enqueue_many(self, count, plain):
        """In bulk."""
        task = plain_noop if plain else noop
        await app.aenqueue_many(task.call(number) for number in range(count))

    async def enqueue_work(self, calls):
        """Jobs that note the time."""
        await app.aenqueue_many(work.call(*call) for call in calls)

    async def left(self):
        """Pending jobs; when none is ready any more, all that are pending or running."""
        if ready := await app.access.acall(lambda store: store.depth(READY, 1_000_000)):
            return ready
        stats = await app.access.acall(lambda store: store.stats())
        return sum(lane.ready + lane.delayed for lane in stats.lanes) + sum(stats.running.values())

    async def failed(self):
        """Dead letters."""
        stats = await app.access.acall(lambda store: store.stats())
        return sum(count for (_, status), count in stats.ended.items() if status == "failed")


def worker():
    """One process."""
    options = ("--concurrency", str(CONCURRENCY)) if CONCURRENCY else ()
    command = ("-m", "mulligan", "worker", "with_mulligan:app")
    become(*command, "--log-level", "error", *options)
