"""Makes a job of a message: which task it calls, and what it brings along."""

from collections.abc import Mapping
from typing import Any

from mulligan.app import Mulligan
from mulligan.app.task import Task
from mulligan.contrib.bridge.message import Left, Message, unreadable
from mulligan.core.errors import InvalidError
from mulligan.core.job import Job
from mulligan.core.lane import ANYWHERE, Lane, retry_priority


class Tasks:
    """The tasks of an app by the names that the other queue calls them.

    That is what the caller says, else the task's own name, else module and function, as Celery and
    RQ name a function that was declared instead.
    """

    def __init__(self, app: Mulligan, given: Mapping[str, str]) -> None:
        for old, new in given.items():
            if new not in app.tasks:
                known = ", ".join(app.tasks) or "none"
                raise InvalidError(f"task {old}={new}: {new!r} is not one of {known}")
        self._named: dict[str, Task[..., Any]] = {}
        for task in app.tasks.values():
            function = task.__wrapped__
            self._named[f"{function.__module__}.{function.__qualname__}"] = task
        self._named |= app.tasks
        self._named |= {old: app.tasks[new] for old, new in given.items()}

    def job(self, message: Message, id_: str, now: float) -> Job | Left:
        """The job that a message becomes; `Left` if no task here takes it."""
        task = self._named.get(message.task)
        if task is None:
            return Left(message.id, message.task, "no task here has its name")
        try:
            return job_of(task, message, id_, now)
        except InvalidError as error:
            return Left(message.id, message.task, str(error))
        except Exception as error:  # noqa: BLE001 - arguments of other programs may raise anything
            return unreadable(message.id, message.task, "no job can be made of it", error)


def job_of(task: Task[..., Any], message: Message, id_: str, now: float) -> Job:
    """The job as another store would hand it over: waiting, with the retries that it has had."""
    options: dict[str, Any] = {"id": id_}
    if message.retry is not None:
        options["retry"] = message.retry
    if message.timeout is not None:
        options["timeout"] = message.timeout
    new = task.using(**options).call(*message.args, **message.kwargs).job
    lane = new.lane
    if message.retries:
        lane = Lane(new.queue, ANYWHERE, retry_priority(new.priority))
    expires_at = message.expires_at
    if expires_at is None and new.expires is not None:
        expires_at = now + new.expires
    return Job(
        new.id,
        queue=new.queue,
        task=new.task,
        region=new.region,
        priority=new.priority,
        status="pending",
        scope=lane.scope,
        lane_priority=lane.priority,
        due=max(message.due or now, now),
        sequence=0,
        token=message.retries,
        retry_count=message.retries,
        replay=0,
        snoozes=0,
        created_at=now,
        body=new.body,
        limits=new.limits,
        fairness_key=new.fairness_key,
        expires_at=expires_at,
        keep=new.keep,
    )
