"""The decorators `app.task` and `app.sink`."""

import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from msgspec.structs import replace

from mulligan.app.annotations import signature_of
from mulligan.app.chain import check_call, check_follower, part_of
from mulligan.app.limits import refuse_template
from mulligan.app.options import Options, Placement, checked
from mulligan.app.partial import BoundTask, Partial
from mulligan.app.result_gate import gate_of
from mulligan.app.task import AsyncTask, PlainTask, Task
from mulligan.app.using import Using
from mulligan.core.checks import Seconds, check_name, check_seconds
from mulligan.core.declared import Declared
from mulligan.core.errors import InvalidError
from mulligan.core.retry import Retry, is_predicate
from mulligan.core.runs import Pool, Runs, check_pool, check_size

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan
    from mulligan.core.schedule import CatchUp
    from mulligan.core.timing import Timing

P = ParamSpec("P")
R = TypeVar("R")


class TaskOptions(Options, total=False):
    """Options of a task that a single call cannot have."""

    name: str
    accept: Callable[[Any], bool] | type | bool
    on_dead: Task[..., Any] | Using[..., Any] | BoundTask[Any] | str | None
    sink: Task[..., Any] | Using[..., Any] | Partial[Any, Any]
    cron: str
    every: Seconds
    timezone: str
    catch_up: "CatchUp"
    soft_timeout: Seconds
    pool: Pool | None
    max_memory: str | int


TASK_ONLY = [name for name in TaskOptions.__annotations__ if name not in Options.__annotations__]


class TaskDecorator:
    """The decorator that `app.task(...)` returns."""

    def __init__(
        self, app: "Mulligan", options: TaskOptions, *, transactional: bool = False
    ) -> None:
        options = {**app.defaults, **options}
        self._app = app
        self._transactional = transactional
        self._retry_if = predicate_in(options)
        self._name = options.pop("name", None)
        self._accept = options.pop("accept", None)
        self._timing = timing_in(options)
        self._catch_up = options.pop("catch_up", None)
        self._runs = runs_of(options)
        on_dead = options.pop("on_dead", None)
        sink = options.pop("sink", None)
        placement = replace(Placement(), **checked(options, app.settings.lease, TASK_ONLY))
        refuse_template(placement.unique_key)
        if self._accept not in (None, False) or transactional:
            placement = replace(placement, gated=True)
        if sink is not None:
            if not isinstance(sink, Task | Using | Partial):
                raise InvalidError(f"sink {sink!r} must be a task of the app; use @app.sink")
            part = part_of(sink)
            check_follower("sink", part)
            part.task.check_call((*part.bound.args, None), part.bound.kwargs | {"key": ""})
            placement = replace(placement, sink=part.stage)
        # By name it may be declared later.
        self._told = check_name("on_dead", on_dead) if isinstance(on_dead, str) else None
        if on_dead is not None and self._told is None:
            if not isinstance(on_dead, Task | Using | BoundTask):
                raise InvalidError(f"on_dead {on_dead!r} must be a task of the app, or its name")
            part = part_of(on_dead)
            check_follower("on_dead", part)
            check_call("on_dead", part, "the dead letter")
            placement = replace(placement, on_dead=part.stage)
        self._placement = placement
        self._declared = Declared(
            placement.retry if "retry" in options else None,
            placement.timeout,
            placement.on_dead,
            placement.sink,
            placement.gated or None,
            *placement.fixed_limits,
        )

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Task[..., Any]:
        """Register the function."""
        if not callable(function):
            raise InvalidError(f"task {function!r} is no function; give a name as name=")
        name = check_name("task", self._name or name_of(function))
        refuse_class(name, function)
        refuse_generator(name, function)
        if name in self._app.tasks:
            raise InvalidError(f"task {name!r} exists already; give one of them name=")
        kind = AsyncTask if is_coroutine(function) else PlainTask
        self._runs.check(name, self._placement.timeout, in_thread=not kind.is_async)
        if self._transactional and self._runs.pool is not None:
            raise InvalidError(
                f"sink {name!r} is transactional, and a child process has no part in the worker's"
                ' transaction; leave out pool="process"'
            )
        task: Task[..., Any] = kind(
            self._app,
            function,
            name,
            self._placement,
            gate_of(self._accept, function),
            declared=self._declared,
            runs=self._runs,
            transactional=self._transactional,
        )
        task.retry_if = self._retry_if
        # A task does not get its own dead letters.
        if self._told is not None and self._told != name:
            task.awaits_on_dead = self._told
            if self._told in self._app.tasks:
                tell_dead(task, self._app.tasks[self._told])
        self._schedule(task)
        if self._app.middlewares:
            from mulligan.app.middleware import check, wrap  # noqa: PLC0415 - few apps do

            check(task, self._app.middlewares)
            wrap(task, self._app.middlewares)
        self._app.tasks[name] = task
        for each in self._app.tasks.values():
            if each.awaits_on_dead == name:
                tell_dead(each, task)
        return task

    def _schedule(self, task: Task[..., Any]) -> None:
        """Have the task run by itself, if its options say when."""
        if self._timing is not None:
            task.run_by(self._timing, self._catch_up or "one")
        elif self._catch_up is not None:
            raise InvalidError(
                f"task {task.name!r}: catch_up {self._catch_up!r} goes with cron= or every=, of"
                " which neither is given"
            )


