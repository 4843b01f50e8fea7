"""Jobs as Django's task results."""

import builtins
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.conf import settings
from django.utils.module_loading import import_string
from django.utils.timezone import make_naive

import mulligan
from mulligan.contrib.django.compat import base, exceptions
from mulligan.core.job import NO_REASON, Attempt, Claim, Job, decode_call
from mulligan.core.lane import Priority
from mulligan.stores.contract import Store

Status = base.TaskResultStatus
STATUSES = {
    "pending": Status.READY,
    "processing": Status.RUNNING,
    "done": Status.SUCCESSFUL,
    "failed": Status.FAILED,
    "cancelled": Status.FAILED,
}
# A failure without an exception, such as a result that was refused.
NO_EXCEPTION = "mulligan.JobFailedError"


async def read(store: Store, alias: str, result_id: str) -> Any:
    """The result of this id; refuses an id of no job, and of one that is none of Django's."""
    job = await store.get(result_id)
    if job is None:
        raise exceptions.TaskResultDoesNotExist(result_id)
    return result_of(alias, job, await store.history(result_id))


def result_of(alias: str, job: Job, history: Sequence[Attempt]) -> Any:
    """The result as it is now: `worker_ids` has an entry for each attempt, those to come too."""
    call = decode_call(job.body)
    started = [attempt.started_at for attempt in history]
    workers = [attempt.worker for attempt in history]
    if job.status in ("processing", "done"):
        started.append(job.started_at or job.due)
        workers.append(job.worker or "")
        # the history keeps the newest attempts only
        workers = [""] * (job.retry_count + 1 - len(workers)) + workers
    result = base.TaskResult(
        task=task_of(alias, job),
        id=job.id,
        status=STATUSES[job.status],
        enqueued_at=moment(job.created_at),
        started_at=moment(min(started, default=None)),
        last_attempted_at=moment(max(started, default=None)),
        finished_at=moment(job.ended_at),
        args=call.args,
        kwargs=call.kwargs,
        backend=alias,
        errors=errors_of(job, history),
        worker_ids=workers,
    )
    if job.status == "done" and job.result is not None:
        object.__setattr__(result, "_return_value", msgspec.json.decode(job.result))
    return result


def started(alias: str, task: Any, claim: Claim) -> Any:
    """The result of a first attempt that begins, from what its worker knows."""
    call = decode_call(claim.body)
    return base.TaskResult(
        task=task,
        id=claim.id,
        status=Status.RUNNING,
        enqueued_at=moment(claim.due),
        started_at=moment(claim.started_at),
        last_attempted_at=moment(claim.started_at),
        finished_at=None,
        args=call.args,
        kwargs=call.kwargs,
        backend=alias,
        errors=[],
        worker_ids=[claim.worker],
    )


def errors_of(job: Job, history: Sequence[Attempt]) -> list[Any]:
    """Every failure of the job, oldest first; a cancelled one ends with why it was."""
    errors = [
        base.TaskError(
            exception_class_path=class_path(attempt.type),
            traceback=(attempt.traceback or attempt.reason).rstrip("\n") + "\n",
        )
        for attempt in history
    ]
    if job.status == "cancelled":
        path, reason = "mulligan.JobCancelledError", f"{job.cancel_reason or NO_REASON}\n"
        errors.append(base.TaskError(exception_class_path=path, traceback=reason))
    return errors


def class_path(name: str) -> str:
    """Where the class of a failure can be imported from, as far as it can."""
    if "." in name:
        return name
    if name == "Timeout":
        return "builtins.TimeoutError"
    for module in (builtins, mulligan):
        found = getattr(module, name, None)
        if isinstance(found, type) and issubclass(found, BaseException):
            return f"{module.__name__}.{name}"
    return NO_EXCEPTION


def task_of(alias: str, job: Job) -> Any:
    """The task as the job was enqueued; priorities are kept as urgent or not."""
    try:
        task = import_string(job.task)
    except ImportError:
        task = None
    if not isinstance(task, base.Task):
        raise exceptions.TaskResultDoesNotExist(job.id)
    changes: dict[str, Any] = {"queue_name": job.queue, "backend": alias}
    if (job.priority == Priority.URGENT) != (task.priority > 0):
        changes["priority"] = int(job.priority == Priority.URGENT)
    if job.started_at is None and job.retry_count == 0 and job.due > job.created_at:
        changes["run_after"] = moment(job.due)
    return task.using(**changes)


def moment(seconds: float | None) -> datetime | None:
    """A time of the store as Django has times: with a time zone, if it uses any."""
    if seconds is None:
        return None
    aware = datetime.fromtimestamp(seconds, UTC)
    return aware if settings.USE_TZ else make_naive(aware)
