"""The routes that show jobs and enqueue them."""

import re
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from mulligan.app.explain import explain_job
from mulligan.app.ids import new_id
from mulligan.app.options import Placement, checked
from mulligan.app.wait import LoopWaiter, until_over
from mulligan.core.checks import check_depth, check_name
from mulligan.core.errors import InvalidError, MulliganError, unknown_job
from mulligan.core.job import ENDED, Job, NewJob, encode
from mulligan.core.page import Page, Selection
from mulligan.core.settings import BATCH_LIMIT
from mulligan.engine.tracing import store_traced
from mulligan.server.service import Service, size_of
from mulligan.server.shapes.jobs import (
    DeadGroup,
    DeadGroups,
    DeadQuery,
    Enqueue,
    EnqueuedJob,
    EnqueueMany,
    Explanation,
    Filter,
    History,
    JobPage,
    JobQuery,
    JobView,
    PageQuery,
)
from mulligan.stores.contract import Store

# How many pages to search at most for a filter that the store cannot apply.
LOOK_PAGES = 5
# A page ends when the bodies of its jobs come to so many bytes. It is read in parts: first so
# few jobs, then as many as are likely to fit, up to so many times as many as before.
PAGE_BYTES = 2 << 20
FIRST_BODIES, TIMES_AS_MANY = 2, 5
ERROR_LENGTH = 200
NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")


async def list_jobs(service: Service, query: PageQuery) -> JobPage:
    """A page of the jobs that match, newest first as far as the store keeps an order.

    Times are looked at job by job, a text is sought in 10,000 jobs at a time, and a page ends when
    its arguments and results come to 2 MB: it may have fewer jobs than asked for, or none, and yet
    another one after it. It is `partial` then.
    """
    async with service.reading_bodies():
        found, after, size = await read_page(service.store, query)
        shown = await service.aside(lambda: [service.redaction.job(job) for job in found], size)
    partial = after is not None and len(found) < query.limit
    return JobPage(shown, after, partial)


async def read_page(store: Store, query: PageQuery) -> tuple[list[Job], str | None, int]:
    """The jobs of a page, where the next one begins, and how many bytes were read."""
    found: list[Job] = []
    after = None if query.after is UNSET else query.after
    looked_at = size = 0
    limit = FIRST_BODIES
    while len(found) < query.limit and size < PAGE_BYTES:
        limit = min(limit, query.limit - len(found))
        page = await page_of(store, selection(query), limit, after)
        found += [job for job in page.jobs if is_within(job, query)]
        after = page.after
        looked_at += max(limit, len(page.jobs))
        read = sum(size_of(job) for job in page.jobs)
        size += read
        text_ended = query.text is not UNSET and len(page.jobs) < limit
        if after is None or text_ended or looked_at >= LOOK_PAGES * query.limit:
            break
        fitting = (PAGE_BYTES - size) * len(page.jobs) // max(read, 1)
        limit = max(1, min(TIMES_AS_MANY * limit, fitting))
    return found, after, size


def is_within(job: Job, query: PageQuery) -> bool:
    """Whether the job was enqueued within the times of the query."""
    return (query.created_after is UNSET or job.created_at >= query.created_after) and (
        query.created_before is UNSET or job.created_at < query.created_before
    )


async def get_job(service: Service, job: str, query: JobQuery) -> JobView:
    """One job as it is now, or as soon as it has ended, with its arguments and result."""
    found = await until_over(
        lambda operation: operation(service.store),
        LoopWaiter(),
        lambda: stored(service.store, job),
        lambda found: found.status in ENDED,
        query.wait,
    )
    return await service.job_view(found)


async def history(service: Service, job: str) -> History:
    """Its newest 50 failed and lost attempts, oldest first, across replays."""
    await stored(service.store, job)
    attempts = await service.store.history(job)
    size = sum(len(each.traceback or "") + len(each.message) for each in attempts)
    redacted = service.redaction.attempt
    return History(await service.aside(lambda: [redacted(each) for each in attempts], size))


async def explain(service: Service, job: str) -> Explanation:
    """One sentence on why the job is where it is."""
    sentence = await explain_job(service.store, check_name("job", job), service.app.called)
    return Explanation(job, service.redaction.text(sentence))


async def enqueue(
    service: Service, body: Enqueue | EnqueueMany, id_of: Callable[[int], str] | None
) -> EnqueuedJob | list[EnqueuedJob]:
    """Enqueue one job (an object) or many (an array), all of them or none."""
    asked = [body] if isinstance(body, Enqueue) else body
    if id_of is not None:
        asked = [each if each.id else replace(each, id=id_of(n)) for n, each in enumerate(asked)]
    jobs = [new_job(service, each) for each in asked]
    stored = await store_traced(service.app.tracing, jobs, service.store.enqueue)
    answers = [EnqueuedJob(*each) for each in stored]
    return answers[0] if isinstance(body, Enqueue) else answers


