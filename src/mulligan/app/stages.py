"""A handle on a chain that was enqueued: its progress and its result."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mulligan.app.handle import JobHandle, storable
from mulligan.app.members import (
    Members,
    cancel_members,
    found_flow,
    member_flow,
    members_at,
    newest,
)
from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.flow import Flow, flow_of, is_spread, member_id, stage_id
from mulligan.core.gather import raw_results
from mulligan.core.job import Attempt, Job, decode_call
from mulligan.stores.contract import Store

R = TypeVar("R")
decode_json = msgspec.json.Decoder().decode
SHOWN_MEMBERS = 100
# For stores that deliver the next stage a moment after the one before.
LOOKS, LOOK_AGAIN = 20, 0.05


class Input(Struct, frozen=True):
    """The arguments of a job; none if its body cannot be read.

    `left_out` is how many results it gathers besides, if they are too many to show.
    """

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    left_out: int = 0


class StageView(Struct, frozen=True):
    """A stage as a reader sees it: its stored jobs, or the first hundred of a fan-out.

    `members` is how many jobs it has or will have, if that is known. `arrived` are the results that
    its job takes, if it gathers at most a hundred.
    """

    number: int
    name: str
    jobs: list[Job]
    members: int = 1
    arrived: list[Any] | None = None

    def input_of(self, job: Job) -> Input:
        """What a job of this stage is called with."""
        try:
            call = decode_call(job.body)
        except UNREADABLE:
            return Input()
        if not call.flow.gathers or call.flow.ignores:
            return Input(call.args, call.kwargs)
        if self.arrived is None:
            flow = flow_of(job.body)
            return Input(call.args, call.kwargs, 0 if flow is None else flow.members)
        return Input([*call.args, self.arrived], call.kwargs)


class ChainHandle(JobHandle[R], frozen=True, gc=False):
    """A chain, by the id of its first job. Its result is that of the last stage.

    Where it `_may_differ` from its flow, because it was not committed when this was made, the flow
    is read from the store each time.
    """

    _flow: Flow
    _may_differ: bool = False

    def __repr__(self) -> str:
        return f"<chain {self.id}: {' | '.join(self._flow.path)}>"

    async def astages(self) -> list[StageView]:
        """Every stage, with its jobs as they are now."""
        return await self._app.access.acall(self._read_stages)

    async def _read_stages(self, store: Store) -> list[StageView]:
        return await stages_of(store, await self._whole(store))

    async def _whole(self, store: Store) -> Flow:
        if not self._may_differ:
            return self._flow
        return await found_chain(store, self.id, self._flow)

    def stages(self) -> list[StageView]:
        """Every stage, with its jobs as they are now."""
        return self._app.run(self.astages)

    async def ainfo(self) -> Job:
        """The current job: the last that is stored, or one that failed or was cancelled."""
        if is_spread(self._flow.path[-1]):
            raise InvalidError(
                f"chain {self.id} ends in {self._flow.path[-1]}, which has no one result;"
                " add a stage that takes the list of results"
            )
        job = await self._app.access.acall(self._newest)
        return job if job is not None else await super().ainfo()

    async def _newest(self, store: Store) -> Job | None:
        return await newest(store, await self._whole(store))

    async def ahistory(self) -> list[Attempt]:
        """The failed and lost attempts of all jobs that `stages` shows."""
        stages = await self.astages()
        jobs = [job.id for stage in stages for job in stage.jobs]
        histories = [await self._app.job(job).ahistory() for job in jobs]
        return [attempt for history in histories for attempt in history]

    async def acancel(self, reason: str = "cancelled by its caller") -> bool:
        """End the chain at whatever stage it is; False if it had ended already."""
        access, said = self._app.access, storable(reason)
        for _ in range(LOOKS):
            if await access.acall(lambda store: self._end(store, said)):
                return True
            if not is_between(await self.astages()):
                return False
            await access.sleep(LOOK_AGAIN)
        return False

    async def _end(self, store: Store, reason: str) -> bool:
        return await end(store, await self._whole(store), reason)

    async def aexplain(self) -> str:
        """One sentence on why the current job of the chain is where it is."""
        return await self._app.aexplain((await self.ainfo()).id)

    def is_over(self, job: Job) -> bool:
        """Whether nothing comes after this job."""
        flow = flow_of(job.body)
        last = flow is None or flow.number == len(flow.path)
        return job.status in ("failed", "cancelled") or (job.status == "done" and last)


def is_between(stages: list[StageView]) -> bool:
    """Whether a stage is done and the next has not been delivered yet, as far as can be seen."""
    begun = [stage for stage in stages if stage.jobs]
    if not begun or begun[-1].number == len(stages):
        return False
    return all(job.status == "done" for job in begun[-1].jobs)


async def end(store: Store, flow: Flow, reason: str) -> bool:
    """Cancel what is stored of a flow; False if all of it had ended.

    The single jobs of all stages are cancelled first, in one step: after that no stage can begin.
    """
    stages = [replace(flow, number=number + 1) for number in range(len(flow.path))]
    answers = await store.cancel([stage_id(stage) for stage in stages], reason)
    for stage, view in zip(stages, await stages_of(store, flow), strict=True):
        if is_spread(view.name):
            members = await members_at(store, stage) or Members(stage, view.members)
            answers += await cancel_members(store, members, reason)
    return any(answers)


async def stages_of(store: Store, flow: Flow) -> list[StageView]:
    """Every stage of the flow, with its stored jobs."""
    views = [await stage_of(store, flow, number) for number in range(1, len(flow.path) + 1)]
    return [
        replace(view, members=max(view.members, spread_of(views, at)))
        for at, view in enumerate(views)
    ]


def spread_of(views: list[StageView], at: int) -> int:
    """How many members a fan-out has, as the job that gathers them knows."""
    if at + 1 < len(views) and views[at + 1].jobs:
        after = flow_of(views[at + 1].jobs[0].body)
        if after is not None and after.gathers:
            return after.members
    return 0


async def stage_of(store: Store, flow: Flow, number: int) -> StageView:
    """One stage: its job, or the jobs of a fan-out."""
    name = flow.path[number - 1]
    here = replace(flow, number=number)
    if not is_spread(name):
        job = await store.get(stage_id(here))
        if job is None:
            return StageView(number, name, [])
        return StageView(number, name, [job], arrived=await arrived_at(store, job))
    known = await members_at(store, here)
    if known is not None and known.stages > 1:
        return StageView(number, name, await newest_of(store, known), known.count)
    jobs: list[Job] = []
    members = 0
    for index in range(SHOWN_MEMBERS):
        job = await store.get(member_id(here, index))
        if job is None and index and not members:
            break
        if job is not None:
            own = flow_of(job.body)
            members = own.members if own is not None else 0
            jobs.append(job)
        if index + 1 >= members > 0:
            break
    return StageView(number, name, jobs, members)


async def newest_of(store: Store, members: Members) -> list[Job]:
    """The newest job of each of the first members."""
    shown = range(min(members.count, SHOWN_MEMBERS))
    found = [await newest(store, await member_flow(store, members, index)) for index in shown]
    return [job for job in found if job is not None]


async def arrived_at(store: Store, job: Job) -> list[Any] | None:
    """The results that have arrived at a gathering job, if there are not too many to show."""
    flow = flow_of(job.body)
    if flow is None or not flow.gathers or flow.members > SHOWN_MEMBERS:
        return None
    arrived = await store.arrivals(job.id)
    return msgspec.json.decode(raw_results(arrived), type=list[Any])


async def family(store: Store, job: Job) -> list[StageView]:
    """Every stage of the chain that a job belongs to; none if it is in no chain."""
    flow = await found_flow(store, job)
    return [] if flow is None else await stages_of(store, flow)


async def found_chain(store: Store, job: str, flow: Flow) -> Flow:
    """The flow as it is stored; `job` belongs to any stage of it."""
    stored = await store.get(job)
    found = None if stored is None else await found_flow(store, stored)
    if found is None:
        return replace(flow, root=job)
    return replace(flow, root=found.root, life=found.life)
