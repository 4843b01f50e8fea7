"""Violations for people: what was broken, and the events that show it."""

from collections.abc import Callable, Iterable
from typing import Any

from tests.history.events import (
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
    PauseLimit,
    Prune,
    Reclaim,
    SetLimit,
    Stock,
    Taken,
)
from tests.history.invariant import Violation


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
    elif event.refused:
        said += f"  -> refused ({event.error})"
    return f"{times}  {event.process:<10} {said}"


def words(event: AnyEvent, job: str | None = None) -> str:
    """What happened."""
    say = SAYINGS.get(type(event))
    return type(event).__name__.lower() if say is None else say(event, job)


def handed(event: Enqueue) -> str:
    """How jobs were handed over."""
    return "adopt" if any(new.past is not None for new in event.jobs) else "enqueue"


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


def told(event: Beat) -> str:
    """What a worker held, and what it was told it had lost."""
    lost = f", lost {len(event.lost)}" if event.lost else ""
    return f"beat by {event.worker.id}: holds {len(event.holding)}{lost}"


SAYINGS: dict[type, Callable[[Any, str | None], str]] = {
    Enqueue: lambda event, job: f"{handed(event)} {listed(accepted(event, job))}",
    Claim: lambda event, job: (
        f"claim {event.demand} by {event.worker.id}: {leases(event.taken, job)}"
    ),
    Reclaim: lambda event, job: f"reclaim by {event.worker.id}: {leases(event.taken, job)}",
    Commit: lambda event, job: f"commit {listed(endings(event, job))}",
    Operate: lambda event, job: f"{event.what} {listed([job] if job else event.jobs)}",
    Attempt: lambda event, _: f"attempt {event.job}#{event.token} {event.said}",
    Beat: lambda event, _: told(event),
    Leave: lambda event, _: f"leave by {event.worker}",
    Configure: lambda event, _: f"configure {event.queue}: {event.settings}",
    SetLimit: lambda event, _: f"{'declare' if event.declared else 'set'} limit {event.name}",
    PauseLimit: lambda event, _: f"pause limit {event.name} for {event.seconds:g} s",
    Pause: lambda event, _: f"{'pause' if event.paused else 'resume'} {event.queue}",
    Prune: lambda event, _: f"prune: {event.pruned}",
    Fault: lambda event, _: f"FAULT {event.what} {event.about}",
    Stock: lambda event, _: f"stored in the end: {len(event.jobs)} jobs",
}
