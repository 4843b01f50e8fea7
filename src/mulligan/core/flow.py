"""Work in stages: what is enqueued when a job is done, in the same step.

A flow travels in the bodies of its jobs, so that a worker which has never seen the chain obeys it.
Its jobs are named after the first one: `root`, `root.2`, `root.3`; those of a fan-out `root.2.0`,
`root.2.1` and so on.
"""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from mulligan.core.errors import InvalidError
from mulligan.core.job import NO_TRACE, Claim, NewJob, encode, traced
from mulligan.core.lane import Priority

MOST_MEMBERS = 10_000
SINK_SUFFIX = "sink"
# Leaves room for what is added to the names of later jobs.
ROOT_LIMIT = 100


class FlowError(Exception):
    """A result that the next stage cannot be made from."""


class Stage(Struct, frozen=True, omit_defaults=True):
    """A task to come, and where its jobs go; without a region, to that of the job before.

    With `each` there is a job for every element of the result.
    """

    task: str
    queue: str = "default"
    region: str | None = None
    priority: int = Priority.NORMAL
    retry: Raw = Raw(b"{}")
    timeout: float | None = None
    delay: float = 0.0
    expires: float | None = None
    concurrency_key: str | None = None
    concurrency_limit: int = 1
    on_dead: str | None = None
    on_dead_queue: str = "default"
    on_dead_retry: Raw = Raw(b"{}")
    each: bool = False
    judged: bool = False
    sink: "Stage | None" = None


class Flow(Struct, frozen=True, omit_defaults=True):
    """A job's place in a chain: the stages before and after it, by name, and those to come.

    `key` is the unique key that the chain holds until its last job has ended, and its queue.
    `members` is how many jobs a fan-out has; the job after it gathers their results.
    """

    root: str
    path: tuple[str, ...]
    number: int = 1
    then: tuple[Stage, ...] = ()
    key: tuple[str, str] | None = None
    members: int = 0
    gathers: bool = False


class Following(Struct):
    """The parts of a body that say what comes next."""

    flow: Flow | None = None
    sink: Stage | None = None
    trace: Raw = NO_TRACE


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


def flow_of(body: bytes) -> Flow | None:
    """The flow that a job belongs to, if any; one that cannot be read is none."""
    try:
        return _decode(body).flow if b'"flow":' in body else None
    except msgspec.MsgspecError:
        return None


def following(claim: Claim, result: bytes | None) -> tuple[NewJob, ...]:
    """The jobs that come after this one, now that it is done; refuses a result they cannot take."""
    if b'"flow":' not in claim.body and b'"sink":' not in claim.body:
        return ()
    try:
        told = _decode(claim.body)
    except msgspec.MsgspecError as error:
        raise FlowError(f"what comes after the job cannot be read: {error}") from error
    value = Raw(b"null" if result is None else result)
    jobs: list[NewJob] = []
    if told.sink is not None:
        jobs.append(sink_job(claim, told.sink, value))
    if told.flow is not None and told.flow.then:
        stage = told.flow.then[0]
        make = fan_out if stage.each else next_stage
        jobs += make(claim.region, told.flow, value)
    return tuple(traced(job, told.trace) for job in jobs)


def sink_job(claim: Claim, sink: Stage, value: Raw) -> NewJob:
    """The job that hands an accepted result to its sink.

    Its key is the same however often the sink has to be called.
    """
    job = f"{claim.id}.{SINK_SUFFIX}.{claim.replay}"
    said = {"args": [value], "kwargs": {"key": f"{claim.id}.{claim.replay}"}}
    return new_job(job, sink, claim.region, said)


def next_stage(region: str, flow: Flow, value: Raw) -> list[NewJob]:
    """The one job of the next stage: the result is its argument."""
    stage = flow.then[0]
    after = Flow(flow.root, flow.path, flow.number + 1, flow.then[1:], flow.key)
    return [new_job(stage_id(after), stage, region, {"args": [value], "kwargs": {}}, after)]


def fan_out(region: str, flow: Flow, value: Raw) -> list[NewJob]:
    """A job for each element, and the one that gathers their results, if one is to."""
    stage, *rest = flow.then
    try:
        elements = _decode_list(value)
    except msgspec.MsgspecError as error:
        raise FlowError(f"each({stage.task}) needs a list, and the result is none") from error
    if len(elements) > MOST_MEMBERS:
        raise FlowError(
            f"each({stage.task}) takes at most {MOST_MEMBERS} elements, not {len(elements)};"
            " put several into one"
        )
    spread = Flow(flow.root, flow.path, flow.number + 1, members=len(elements))
    gather = None
    jobs: list[NewJob] = []
    if rest:
        after = Flow(
            flow.root,
            flow.path,
            flow.number + 2,
            tuple(rest[1:]),
            flow.key,
            len(elements),
            gathers=True,
        )
        gather = stage_id(after)
        jobs.append(gathering(gather, rest[0], region, after))
    said = ({"args": [element], "kwargs": {}} for element in elements)
    return jobs + [
        new_job(member_id(spread, place), stage, region, each, spread, gather=gather, place=place)
        for place, each in enumerate(said)
    ]


def gathering(job: str, stage: Stage, region: str, flow: Flow) -> NewJob:
    """The job that starts when all members have arrived, with their results as its argument."""
    said: dict[str, Any] = {"args": [], "kwargs": {}}
    return new_job(job, stage, region, said, flow, awaits=flow.members)


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
        body |= {
            "on_dead": stage.on_dead,
            "on_dead_queue": stage.on_dead_queue,
            "on_dead_retry": stage.on_dead_retry,
        }
    if stage.judged:
        body["judged"] = True
    if stage.sink is not None:
        body["sink"] = stage.sink
    if flow is not None:
        body["flow"] = flow
        if flow.key is not None:
            fields |= {"unique_in": flow.key[0], "unique_key": flow.key[1]}
    return NewJob(
        job,
        stage.queue,
        stage.task,
        encode(body),
        stage.region or region,
        stage.priority,
        stage.delay,
        concurrency_key=stage.concurrency_key,
        concurrency_limit=stage.concurrency_limit,
        expires=stage.expires,
        **fields,
    )


def stage_id(flow: Flow) -> str:
    """The id of the one job of a stage."""
    return flow.root if flow.number == 1 else f"{flow.root}.{flow.number}"


def member_id(flow: Flow, place: int) -> str:
    """The id of one of a fan-out's jobs."""
    return f"{flow.root}.{flow.number}.{place}"
