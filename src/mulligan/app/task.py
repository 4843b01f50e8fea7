"""A task: a function that can also be enqueued."""

import functools
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

from msgspec.structs import replace

from mulligan.app.arguments import Arguments
from mulligan.app.handle import JobHandle
from mulligan.app.ids import new_id
from mulligan.app.options import Options, Placement, checked
from mulligan.core.job import Call, NewJob

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function and where its jobs go. R is its result, awaited if it is a coroutine."""

    is_async: bool

    def __init__(
        self,
        app: "Mulligan",
        function: Callable[P, Any],
        name: str,
        placement: Placement,
        accept: Callable[[Any], bool] | None,
    ) -> None:
        functools.update_wrapper(cast("Callable[P, Any]", self), function)
        self.app = app
        self.name = name
        self.function: Callable[..., Any] = function
        self.accept = accept
        self.placement = placement
        self._arguments = Arguments(name, function)

    def __repr__(self) -> str:
        return f"<task {self.name} of queue {self.placement.queue}>"

    def using(self, **options: Unpack[Options]) -> "Using[P, R]":
        """The task with other options for the calls that follow."""
        return Using(self, replace(self.placement, **checked(options)))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> "Prepared[R]":
        """The call as a value, for `enqueue_many`."""
        return self.using().call(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        return self.using().enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        return await self.using().aenqueue(*args, **kwargs)

    def arguments(self, call: Call) -> tuple[list[Any], dict[str, Any]]:
        """The stored arguments in the types that the function declares."""
        return self._arguments.unpack(call)

    def new_job(
        self, placement: Placement, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> NewJob:
        """The job that this call makes; refuses arguments that the function does not take."""
        packed_args, packed_kwargs = self._arguments.pack(args, kwargs)
        limit = self.app.settings.payload_limit
        return placement.job(new_id(), self.name, packed_args, packed_kwargs, limit)


class PlainTask(Task[P, R]):
    """A plain function: workers run it in a thread."""

    is_async = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here and now, as if it were no task."""
        value: R = self.function(*args, **kwargs)
        return value


class AsyncTask(Task[P, R]):
    """A coroutine function: workers run it on their loop."""

    is_async = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function here and now, as if it were no task."""
        coroutine: Coroutine[Any, Any, R] = self.function(*args, **kwargs)
        return coroutine


class Using(Generic[P, R]):
    """A task with options for some calls."""

    def __init__(self, task: Task[P, R], placement: Placement) -> None:
        self._task = task
        self._placement = placement

    def call(self, *args: P.args, **kwargs: P.kwargs) -> "Prepared[R]":
        """The call as a value, for `enqueue_many`."""
        return Prepared(self._task.new_job(self._placement, args, kwargs))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        return self._task.app.enqueue_many([self.call(*args, **kwargs)])[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        return (await self._task.app.aenqueue_many([self.call(*args, **kwargs)]))[0]


class Prepared(Generic[R]):
    """A call that has been checked and not yet enqueued."""

    __slots__ = ("job",)

    def __init__(self, job: NewJob) -> None:
        self.job = job
