"""A task: a function that can also be enqueued."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, cast, overload

from msgspec.structs import replace

from mulligan.app.annotations import shown
from mulligan.app.arguments import Arguments, Parameter
from mulligan.app.fits import ANY, Shape, shape_of, taken_by
from mulligan.app.handle import JobHandle
from mulligan.app.ids import new_id
from mulligan.app.limits import limits_for, refuse_template
from mulligan.app.no_pickle import refuse_pickling
from mulligan.app.options import Placement, UsingOptions, checked
from mulligan.app.other_words import method_here
from mulligan.app.partial import Bound, Partial, WithoutResult
from mulligan.app.resources import filled
from mulligan.app.result_type import Returned
from mulligan.app.types import Codec
from mulligan.app.using import Prepared, Takes, Using
from mulligan.core.declared import Declared
from mulligan.core.errors import InvalidError
from mulligan.core.flow import Flow
from mulligan.core.job import Call, Job, NewJob
from mulligan.core.limits import costs_of
from mulligan.core.runs import Runs
from mulligan.core.signals import BadSignature

if TYPE_CHECKING:
    from mulligan.app.chain import Chain, Each, Step
    from mulligan.app.mulligan import Mulligan
    from mulligan.core.schedule import CatchUp, Schedule
    from mulligan.core.timing import Timing
    from mulligan.engine.middleware import Around

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


class UndefinedNameError(InvalidError):
    """An annotation mentions a name that is not defined, or not yet."""


class Task(Generic[P, R]):
    """A function, and the options of its jobs. R is its result, after `await` for a coroutine."""

    is_async: bool
    __wrapped__: Callable[..., Any]  # the function itself
    # Whether the annotations have been read, and the types in them found to be carried.
    is_read: bool = False

    def __init__(
        self,
        app: "Mulligan",
        function: Callable[P, Any],
        name: str,
        placement: Placement,
        accept: Callable[[Any], bool] | None = None,
        *,
        declared: Declared = Declared(),  # noqa: B008 - it never changes
        runs: Runs = Runs(),  # noqa: B008 - it never changes
        transactional: bool = False,
    ) -> None:
        functools.update_wrapper(cast("Callable[P, Any]", self), function)
        self.app = app
        self.name = name
        # What workers call: the function with the app's middleware around it. `around` is async
        # middleware of a plain function, which runs on the loop, around the thread.
        self.function: Callable[..., Any] = function
        self.around: Around | None = None
        self.accept = accept
        self.placement = placement
        self.declared = declared
        self.runs = runs
        # Says which exceptions are retried, if its retry policy has a predicate.
        self.retry_if: Callable[[Any], bool] | None = None
        # The name of the task that gets its dead letters, until that task is declared.
        self.awaits_on_dead: str | None = None
        # When it runs by itself, and what becomes of missed ticks.
        self.timing: Timing | None = None
        self.catch_up: CatchUp = "one"
        self.transactional = transactional
        self._arguments = Arguments(name, function, skip=int(transactional))
        self._returned = Returned(name, function)
        with contextlib.suppress(UndefinedNameError):  # checked again when it is used
            self.read_types()

    @property
    def signature(self) -> inspect.Signature:
        """What a call of the task takes: not what a worker fills in."""
        return self._arguments.signature

    @property
    def resources(self) -> Mapping[str, str]:
        """Which of the function's parameters ask for which resource."""
        return self._arguments.resources

    def __repr__(self) -> str:
        return f"<task {self.name} of queue {self.placement.queue}>"

    if not TYPE_CHECKING:  # for type checkers, what is not there is not there
        __reduce__ = refuse_pickling

        def __copy__(self) -> Self:
            copied = object.__new__(type(self))
            vars(copied).update(vars(self))
            return copied

        def __getattr__(self, name: str) -> Any:
            """Say what a method of another queue's tasks is called here."""
            task = vars(self).get("__name__", "")
            text = f"task {task} has no attribute {name!r}{method_here(name, task)}"
            raise AttributeError(text, name=name, obj=self)

    @overload
    def __or__(self: "Task[P, list[T]]", step: "Each[T, S]") -> "Chain[P, list[S]]": ...
    @overload
    def __or__(self, step: "Step[R, S]") -> "Chain[P, S]": ...
    def __or__(self, step: Any) -> "Chain[P, Any]":
        """A chain: the result of this task is the argument of the next."""
        from mulligan.app.chain import Chain, part_of  # noqa: PLC0415 - chains are made of tasks

        return Chain([part_of(self), part_of(step)])

    def using(self, **options: Unpack[UsingOptions]) -> Using[P, R]:
        """The task with other options for the calls that follow.

        With a `connection` of your own the jobs are part of its transaction: they exist exactly if
        it commits.
        """
        connection = options.pop("connection", None)
        placement = self.placement
        if options:
            placement = replace(placement, **checked(options, self.app.settings.lease))
            refuse_template(placement.unique_key, self.signature.parameters)
        self.runs.check_timeout(self.name, placement.timeout)
        return Using(self, placement, connection)

    def partial(self: "Takes[T, Q, R]", *args: Q.args, **kwargs: Q.kwargs) -> Partial[T, R]:
        """The task with some arguments bound, by name: a stage of a chain, or of a gather.

        The result of the stage before is the first parameter that is not bound.
        """
        return cast("Task[..., R]", self).bound_by(args, kwargs)

    def without_result(self, *args: P.args, **kwargs: P.kwargs) -> WithoutResult[R]:
        """The task with all its arguments: a stage that ignores the result before it."""
        return self.using().without_result(*args, **kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Prepared[R]:
        """The call as a value, for `enqueue_many`."""
        return self.prepared(self.placement, args, kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        app = self.app
        job, created = app.send_one(self.new_job(self.placement, args, kwargs))
        return JobHandle(app, job, created)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        app = self.app
        job, created = await app.asend_one(self.new_job(self.placement, args, kwargs))
        return JobHandle(app, job, created)

    def run_by(self, timing: "Timing", catch_up: "CatchUp") -> None:
        """Run it by a schedule; refuses a task that needs arguments."""
        from mulligan.core.schedule import check_catch_up, check_schedule_name  # noqa: PLC0415

        self._arguments.pack((), {})
        followed = self.placement.sink is not None or self.placement.on_dead is not None
        check_schedule_name(self.name, followed=followed)
        self.timing, self.catch_up = timing, check_catch_up(catch_up)

    def declared_schedule(self) -> "Schedule | None":
        """The schedule that it declares, if it does."""
        if self.timing is None:
            return None
        from mulligan.core.schedule import Schedule, template  # noqa: PLC0415 - few tasks have one
        from mulligan.core.timing import said_by  # noqa: PLC0415

        placement = replace(self.placement, delay=0.0, run_after=None)
        job, body = template(self.new_job(placement, (), {}))
        words: dict[str, Any] = said_by(self.timing)
        return Schedule(self.name, job, body, **words, catch_up=self.catch_up, declared=True)

    def read_types(self) -> None:
        """Read the annotations, and refuse types that cannot be carried.

        The decorator does this; for names that are not defined there yet, the first use does, or
        the start of a worker.
        """
        if self.is_read:
            return
        try:
            self._arguments.read_types()
            self._returned.read_type()
        except NameError as error:
            raise UndefinedNameError(
                f"task {self.name}: an annotation cannot be read: {error}; define or import the"
                " name in the task's module, also outside of TYPE_CHECKING"
            ) from error
        self.encode = self._returned.encode
        self.is_read = True

    def parameters(self) -> list[Parameter]:
        """Each parameter of the call with its type, as a JSON schema, and its default.

        Where an annotation mentions a name that is not defined, without types.
        """
        with contextlib.suppress(UndefinedNameError):
            self.read_types()
        return self._arguments.parameters()

    def bound_by(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        placement: Placement | None = None,
    ) -> Partial[Any, R]:
        """The task with these arguments bound, and perhaps other options; they are checked."""
        if args:
            raise InvalidError(
                f"task {self.name}: partial binds arguments by name, as in"
                f" {self.name}.partial(name=value); give {args[0]!r} its name"
            )
        self.read_types()
        return Partial(self, placement or self.placement, self._arguments.bind(kwargs))

    def codec_after(self, bound: Bound) -> Codec | None:
        """The codec of the first parameter that is not bound; None if any JSON will do."""
        self.read_types()
        return self._arguments.codec_after(bound)

    def shape_after(self, bound: Bound) -> Shape:
        """The shape of the first parameter that is not bound, as far as its type is known."""
        if bound.ignores or not self.is_read:
            return ANY
        return taken_by(self._arguments.codec_after(bound))

    @property
    def shape(self) -> Shape:
        """The shape of its results, as far as their type is known."""
        return shape_of(self._returned.codec) if self.is_read else ANY

    @property
    def returns(self) -> str:
        """The type of its results, for messages."""
        codec = self._returned.codec
        return "any" if codec is None else shown(codec.kind)

    def takes(self, bound: Bound) -> str:
        """The type of the first parameter that is not bound, for messages."""
        codec = self._arguments.codec_after(bound)
        return "any" if codec is None else shown(codec.kind)

    def bind_all(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Bound:
        """All arguments of a later call, checked."""
        self.read_types()
        return self._arguments.bind_all(args, kwargs)

    def prepared(
        self, placement: Placement, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Prepared[R]:
        """The call with these options, checked."""
        return Prepared(self.new_job(placement, args, kwargs), self.app)

    def check_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Refuse a call that the function does not take."""
        self._arguments.check(args, kwargs)

    def arguments(self, call: Call) -> tuple[list[Any], dict[str, Any]]:
        """The stored arguments in the types that the function declares, and its resources."""
        if call.refused is not None:
            raise BadSignature(call.refused, "signature")
        if not self.is_read:
            self.read_types()
        args, kwargs = self._arguments.unpack(call)
        if self._arguments.resources:
            kwargs = kwargs | filled(self.name, self._arguments.resources, self.app.resources)
        return args, kwargs

    def returned(self, job: Job) -> Any:
        """The result of a job that is done, in the type that the function declares."""
        self.read_types()
        return self._returned.read(job)

    def new_job(
        self,
        placement: Placement,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        flow: Callable[[str], Flow] | None = None,
    ) -> NewJob:
        """The job that this call makes; refuses arguments that the function does not take.

        `flow` makes the flow of a chain from the id of its first job.
        """
        if not self.is_read:
            self.read_types()
        if self.awaits_on_dead is not None:
            raise InvalidError(
                f"task {self.name!r} has on_dead {self.awaits_on_dead!r}, and there is no task of"
                " that name; declare it before the first enqueue, or mend the name"
            )
        if placement.on_dead is not self.placement.on_dead:  # `using` was called before
            placement = replace(placement, on_dead=self.placement.on_dead)
        packed_args, packed_kwargs = self._arguments.pack(args, kwargs)
        placement = placement.of_call(args, kwargs)
        limit = self.app.settings.payload_limit
        limited: tuple[str | None, str | None] = (None, None)
        if placement.limits is not None or placement.fairness_key is not None:
            limited = limits_for(placement.limits, placement.fairness_key, args, kwargs)
            if limited[0] is not None:
                self.app.declared_limits.check(limited[0])
        if placement.sink is not None or placement.on_dead is not None:
            self.app.declared_limits.check_later(placement.sink, placement.on_dead)
        ids = self.app.sharded_ids
        if ids is None:
            job = placement.id or new_id()
        else:
            named = [name for name, _ in costs_of(limited[0])]
            job = ids.of(placement, self.app.declared_limits.home_of(named))
        made = None if flow is None else flow(job)
        return placement.job(
            job,
            self.name,
            packed_args,
            packed_kwargs,
            limit,
            flow=made,
            limited=limited,
            clock=self.app.clock,
        )


class PlainTask(Task[P, R]):
    """A plain function: workers run it in a thread."""

    is_async = False

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly, without a job."""
        value: R = self.__wrapped__(*args, **kwargs)
        return value


class AsyncTask(Task[P, R]):
    """A coroutine function: workers run it on their loop."""

    is_async = True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function directly, without a job."""
        coroutine: Coroutine[Any, Any, R] = self.__wrapped__(*args, **kwargs)
        return coroutine
