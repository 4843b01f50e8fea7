"""The members of a gather: tasks, chains whose last job arrives, and gathers in turn.

Their jobs are named after the member, so that all of them are found without an index. Where the
caller chose the id of the gather, the names contain a life that only the member's first job knows.
"""

from collections.abc import AsyncIterator
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.flow import Flow, following_of, gathering_id, member_id, stage_id
from mulligan.core.job import Job, Status, life_of
from mulligan.core.settings import BATCH_LIMIT
from mulligan.stores.contract import Store


class Members(Struct, frozen=True):
    """The members of a gather, by the flow that they were spread in.

    They have at most so many `stages`; of some, jobs may gather others in turn. `named` is whether
    the caller chose the gather's id.
    """

    flow: Flow
    count: int
    stages: int = 1
    gathers: bool = False
    named: bool = False


class Inner(Struct, frozen=True):
    """A job that gathers others for a member, and the index of that member."""

    index: int
    job: Job
    members: Members


async def found_flow(store: Store, job: Job) -> Flow | None:
    """The flow that a job belongs to, with the life that its later stages are named after."""
    follows = following_of(job.body)
    flow = follows.flow
    if flow is None or flow.life or not follows.named:
        return flow
    began: Job | None = job
    if flow.number != flow.begins_at:
        began = await store.get(stage_id(replace(flow, number=flow.begins_at)))
    return flow if began is None else replace(flow, life=life_of(began.token))


async def newest(store: Store, flow: Flow) -> Job | None:
    """The job of the last stage that has one."""
    for number in range(len(flow.path), 0, -1):
        job = await store.get(stage_id(replace(flow, number=number)))
        if job is not None:
            return job
    return None


async def members_of(store: Store, job: Job) -> Members | None:
    """The members that the job gathers; None if it gathers none."""
    flow = await found_flow(store, job)
    if flow is None or not flow.gathers:
        return None
    return Members(
        replace(flow, number=flow.number - 1),
        flow.members,
        flow.member_stages,
        flow.member_gathers,
        following_of(job.body).named,
    )


async def members_at(store: Store, flow: Flow) -> Members | None:
    """The members of this stage, a fan-out, as the job after it knows them; None if there is none.

    A task that is spread over the elements of a list has one stage.
    """
    if flow.number == len(flow.path):
        return None
    job = await store.get(stage_id(replace(flow, number=flow.number + 1)))
    return None if job is None else await members_of(store, job)


async def member_flow(store: Store, members: Members, index: int) -> Flow:
    """The flow of one member, as far as its names go."""
    root = member_id(members.flow, index)
    guessed = Flow(root, ("",) * members.stages)
    if not members.named or members.stages == 1:
        return guessed
    job = await store.get(root) or await store.get(gathering_id(root))
    found = None if job is None else await found_flow(store, job)
    # What gathers for the member is named before its first job, and its life is its own.
    return guessed if found is None or found.root != root else found


async def job_ids(store: Store, members: Members) -> list[list[str]]:
    """For each member the ids of the jobs of its stages, but not of those gathered for them."""
    found: list[list[str]] = []
    for index in range(members.count):
        flow = await member_flow(store, members, index)
        stages = [replace(flow, number=number + 1) for number in range(len(flow.path))]
        found.append([stage_id(stage) for stage in stages])
    return found


async def newest_statuses(store: Store, members: Members) -> list[Status | None]:
    """For each member the status of its newest job; None if no job of it is stored."""
    ids = await job_ids(store, members)
    found: dict[str, Status] = {}
    for part in in_batches(list(chain.from_iterable(ids))):
        found |= await store.statuses(part)
    return [next((found[job] for job in reversed(stages) if job in found), None) for stages in ids]


async def inner_gathers(
    store: Store, members: Members, most: int | None = None
) -> AsyncIterator[Inner]:
    """The stored jobs that gather others for the members, or for the first so many of them."""
    if not members.gathers:
        return
    for index in range(members.count if most is None else min(most, members.count)):
        flow = await member_flow(store, members, index)
        for number in range(2, len(flow.path) + 1):
            job = await store.get(stage_id(replace(flow, number=number)))
            inside = None if job is None else await members_of(store, job)
            if job is not None and inside is not None:
                yield Inner(index, job, inside)


async def cancel_members(store: Store, members: Members, reason: str) -> list[bool]:
    """Cancel every job of the members that has not ended, those that they gather included."""
    ids = chain.from_iterable(await job_ids(store, members))
    answers = await cancel_all(store, list(ids), reason)
    async for inner in inner_gathers(store, members):
        answers += await cancel_members(store, inner.members, reason)
    return answers


async def cancel_all(store: Store, ids: list[str], reason: str) -> list[bool]:
    """Cancel these jobs, in batches."""
    answers: list[bool] = []
    for part in in_batches(ids):
        answers += await store.cancel(part, reason)
    return answers


def in_batches(ids: list[str]) -> list[list[str]]:
    """The ids in parts of a batch each."""
    return [ids[start : start + BATCH_LIMIT] for start in range(0, len(ids), BATCH_LIMIT)]
