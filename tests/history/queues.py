"""What holds for a queue: its pauses, the order of its lanes, and who is woken for it."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection
from math import inf
from typing import TYPE_CHECKING

from mulligan.core.fetch import Capped
from tests.history.book import Book
from tests.history.events import (
    AnyEvent,
    Claim,
    Configure,
    Pause,
    Reclaim,
    surely_before,
)
from tests.history.invariant import Invariant, Took

if TYPE_CHECKING:
    from mulligan.core.lane import Lane


class PausedIsLeftAlone(Invariant):
    """Nothing is claimed from a queue that is paused."""

    about = (Pause,)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._paused: dict[str, Pause] = {}
        self._resumed: dict[str, Pause] = {}

    def happened(self, event: AnyEvent) -> None:
        """A pause holds from when it was answered, until a resume is asked for."""
        if not isinstance(event, Pause):
            return
        resumed = self._resumed.get(event.queue)
        if not event.paused:
            self._paused.pop(event.queue, None)
            self._resumed[event.queue] = event
            self.explain(event.queue, event)
        elif resumed is None or surely_before(resumed, event):
            self._paused.setdefault(event.queue, event)

    def took(self, step: Took) -> None:
        """A claim that began after it takes nothing there."""
        taken, job, event = step.taken, step.job, step.event
        queue = taken.lane.queue
        paused = self._paused.get(queue)
        if isinstance(event, Claim) and paused is not None and surely_before(paused, event):
            words = f"claimed from queue {queue}, which was paused"
            self.suspect(queue, job or taken.job, words, event)


class LanesAreKept(Invariant):
    """A job is claimed from the lane that it was put into, when it came or to be tried again."""

    def took(self, step: Took) -> None:
        """Compare the lanes."""
        taken, job, event = step.taken, step.job, step.event
        if job is None or isinstance(event, Reclaim) or job.lane == taken.lane or job.doubts:
            return
        words = f"claimed from {shown(taken.lane)}; it was put into {shown(job.lane)}"
        self.broken(job, words, event)


def shown(lane: "Lane") -> str:
    """The lane in words."""
    return f"the {lane.label} lane of {lane.queue} for {lane.scope}"


class LanesKeepOrder(Invariant):
    """Of two jobs of a lane with one fairness key, the one that fell due first is claimed first.

    A job that names limits may wait for room, and is passed by others meanwhile.
    """

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        # Per lane and key the latest due times that were taken, falling, and when each was. They
        # are kept below zero, where they rise.
        self._taken: dict[tuple[Lane, str | None], tuple[list[float], list[Claim]]]
        self._taken = defaultdict(lambda: ([], []))

    def took(self, step: Took) -> None:
        """Look whether one that fell due later was taken while this one stood in the lane."""
        taken, job, event = step.taken, step.job, step.event
        if job is None or isinstance(event, Reclaim) or job.new.limits:
            return
        dues, events = self._taken[taken.lane, job.new.fairness_key]
        later = bisect_right(dues, -taken.due - 1e-6)
        if later and job.lane == taken.lane:
            passed = events[later - 1]
            if surely_before(passed, event) and surely_before(job.joined, passed):
                self.broken(job, "one that fell due later was claimed before it", passed, event)
        while dues and dues[-1] >= -taken.due:
            dues.pop()
            events.pop()
        dues.append(-taken.due)
        events.append(event)


class SleepersAreWoken(Invariant):
    """A worker that sleeps starts a retry within moments of its due time.

    Of a worker whose last claim left it with free slots it is known that it slept. Not for queues
    with gates, where it may have waited for a permit, nor for the jobs of another region, which it
    takes while that one's breaker is open, nor for `pools`: queues whose jobs may have waited for a
    child process. `within` is what moments are.
    """

    within = inf
    pools: Collection[str] = ()

    about = (Configure, Pause, Claim)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._asleep: dict[str, float] = {}
        self._moved: float = -inf

    def happened(self, event: AnyEvent) -> None:
        """Whoever's claim is not answered may be away; after new settings all look again."""
        match event:
            case Configure() | Pause():
                self._moved = event.began
            case Claim(ended=None):
                self._asleep.pop(event.worker.id, None)

    def claimed(self, event: Claim) -> None:
        """Remember who goes to sleep."""
        short = event.taken is not None and len(event.taken) < event.demand and not event.stale
        if short and event.ended is not None:
            self._asleep[event.worker.id] = event.ended
        else:
            self._asleep.pop(event.worker.id, None)

    def took(self, step: Took) -> None:
        """Look how long it slept on."""
        taken, job, event = step.taken, step.job, step.event
        slept_since = self._asleep.get(event.worker.id, inf)
        settings = self.book.queue(taken.lane.queue)
        gated = settings.budget is not None or isinstance(settings.policy, Capped)
        gated = gated or taken.lane.queue in self.pools
        foreign = not taken.lane.is_global and taken.lane.scope != event.worker.region
        if job is None or isinstance(event, Reclaim) or job.new.limits:
            return
        if gated or foreign:
            return
        # Its due time is the store's, and so is its start, which was when it was asked for.
        due = taken.due + settings.grace_seconds + event.began - taken.started_at
        ready = max(due, job.joined.ended or inf)
        late = event.began - ready
        if late > self.within and slept_since <= ready and self._moved < slept_since:
            self.broken(job, f"started {late:g} s late by {event.worker.id}, which slept", event)
