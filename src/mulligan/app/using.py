"""A task with other options for some of its calls, and a call as a value."""

from collections.abc import Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from msgspec import Struct

from mulligan.app.handle import JobHandle
from mulligan.app.no_pickle import refuse_pickling
from mulligan.app.options import Placement
from mulligan.app.partial import Partial, WithoutResult
from mulligan.core.errors import InvalidError
from mulligan.core.job import NewJob

if TYPE_CHECKING:
    from mulligan.app.chain import Chain, Each, Step
    from mulligan.app.mulligan import Mulligan
    from mulligan.app.task import Task
else:
    Mulligan = Any  # that module imports this one

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Takes(Protocol[T_contra, Q, R]):
    """A task by its first parameter and the others: type checkers find both for `partial`."""

    def enqueue(self, value: T_contra, /, *args: Q.args, **kwargs: Q.kwargs) -> JobHandle[R]:
        """Have it run by a worker."""


class Using(Generic[P, R]):
    """A task with options for some calls, perhaps on a connection of the caller's."""

    def __init__(self, task: "Task[P, R]", placement: Placement, connection: Any = None) -> None:
        self.task = task
        self.placement = placement
        self.connection = connection

    @overload
    def __or__(self: "Using[P, list[T]]", step: "Each[T, S]") -> "Chain[P, list[S]]": ...
    @overload
    def __or__(self, step: "Step[R, S]") -> "Chain[P, S]": ...
    def __or__(self, step: Any) -> "Chain[P, Any]":
        """A chain: the result of this task is the argument of the next."""
        from mulligan.app.chain import Chain, part_of  # noqa: PLC0415 - chains are made of tasks

        return Chain([part_of(self), part_of(step)])

    def partial(self: "Takes[T, Q, R]", *args: Q.args, **kwargs: Q.kwargs) -> Partial[T, R]:
        """The task with some arguments bound, by name: a stage of a chain, or of a gather.

        The result of the stage before is the first parameter that is not bound.
        """
        using = cast("Using[..., R]", self)
        using.refuse_connection()
        return using.task.bound_by(args, kwargs, using.placement)

    def without_result(self, *args: P.args, **kwargs: P.kwargs) -> WithoutResult[R]:
        """The task with all its arguments: a stage that ignores the result before it."""
        self.refuse_connection()
        bound = self.task.bind_all(args, kwargs)
        return WithoutResult(self.task, self.placement, bound)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> "Prepared[R]":
        """The call as a value, for `enqueue_many`."""
        if self.connection is not None:
            raise InvalidError(
                f"a call of {self.task.name} is a value and carries no connection; give it to"
                " enqueue_many(calls, connection=...) or gather(calls, then, connection=...)"
            )
        return self._call(args, kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns.

        On a connection of the caller's it is stored when that commits.
        """
        app, call = self.task.app, self._call(args, kwargs)
        if app.joins(self.connection):
            return app.enqueue_many([call], connection=self.connection)[0]
        job, created = app.send_one(call.job)
        return JobHandle(app, job, created)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns.

        On a connection of the caller's it is stored when that commits.
        """
        app, call = self.task.app, self._call(args, kwargs)
        if app.joins(self.connection):
            return (await app.aenqueue_many([call], connection=self.connection))[0]
        job, created = await app.asend_one(call.job)
        return JobHandle(app, job, created)

    def refuse_connection(self) -> None:
        """Refuse a connection, which bound arguments cannot have."""
        if self.connection is not None:
            raise InvalidError(
                f"{self.task.name} has a connection, which bound arguments cannot have; say it of"
                " the whole, by chain.using(connection=...)"
            )

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> "Prepared[R]":
        return self.task.prepared(self.placement, args, kwargs)


class Prepared(Struct, Generic[R], gc=False):
    """A call of a task of `app` that has been checked and not yet enqueued."""

    job: NewJob
    app: "Mulligan"

    def __repr__(self) -> str:
        return f"<call of {self.job.task}>"

    if not TYPE_CHECKING:  # for type checkers, what is not there is not there

        def __or__(self, step: object) -> NoReturn:
            """Refuse a call as the first stage of a chain."""
            task = self.job.task
            raise InvalidError(
                f"{task}.call(...) is one call, and a chain is made of tasks; give the arguments"
                f" to the chain: ({task} | other).enqueue(...)"
            )

        def __await__(self) -> NoReturn:
            """Refuse to wait for a call that nobody has enqueued."""
            raise InvalidError(
                f"{self.job.task}.call(...) enqueues nothing; await"
                f" {self.job.task}.aenqueue(...), or give the call to app.aenqueue_many"
            )

        __reduce__ = refuse_pickling


def listed(calls: Iterable[T]) -> list[T]:
    """The calls as a list; refuses what cannot be one, such as a single call."""
    if not isinstance(calls, Iterable):
        raise InvalidError(f"calls {calls!r} must be a list, such as [task.call(...), ...]")
    return list(calls)


def jobs_of(calls: Sequence[Prepared[Any]], app: "Mulligan") -> list[NewJob]:
    """Return the jobs of calls of this app."""
    try:
        if all(call.app is app for call in calls):
            return [call.job for call in calls]
    except AttributeError:
        for each in calls:
            refuse_other(each, Prepared)
        raise
    for call in calls:
        refuse_other_app(call.job.task, call.app, app)
    raise AssertionError  # pragma: no cover - one of them belongs to another app


def refuse_other_app(task: str, its: "Mulligan", app: "Mulligan") -> None:
    """Refuse a call that another app would store elsewhere, or with other limits and settings."""
    if its is not app:
        raise InvalidError(
            f"a call of task {task} belongs to another app, with the store {its.shown_url};"
            " use the app that declares the task"
        )


def refuse_other(call: object, *kinds: type) -> None:
    """Refuse what is no call, such as a task, a job, or what a direct call returned."""
    if not isinstance(call, kinds):
        raise InvalidError(
            f"calls has {call!r}, which is no call; give task.call(...), which runs nothing yet"
        )
