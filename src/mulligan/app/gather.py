"""Fan-in: one job that starts when many others are done, with all their results."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from mulligan.app.chain import Chain, Part, check_later, part_of
from mulligan.app.gather_handle import GatherHandle
from mulligan.app.ids import new_id
from mulligan.app.stages import found_chain
from mulligan.app.task import Prepared
from mulligan.app.types import shown, takes_failures
from mulligan.core.checks import check_name
from mulligan.core.errors import InvalidError
from mulligan.core.flow import (
    MOST_MEMBERS,
    Flow,
    check_root,
    flow_of,
    gathering,
    member_id,
    member_keep,
    stage_id,
)
from mulligan.core.job import Enqueued, NewJob, encode
from mulligan.core.lane import ANYWHERE
from mulligan.core.settings import BATCH_LIMIT
from mulligan.stores.contract import Store

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

R = TypeVar("R")


async def send_gathered(
    app: "Mulligan",
    calls: Iterable[Prepared[Any]],
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
    parts = parts_of(then)
    if app.joins(connection):
        refuse_id(job)
    if job is None:
        flow, jobs = gathered(new_id(), list(calls), parts, return_exceptions=return_exceptions)
        await app.asend(jobs, together=True, connection=connection)
        return GatherHandle(app, flow.root, created=True, _flow=flow)
    root = check_root(check_name("id", job))
    flow, jobs = gathered(root, list(calls), parts, named=True, return_exceptions=return_exceptions)
    answers = await app.asend(jobs, together=True)
    await app.access.acall(lambda store: refuse_leftovers(store, root, answers))
    flow = await app.access.acall(lambda store: found_chain(store, jobs[0].id, flow))
    return GatherHandle(app, flow.root, answers[0].created, flow)


def gather_in(
    app: "Mulligan",
    calls: Iterable[Prepared[Any]],
    then: object,
    job: str | None,
    connection: Any,
    *,
    return_exceptions: bool = False,
) -> GatherHandle[Any]:
    """As `send_gathered`, from plain code, as part of the transaction on the connection."""
    refuse_id(job)
    parts = parts_of(then)
    flow, jobs = gathered(new_id(), list(calls), parts, return_exceptions=return_exceptions)
    app.user_transactions.send(connection, jobs, together=True)
    return GatherHandle(app, flow.root, created=True, _flow=flow)


def parts_of(then: object) -> Sequence[Part]:
    """The stages that come after the calls."""
    return then.parts if isinstance(then, Chain) else (part_of(then),)


def refuse_id(job: str | None) -> None:
    """Refuse an id in a transaction: members of an earlier gather could not be told from these."""
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
    calls: Sequence[Prepared[Any]],
    parts: Sequence[Part],
    *,
    named: bool = False,
    return_exceptions: bool = False,
) -> tuple[Flow, list[NewJob]]:
    """The flow of a gather, and its jobs, the gathering one first."""
    first, *rest = parts
    check(calls, first)
    if return_exceptions:
        check_takes_failures(first)
    tasks = ", ".join(dict.fromkeys(call.job.task for call in calls))
    names = (f"each({tasks})", *(part.name for part in parts))
    whole = Flow(
        root,
        names,
        2,
        tuple(part.stage for part in rest),
        members=len(calls),
        gathers=True,
        ignores=first.bound.ignores,
    )
    gather = stage_id(whole)
    of_members = {call.job.region for call in calls}
    inherited = of_members.pop() if len(of_members) == 1 else ANYWHERE
    region = first.placement.region or inherited
    spread = Flow(root, names, 1, members=len(calls))
    members = [
        replace(
            call.job,
            id=member_id(spread, index),
            body=with_flow(call.job, spread, named=named),
            gather=gather,
            gather_index=index,
            keep=member_keep(call.job.keep),
        )
        for index, call in enumerate(calls)
    ]
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
    return whole, [then, *members]


def check(calls: Sequence[Prepared[Any]], first: Part) -> None:
    """Refuse calls that could not all arrive, and a stage that could not take their results."""
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
    if flow_of(job.body) is not None:
        raise InvalidError("gather takes calls of tasks, not of chains")
    if job.unique_key is not None:
        raise InvalidError(
            f"gather: a call of {job.task} has unique_key {job.unique_key!r}, and if another job"
            " held it, its result would be missing; take it away"
        )
    return b'%b,"flow":%b,"named":%b}' % (job.body[:-1], encode(flow), encode(named))
