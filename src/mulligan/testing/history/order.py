"""In which order things happened, when several processes wrote it down.

An operation happened at some instant between its begin and its end. Of two that do not overlap,
the one that ended first was first, by the common clock. Of two that do, what they say decides:
a job is enqueued before it is claimed; its leases follow each other as their tokens do, each
between the claim that gave it and the commit that was written under it; a verdict "stale" comes
after what made the lease stale, a cancel after all that was done under a lease, the start of a
gathering job after those that arrived. Where nothing is said, the one that began first is first.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import compress, pairwise
from math import inf

from mulligan.stores.contract import Verdict
from mulligan.testing.history.events import (
    AnyEvent,
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
GIVEN, WRITTEN = 0, 1


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
        self._refused: list[tuple[str, int, int]] = []
        self._created: dict[str, int] = {}
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
        for job, token, number in self._refused:
            before[number].update(self._first_above(job, token, number))
        for gathering, number in self._arrivals:
            for step in self._first_above(gathering, FIRST[0], number):
                before[step].add(number)
        return before

    def _first_above(self, job: str, token: float, but: int) -> list[int]:
        """The first event of the job that is about a higher token."""
        steps = self._steps.get(job, ())
        return [step for key, step in steps if key[0] > token and step != but][:1]

    def _read(self, number: int, event: AnyEvent) -> None:
        match event:
            case Enqueue():
                for new, answer in zip(event.jobs, event.answers or (), strict=False):
                    if answer.created:
                        self._create(new, number)
            case Claim() | Seize():
                for each in event.taken or ():
                    self._steps[each.job].append(((each.token, GIVEN), number))
                    self._lives[each.job].setdefault(each.replay, each.token)
            case Commit(verdicts=list() as verdicts):
                for ending, verdict in zip(event.endings, verdicts, strict=True):
                    self._read_ending(number, ending, verdict)
            case Operate():
                self._read_wishes(number, event)

    def _read_wishes(self, number: int, event: Operate) -> None:
        for job in compress(event.jobs, event.answers or ()):
            if event.what == "replay":
                self._replays[job].append(number)
            elif event.what == "cancel":
                self._steps[job].append((LAST, number))

    def _read_ending(self, number: int, ending: Ending, verdict: Verdict) -> None:
        job, token = ending.lease
        if verdict == "stale":
            self._refused.append((job, token, number))
        elif verdict == "written":
            self._steps[job].append(((token, WRITTEN), number))
            for new in ending.next:
                self._create(new, number)
            if ending.how == "done" and job in self._gathered:
                self._arrivals.append((self._gathered[job], number))

    def _create(self, new: New, number: int) -> None:
        if self._created.setdefault(new.id, number) != number:
            self._again.add(new.id)
        if new.gather is not None:
            self._gathered[new.id] = new.gather

    def _place(self, job: str, steps: list[tuple[Key, int]]) -> None:
        """Creation and replays have no token: they stand before the first that follows them."""
        if job in self._again:
            # It has had several lives, and only their tokens can be put in order.
            steps[:] = [step for step in steps if step[0] != LAST]
            return
        if job in self._created:
            steps.append((FIRST, self._created[job]))
        for replay, number in enumerate(self._replays[job], 1):
            token = self._lives[job].get(replay)
            if token is not None:
                steps.append(((token - 0.5, GIVEN), number))