def is_coroutine(function: Callable[..., Any]) -> bool:
    """Return whether a call returns a coroutine; the function may be an object with `__call__`."""
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the method itself
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def name_of(function: Callable[..., Any]) -> str:
    """Return the function's own name; refuses what has none, such as a partial or an object."""
    name = getattr(function, "__name__", "")
    if not name:
        raise InvalidError(
            f"task {function!r} has no name of its own, by which workers would find it; give it"
            ' one: app.task(name="…")(function), or declare a function that calls it'
        )
    return cast("str", name)


def refuse_class(name: str, function: Callable[..., Any]) -> None:
    """Refuse a class, and a function in a class: a job has neither an object nor a way to one."""
    if inspect.isclass(function):
        raise InvalidError(
            f"task {name!r} is a class, and a job's result is JSON; declare a function that makes"
            " one and returns what is to be kept"
        )
    if inspect.isfunction(function) and next(iter(signature_of(function).parameters), "") == "self":
        raise InvalidError(
            f"task {name!r} takes self, as a method does, and a job has no object; declare a"
            " function outside of the class that makes or looks up the object; the running job is"
            " current_job()"
        )


def refuse_generator(name: str, function: Callable[..., Any]) -> None:
    """Refuse a function whose results nobody would fetch."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidError(
            f"task {name!r} yields, and a job has one result; return a list, or enqueue a job for"
            " each element, as each(task) does"
        )


def tell_dead(task: Task[..., Any], receiver: Task[..., Any]) -> None:
    """Call the receiver with each dead letter of the task."""
    part = part_of(receiver)
    check_follower("on_dead", part)
    check_call("on_dead", part, "the dead letter")
    task.placement = replace(task.placement, on_dead=part.stage)
    task.declared = replace(task.declared, on_dead=part.stage)
    task.awaits_on_dead = None


def predicate_in(options: TaskOptions) -> Callable[[Any], bool] | None:
    """Take the predicate out of the options' retry policy, which is data without it."""
    retry = options.get("retry")
    if not isinstance(retry, Retry) or not is_predicate(retry.on):
        return None
    options["retry"] = replace(retry, on=())
    return cast("Callable[[Any], bool]", retry.on)


def runs_of(options: TaskOptions) -> Runs:
    """Take out of the options where the attempts run, and check it."""
    pool, soft = options.pop("pool", None), options.pop("soft_timeout", None)
    memory = options.pop("max_memory", None)
    return Runs(
        check_pool(pool),
        None if soft is None else check_seconds("soft_timeout", soft, least=0.001),
        None if memory is None else check_size("max_memory", memory),
    )


def timing_in(options: TaskOptions) -> "Timing | None":
    """Take out of the options when the task runs by itself, if it does."""
    words = options.pop("cron", None), options.pop("every", None), options.pop("timezone", None)
    if words == (None, None, None):
        return None
    # Time zones are slow to import, and few tasks have a schedule.
    from mulligan.core.timing import timing_of  # noqa: PLC0415

    return timing_of(*words)
