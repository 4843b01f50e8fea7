"""Work in stages: what is enqueued when a job is done, in the same step.

A flow travels in the bodies of its jobs, so that any worker can run it. The ids of its jobs derive
from that of the first one: `root`, `root.2`, `root.3`; those of a fan-out `root.2.0`,
`root.2.1` and so on. An id that the caller chose may be used again while jobs of the earlier flow
are still stored. So their ids also contain the life of the first job: `root~17.2`.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from mulligan.core.errors import UNREADABLE, InvalidError
from mulligan.core.job import FLOW, NO_TRACE, Claim, Job, NewJob, encode, life_of, traced
from mulligan.core.settings import Settings
from mulligan.core.stage import Stage

MOST_MEMBERS = 10_000
# The number of the stage that gathers, where the calls are the first.
GATHERS = 2
# Leaves room for the suffixes of later jobs' ids.
ROOT_LIMIT = 100


class FlowError(Exception):
    """The next stage cannot be made from the result."""


class Flow(Struct, frozen=True, omit_defaults=True):
    """A job's position in a chain: all stages by name, and the stages to come.

    `key` is the unique key that the chain holds until its last job has ended, and its queue.
    `members` is how many jobs a fan-out has; the job after it gathers their results, and
    is not called with them if it `ignores` them. `life` is that of the first job, once it is known,
    and 0 if its id is never used again.

    A flow may be a member of a gather: `awaited_by` is the job that its last one arrives at, at
    `awaited_index`. Of a gather with such members `member_stages` says how many stages they have at
    most, and `member_gathers` whether some of them gather others in turn.
    """

    root: str
    path: tuple[str, ...]
    number: int = 1
    then: tuple[Stage, ...] = ()
    key: tuple[str, str] | None = None
    members: int = 0
    gathers: bool = False
    life: int = 0
    ignores: bool = False
    awaited_by: str | None = None
    awaited_index: int = 0
    member_stages: int = 1
    member_gathers: bool = False

    @property
    def begins_at(self) -> int:
        """The last stage that is enqueued from outside: what gathers is, with its members."""
        return GATHERS if self.path and is_spread(self.path[0]) else 1

    @property
    def prefix(self) -> str:
        """The prefix of the ids of this stage's jobs."""
        return with_life(self.root, self.life if self.number > self.begins_at else 0)


class Following(Struct):
    """The parts of a body that say what comes next."""

    flow: Flow | None = None
    sink: Stage | None = None
    named: bool = False
    trace: Raw = NO_TRACE


NOTHING_FOLLOWS = Following()
_decode = msgspec.json.Decoder(Following).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode


def check_root(job: str) -> str:
    """Return the id of a flow's first job, or refuse one that leaves no room for the others."""
    if len(job) > ROOT_LIMIT:
        raise InvalidError(
            f"id {job[:40]!r} has {len(job)} characters; that of a chain has at most {ROOT_LIMIT},"
            " because its jobs are named after it"
        )
    return job


def is_spread(name: str) -> bool:
    """Whether a stage of this name has a job for each element."""
    return name.startswith("each(")


def following_of(body: bytes) -> Following:
    """What follows from a job; nothing, if its body cannot be read."""
    try:
        return _decode(body)
    except UNREADABLE:
        return NOTHING_FOLLOWS


def flow_of(body: bytes) -> Flow | None:
    """The flow that a job belongs to; None if it has none, or it cannot be read."""
    return following_of(body).flow if FLOW in body else None


def with_life(job: str, life: int) -> str:
    """The prefix for ids of jobs that follow: with the life, if the job's id may be used again."""
    return f"{job}~{life}" if life else job


def follower_id(job: Claim | Job, role: str, *, named: bool) -> str:
    """The id of the job that follows from this one in this role; another for each replay."""
    return f"{with_life(job.id, life_of(job.token) if named else 0)}.{role}.{job.replay}"


def sink_id(job: Claim | Job, follows: Following) -> str:
    """The id of the job that gives the result of this one to its sink."""
    return follower_id(job, "sink", named=follows.named)


def following(claim: Claim, result: bytes | None) -> tuple[NewJob, ...]:
    """The jobs that follow a done job; refuses a result that they cannot take."""
    try:
        follows = _decode(claim.body)
    except UNREADABLE as error:
        raise FlowError(f"what comes after the job cannot be read: {error}") from error
    value = Raw(b"null" if result is None else result)
    jobs: list[NewJob] = []
    if follows.sink is not None:
        jobs.append(sink_job(claim, sink_id(claim, follows), follows.sink, value))
    if follows.flow is not None and follows.flow.then:
        flow = replace(follows.flow, life=life_of(claim.token)) if follows.named else follows.flow
        make = fan_out if flow.then[0].each else next_stage
        jobs += make(claim.region, flow, value)
    return tuple(traced(job, follows.trace) for job in jobs)


def hands_on(jobs: tuple[NewJob, ...]) -> bool:
    """Whether one of the jobs that follow arrives somewhere instead of the one that is done.

    Those of a fan-out arrive at one of themselves.
    """
    among = {job.id for job in jobs}
    return any(job.gather is not None and job.gather not in among for job in jobs)


