"""Tasks with bound arguments, as stages of chains: `partial` and `without_result`."""

from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from msgspec import Raw, Struct
from msgspec.structs import replace

from mulligan.app.handle import JobHandle
from mulligan.app.options import Options, Placement, checked
from mulligan.core.errors import InvalidError

if TYPE_CHECKING:
    from mulligan.app.chain import Chain, Each, Step
    from mulligan.app.task import Task
    from mulligan.app.using import Prepared

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")


class Bound(Struct, frozen=True):
    """Arguments that were given before the call, as they are and as JSON.

    `args` come before the result of the stage before, unless that is ignored.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    raw_args: tuple[Raw, ...] = ()
    raw_kwargs: dict[str, Raw] = {}
    ignores: bool = False

    @property
    def size(self) -> int:
        """How many bytes it adds to the body of a job."""
        texts = [*self.raw_args, *self.raw_kwargs.values(), *map(str.encode, self.raw_kwargs)]
        return sum(map(len, map(bytes, texts)))


NOTHING_BOUND = Bound()


class BoundTask(Generic[R]):
    """A task with bound arguments."""

    def __init__(self, task: "Task[..., R]", placement: Placement, bound: Bound) -> None:
        limit = task.app.settings.payload_limit
        if bound.size > limit:
            raise InvalidError(
                f"task {task.name}: the bound arguments have {bound.size} bytes, more than the"
                f" {limit} allowed; store them elsewhere and bind their address, or raise"
                " payload_limit"
            )
        self.task = task
        self.placement = placement
        self.bound = bound

    def __repr__(self) -> str:
        return f"<task {stage_name(self.task.name, self.bound)}>"


class Partial(BoundTask[R], Generic[T, R]):
    """A task with some arguments bound: what is left to give is one, by position."""

    @overload
    def __or__(self: "Partial[U, list[T]]", step: "Each[T, S]") -> "Chain[[U], list[S]]": ...
    @overload
    def __or__(self, step: "Step[R, S]") -> "Chain[[T], S]": ...
    def __or__(self, step: Any) -> "Chain[..., Any]":
        """A chain: the result of this task is the argument of the next."""
        from mulligan.app.chain import Chain, part_of  # noqa: PLC0415 - chains are made of these

        return Chain([part_of(self), part_of(step)])

    def using(self, **options: Unpack[Options]) -> "Partial[T, R]":
        """The same with other options."""
        return Partial(
            self.task,
            replace(self.placement, **checked(options, self.task.app.settings.lease)),
            self.bound,
        )

    def call(self, value: T, /) -> "Prepared[R]":
        """The call as a value, for `enqueue_many` and `gather`."""
        args, kwargs = (*self.bound.args, value), self.bound.kwargs
        return self.task.prepared(self.placement, args, kwargs)

    def enqueue(self, value: T, /) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        return self.task.app.enqueue_many([self.call(value)])[0]

    async def aenqueue(self, value: T, /) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        return (await self.task.app.aenqueue_many([self.call(value)]))[0]


class WithoutResult(BoundTask[R]):
    """A task with all its arguments bound: as a stage it ignores the result before it."""

    @overload
    def __or__(self: "WithoutResult[list[T]]", step: "Each[T, S]") -> "Chain[[], list[S]]": ...
    @overload
    def __or__(self, step: "Step[R, S]") -> "Chain[[], S]": ...
    def __or__(self, step: Any) -> "Chain[..., Any]":
        """A chain: the result of this task is the argument of the next."""
        from mulligan.app.chain import Chain, part_of  # noqa: PLC0415 - chains are made of these

        return Chain([part_of(self), part_of(step)])

    def using(self, **options: Unpack[Options]) -> "WithoutResult[R]":
        """The same with other options."""
        return WithoutResult(
            self.task,
            replace(self.placement, **checked(options, self.task.app.settings.lease)),
            self.bound,
        )

    def call(self, ignored: object = None, /) -> "Prepared[R]":  # noqa: ARG002 - as a stage has it
        """The call as a value, for `enqueue_many` and `gather`."""
        return self.task.prepared(self.placement, self.bound.args, self.bound.kwargs)

    def enqueue(self, ignored: object = None, /) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        return self.task.app.enqueue_many([self.call(ignored)])[0]

    async def aenqueue(self, ignored: object = None, /) -> JobHandle[R]:
        """Have the task run by a worker. The job is stored when this returns."""
        return (await self.task.app.aenqueue_many([self.call(ignored)]))[0]


def stage_name(task: str, bound: Bound) -> str:
    """A stage's name in messages: which arguments are bound, not their values."""
    if bound.ignores:
        return f"{task}.without_result()"
    named = ", ".join(bound.kwargs)
    return f"{task}.partial({named})" if bound.args or named else task
