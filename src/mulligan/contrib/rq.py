"""Takes over jobs of RQ's that a JSON serializer wrote, as jobs of tasks that have moved here."""

import asyncio
from collections.abc import Mapping, Sequence

from mulligan.app import Mulligan
from mulligan.contrib.bridge import Bridged, Left, Progress, run_bridge
from mulligan.contrib.bridge.rq_queue import RqQueue
from mulligan.contrib.bridge.run import no_progress

__all__ = ["Bridged", "Left", "abridge", "bridge"]


async def abridge(
    app: Mulligan,
    url: str,
    queues: Sequence[str] = ("default",),
    *,
    tasks: Mapping[str, str] | None = None,
    dry_run: bool = False,
    follow: asyncio.Event | None = None,
    progress: Progress = no_progress,
) -> Bridged:
    """Take over what waits, and what is scheduled, in queues of RQ's, with its retries.

    A job is taken if a task of the app has its function's name, or if `tasks` says which one it is;
    all others, and pickled ones, stay where they are. With `follow` it goes on until that event is
    set. Killed at any point, it loses nothing and doubles nothing: start it again.
    """
    return await run_bridge(
        app,
        url,
        "RQ",
        lambda redis: [RqQueue(redis, queue) for queue in queues],
        tasks=tasks,
        dry_run=dry_run,
        follow=follow,
        progress=progress,
    )


def bridge(
    app: Mulligan,
    url: str,
    queues: Sequence[str] = ("default",),
    *,
    tasks: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> Bridged:
    """`abridge` from plain code, once."""
    return asyncio.run(abridge(app, url, queues, tasks=tasks, dry_run=dry_run))
