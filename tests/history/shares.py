"""Who gets how many of the starts."""

from collections import defaultdict
from collections.abc import Callable
from math import ceil, inf
from typing import NamedTuple

from mulligan.core.fairness import KINDS, URGENT_SHARE, retry_share
from mulligan.core.fetch import Fifo
from mulligan.core.job import Lease
from mulligan.core.lane import Lane
from mulligan.core.plan import Kind
from tests.history.book import Book
from tests.history.events import AnyEvent, Claim, Configure, Operate, Reclaim
from tests.history.invariant import Ended, Invariant, Took
from tests.history.known import Known

Kinds = tuple[Kind, ...]


class SharesAreKept(Invariant):
    """Neither kind of work starves the other: see the bounds of docs/concepts/fairness.md.

    While retries wait, one worker starts at most ceil(1/s) - 1 fresh jobs before the next of
    them, where s is their share; none under retry-first. For fresh jobs it is 1 - s, for urgent
    ones 0.8 and for all others 0.2. What was returned, reclaimed or cancelled does not count.
    """

    about = (Configure, Claim, Operate)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        # The starts of others since the last of one's own, by worker, queue and kinds of work.
        self._runs: dict[tuple[str, str, Kinds], list[Lease]] = defaultdict(list)
        # Workers carry over what they owe when settings change: by queue, whose count has begun.
        self._begun: dict[str, set[tuple[str, str, Kinds]]] = {}
        self._served: set[str] = set()
        self._too_many: list[tuple[str, str, list[Lease], Claim]] = []
        self._returned: set[Lease] = set()

    def happened(self, event: AnyEvent) -> None:
        """New settings begin a new count, with the next start of a kind.

        So does a claim of which nobody knows the answer. If its job was cancelled under it, nobody
        knows whether its worker heard of it.
        """
        match event:
            case Operate(what="cancel"):
                for job in event.jobs:
                    known = self.book.jobs.get(job)
                    if known is not None and known.status == "processing":
                        self._unstarted(known)
            case Configure():
                self._forget(lambda _, queue: queue == event.queue)
                if event.queue in self._served:
                    self._begun[event.queue] = set()
            case Claim(ended=None):
                self._forget(lambda worker, _: worker == event.worker.id)

    def _forget(self, which: Callable[[str, str], bool]) -> None:
        for run in [run for run in self._runs if which(run[0], run[1])]:
            del self._runs[run]

    def ended(self, step: Ended) -> None:
        """What is returned was not started."""
        if step.ending.how == "returned" and step.job is not None:
            self._unstarted(step.job)

    def took(self, step: Took) -> None:
        """What is reclaimed may never have been started: the claim was not heard of."""
        if isinstance(step.event, Reclaim) and step.job is not None:
            self._unstarted(step.job)

    def _unstarted(self, job: Known) -> None:
        """Its worker begins a new count."""
        if job.taken is not None:
            self._returned.add(job.taken.lease)
        worker = job.holder
        self._forget(lambda each, _: each == worker)

    def claimed(self, event: Claim) -> None:
        """Count how many of the others started while a kind of work could have."""
        if not event.taken:
            return
        started: dict[tuple[str, Kind], list[Lease]] = defaultdict(list)
        for taken in event.taken:
            started[taken.lane.queue, kind_of(taken.lane)].append(taken.lease)
        for queue in {queue for queue, _ in started}:
            self._served.add(queue)
            urgent, retry, fresh = (started[queue, kind] for kind in KINDS)
            sides = [
                Side(("urgent",), urgent, retry + fresh, bound(URGENT_SHARE)),
                Side(("retry", "fresh"), retry + fresh, urgent, bound(1 - URGENT_SHARE)),
            ]
            settings = self.book.queue(queue)
            if not isinstance(settings.policy, Fifo):  # which has one line for both
                share = retry_share(settings)
                share = 1.0 if share is None else share
                sides.append(Side(("retry",), retry, fresh, bound(share)))
                sides.append(Side(("fresh",), fresh, retry, bound(1 - share)))
            for side in sides:
                self._count(event, queue, side)

    def _count(self, event: Claim, queue: str, side: "Side") -> None:
        run = event.worker.id, queue, side.kinds
        begun = self._begun.get(queue)
        if begun is not None and run not in begun:
            if side.started:
                begun.add(run)
        elif side.started:
            self._runs.pop(run, None)
        elif any((queue, kind) in event.left for kind in side.kinds):
            self._runs[run] += side.others
            others = len(self._runs[run])
            if others > side.most:
                words = f"{others} others of queue {queue} started before it, by {run[0]}"
                name = f"{' and '.join(side.kinds)} work"
                words += f"; at most {side.most:g} may"
                self._too_many.append((name, words, self._runs.pop(run), event))

    def finish(self) -> None:
        """Of those that were too many, none was returned."""
        for name, words, leases, event in self._too_many:
            if self._returned.isdisjoint(leases):
                self.broken(name, words, event)


class Side(NamedTuple):
    """Kinds of work, which of them a claim started, which others, and how many there may be.

    The most is counted from one start of these kinds to the next, while some of them wait.
    """

    kinds: Kinds
    started: list[Lease]
    others: list[Lease]
    most: float


def kind_of(lane: Lane) -> Kind:
    """The kind of work that stands in the lane."""
    return "urgent" if lane.is_urgent else "retry" if lane.is_retry else "fresh"


def bound(share: float) -> float:
    """How many others may start before the next of a kind with this share."""
    return inf if share <= 0 else ceil(round(1 / share, 9)) - 1
