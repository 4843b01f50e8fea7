"""How long things took in a run, by its history."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from tests.history import AnyEvent, Fault
from tests.history.events import Beat, Claim, Commit, Reclaim

DEADLY = ("worker killed", "supervised worker killed")
Span = tuple[float, float]


def longest_silence(events: Sequence[AnyEvent]) -> float:
    """The longest time from a fault to the next job that was finished, in seconds."""
    finished = sorted(
        event.ended
        for event in events
        if isinstance(event, Commit)
        and event.ended is not None
        and any(
            ending.how == "done" and verdict == "written"
            for ending, verdict in zip(event.endings, event.verdicts or (), strict=False)
        )
    )
    waits = [0.0]
    for fault in (event for event in events if isinstance(event, Fault)):
        at = bisect_right(finished, fault.began)
        if at < len(finished):
            waits.append(finished[at] - fault.began)
    return max(waits)


def longest_return(events: Sequence[AnyEvent]) -> float:
    """The longest time from a worker's death to the next start of a job that it held."""
    claims: dict[str, list[tuple[float, int, str]]] = defaultdict(list)
    ended: set[tuple[str, int]] = set()
    for event in events:
        if isinstance(event, Claim):
            for taken in event.taken or ():
                claims[taken.job].append((event.ended or event.began, taken.token, taken.worker))
        elif isinstance(event, Commit) and event.verdicts is not None:
            ended.update((ending.job, ending.token) for ending in event.endings)
    deaths = deaths_in(events)
    waits = [0.0]
    for job, starts in claims.items():
        starts.sort()
        for (at, token, worker), (again, _, _) in pairwise(starts):
            died = deaths.get(process_of(worker), 0.0)
            if (job, token) not in ended and at <= died < again:
                waits.append(again - died)
    return max(waits)


def longest_left(events: Sequence[AnyEvent]) -> float:
    """The longest time for which a killed worker's jobs were not reclaimed, though they could be.

    It counts from when its lease was over, and only while another worker was at work: on a busy
    machine it takes a while until a new one is.
    """
    deaths = deaths_in(events)
    working = merged(at_work(events))
    leases: dict[str, float] = {}
    waits = [0.0]
    for event in events:
        if isinstance(event, Beat):
            over = event.began + event.worker.lease
            leases[event.worker.id] = max(over, leases.get(event.worker.id, 0.0))
        elif isinstance(event, Reclaim):
            for worker in {taken.worker for taken in event.taken or ()}:
                died = deaths.get(process_of(worker))
                if died is not None:
                    begin = max(died, leases.get(worker, died))
                    waits.append(overlap(working, (begin, event.began)))
    return max(waits)


def deaths_in(events: Iterable[AnyEvent]) -> dict[str, float]:
    """When which process of a worker was killed."""
    return {
        event.about: event.began
        for event in events
        if isinstance(event, Fault) and event.what in DEADLY
    }


def process_of(worker: str) -> str:
    """The process that a worker is."""
    return worker.split("-")[-2]


def at_work(events: Iterable[AnyEvent]) -> list[Span]:
    """The times between heartbeats that came no further apart than a lease."""
    spans: list[Span] = []
    last: dict[str, Beat] = {}
    for event in events:
        if isinstance(event, Beat) and event.ended is not None:
            before = last.get(event.worker.id)
            if before is not None and event.ended - before.began < event.worker.lease:
                spans.append((before.began, event.ended))
            last[event.worker.id] = event
    return spans


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same times, each moment once."""
    whole: list[Span] = []
    for begin, end in sorted(spans):
        if whole and begin <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(end, whole[-1][1])
        else:
            whole.append((begin, end))
    return whole


def overlap(spans: Iterable[Span], during: Span) -> float:
    """How much of that time they cover."""
    return sum(max(0.0, min(end, during[1]) - max(begin, during[0])) for begin, end in spans)
