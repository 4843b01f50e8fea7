"""The current job: what a task may ask about its own attempt."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from mulligan.core.errors import MulliganError
from mulligan.core.job import Claim


class CurrentJob(Struct, frozen=True):
    """The running attempt. `attempt` counts from 1; `replay` is how often it was replayed."""

    id: str
    task: str
    queue: str
    region: str
    worker_region: str
    worker: str
    attempt: int
    retry_count: int
    replay: int
    lane: str
    token: int


class CurrentCall(CurrentJob, frozen=True):
    """The running attempt as middleware sees it: with the arguments, converted, of the call.

    `resources` are all that the lifespan has yielded, whether the task asks for them or not.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    resources: Mapping[str, Any]


RUNNING: ContextVar[Claim] = ContextVar("mulligan_running")


def current_job() -> CurrentJob:
    """The job whose task is running in this coroutine or thread."""
    claim = RUNNING.get(None)
    if claim is None:
        raise MulliganError("current_job() was called outside a running task; call it inside one")
    return CurrentJob(**fields_of(claim))


def current_call(
    args: Sequence[Any], kwargs: Mapping[str, Any], resources: Mapping[str, Any]
) -> CurrentCall:
    """The current job, and this call of its task."""
    return CurrentCall(
        **fields_of(RUNNING.get()), args=tuple(args), kwargs=kwargs, resources=resources
    )


def fields_of(claim: Claim) -> dict[str, Any]:
    """What a CurrentJob says of the attempt."""
    return {
        "id": claim.id,
        "task": claim.task,
        "queue": claim.queue,
        "region": claim.region,
        "worker_region": claim.worker_region,
        "worker": claim.worker,
        "attempt": claim.attempt,
        "retry_count": claim.retry_count,
        "replay": claim.replay,
        "lane": claim.lane.label,
        "token": claim.token,
    }
