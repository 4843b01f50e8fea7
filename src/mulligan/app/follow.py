"""Following a job: each change of it until it has ended."""

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING

from mulligan.app.wait import Waiter, begin
from mulligan.core.job import ENDED, Job

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

Look = Callable[[], Awaitable[Job]]


async def follow(
    app: "Mulligan", look: Look, waiter: Waiter, every: float
) -> AsyncIterator[Job | None]:
    """The job, and again whenever it has changed; None where a look found no change.

    The store tells when it ends. For all else the job is read `every` so many seconds, and whenever
    `waiter.tell` is called.
    """
    seen: Hashable = None
    job = await look()
    watch = await app.access.acall(partial(begin, job=job.id, tell=waiter.tell))
    try:
        while True:
            job = await look()
            now = (job.status, job.token, job.retry_count, job.snoozes, job.due)
            yield job if now != seen else None
            if job.status in ENDED:
                return
            seen = now
            await waiter.sleep(every)
    finally:
        watch.close()
