"""How many may run at a time, and how many may start."""

from collections import defaultdict
from math import inf

from mulligan.core.checks import seconds
from mulligan.core.fetch import Capped
from tests.history.book import Book
from tests.history.events import (
    AnyEvent,
    Claim,
    Commit,
    Configure,
    Fault,
    Operate,
    Reclaim,
    Taken,
    latest,
)
from tests.history.invariant import Ended, Invariant, Operated, Took


class LimitsHold(Invariant):
    """Of one cap or concurrency key, no more jobs run at a time than it allows.

    A job surely holds its permit from when its claim was answered until its end is sent.
    """

    about = (Commit, Operate, Reclaim)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._held: dict[str, tuple[Claim, list[str]]] = {}
        self._spans: dict[str, list[tuple[float, int, str, AnyEvent]]] = defaultdict(list)
        self._limits: dict[str, int] = {}

    def took(self, step: Took) -> None:
        """A claim takes permits, and a reclaim gives them back."""
        taken, job, event = step.taken, step.job, step.event
        self._free(taken.job, event)
        if job is None or isinstance(event, Reclaim):
            return
        policy = self.book.queue(taken.lane.queue).policy
        keys: list[tuple[str, int]] = []
        if isinstance(policy, Capped) and taken.lane.is_retry:
            keys.append((f"cap of {taken.lane.queue} at {policy.limit}", policy.limit))
        if job.new.concurrency_key is not None:
            limit = job.new.concurrency_limit
            keys.append((f"key {job.new.concurrency_key}", limit))
        for key, limit in keys:
            self._limits[key] = max(limit, self._limits.get(key, 0))
        self._held[taken.job] = event, [key for key, _ in keys]

    def ended(self, step: Ended) -> None:
        """Its end frees them."""
        ending, verdict, event = step.ending, step.verdict, step.event
        if verdict != "stale":
            self._free(ending.job, event)

    def operated(self, step: Operated) -> None:
        """So does a cancel."""
        job, event, done = step.job, step.event, step.done
        if done and job is not None:
            self._free(job.new.id, event)

    def happened(self, event: AnyEvent) -> None:
        """And whatever may have ended it."""
        if event.ended is None:
            match event:
                case Commit():
                    for ending in event.endings:
                        self._free(ending.job, event)
                case Operate():
                    for job in event.jobs:
                        self._free(job, event)
                case Reclaim():
                    for job in list(self._held):
                        self._free(job, event)

    def _free(self, job: str, event: AnyEvent) -> None:
        if job not in self._held:
            return
        claim, keys = self._held.pop(job)
        if self.book.keeps(claim.worker.id, claim.began, event.began):
            for key in keys:
                self._spans[key].append((claim.ended or claim.began, 1, job, claim))
                self._spans[key].append((event.began, -1, job, event))

    def finish(self) -> None:
        """Go through the times at which permits were surely held; some still are."""
        for job, (claim, keys) in self._held.items():
            if self.book.keeps(claim.worker.id, claim.began, inf):
                for key in keys:
                    self._spans[key].append((claim.ended or claim.began, 1, job, claim))
        for key, spans in self._spans.items():
            held = 0
            for _, step, job, event in sorted(spans, key=lambda span: span[:2]):
                held += step
                if held > self._limits[key]:
                    self.broken(job, f"{held} ran at a time under the {key}", event)
                    break


class BudgetsHold(Invariant):
    """In no window of a retry budget do more retries start than it allows."""

    about = (Configure, Fault)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._starts: dict[str, list[tuple[float, Taken, AnyEvent]]] = defaultdict(list)

    def happened(self, event: AnyEvent) -> None:
        """A new budget begins a new count, and so does a clock that was set."""
        match event:
            case Configure(queue=queue):
                self._count(queue)
            case Fault(seconds=by) if by:
                self.finish()

    def took(self, step: Took) -> None:
        """Note the starts of retries, by the store's time."""
        taken, event = step.taken, step.event
        counts = isinstance(event, Claim) and taken.lane.is_retry
        if counts and not self.book.is_set(event.began, latest(event)):
            self._starts[taken.lane.queue].append((taken.started_at, taken, event))

    def finish(self) -> None:
        """No more of them are to come."""
        for queue in list(self._starts):
            self._count(queue)

    def _count(self, queue: str) -> None:
        """Go through the starts as the store had them: claims that overlap tell no order."""
        starts = sorted(self._starts.pop(queue, ()), key=lambda start: start[0])
        budget = self.book.queue(queue).budget
        if budget is None or budget.limit is None:
            return
        per = seconds(budget.per)
        for first, last in zip(starts, starts[budget.limit :], strict=False):
            if last[0] < first[0] + per:
                words = f"retry {budget.limit + 1} of queue {queue} within {per:g} s"
                words += f", and {budget.limit} may start"
                self.broken(self.book.jobs.get(last[1].job) or last[1].job, words, last[2])
                return