def sink_job(claim: Claim, job: str, sink: Stage, value: Raw) -> NewJob:
    """The job that gives an accepted result to its sink.

    Its key is the same however often the sink is called.
    """
    said = called_with(sink, value)
    said["kwargs"]["key"] = f"{claim.id}.{claim.replay}"
    return new_job(job, sink, claim.region, said)


def called_with(stage: Stage, value: Any) -> dict[str, Any]:
    """The arguments of a stage's job: those that were bound, and the result before it."""
    args = stage.args if stage.ignores else (*stage.args, value)
    return {"args": args, "kwargs": dict(stage.kwargs)}


def stage_after(flow: Flow, by: int = 1) -> Flow:
    """The flow so many stages later, without what was said of this stage's own members."""
    return replace(
        flow,
        number=flow.number + by,
        then=flow.then[by:],
        members=0,
        gathers=False,
        ignores=False,
        member_stages=1,
        member_gathers=False,
    )


def next_stage(region: str, flow: Flow, value: Raw) -> list[NewJob]:
    """The one job of the next stage: the result is its argument, unless it ignores that."""
    stage = flow.then[0]
    after = stage_after(flow)
    return [new_job(stage_id(after), stage, region, called_with(stage, value), after)]


def fan_out(region: str, flow: Flow, value: Raw) -> list[NewJob]:
    """A job for each element, and the job that gathers their results, if there is one."""
    stage, *rest = flow.then
    try:
        elements = _decode_list(value)
    except UNREADABLE as error:
        raise FlowError(f"each({stage.task}) needs a list, and the result is none") from error
    if len(elements) > MOST_MEMBERS:
        raise FlowError(
            f"each({stage.task}) takes at most {MOST_MEMBERS} elements, not {len(elements)};"
            " put several into one"
        )
    # What the chain holds until its end, and where it arrives, is for the stages after this one.
    spread = replace(
        stage_after(flow),
        then=(),
        key=None,
        members=len(elements),
        awaited_by=None,
        awaited_index=0,
    )
    gather = None
    jobs: list[NewJob] = []
    if rest:
        after = replace(
            stage_after(flow, 2),
            members=len(elements),
            gathers=True,
            ignores=rest[0].ignores,
        )
        gather = stage_id(after)
        jobs.append(gathering(gather, rest[0], region, after))
    said = (called_with(stage, element) for element in elements)
    return jobs + [
        new_job(
            member_id(spread, index), stage, region, each, spread, gather=gather, gather_index=index
        )
        for index, each in enumerate(said)
    ]


def gathering(
    job: str,
    stage: Stage,
    region: str,
    flow: Flow,
    *,
    named: bool = False,
    return_exceptions: bool = False,
) -> NewJob:
    """The job that starts when all members have arrived, with their results as its argument.

    With `return_exceptions` failures arrive too.
    """
    said: dict[str, Any] = {"args": stage.args, "kwargs": stage.kwargs}
    said |= {"named": True} if named else {}
    more: dict[str, Any] = {"return_exceptions": True} if return_exceptions else {}
    return new_job(job, stage, region, said, flow, awaits=flow.members, **more)


def new_job(
    job: str,
    stage: Stage,
    region: str,
    said: dict[str, Any],
    flow: Flow | None = None,
    **fields: Any,
) -> NewJob:
    """A job of this stage."""
    body = {"task": stage.task, **said, "retry": stage.retry, "timeout": stage.timeout}
    if stage.on_dead is not None:
        body["on_dead"] = stage.on_dead
    if stage.gated:
        body["gated"] = True
    if stage.sink is not None:
        body["sink"] = stage.sink
    if flow is not None:
        body["flow"] = flow
        if flow.key is not None:
            fields |= {"unique_in": flow.key[0], "unique_key": flow.key[1]}
        if flow.awaited_by is not None:
            fields |= {"gather": flow.awaited_by, "gather_index": flow.awaited_index}
    return NewJob(
        job,
        stage.queue,
        stage.task,
        encode(body),
        stage.region or region,
        stage.priority,
        stage.delay,
        limits=stage.limits,
        fairness_key=stage.fairness_key,
        expires=stage.expires,
        keep=stage.keep if fields.get("gather") is None else member_keep(stage.keep),
        **fields,
    )


def member_keep(keep: int | None) -> int | None:
    """How long a job is kept that another awaits: no shorter than others, or it could be missed."""
    return None if keep is None or keep < Settings().keep_done else keep


def stage_id(flow: Flow) -> str:
    """The id of the one job of a stage."""
    return flow.root if flow.number == 1 else f"{flow.prefix}.{flow.number}"


def gathering_id(root: str) -> str:
    """The id of the job that gathers calls with which it was enqueued."""
    return f"{root}.{GATHERS}"


def member_id(flow: Flow, index: int) -> str:
    """The id of one of a fan-out's jobs."""
    return f"{flow.prefix}.{flow.number}.{index}"
