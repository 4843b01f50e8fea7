"""A job of another store, as adopt.lua reads it."""

from mulligan.core.job import TOKENS_PER_LIFE, Adopted, Attempt, Job
from mulligan.stores.redis.encoding import JSON, heading, lane_name, spelled, untabbed
from mulligan.stores.redis.server import Value


def adopt_values(adopted: Adopted) -> list[Value]:
    """What stands before the lists, then history, state and arrivals."""
    job = adopted.job
    history: list[Value] = [past_text(attempt) for attempt in adopted.history]
    state = state_values(job)
    arrived: list[Value] = []
    for place, result in adopted.arrived.items():
        arrived += (place, b"" if result is None else b"=" + result)
    return [
        untabbed(job.id),
        lane_name(job.lane),
        repr(job.due),
        int(job.status == "failed"),
        text_of_job(job),
        len(history),
        len(state),
        len(arrived),
        *history,
        *state,
        *arrived,
    ]


def text_of_job(job: Job) -> bytes:
    """The job as it was enqueued, but for the sequence that this store gives it."""
    lane = spelled(job.queue, job.region, job.priority)
    return f"{float(job.created_at)!r}\t{lane}\t".encode() + heading(job.task) + job.body


def state_values(job: Job) -> list[Value]:
    """The fields of the job's state that are out of the ordinary, each with its value."""
    used = job.token % TOKENS_PER_LIFE
    known: dict[str, str | None] = {
        "adopted": str(used),
        "counts": f"{used} {job.retry_count} {job.replay} {job.snoozes}",
        "marks": marks_of(job),
        "unique_key": job.unique_key,
        "unique_in": job.unique_in,
        "concurrency_key": job.concurrency_key,
        "concurrency_limit": None if job.concurrency_limit == 1 else str(job.concurrency_limit),
        "expires_at": text_of(job.expires_at),
        "ran": None if job.started_at is None else f"{job.started_at!r} ",
        "last_retry_at": text_of(job.last_retry_at),
        "ended_at": text_of(job.ended_at) if job.status == "failed" else None,
        "trail": job.trail or None,
        "awaits": str(job.awaits) if job.awaits else None,
        "gather": job.gather,
        "gather_index": str(job.gather_index) if job.gather_index else None,
    }
    return [part for name, value in known.items() if value is not None for part in (name, value)]


def marks_of(job: Job) -> str:
    """The letters by which scripts know what is out of the ordinary."""
    marks = (
        ("u", job.unique_key),
        ("k", job.concurrency_key),
        ("e", job.expires_at),
        ("g", job.gather),
    )
    return "".join(letter for letter, value in marks if value is not None)


def text_of(time: float | None) -> str | None:
    """A time as a hash keeps it."""
    return None if time is None else repr(float(time))


def past_text(attempt: Attempt) -> bytes:
    """An attempt as its job's history keeps it: when it ended, then the rest as JSON."""
    ended_at = text_of(attempt.ended_at) or "-"
    return b"%s %s" % (ended_at.encode(), JSON.encode(attempt))
