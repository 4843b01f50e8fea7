"""Chains: each task takes the result of the one before."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    overload,
)

from msgspec.structs import replace

from mulligan.app.fits import ANY, fits, list_of
from mulligan.app.handle import JobHandle
from mulligan.app.limits import refuse_template
from mulligan.app.options import Placement, UsingOptions, checked
from mulligan.app.partial import NOTHING_BOUND, Bound, BoundTask, stage_name
from mulligan.app.stages import ChainHandle, found_chain
from mulligan.app.task import Task
from mulligan.app.using import Prepared, Using
from mulligan.core.errors import InvalidError
from mulligan.core.flow import Flow, check_root
from mulligan.core.stage import Stage

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Step(Protocol[T_contra, S]):
    """A task, or a task with options, that can be called with one value."""

    def enqueue(self, value: T_contra, /) -> JobHandle[S]:
        """Have it run by a worker."""
        ...


class Each(Generic[T, S]):
    """A stage that has a job for each element of the result before it."""

    def __init__(self, step: Step[T, S]) -> None:
        self.step = step


def each(step: Step[T, S]) -> Each[T, S]:
    """Run the task for each element of a list; the stage after it takes the list of results."""
    return Each(step)


class Part(NamedTuple):
    """A stage of a chain, as the user declared it."""

    task: Task[..., Any]
    placement: Placement
    bound: Bound = NOTHING_BOUND
    each: bool = False

    @property
    def name(self) -> str:
        """The stage's name for people."""
        name = stage_name(self.task.name, self.bound)
        return f"each({name})" if self.each else name

    @property
    def stage(self) -> Stage:
        """The stage as jobs carry it."""
        stage = self.placement.stage(self.task.name, each=self.each)
        bound = self.bound
        if bound is NOTHING_BOUND:
            return stage
        return replace(stage, args=bound.raw_args, kwargs=bound.raw_kwargs, ignores=bound.ignores)


def part_of(step: object) -> Part:
    """The stage that `step` stands for; refuses what is no task."""
    if isinstance(step, Each):
        return part_of(step.step)._replace(each=True)
    if isinstance(step, Task):
        return Part(step, step.placement)
    if isinstance(step, BoundTask):
        return Part(step.task, step.placement, step.bound)
    if isinstance(step, Using):
        if step.connection is not None:
            raise InvalidError(
                f"{step.task.name} has a connection, which a stage cannot have: later ones start"
                " long after the transaction; say it of the whole, by chain.using(connection=...)"
            )
        return Part(step.task, step.placement)
    raise InvalidError(
        "a chain is made of tasks, task.using(...), task.partial(...), task.without_result(...) and"
        f" each(task), not of {step!r}"
    )


class Chain(Generic[P, R]):
    """Stages in order. Each is enqueued in the same step that finishes the one before."""

    def __init__(self, parts: Sequence[Part], connection: Any = None) -> None:
        check(parts)
        self.parts = tuple(parts)
        self.connection = connection
        self.app: Mulligan = parts[0].task.app

    def __repr__(self) -> str:
        return f"<chain {' | '.join(part.name for part in self.parts)}>"

    @overload
    def __or__(self: "Chain[P, list[T]]", step: Each[T, S]) -> "Chain[P, list[S]]": ...
    @overload
    def __or__(self, step: Step[R, S]) -> "Chain[P, S]": ...
    def __or__(self, step: Any) -> "Chain[P, Any]":
        """The chain with one more stage."""
        return Chain([*self.parts, part_of(step)], self.connection)

    def using(self, **options: Unpack[UsingOptions]) -> "Chain[P, R]":
        """The chain with other options for its first job.

        A `unique_key` is held by the chain as a whole, until its last job has ended. With a
        `connection` of your own the first job is part of its transaction.
        """
        connection = options.pop("connection", self.connection)
        first = self.parts[0]
        placement = replace(first.placement, **checked(options, self.app.settings.lease))
        refuse_template(placement.unique_key, first.task.signature.parameters)
        return Chain([first._replace(placement=placement), *self.parts[1:]], connection)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Prepared[Any]:
        """The call as a value, for `enqueue_many`, which returns a handle on the first job only."""
        first = self.parts[0]
        whole = first.bound.kwargs | kwargs
        every = (*first.bound.args, *args)
        placement = first.placement.of_call(every, whole)
        flow = partial(self._flow, key=placement.unique_key)
        return Prepared(first.task.new_job(placement, every, whole, flow), self.app)

    def _flow(self, root: str, key: Any) -> Flow:
        """Return the flow of the chain, whose jobs hold the unique key."""
        first, *rest = self.parts
        if key is not None and self.parts[-1].each:
            raise InvalidError(
                f"{self!r} has unique_key {key!r}, which its last job would hold, and it ends in"
                " many; add a stage that takes the list of results"
            )
        then = tuple(part.stage for part in rest)
        self.app.declared_limits.check_later(*then)
        return Flow(
            check_root(root),
            tuple(part.name for part in self.parts),
            then=then,
            key=None if key is None else (first.placement.queue, key),
        )

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> ChainHandle[R]:
        """Have the chain run by workers. Its first job is stored when this returns.

        On a connection of the caller's it is stored when that commits.
        """
        call = self.call(*args, **kwargs)
        if self.app.joins(self.connection):
            [first] = self.app.enqueue_many([call], connection=self.connection)
            return self._uncommitted(call, first)
        return self.app.run(lambda: self._send(call))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> ChainHandle[R]:
        """Have the chain run by workers. Its first job is stored when this returns.

        On a connection of the caller's it is stored when that commits.
        """
        call = self.call(*args, **kwargs)
        if self.app.joins(self.connection):
            [first] = await self.app.aenqueue_many([call], connection=self.connection)
            return self._uncommitted(call, first)
        return await self._send(call)

    async def _send(self, call: Prepared[Any]) -> ChainHandle[R]:
        first = JobHandle[Any](self.app, *await self.app.asend_one(call.job))
        flow = self._flow(call.job.id, call.job.unique_key)
        if self._may_differ(first):
            flow = await self.app.access.acall(lambda store: found_chain(store, first.id, flow))
        return ChainHandle(self.app, flow.root, first.created, flow)

    def _uncommitted(self, call: Prepared[Any], first: JobHandle[Any]) -> ChainHandle[R]:
        """The handle on a chain that is not committed yet; later looks find what differs."""
        flow = self._flow(call.job.id, call.job.unique_key)
        return ChainHandle(self.app, first.id, first.created, flow, self._may_differ(first))

    def _may_differ(self, first: JobHandle[Any]) -> bool:
        """Whether the stored chain may be another, or have names that only the store knows.

        A chain that was stored before may be at any stage. If the caller chose the id, later jobs
        are named after the life of the first.
        """
        return not first.created or self.parts[0].placement.id is not None


