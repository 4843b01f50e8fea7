"""The routes for what jobs record: shown, followed live, and recorded by HTTP workers."""

from typing import Any

from msgspec import UNSET, Raw, to_builtins
from starlette.responses import Response

from mulligan.core.checks import check_depth
from mulligan.core.errors import InvalidError
from mulligan.core.job import Lease
from mulligan.core.record import (
    SHOWN_LIMIT,
    Record,
    Recording,
    Records,
    checked_value,
    line_value,
    progress_value,
    shown,
)
from mulligan.core.settings import STEP_LIMIT
from mulligan.core.signals import BadSignature
from mulligan.server.jobs_api import stored
from mulligan.server.problems import Refusal
from mulligan.server.redaction import Redaction
from mulligan.server.service import Service
from mulligan.server.sessions import check_owner
from mulligan.server.shapes.records import (
    CheckpointView,
    JobNews,
    LineView,
    ProgressView,
    Recorded,
    RecordedJob,
    RecordedJobs,
    RecordRequest,
    RecordsRequest,
    RecordsView,
    StepView,
    WorkerRecords,
    WorkerStep,
)
from mulligan.server.status_api import EventStream
from mulligan.stores.for_attempts import records_for_attempt

# More records than one request about a job may hold.
APART = 2000


async def records(service: Service, job: str) -> RecordsView:
    """What the job has recorded: steps, progress, its newest 200 log lines, its checkpoint."""
    await stored(service.store, job)
    return RecordsView(**await parts(service, job))


async def follow(service: Service, job: str) -> Response:
    """What the job records, live: a snapshot, then what changes, as server-sent events."""
    await stored(service.store, job)
    return EventStream(service.job_hubs.of(job))


async def look(service: Service, job: str) -> dict[str, Any]:
    """The status of a job and its records, for those who follow it."""
    found = await service.store.get(job)
    facts = await service.store.facts()
    status = None if found is None else found.status
    news = JobNews(**await parts(service, job), status=status, now=facts.now)
    document: dict[str, Any] = to_builtins(news)
    return document


async def record(service: Service, body: RecordRequest, principal: bytes) -> RecordedJobs:
    """Keep what attempts record, while their leases are held. Of a step the first record stays."""
    check_owner(body.worker, principal)
    recordings = [Recording(Lease(each.id, each.token), said(each)) for each in body.jobs]
    for each in body.jobs:
        if each.steps:
            await check_steps(service, each)
    owned = [await holds(service, body.worker, each) for each in body.jobs]
    asked = [each for each, ours in zip(recordings, owned, strict=True) if ours]
    verdicts = iter(await service.store.record(asked) if asked else [])
    return RecordedJobs(
        [
            RecordedJob(each.id, each.token, next(verdicts) if ours else "stale")
            for each, ours in zip(body.jobs, owned, strict=True)
        ]
    )


async def recorded(service: Service, body: RecordsRequest, principal: bytes) -> WorkerRecords:
    """The steps that need not run again, and the last checkpoint, of a job that is held."""
    check_owner(body.worker, principal)
    if not await holds(service, body.worker, body):
        raise Refusal("stale", f"job {body.id}: token {body.token} is no longer held; end it")
    try:
        found = await records_for_attempt(service.store, body.id)
    except BadSignature as error:
        raise Refusal("forged", str(error), jobs=[body.id]) from error
    steps = [WorkerStep(each.name, Raw(each.value or b"null")) for each in of_kind(found, "step")]
    last = [each.value or b"null" for each in of_kind(found, "checkpoint")]
    return WorkerRecords(body.id, body.token, steps, Raw(last[-1] if last else b"null"))


def of_kind(found: list[Record], kind: str) -> list[Record]:
    """The records of this kind."""
    return [each for each in found if each.kind == kind]


async def holds(service: Service, worker: str, lease: Any) -> bool:
    """Whether the worker holds the lease: none speaks for another."""
    job = await service.store.get(lease.id)
    return job is not None and job.token == lease.token and job.worker == worker


async def check_steps(service: Service, each: Recorded) -> None:
    """Refuse more steps than a job may have."""
    known = {step.name for step in of_kind(await service.store.records(each.id, 0), "step")}
    many = len(known | {step.name for step in each.steps})
    if many > STEP_LIMIT:
        raise InvalidError(
            f"job {each.id} would have {many} steps, and a job has at most {STEP_LIMIT}; keep a"
            " checkpoint, or let a step do more"
        )


def said(each: Recorded) -> tuple[Record, ...]:
    """The records of a request, numbered so that those of a later one follow."""
    made: list[tuple[Any, bytes, str]] = [("log", line_value(line), "") for line in each.log]
    if each.progress is not None:
        progress = each.progress
        made.append(("progress", progress_value(progress.done, progress.of, progress.note), ""))
    if each.checkpoint is not UNSET:
        made.append(("checkpoint", value_of(each, "the checkpoint", each.checkpoint), ""))
    for step in each.steps:
        what = f"the result of step {step.name!r}"
        made.append(("step", value_of(each, what, step.result), step.name))
    first = each.number * APART
    return tuple(
        Record(kind, first + at, value, name) for at, (kind, value, name) in enumerate(made)
    )


def value_of(each: Recorded, what: str, raw: Raw) -> bytes:
    """The JSON of a value, not too deep and not too long."""
    check_depth(f"{what} of job {each.id}", bytes(raw))
    return checked_value(f"{what} of job {each.id}", bytes(raw))


async def parts(service: Service, job: str) -> dict[str, Any]:
    """What the job has recorded, without secrets."""
    stored_records = await service.store.records(job, SHOWN_LIMIT)
    size = sum(len(each.value or b"") for each in stored_records)
    return await service.aside(lambda: views(service.redaction, shown(stored_records)), size)


def views(redaction: Redaction, found: Records) -> dict[str, Any]:
    """The records as readers see them."""
    progress, checkpoint = found.progress, found.checkpoint
    return {
        "steps": [
            StepView(each.name, each.at, each.size, hidden(redaction, each.result))
            for each in found.steps
        ],
        "progress": None
        if progress is None
        else ProgressView(
            progress.done,
            progress.of,
            None if progress.note is None else redaction.text(progress.note),
            progress.at or 0.0,
        ),
        "log": [LineView(each.at, redaction.text(each.text)) for each in found.log],
        "checkpoint": None
        if checkpoint is None
        else CheckpointView(checkpoint.at, checkpoint.size, hidden(redaction, checkpoint.value)),
    }


def hidden(redaction: Redaction, value: Any) -> Any:
    """The value without secrets; UNSET where it was left out."""
    return UNSET if value is UNSET else redaction.value(value)
