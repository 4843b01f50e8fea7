"""Violations for people: what was broken, and the events that show it."""

from collections.abc import Iterable

from mulligan.testing.history.events import (
    AnyEvent,
    Attempt,
    Beat,
    Claim,
    Commit,
    Configure,
    Enqueue,
    Fault,
    Leave,
    Operate,
    Pause,
    Prune,
    Seize,
    Stock,
    Taken,
)
from mulligan.testing.history.invariant import Violation


def report(violations: Iterable[Violation]) -> str:
    """One paragraph for each violation; an empty text if there is none."""
    return "\n\n".join(paragraph(violation) for violation in violations)


def paragraph(violation: Violation) -> str:
    """The invariant and the job, how it was broken, and the events, oldest first."""
    head = f"{violation.invariant}: {violation.job}: {violation.words}"
    return "\n".join([head, *(f"  {line(event, violation.job)}" for event in violation.events)])


def line(event: AnyEvent, job: str | None = None) -> str:
    """One event in one line; of a batch, what it says about this job."""
    times = f"{event.began:>12.3f}"
    said = words(event, job)
    if event.ended is None:
        said += f"  -> no answer ({event.error or 'it died'})"
    return f"{times}  {event.process:<10} {said}"


def words(event: AnyEvent, job: str | None = None) -> str:
    """What happened."""
    said = about_jobs(event, job)
    return said if said is not None else about_others(event)


def about_jobs(event: AnyEvent, job: str | None) -> str | None:
    """What happened to jobs; None if it is not about any."""
    match event:
        case Enqueue():
            said = f"enqueue {listed(accepted(event, job))}"
        case Claim():
            said = f"claim {event.demand} by {event.worker.id}: {leases(event.taken, job)}"
        case Seize():
            said = f"seize by {event.worker.id}: {leases(event.taken, job)}"
        case Commit():
            said = f"commit {listed(endings(event, job))}"
        case Operate():
            said = f"{event.what} {listed(event.jobs if job is None else [job])}"
        case Attempt():
            said = f"attempt {event.job}#{event.token} {event.said}"
        case _:
            return None
    return said


def about_others(event: AnyEvent) -> str:
    """What happened to workers, queues and the store."""
    match event:
        case Beat():
            said = f"beat by {event.worker.id}: holds {len(event.holding)}"
            said += f", lost {len(event.lost)}" if event.lost else ""
        case Leave():
            said = f"leave by {event.worker}"
        case Configure():
            said = f"configure {event.queue}: {event.settings}"
        case Pause():
            said = f"{'pause' if event.paused else 'resume'} {event.queue}"
        case Prune():
            said = f"prune: {event.pruned}"
        case Fault():
            said = f"FAULT {event.what} {event.about}"
        case Stock():
            said = f"stored in the end: {len(event.jobs)} jobs"
        case _:
            said = type(event).__name__.lower()
    return said


def accepted(event: Enqueue, job: str | None) -> list[str]:
    """Which jobs were handed over, and which of them were there before."""
    before = {answer.id for answer in event.answers or () if not answer.created}
    return [
        new.id + (" (there before)" if new.id in before else "")
        for new in event.jobs
        if job in (None, new.id)
    ]


def endings(event: Commit, job: str | None) -> list[str]:
    """Which outcomes were sent, and the verdicts."""
    said = []
    for place, ending in enumerate(event.endings):
        if job in (None, ending.job) or any(new.id == job for new in ending.next):
            words = f"{ending.job}#{ending.token} {ending.how}"
            if ending.how in ("again", "later"):
                words += f" in {ending.delay:g} s"
            said.append(words + (f" {event.verdicts[place]}" if event.verdicts else ""))
    return said


def leases(taken: list[Taken] | None, job: str | None) -> str:
    """What was given."""
    given = [
        f"{t.job}#{t.token} retry {t.retry_count}" for t in taken or () if job in (None, t.job)
    ]
    return listed(given) if given else "nothing"


def listed(names: list[str]) -> str:
    """The first few."""
    most = 5
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
