"""What becomes of a job, as server-sent events."""

import logging
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mulligan.app.follow import follow
from mulligan.app.handle import JobHandle
from mulligan.app.wait import Waiter
from mulligan.contrib.starlette.lifespan import opened_of
from mulligan.core.checks import NAME_LIMIT, check_seconds
from mulligan.core.errors import InvalidError, StoreError, UnknownJobError
from mulligan.core.job import ENDED, Job
from mulligan.core.record import Progress
from mulligan.server.mount import Opened

log = logging.getLogger("mulligan.server")
# What EventSource waits before it connects again, in milliseconds.
RECONNECT = 2000
# Proxies cut connections that are silent for long.
COMMENT_EVERY = 15.0
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
LAST = "ended"


def state_of(job: Job) -> dict[str, Any]:
    """What a stream says of a job by default: no arguments, results or errors."""
    return {
        "job": job.id,
        "task": job.task,
        "status": job.status,
        "attempt": job.retry_count + 1,
    }


async def job_events(
    request: Request,
    job: str,
    *,
    show: Callable[[Job], Any] = state_of,
    every: float = 1.0,
) -> Response:
    """A response that streams what becomes of a job, as server-sent events, until it has ended.

    An event `status` when its status or attempt has changed, and `progress` when its progress has,
    looked at `every` so many seconds; the last one is `end`, as soon as the job has ended. The data
    of `status` and `end` is what `show` returns, as JSON.
    Answers 404 if no such job is stored. Who may look at the job is for you to decide before.
    """
    check_seconds("every", every, least=0.001)
    opened = opened_of(request)
    if request.headers.get("last-event-id") == LAST:
        return Response(status_code=HTTPStatus.NO_CONTENT)  # tells EventSource to stop asking
    try:
        handle = opened.app.job(job)
        await handle.ainfo()
    except (UnknownJobError, InvalidError) as error:
        # The error itself says where the store is, which is not for the browser of a customer.
        raise HTTPException(
            HTTPStatus.NOT_FOUND, f"no job {job[:NAME_LIMIT]!r} is stored"
        ) from error
    waiter = opened.app.access.waiter()
    stream = streamed(opened, handle, waiter, show, every)
    return StreamingResponse(stream, headers=HEADERS, media_type="text/event-stream")


async def streamed(
    opened: Opened, handle: JobHandle[Any], waiter: Waiter, show: Callable[[Job], Any], every: float
) -> AsyncIterator[bytes]:
    """The events of a job, until it has ended or the web server is to stop."""
    yield b"retry: %d\n\n" % RECONNECT
    opened.job_streams.add(waiter.tell)
    silent, sent = 0.0, None
    try:
        async for job in follow(opened.app, handle.ainfo, waiter, every):
            progress = (await handle.arecords()).progress
            if progress != sent and progress is not None:
                sent = progress
                yield b"event: progress\ndata: %s\n\n" % msgspec.json.encode(facts_of(progress))
            if job is not None:
                yield event(job, show(job))
            elif (silent := silent + every) >= COMMENT_EVERY:
                yield b": still here\n\n"
                silent = 0.0
            if opened.stopping.is_set():
                return
    except (StoreError, OSError) as error:  # who listens connects again
        log.warning("events of a job: %s", error)
    finally:
        opened.job_streams.discard(waiter.tell)


def facts_of(progress: Progress) -> dict[str, Any]:
    """What a stream says of progress."""
    return {"done": progress.done, "of": progress.of, "note": progress.note}


def event(job: Job, data: Any) -> bytes:
    """A server-sent event; JSON has no line breaks. The last one has an id."""
    encoded = msgspec.json.encode(data)
    if job.status in ENDED:
        return b"event: end\nid: %s\ndata: %s\n\n" % (LAST.encode(), encoded)
    return b"event: status\ndata: %s\n\n" % encoded
