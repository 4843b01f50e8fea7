"""Fan-in: one job that starts when many others are done, with all their results."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from mulligan.app.chain import Chain, Part, check_later, part_of
from mulligan.app.ids import new_id
from mulligan.app.stages import ChainHandle
from mulligan.app.task import Prepared
from mulligan.core.errors import InvalidError
from mulligan.core.flow import (
    MOST_MEMBERS,
    Flow,
    check_root,
    flow_of,
    gathering,
    member_id,
    stage_id,
)
from mulligan.core.job import NewJob, encode
from mulligan.core.names import check_name

if TYPE_CHECKING:
    from mulligan.app.mulligan import Mulligan

R = TypeVar("R")


async def send_gathered(
    app: "Mulligan", calls: Iterable[Prepared[Any]], then: object, job: str | None
) -> ChainHandle[Any]:
    """Enqueue the calls and the job that gathers them.

    The gathering job is stored first, so that nobody can arrive before it. With an id of the
    caller's own, sending all of it again after a failure completes what is missing.
    """
    parts = then.parts if isinstance(then, Chain) else (part_of(then),)
    root = new_id() if job is None else check_root(check_name("id", job))
    flow, jobs = gathered(root, list(calls), parts)
    first, *_ = await app.asend(jobs, together=True)
    return ChainHandle(app, flow, created=first.created)


def gathered(
    root: str, calls: Sequence[Prepared[Any]], parts: Sequence[Part]
) -> tuple[Flow, list[NewJob]]:
    """The flow of such a chain, and its jobs, the gathering one first."""
    first, *rest = parts
    check(calls, first)
    tasks = ", ".join(dict.fromkeys(call.job.task for call in calls))
    names = (f"each({tasks})", *(part.name for part in parts))
    whole = Flow(root, names, 2, tuple(part.stage for part in rest), None, len(calls), gathers=True)
    gather = stage_id(whole)
    region = first.placement.region or "default"
    spread = Flow(root, names, 1, members=len(calls))
    members = [
        replace(
            call.job,
            id=member_id(spread, place),
            body=with_flow(call.job, spread),
            gather=gather,
            place=place,
        )
        for place, call in enumerate(calls)
    ]
    return whole, [gathering(gather, first.stage, region, whole), *members]


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


def with_flow(job: NewJob, flow: Flow) -> bytes:
    """The body of a job that has become part of a flow."""
    if flow_of(job.body) is not None:
        raise InvalidError("gather takes calls of tasks, not of chains")
    if job.unique_key is not None:
        raise InvalidError(
            f"gather: a call of {job.task} has unique_key {job.unique_key!r}, and if another job"
            " held it, its result would be missing; take it away"
        )
    return job.body[:-1] + b',"flow":' + encode(flow) + b"}"
