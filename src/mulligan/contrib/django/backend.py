"""The backend: Django's tasks as jobs of mulligan."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils import timezone

from mulligan import Mulligan
from mulligan.app.ids import new_id
from mulligan.contrib.django import results
from mulligan.contrib.django.compat import InvalidTask, backends, base, signals
from mulligan.contrib.django.database import after_commit, in_transaction
from mulligan.contrib.django.registry import Home, home_of
from mulligan.contrib.django.task import OF_A_CALL, Task, priority_of
from mulligan.contrib.django.virtual_time import back_on_the_loop
from mulligan.core.errors import InvalidError


class Backend(backends.BaseTaskBackend):
    """Enqueues Django's tasks, which `manage.py mulligan worker` runs.

    A job that is enqueued inside a transaction exists when that commits: exactly with it, if the
    jobs are in the same database; else it is enqueued right after.
    """

    task_class = Task
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self._params = params
        home_of(alias, params)  # refuses options that it does not know

    @property
    def home(self) -> Home:
        """The app and the tasks of this backend in this process."""
        return home_of(self.alias, self._params)

    @property
    def app(self) -> Mulligan:
        """The app, for hooks, for queues, and for what Django has no words for."""
        return self.home.app

    def validate_task(self, task: Any) -> None:
        """Refuse a task that cannot be run here; one that can becomes a task of the app."""
        super().validate_task(task)
        try:
            self.home.add(task)
            using(self.home, task)
        except InvalidError as error:
            raise InvalidTask(str(error)) from error

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Store the job, now or with the transaction that is under way."""
        self.validate_task(task)
        home, alias = self.home, self.options.get("database", "default")
        home.warn_if_unknown(task)
        result = base.TaskResult(
            task=task,
            id=task_id(task),
            status=results.Status.READY,
            enqueued_at=None,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=args,
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        waits = home.app.access.joins_transactions and self.options.get("transactional", True)
        if not (waits and in_transaction(alias)):
            send(home, result)
            self._tell(result)
        elif home.neighbours.share(alias):
            send(home, result, connections[alias])
            after_commit(alias, lambda: self._tell(result))
        else:
            prepared(home, result)  # refuses arguments that the task does not take, here

            def enqueue() -> None:
                send(home, result)
                self._tell(result)

            after_commit(alias, enqueue)
        return result

    def call(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The call as a value: `app.schedules.put("acme", report.call(7), cron="0 9 * * *")`."""
        self.validate_task(task)
        return using(self.home, task).call(*args, **kwargs)

    def get_result(self, result_id: str) -> Any:
        """The result as it is now."""
        with back_on_the_loop():
            return self.app.run(lambda: self.aget_result(result_id))

    async def aget_result(self, result_id: str) -> Any:
        """The result as it is now."""
        return await self.app.access.acall(
            lambda store: results.read(store, self.alias, str(result_id))
        )

    def check(self, **kwargs: Any) -> list[Any]:
        """What `manage.py check` says of the settings."""
        found = [*super().check(**kwargs)]
        try:
            self.app.make_store()
        except (InvalidError, ImproperlyConfigured) as error:
            found.append(checks.Error(f"TASKS[{self.alias!r}]: {error}", id="mulligan.E001"))
        return found

    def _tell(self, result: Any) -> None:
        signals.task_enqueued.send(sender=type(self), task_result=result)


def task_id(task: Any) -> str:
    """The id that the caller chose, or a new one."""
    chosen: str | None = getattr(task, "id", None)
    return chosen or new_id()


def prepared(home: Home, result: Any, connection: Any = None) -> Any:
    """The task of the app with the options of this call; refuses what it does not take."""
    made = using(home, result.task, id=result.id, connection=connection)
    made.task.check_call(tuple(result.args), result.kwargs)
    return made


def using(home: Home, task: Any, **more: Any) -> Any:
    """The task of the app with the options of Django's task; refuses those that make no sense."""
    said = {name: getattr(task, name, None) for name in OF_A_CALL}
    options: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if task.run_after is not None:
        options["run_after"] = aware(task.run_after)
    options |= {"queue": task.queue_name, "priority": priority_of(task), **more}
    return home.app.tasks[task.module_path].using(**options)


def send(home: Home, result: Any, connection: Any = None) -> None:
    """Enqueue the job; one that was there before gives its id to the result."""
    with back_on_the_loop():
        job = prepared(home, result, connection).enqueue(*result.args, **result.kwargs)
    object.__setattr__(result, "id", job.id)
    object.__setattr__(result, "enqueued_at", timezone.now())


def aware(moment: Any) -> Any:
    """The time with its time zone; Django's own where times have none."""
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
