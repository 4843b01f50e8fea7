"""What the admin's pages of jobs show, as plain values for their templates."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from django.contrib.admin.utils import quote
from django.http import QueryDict
from django.utils.timezone import is_aware, localtime
from msgspec import Struct

from mulligan import Mulligan
from mulligan.contrib.django.results import moment
from mulligan.core.job import Attempt, Job, decode_call
from mulligan.core.lane import Priority
from mulligan.core.page import Selection
from mulligan.engine.traceback import hide_secrets
from mulligan.server.redaction import Redaction

STATUSES = ("pending", "processing", "done", "failed", "cancelled")
SHOWN = 200


class Choice(Struct, frozen=True):
    """One value of a filter."""

    name: str
    link: str
    is_chosen: bool


def selection(wanted: Mapping[str, str]) -> Selection:
    """Which jobs the query asks for."""
    status = wanted.get("status")
    return Selection(
        status=status if status in STATUSES else None,  # type: ignore[arg-type]
        queue=wanted.get("queue") or None,
        task=wanted.get("task") or None,
        text=wanted.get("q") or None,
    )


def filters(
    wanted: QueryDict, app: Mulligan, alias: str, aliases: Sequence[str]
) -> list[tuple[str, list[Choice]]]:
    """The filters beside the list, with their choices."""
    several = {"backend": list(aliases)} if len(aliases) > 1 else {}
    offered = {
        "status": list(STATUSES),
        "queue": list(app.queue_names),
        "task": sorted(app.tasks),
        **several,
    }
    return [(name, choices(wanted, name, values, alias)) for name, values in offered.items()]


def choices(wanted: QueryDict, name: str, values: Sequence[str], alias: str) -> list[Choice]:
    """All, and each value; of the backends there is always one."""
    chosen = alias if name == "backend" else wanted.get(name, "")
    every = [] if name == "backend" else [Choice("All", link(wanted, **{name: None}), not chosen)]
    each = [Choice(value, link(wanted, **{name: value}), value == chosen) for value in values]
    return every + each


def link(wanted: QueryDict, **changes: str | None) -> str:
    """The query with some parts changed, from its first page."""
    query = wanted.copy()
    query.pop("after", None)
    for name, value in changes.items():
        query.pop(name, None)
        if value is not None:
            query[name] = value
    return f"?{query.urlencode()}"


def row(job: Job) -> dict[str, Any]:
    """A job in the list."""
    return {
        "id": job.id,
        "path": f"{quote(job.id)}/change/",
        "task": job.task,
        "queue": job.queue,
        "status": job.status,
        "attempts": job.retry_count + (job.started_at is not None),
        "created": shown_time(job.created_at),
        "failure": hide_secrets(job.last_failure_reason or "")[:SHOWN],
    }


def details(app: Mulligan, job: Job, attempts: Sequence[Attempt], why: str) -> dict[str, Any]:
    """A job and its failed attempts, newest first."""
    call, redaction = decode_call(job.body), Redaction(app.redact, app.tasks)
    args, kwargs = redaction.call(job.task, call.args, call.kwargs)
    fields = {
        "Status": job.status,
        "Why": hide_secrets(why),
        "Task": job.task,
        "Queue": job.queue,
        "Priority": "urgent" if job.priority == Priority.URGENT else "normal",
        "Arguments": written(args) if args else "",
        "Named arguments": written(kwargs) if kwargs else "",
        "Result": "" if job.result is None else hide_secrets(job.result.decode()),
        "Enqueued": shown_time(job.created_at),
        "Due": shown_time(job.due) if job.status == "pending" else "",
        "Started": shown_time(job.started_at),
        "Ended": shown_time(job.ended_at),
        "Worker": job.worker or "",
        "Replays": job.replay or "",
        "Cancelled": job.cancel_reason or "",
    }
    return {
        "job": job,
        "fields": [(name, value) for name, value in fields.items() if value != ""],
        "attempts": [attempt_row(each) for each in reversed(attempts)],
        "can_replay": job.status == "failed",
        "can_cancel": job.status in ("pending", "processing"),
    }


def attempt_row(attempt: Attempt) -> dict[str, Any]:
    """A failed attempt."""
    return {
        "number": attempt.number,
        "replay": attempt.replay,
        "started": shown_time(attempt.started_at),
        "worker": attempt.worker,
        "region": attempt.region,
        "reason": hide_secrets(attempt.reason)[:SHOWN],
        "traceback": attempt.traceback,
        "delay": attempt.delay,
    }


def shown_time(seconds: float | None) -> str:
    """A time of the store as a reader of the admin expects it, to the second."""
    time = moment(seconds)
    if time is None:
        return ""
    return (localtime(time) if is_aware(time) else time).strftime("%Y-%m-%d %H:%M:%S")


def written(value: Any) -> str:
    """A value as JSON, without secrets."""
    return hide_secrets(msgspec.json.encode(value).decode())
