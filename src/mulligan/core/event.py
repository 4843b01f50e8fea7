"""Events: what happened to a job, as an app's hooks are called with it."""

from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from mulligan.core.job import Claim, NewJob
from mulligan.core.outcome import Again, Dead, Done, Outcome

EventName = Literal["enqueue", "start", "success", "retry", "dead"]
EVENTS: tuple[EventName, ...] = get_args(EventName)


class JobEvent(Struct, frozen=True):
    """Something that happened to a job, once it is certain.

    An attempt has a number, a worker and that one's region; one that has ended, a `runtime` in
    seconds; one that failed, the type and message of its failure, and the exception if it was
    raised in this process. `delay` is how long a job or its retry waits before it is due.
    """

    name: EventName
    id: str
    task: str
    queue: str
    region: str
    attempt: int = 0
    worker: str = ""
    worker_region: str = ""
    delay: float = 0.0
    runtime: float | None = None
    error_type: str | None = None
    error_message: str | None = None
    exception: BaseException | None = None


def enqueued(job: NewJob) -> JobEvent:
    """The event of a job that a store has accepted."""
    return JobEvent("enqueue", job.id, job.task, job.queue, job.region, delay=job.delay)


def ended(
    claim: Claim,
    outcome: Outcome,
    runtime: float | None = None,
    exception: BaseException | None = None,
) -> JobEvent | None:
    """The event of an attempt with this outcome; None for one that is put off or returned.

    Nobody saw the runtime of a lost one.
    """
    match outcome:
        case Done():
            return replace(of_attempt("success", claim), runtime=runtime)
        case Again(delay=delay, failure=failure):
            event = replace(of_attempt("retry", claim), delay=delay)
        case Dead(failure=failure):
            event = of_attempt("dead", claim)
        case _:
            return None
    return replace(
        event,
        runtime=runtime,
        error_type=failure.type,
        error_message=failure.message,
        exception=exception,
    )


def of_attempt(name: EventName, claim: Claim) -> JobEvent:
    """An event of this attempt."""
    return JobEvent(
        name,
        claim.id,
        claim.task,
        claim.queue,
        claim.region,
        claim.attempt,
        claim.worker,
        claim.worker_region,
    )
