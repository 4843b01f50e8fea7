"""Fairness keys: whose turn it is in a lane."""

from bisect import bisect_left, insort
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.lines import NO_KEY, step_of
from tests.history.book import Book
from tests.history.events import AnyEvent, Claim, Configure, Reclaim, latest, surely_before
from tests.history.invariant import Invariant, Took
from tests.history.known import Known

if TYPE_CHECKING:
    from mulligan.core.lane import Lane


class Start(NamedTuple):
    """When a job of a key was taken: by which claim, and at what time of the store."""

    event: Claim
    at: float


class Span(NamedTuple):
    """The lowest and the highest weight that a key may have had."""

    least: float
    most: float


ONE = Span(1.0, 1.0)


class KeysTakeTurns(Invariant):
    """No key is passed by another more often than the bound of docs/concepts/fairness.md says.

    From when a job is due until it starts, its key starts k jobs, itself included. Meanwhile each
    other key starts at most floor(k * step / its step) + 1, where a step is 1 / weight: a key's
    turn comes at most a step after the present one, and is kept while it waits. Of a job that names
    limits nobody knows whether it had its turn; what a claim took whose answer was lost may
    all have been of the key. Weights that were changed count as what is worst.
    """

    about = (Claim, Configure)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._starts: dict[Lane, dict[str, list[Start]]] = defaultdict(lambda: defaultdict(list))
        # By lane and key: until when each claim may have lasted that took one, in order.
        self._ends: dict[Lane, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._weights: dict[str, dict[str, Span]] = defaultdict(dict)
        self._served: set[str] = set()
        self._unheard = 0

    def happened(self, event: AnyEvent) -> None:
        """Note what weights may hold, and how many jobs a claim may have taken unheard."""
        match event:
            case Claim(taken=None):
                self._unheard += event.demand
            case Configure(queue=queue):
                given, known = dict(event.settings.weights), self._weights[queue]
                anew = queue not in self._served and not self._unheard and event.ended is not None
                for key in given.keys() | known.keys():
                    weight = given.get(key, 1.0)
                    before = Span(weight, weight) if anew else known.get(key, ONE)
                    known[key] = Span(min(before.least, weight), max(before.most, weight))

    def took(self, step: Took) -> None:
        """Count who started while this one could have."""
        taken, job, event = step.taken, step.job, step.event
        if job is None or isinstance(event, Reclaim):
            return
        key = job.new.fairness_key or NO_KEY
        self._served.add(taken.lane.queue)
        self._starts[taken.lane][key].append(Start(event, taken.started_at))
        insort(self._ends[taken.lane][key], latest(event))
        if key != NO_KEY and not job.new.limits and job.lane == taken.lane:
            self._look(job, taken.due, event)

    def _look(self, job: Known, due: float, event: Claim) -> None:
        """Hold every other key of the lane to the bound."""
        starts, own = self._starts[job.lane], job.new.fairness_key or NO_KEY
        weights = self._weights[job.lane.queue]
        slowest = step_of(weights.get(own, ONE).least)
        ends = self._ends[job.lane][own]
        mine = self._unheard + len(ends) - bisect_left(ends, job.joined.began)
        for other, known in starts.items():
            if other == own:
                continue
            others = passes(known, job.joined, due, event)
            most = mine * slowest // step_of(weights.get(other, ONE).most) + 1
            if others > most:
                words = f"{others} of key {other!r} started while it waited, and {mine} of its own"
                self.broken(job, f"{words}, {own!r}; at most {most} may", event)
                return


def passes(starts: list[Start], since: AnyEvent, due: float, until: Claim) -> int:
    """How many were surely claimed between those events, when the job was due."""
    count = 0
    for event, at in reversed(starts):
        if event.began < since.began:
            break
        count += at >= due and surely_before(since, event) and surely_before(event, until)
    return count
