"""In which order things happened, when several processes wrote it down.

An operation happened at some instant between its begin and its end. Of two that do not overlap,
the one that ended first was first, by the common clock. Of two that do, what they say decides:
a job is enqueued before it is claimed; its leases follow each other as their tokens do, each
between the claim that gave it and the commit that was written under it; what a task tells of an
attempt comes after its claim, a verdict "stale" after what made the lease stale, a cancel after all
that was done under a lease, the start of a gathering job after those that arrived. What was never
answered comes before the next lease, if it can. Where nothing is said, the first to begin is first.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import compress, pairwise
from math import inf

from mulligan.core.job import Lease
from mulligan.stores.contract import Verdict
from mulligan.testing.history.events import (
    AnyEvent,
    Attempt,
    Claim,
    Commit,
    Ending,
    Enqueue,
    New,
    Operate,
    Seize,
    Stock,
)

Key = tuple[float, int]
FIRST: Key = (-1.0, 0)
LAST: Key = (inf, 0)
# The two phases of a token.
GIVEN, WRITTEN = range(2)


def in_order(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The events of several processes, as one history."""
    known = sorted(events, key=lambda event: (isinstance(event, Stock), event.began))
    before = Causes(known).edges()
    after: dict[int, list[int]] = defaultdict(list)
    for later, earlier in before.items():
        for each in earlier:
            after[each].append(later)
    open_ = {number: len(before.get(number, ())) for number in range(len(known))}
    ready = [number for number, count in open_.items() if count == 0]
    heapify(ready)
    ordered: list[AnyEvent] = []
    while open_:
        if not ready:  # they contradict each other: let the checker say how
            ready.append(min(open_))
        number = heappop(ready)
        if open_.pop(number, None) is None:
            continue
        ordered.append(known[number])
        for later in after[number]:
            if later in open_:
                open_[later] -= 1
                if open_[later] == 0:
                    heappush(ready, later)
    return ordered


class Causes:
    """What the events say about each other: for each, those that must have been before it."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self._events = events
        self._steps: dict[str, list[tuple[Key, int]]] = defaultdict(list)
        self._given: dict[Lease, int] = {}
        self._attempts: list[tuple[Lease, int]] = []
        self._refused: list[tuple[Lease, int]] = []
        self._unanswered: list[tuple[Lease, int]] = []
        self._created: dict[str, list[int]] = defaultdict(list)
        self._gathered: dict[str, str] = {}
        self._arrivals: list[tuple[str, int]] = []
        self._again: set[str] = set()
        self._replays: dict[str, list[int]] = defaultdict(list)
        self._lives: dict[str, dict[int, int]] = defaultdict(dict)

    def edges(self) -> dict[int, set[int]]:
        """The numbers of the events that must come before each."""
        for number, event in enumerate(self._events):
            self._read(number, event)
        before: dict[int, set[int]] = defaultdict(set)
        for job, steps in self._steps.items():
            self._place(job, steps)
            steps.sort()
            for (_, earlier), (_, later) in pairwise(steps):
                if earlier != later:
                    before[later].add(earlier)
        for earlier, later in self._asides():
            before[later].add(earlier)
        return before

    def _asides(self) -> Iterator[tuple[int, int]]:
        """What is known of events that stand beside the leases of a job: (earlier, later)."""
        for lease, number in self._attempts:
            if lease in self._given:
                yield self._given[lease], number
        for lease, number in self._refused:
            for step in self._first_above(*lease, number):
                if self._may_precede(step, number):  # if not, something else had made it stale
                    yield step, number
        for lease, number in self._unanswered:
            for step in self._first_above(*lease, number):
                if self._may_precede(number, step):
                    yield number, step
        yield from self._beginnings()

    def _beginnings(self) -> Iterator[tuple[int, int]]:
        """What must have happened before the first lease of a life, a replay or a gathering job."""
        for gathering, number in self._arrivals:
            yield from ((number, step) for step in self._first_above(gathering, -1, number))
        for job, replays in self._replays.items():
            for replay, number in enumerate(replays, 1):
                token = self._lives[job].get(replay)
                if token is not None and job not in self._again:
                    yield number, self._given[Lease(job, token)]
        for job in self._again:
            for (_, phase), step in self._steps[job]:
                made = [each for each in self._created[job] if self._may_precede(each, step)]
                if phase == GIVEN and made:
                    yield made[-1], step

    def _first_above(self, job: str, token: float, but: int) -> list[int]:
        """The first event of the job that is about a higher token."""
        steps = self._steps.get(job, ())
        return [step for key, step in steps if key[0] > token and step != but][:1]

    def _may_precede(self, number: int, other: int) -> bool:
        """Whether it began before the other was answered."""
        ended = self._events[other].ended
        return ended is None or self._events[number].began <= ended

    def _read(self, number: int, event: AnyEvent) -> None:
        match event:
            case Enqueue():
                for new, answer in zip(event.jobs, event.answers or (), strict=False):
                    if answer.created:
                        self._create(new, number)
            case Claim() | Seize():
                for each in event.taken or ():
                    self._given[each.lease] = number
                    self._steps[each.job].append(((each.token, GIVEN), number))
                    self._lives[each.job].setdefault(each.replay, each.token)
            case Commit():
                self._read_commit(number, event)
            case Operate():
                self._read_wishes(number, event)
            case Attempt():
                self._attempts.append((Lease(event.job, event.token), number))

    def _read_commit(self, number: int, event: Commit) -> None:
        if event.verdicts is None:
            self._unanswered += [(ending.lease, number) for ending in event.endings]
        else:
            for ending, verdict in zip(event.endings, event.verdicts, strict=True):
                self._read_ending(number, ending, verdict)

    def _read_wishes(self, number: int, event: Operate) -> None:
        for job in compress(event.jobs, event.answers or ()):
            if event.what == "replay":
                self._replays[job].append(number)
            elif event.what == "cancel":
                self._steps[job].append((LAST, number))

    def _read_ending(self, number: int, ending: Ending, verdict: Verdict) -> None:
        job, token = ending.lease
        if verdict == "stale":
            self._refused.append((ending.lease, number))
        elif verdict == "written":
            self._steps[job].append(((token, WRITTEN), number))
            for new in ending.next:
                self._create(new, number)
            if ending.how == "done" and job in self._gathered:
                self._arrivals.append((self._gathered[job], number))

    def _create(self, new: New, number: int) -> None:
        self._created[new.id].append(number)
        if len(self._created[new.id]) > 1:
            self._again.add(new.id)
        if new.gather is not None:
            self._gathered[new.id] = new.gather

    def _place(self, job: str, steps: list[tuple[Key, int]]) -> None:
        """Creation has no token: it stands before the first that follows it."""
        if job in self._again:
            # It has had several lives, and only their tokens can be put in order.
            steps[:] = [step for step in steps if step[0] != LAST]
        elif job in self._created:
            steps.append((FIRST, self._created[job][0]))
