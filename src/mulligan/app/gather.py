"""Fan-in: one job that starts when many others are done, with all their results."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from mulligan.app.annotations import shown
from mulligan.app.chain import Chain, Part, check_later, part_of
from mulligan.app.fits import fits, list_of
from mulligan.app.gather_handle import GatherHandle
from mulligan.app.ids import new_id
from mulligan.app.stages import found_chain
from mulligan.app.types import takes_failures
from mulligan.app.using import Prepared, listed, refuse_other, refuse_other_app
from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError
from mulligan.core.flow import (
    GATHERS,
    MOST_MEMBERS,
    Flow,
    check_root,
    flow_of,
    gathering,
    gathering_id,
    is_spread,
    member_id,
    member_keep,
)
from mulligan.core.job import FLOW, Enqueued, NewJob, encode
from mulligan.core.lane import ANYWHERE
from mulligan.core.settings import BATCH_LIMIT
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan
    from mulligan.app.task import Task

R = TypeVar("R")
_decode = msgspec.json.Decoder(dict[str, Raw]).decode


class PreparedGather(Struct, Generic[R], gc=False):
    """A gather that has been checked and not yet enqueued: a member of another."""

    calls: "list[Prepared[Any] | PreparedGather[Any]]"
    parts: tuple[Part, ...]
    return_exceptions: bool

    @property
    def app(self) -> "Mulligan":
        """The app of all its tasks."""
        return self.parts[0].task.app

    @property
    def job(self) -> NewJob:
        """Refused: a gather is not one job."""
        raise InvalidError(
            "a gather as a value is a member of another gather; to enqueue it by itself use"
            " app.gather(calls, then)"
        )

    @property
    def name(self) -> str:
        """Its name as a member, in messages."""
        return " | ".join([spread_name(self.calls), *(part.name for part in self.parts)])


AnyCall = Prepared[Any] | PreparedGather[Any]


class Member(NamedTuple):
    """A member as it is enqueued: its jobs, how many stages it has, whether it gathers others."""

    jobs: list[NewJob]
    stages: int = 1
    gathers: bool = False


async def send_gathered(
    app: "Mulligan",
    calls: Iterable[AnyCall],
    then: object,
    job: str | None,
    connection: Any = None,
    *,
    return_exceptions: bool = False,
) -> GatherHandle[Any]:
    """Enqueue the calls and the job that gathers them.

    The gathering job is stored first, so that no job arrives before it. If the caller chose the
    id, enqueueing all of it again after a failure adds what is missing.
    """
    parts = parts_of(then, app)
    if app.joins(connection):
        refuse_id(job)
    if job is None:
        flow, jobs = gathered(
            root_id(app, calls := listed(calls), parts),
            calls,
            parts,
            return_exceptions=return_exceptions,
        )
        await app.asend(jobs, together=True, connection=connection)
        return GatherHandle(app, flow.root, created=True, _flow=flow)
    root = check_root(check_name("id", job))
    flow, jobs = gathered(
        root, listed(calls), parts, named=True, return_exceptions=return_exceptions
    )
    answers = await app.asend(jobs, together=True)
    await app.access.acall(lambda store: refuse_leftovers(store, root, answers))
    flow = await app.access.acall(lambda store: found_chain(store, jobs[0].id, flow))
    return GatherHandle(app, flow.root, answers[0].created, flow)


def gather_in(
    app: "Mulligan",
    calls: Iterable[AnyCall],
    then: object,
    job: str | None,
    connection: Any,
    *,
    return_exceptions: bool = False,
) -> GatherHandle[Any]:
    """As `send_gathered`, from plain code, as part of the transaction on the connection."""
    refuse_id(job)
    parts = parts_of(then, app)
    flow, jobs = gathered(new_id(), listed(calls), parts, return_exceptions=return_exceptions)
    app.user_transactions.send(connection, jobs, together=True)
    return GatherHandle(app, flow.root, created=True, _flow=flow)


def root_id(app: "Mulligan", calls: Sequence[AnyCall], parts: tuple[Part, ...]) -> str:
    """The id with which those of all its jobs begin; with shards it says where they are stored."""
    if app.sharded_ids is None:
        return new_id()
    from mulligan.core.limit_homes import limits_of  # noqa: PLC0415 - few apps have shards

    _, jobs = gathered(new_id(), calls, parts)
    return app.sharded_ids.new(app.declared_limits.home_of(chain(*map(limits_of, jobs))))


def gather_value(
    calls: Iterable[AnyCall], then: object, *, return_exceptions: bool
) -> PreparedGather[Any]:
    """The gather as a value; refuses what could not run."""
    made = PreparedGather[Any](listed(calls), parts_of(then), return_exceptions)
    gathered(new_id(), made.calls, made.parts, return_exceptions=return_exceptions)
    return made


def parts_of(then: object, app: "Mulligan | None" = None) -> tuple[Part, ...]:
    """Return the stages that come after the calls; refuses those of another app than this one."""
    parts = then.parts if isinstance(then, Chain) else (part_of(then),)
    if app is not None:
        refuse_other_app(parts[0].name, parts[0].task.app, app)
    return parts


def refuse_id(job: str | None) -> None:
    """Refuse an id in a transaction: members of an earlier gather would look like these."""
    if job is not None:
        raise InvalidError(
            f"gather id {job!r}: in a transaction of yours a gather cannot have an id of its own;"
            " leave id= away, as the transaction already keeps it from being enqueued twice"
        )


async def refuse_leftovers(store: Store, root: str, answers: Sequence[Enqueued]) -> None:
    """Undo a gather under whose id members of an earlier one are still stored.

    They would not run again, and the gathering job would wait for them for ever.
    """
    gather = await store.get(answers[0].id) if answers[0].created else None
    if gather is None:
        return
    for answer in answers:
        left = None if answer.created else await store.get(answer.id)
        if left is not None and left.created_at < gather.created_at:
            mine = [each.id for each in answers if each.created]
            for start in range(0, len(mine), BATCH_LIMIT):
                part = mine[start : start + BATCH_LIMIT]
                await store.cancel(part, f"gather id {root!r} was in use")
                await store.purge(part)
            raise InvalidError(
                f"gather id {root!r}: job {left.id} of an earlier gather is still stored"
                f" ({left.status}); purge it, or use another id"
            )


def gathered(
    root: str,
    calls: Sequence[AnyCall],
    parts: Sequence[Part],
    *,
    named: bool = False,
    return_exceptions: bool = False,
    awaited: tuple[str | None, int] = (None, 0),
) -> tuple[Flow, list[NewJob]]:
    """The flow of a gather, and its jobs, each that gathers before its members.

    One that is a member itself is `awaited` by a job, at an index.
    """
    first, *rest = parts
    check(calls, first)
    first.task.app.declared_limits.check_later(*(part.stage for part in parts))
    if return_exceptions:
        check_takes_failures(first)
    names = (spread_name(calls), *(part.name for part in parts))
    spread = Flow(root, names, 1, members=len(calls))
    gather = gathering_id(root)
    members = [member_of(call, spread, gather, at, named=named) for at, call in enumerate(calls)]
    whole = Flow(
        root,
        names,
        GATHERS,
        tuple(part.stage for part in rest),
        members=len(calls),
        gathers=True,
        ignores=first.bound.ignores,
        awaited_by=awaited[0],
        awaited_index=awaited[1],
        member_stages=max((member.stages for member in members), default=1),
        member_gathers=any(member.gathers for member in members),
    )
    of_members = {member.jobs[0].region for member in members}
    inherited = of_members.pop() if len(of_members) == 1 else ANYWHERE
    region = first.placement.own_region or inherited
    then = gathering(
        gather, first.stage, region, whole, named=named, return_exceptions=return_exceptions
    )
    limit = first.task.app.settings.payload_limit
    if len(then.body) > limit:
        raise InvalidError(
            f"gather: the payload of {first.name}, with all that follows from it, has"
            f" {len(then.body)} bytes, more than the {limit} allowed; bind less, or raise"
            " payload_limit"
        )
    return whole, [then, *(job for member in members for job in member.jobs)]


def member_of(call: AnyCall, spread: Flow, gather: str, index: int, *, named: bool) -> Member:
    """The jobs of one member: that of a task, the first of a chain, or all of a gather."""
    name = member_id(spread, index)
    if isinstance(call, PreparedGather):
        _, jobs = gathered(
            check_root(name),
            call.calls,
            call.parts,
            named=named,
            return_exceptions=call.return_exceptions,
            awaited=(gather, index),
        )
        return Member(jobs, 1 + len(call.parts), gathers=True)
    own = flow_of(call.job.body)
    if own is not None:
        refuse_many_results(own)
        flow = replace(own, root=check_root(name), awaited_by=gather, awaited_index=index)
    job = replace(
        call.job,
        id=name,
        body=with_flow(call.job, spread if own is None else flow, named=named),
        gather=gather,
        gather_index=index,
        keep=member_keep(call.job.keep),
    )
    if own is None:
        return Member([job])
    return Member([job], len(own.path), any(map(is_spread, own.path)))


def spread_name(calls: Sequence[AnyCall]) -> str:
    """The name, in messages, of the stage that the calls make up."""
    return f"each({', '.join(dict.fromkeys(map(call_name, calls)))})"


def call_name(call: AnyCall) -> str:
    """The name of one call, in messages."""
    if isinstance(call, PreparedGather):
        return call.name
    flow = flow_of(call.job.body)
    return call.job.task if flow is None else " | ".join(flow.path)


def refuse_many_results(flow: Flow) -> None:
    """Refuse a chain that ends in many jobs: which of them would arrive?"""
    if is_spread(flow.path[-1]):
        raise InvalidError(
            f"gather: the chain {' | '.join(flow.path)} ends in many jobs, and one result arrives"
            " of each member; add a stage that takes the list of results"
        )


def check(calls: Sequence[AnyCall], first: Part) -> None:
    """Refuse calls that could not all arrive, and a stage that could not take their results."""
    for each in calls:
        refuse_other(each, Prepared, PreparedGather)
        refuse_other_app(call_name(each), each.app, first.task.app)
    if len(calls) > MOST_MEMBERS:
        raise InvalidError(
            f"gather takes at most {MOST_MEMBERS} calls, not {len(calls)}; put several into one"
        )
    if first.each:
        raise InvalidError("what gathers is one task that takes the list of results, not each(...)")
    if first.placement.delay:
        raise InvalidError(
            f"gather: {first.name} starts when the last call is done; take its delay= away"
        )
    check_later("gather", first)
    check_elements(calls, first)


def check_elements(calls: Sequence[AnyCall], first: Part) -> None:
    """Refuse a call whose result could be no element of the list that the stage takes."""
    taken = first.task.shape_after(first.bound)
    for task in {task.name: task for task in map(last_task, calls) if task is not None}.values():
        if not fits(list_of(task.shape), taken):
            raise InvalidError(
                f"gather: {task.name} returns {task.returns}, and {first.name} takes the list of"
                f" results as {first.task.takes(first.bound)}; mend one of the annotations"
            )


def last_task(call: AnyCall) -> "Task[..., Any] | None":
    """Return the task whose result arrives, if it is known here: not that of a chain."""
    if isinstance(call, PreparedGather):
        return call.parts[-1].task
    return call.app.tasks.get(call.job.task) if FLOW not in call.job.body else None


def check_takes_failures(first: Part) -> None:
    """Refuse a stage whose annotation leaves no room for failures among the results."""
    if first.bound.ignores:
        return
    codec = first.task.codec_after(first.bound)
    if codec is not None and not takes_failures(codec):
        raise InvalidError(
            f"gather: {first.name} takes {shown(codec.kind)}, and with return_exceptions=True a"
            " failure is a value in that list; declare list[... | Failure], or"
            " take return_exceptions away"
        )


def with_flow(job: NewJob, flow: Flow, *, named: bool) -> bytes:
    """The body of a job that has become part of a flow."""
    if job.unique_key is not None:
        raise InvalidError(
            f"gather: a call of {job.task} has unique_key {job.unique_key!r}, and if another job"
            " held it, its result would be missing; take it away"
        )
    if flow.awaited_by is None:
        return b'%b,"flow":%b,"named":%b}' % (job.body[:-1], encode(flow), encode(named))
    # The first job of a chain carries a flow, which names a life if the caller chose the id;
    # here the caller may have chosen the id of the gather.
    fields = _decode(job.body) | {"flow": Raw(encode(flow)), "named": Raw(encode(named))}
    return encode(fields)