async def dead(service: Service, query: DeadQuery) -> DeadGroups:
    """Dead letters grouped by queue, task and error, among the newest 5,000."""
    wanted = Selection(status="failed", queue=given(query.queue), task=given(query.task))
    letters, complete = await newest(service.store, wanted)
    found = await service.aside(lambda: grouped(service, letters), sum(map(size_of, letters)))
    return DeadGroups(found, len(letters), complete)


def grouped(service: Service, letters: list[Job]) -> list[DeadGroup]:
    """Dead letters by queue, task and error, the largest groups first."""
    groups: dict[tuple[str, str, str], list[Job]] = {}
    for job in letters:
        error = alike(service.redaction.text(job.last_failure_reason or ""))
        groups.setdefault((job.queue, job.task, error), []).append(job)
    found = [group(service, *key, jobs) for key, jobs in groups.items()]
    return sorted(found, key=lambda each: -each.count)


def new_job(service: Service, asked: Enqueue) -> NewJob:
    """The new job; if the server has an app, its task must accept the arguments."""
    options = present(asked)
    args, kwargs = options.pop("args", []), options.pop("kwargs", {})
    packed_args, packed_kwargs = written(asked, args), written(asked, kwargs)
    del options["task"]
    if not service.declares:
        made = checked(options, service.settings.lease)
        placement = replace(Placement(), **made, given=tuple(options))
        limit = service.settings.payload_limit
        task_name = check_name("task", asked.task)
        return placement.job(new_id(), task_name, packed_args, packed_kwargs, limit)
    task = service.tasks.get(asked.task)
    if task is None:
        known = ", ".join(service.tasks) or "none"
        raise InvalidError(f"task {asked.task!r} is not one of {known}")
    return task.using(**options).call(*args, **kwargs).job


def present(body: Struct) -> dict[str, Any]:
    """Return the fields that a request gives; null and empty text are absent."""
    absent = (UNSET, None, "")
    return {name: value for name, value in asdict(body).items() if value not in absent}


def written(asked: Enqueue, arguments: Any) -> bytes:
    """The arguments as JSON, not too deep."""
    try:
        raw = encode(arguments)
    except (OverflowError, ValueError, TypeError) as error:
        raise InvalidError(
            f"task {asked.task}: the arguments cannot be written as JSON: {error}"
        ) from error
    check_depth(f"task {asked.task}: an argument", raw, around=1)
    return raw


async def stored(store: Store, job: str) -> Job:
    """The stored job of this id; refused if there is none."""
    found = await store.get(check_name("job", job))
    if found is None:
        raise unknown_job(job)
    return found


async def page_of(store: Store, wanted: Selection, limit: int, after: str | None) -> Page:
    """A page of jobs; refuses a cursor that no page returned."""
    try:
        return await store.page(wanted, limit, after)
    except ValueError as error:
        if after is None or isinstance(error, MulliganError):
            raise
        raise InvalidError(f"after {after!r} is not where a page ended; leave it out") from error


async def newest(store: Store, wanted: Selection) -> tuple[list[Job], bool]:
    """The newest 5,000 jobs that match, without bodies and results, and whether these are all."""
    jobs: list[Job] = []
    after: str | None = None
    for _ in range(LOOK_PAGES):
        page = await store.page(wanted, BATCH_LIMIT, after, bodies=False)
        jobs += page.jobs
        after = page.after
        if after is None:
            return jobs, True
    return jobs, False


def selection(asked: Filter) -> Selection:
    """The filter as a Selection."""
    return Selection(
        *(given(getattr(asked, name)) for name in ("status", "queue", "region", "task", "text"))
    )


def given(value: Any) -> Any:
    """The value; None if it is unset."""
    return None if value is UNSET else value


def alike(error: str) -> str:
    """The first line of an error without its numbers: equal for errors of one cause."""
    return NUMBERS.sub("#", error.partition("\n")[0])[:ERROR_LENGTH]


def group(service: Service, queue: str, task: str, error: str, jobs: list[Job]) -> DeadGroup:
    """A group of dead letters with the same error; the newest is the example."""
    newest = max(jobs, key=lambda job: job.ended_at or 0.0)
    example = service.redaction.text(newest.last_failure_reason or "")
    ids = [job.id for job in jobs[:BATCH_LIMIT]]
    return DeadGroup(queue, task, error, len(jobs), example, newest.ended_at, ids)