# Options that only the first job of a chain can have.
FIRST_ONLY = ("id", "unique_key", "run_after")


def check(parts: Sequence[Part]) -> None:
    """Refuse chains that could not run."""
    chain = f"chain {' | '.join(part.name for part in parts)}"
    refuse_own_times(chain, parts[0])
    if parts[0].each:
        raise InvalidError(f"{chain}: the first stage has no result before it to spread")
    for before, after in pairwise(parts):
        check_pair(chain, before, after)


def check_pair(chain: str, before: Part, after: Part) -> None:
    """Refuse a stage that could not come after this one."""
    if before.task.app is not after.task.app:
        raise InvalidError(f"{chain}: its tasks belong to different apps")
    if before.task.transactional:
        raise InvalidError(f"{chain}: {before.name} is a transactional sink; let it be the last")
    if before.each and after.each:
        raise InvalidError(
            f"{chain}: after {before.name} comes a task that takes the list of results;"
            " let that one return the list to spread again"
        )
    if before.each and after.placement.delay:
        raise InvalidError(
            f"{chain}: {after.name} starts when the last of {before.name} is done;"
            " take its delay= away"
        )
    check_later(chain, after)
    check_types(chain, before, after)


def check_types(chain: str, before: Part, after: Part) -> None:
    """Refuse a stage that takes none of the values that the stage before it returns."""
    given, returns = before.task.shape, before.task.returns
    if before.each:
        given, returns = list_of(given), f"list[{returns}]"
    if after.each:
        if not fits(given, list_of(ANY)):
            raise InvalidError(
                f"{chain}: {after.name} needs a list, but {before.name} returns {returns}; let"
                f" {before.name} return a list"
            )
        given = given.items or ANY
    if not fits(given, after.task.shape_after(after.bound)):
        what = "elements of " if after.each else ""
        raise InvalidError(
            f"{chain}: {before.name} returns {returns}, and {after.name} takes {what}it as"
            f" {after.task.takes(after.bound)}; mend one of the annotations, or put a task between"
            " them"
        )


def refuse_own_times(chain: str, part: Part) -> None:
    """Refuse a key that is free while the chain goes on, or taken when it has ended."""
    for name in ("debounce", "unique_for"):
        if getattr(part.placement, name) is not None:
            raise InvalidError(
                f"{chain}: {part.name} has {name}=, and the unique_key of a chain is held until its"
                f" last job has ended; take {name}= away, or {name} a task that enqueues the chain"
            )


def check_later(chain: str, part: Part) -> None:
    """Refuse a stage that takes more than one value, or has options for first jobs only."""
    refuse_own_times(chain, part)
    given = [name for name in FIRST_ONLY if getattr(part.placement, name) is not None]
    if given:
        raise InvalidError(
            f"{chain}: {part.name} has {given[0]}=, which only the first job of a chain can have;"
            " say it of the whole, by chain.using(...)"
        )
    check_call(chain, part)


def check_follower(kind: str, part: Part) -> None:
    """Refuse options of a sink, or of a task for dead letters, that only first jobs can have."""
    for name in (*FIRST_ONLY, "debounce", "unique_for"):
        if getattr(part.placement, name) is not None:
            raise InvalidError(
                f"{kind} {part.name} has {name}=, which a job that follows from another cannot"
                f" have; take {name}= away, or let it enqueue a task that has it"
            )


def check_call(chain: str, part: Part, given: str = "the result before it") -> None:
    """Refuse a stage that cannot be called with what it is given and what was bound."""
    if part.bound.ignores:
        return
    try:
        part.task.signature.bind(*part.bound.args, None, **part.bound.kwargs)
    except TypeError as error:
        alone = "" if part.bound.args or part.bound.kwargs else " alone"
        raise InvalidError(
            f"{chain}: {part.name} is called with {given}{alone}: {error}; bind other"
            f" arguments by {part.task.name}.partial(name=value)"
        ) from error
