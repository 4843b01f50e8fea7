"""Takes over messages that Celery's code sends, as jobs of tasks that have moved here."""

import asyncio
from collections.abc import Mapping, Sequence

from mulligan.app import Mulligan
from mulligan.contrib.bridge import Bridged, Left, Progress, run_bridge
from mulligan.contrib.bridge.celery_queue import CeleryQueue
from mulligan.contrib.bridge.run import no_progress

__all__ = ["Bridged", "Left", "abridge", "bridge"]


async def abridge(
    app: Mulligan,
    url: str,
    queues: Sequence[str] = ("celery",),
    *,
    tasks: Mapping[str, str] | None = None,
    visibility_timeout: float = 3600.0,
    key_prefix: str = "",
    dry_run: bool = False,
    follow: asyncio.Event | None = None,
    progress: Progress = no_progress,
) -> Bridged:
    """Take over what waits in queues of Celery's in Redis, with its ETA and retries.

    A message is taken if a task of the app has its name, or if `tasks` says which one it is; all
    others stay where they are. What a worker of Celery's has held for `visibility_timeout` seconds
    is taken from it, as Celery would. With `follow` it goes on until that event is set. Killed at
    any point, it loses nothing and doubles nothing: start it again.
    """
    return await run_bridge(
        app,
        url,
        "Celery",
        lambda redis: [
            CeleryQueue(redis, queue, prefix=key_prefix, visibility_timeout=visibility_timeout)
            for queue in queues
        ],
        tasks=tasks,
        dry_run=dry_run,
        follow=follow,
        progress=progress,
    )


def bridge(
    app: Mulligan,
    url: str,
    queues: Sequence[str] = ("celery",),
    *,
    tasks: Mapping[str, str] | None = None,
    visibility_timeout: float = 3600.0,
    key_prefix: str = "",
    dry_run: bool = False,
) -> Bridged:
    """`abridge` from plain code, once."""
    return asyncio.run(
        abridge(
            app,
            url,
            queues,
            tasks=tasks,
            visibility_timeout=visibility_timeout,
            key_prefix=key_prefix,
            dry_run=dry_run,
        )
    )
