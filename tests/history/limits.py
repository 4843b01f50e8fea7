"""How many may run at a time, and how many may start."""

from collections import defaultdict
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from mulligan.core.checks import seconds
from mulligan.core.fetch import Capped
from mulligan.core.limits import Limit, StoredLimit, covering
from tests.history.book import Book
from tests.history.events import (
    TICK,
    AnyEvent,
    Claim,
    Commit,
    Configure,
    Fault,
    Operate,
    PauseLimit,
    Reclaim,
    SetLimit,
    Taken,
    latest,
)
from tests.history.invariant import Ended, Invariant, Operated, Took

if TYPE_CHECKING:
    from mulligan.core.job import Lease


class Rules:
    """Which limits are in force, as far as the history has been read."""

    def __init__(self) -> None:
        self._stored: dict[str, StoredLimit] = {}
        self._changed: dict[str, float] = {}

    def happened(self, event: AnyEvent) -> None:
        """Take note of a limit that was stored; of one that was perhaps, for good."""
        if not isinstance(event, SetLimit) or event.refused:
            return
        before = self._stored.get(event.name, StoredLimit())
        change = before.with_declared if event.declared else before.with_set
        self._stored[event.name] = change(event.limit)
        until = inf if event.ended is None else event.ended
        self._changed[event.name] = max(until, self._changed.get(event.name, -inf))

    def limit_of(self, name: str, event: AnyEvent) -> Limit | None:
        """The limit that surely held for this name during the event; None if there was none."""
        near = [each for each in self._stored if covering(name, [each]) is not None]
        if any(self._changed[each] >= event.began for each in near):
            return None
        return self.in_force(name)

    def in_force(self, name: str) -> Limit | None:
        """The limit that holds for this name, as far as is known; None if there is none."""
        known = [each for each, stored in self._stored.items() if stored.in_force is not None]
        by = covering(name, known)
        return None if by is None else self._stored[by].in_force


class LimitsHold(Invariant):
    """Of one cap or limit, no more jobs run at a time than it allows.

    A job surely holds its permit from when its claim was answered until its end is sent. A limit
    that was lowered takes nothing back: it is looked at when another job starts.
    """

    about = (Commit, Operate, Reclaim, SetLimit)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._rules = Rules()
        # By job: its claim, and what it holds permits of, with the most that may be held.
        self._held: dict[str, tuple[Claim, dict[str, float]]] = {}
        self._spans: dict[str, list[tuple[float, int, float, str, AnyEvent]]] = defaultdict(list)

    def took(self, step: Took) -> None:
        """A claim takes permits, and a reclaim gives them back."""
        taken, job, event = step.taken, step.job, step.event
        self._free(taken.job, event)
        if job is None or isinstance(event, Reclaim):
            return
        policy = self.book.queue(taken.lane.queue).policy
        most: dict[str, float] = {}
        if isinstance(policy, Capped) and taken.lane.is_retry:
            most[f"cap of {taken.lane.queue} at {policy.limit}"] = policy.limit
        for name in job.new.limits:
            limit = self._rules.limit_of(name, event)
            allowed = None if limit is None else limit.concurrency
            most[f"limit {name}"] = inf if allowed is None else allowed
        self._held[taken.job] = event, most

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
        self._rules.happened(event)
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
        claim, permits = self._held.pop(job)
        if self.book.keeps(claim.worker.id, claim.began, event.began):
            for name, most in permits.items():
                self._spans[name].append((claim.ended or claim.began, 1, most, job, claim))
                self._spans[name].append((event.began, -1, inf, job, event))

    def finish(self) -> None:
        """Go through the times at which permits were surely held; some still are."""
        for job, (claim, permits) in self._held.items():
            if self.book.keeps(claim.worker.id, claim.began, inf):
                for name, most in permits.items():
                    self._spans[name].append((claim.ended or claim.began, 1, most, job, claim))
        for name, spans in self._spans.items():
            held = 0
            for _, step, most, job, event in sorted(spans, key=lambda span: span[:2]):
                held += step
                if held > most:
                    self.broken(job, f"{held} ran at a time under the {name}", event)
                    break


class RatesHold(Invariant):
    """In no window of a limit do jobs of a higher cost start than it allows.

    A job that was returned before it ran is not counted, nor what jobs say later that they spent.
    """

    about = (SetLimit, Fault)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._rules = Rules()
        # By name and the limit that held: when jobs started by the store's time, and at what cost.
        self._starts: dict[tuple[str, Limit], dict[Lease, tuple[float, int, AnyEvent]]]
        self._starts = defaultdict(dict)

    def happened(self, event: AnyEvent) -> None:
        """Another limit begins a new count, and so does a clock that was set."""
        self._rules.happened(event)
        if isinstance(event, SetLimit) or (isinstance(event, Fault) and event.seconds):
            self.finish()

    def took(self, step: Took) -> None:
        """Note the starts."""
        taken, job, event = step.taken, step.job, step.event
        if job is None or isinstance(event, Reclaim):
            return
        for name, cost in job.new.limits.items():
            limit = self._rules.limit_of(name, event)
            if limit and limit.rate and not self.book.is_set(event.began, latest(event)):
                start = taken.started_at, min(cost, limit.most_cost or cost), event
                self._starts[name, limit][taken.lease] = start

    def ended(self, step: Ended) -> None:
        """One that was returned, or perhaps, may never have been."""
        ending, verdict = step.ending, step.verdict
        if verdict != "stale" and ending.how == "returned":
            for starts in self._starts.values():
                starts.pop(ending.lease, None)

    def finish(self) -> None:
        """Go through the starts as the store had them."""
        for (name, limit), starts in self._starts.items():
            row = sorted(starts.items(), key=lambda each: each[1][0])
            find = over_window if limit.burst is None else over_bucket
            found = find(limit, [(at, cost) for _, (at, cost, _) in row])
            if found is not None:
                lease, (_, _, event) = row[found]
                words = f"limit {name} was exceeded: {limit.rate} in {seconds(limit.per):g} s"
                self.broken(self.book.jobs.get(lease.job) or lease.job, words, event)
        self._starts.clear()


def over_window(limit: Limit, starts: Sequence[tuple[float, int]]) -> int | None:
    """The first start that was one too many in a window that slides."""
    assert limit.rate is not None
    first, used = 0, 0
    for index, (at, cost) in enumerate(starts):
        used += cost
        while starts[first][0] <= at - seconds(limit.per) + TICK:
            used -= starts[first][1]
            first += 1
        if used > limit.rate:
            return index
    return None


def over_bucket(limit: Limit, starts: Sequence[tuple[float, int]]) -> int | None:
    """The first start for which a bucket that was full at first had not enough."""
    assert limit.rate is not None
    assert limit.burst is not None
    level, before = float(limit.burst), -inf
    for index, (at, cost) in enumerate(starts):
        refilled = (at - before + TICK) * limit.rate / seconds(limit.per)
        level = min(limit.burst, level + refilled) - cost
        before = at
        if level < 0:
            return index
    return None


class PausesHold(Invariant):
    """No job of a limit starts while the limit is paused by an operator."""

    about = (PauseLimit, Fault)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        # By name: from when until when it was surely paused, by the recorder's clock.
        self._paused: dict[str, tuple[float, float]] = {}

    def happened(self, event: AnyEvent) -> None:
        """A pause that was answered holds until another is asked for, or the clock is set."""
        match event:
            case PauseLimit(name=name) if event.ended is None or not event.seconds:
                self._paused.pop(name, None)
            case PauseLimit(name=name) if not event.refused:
                self._paused[name] = event.ended or event.began, event.began + event.seconds
            case Fault(seconds=by) if by:
                self._paused.clear()

    def took(self, step: Took) -> None:
        """Look whether one of its limits was paused all the while."""
        job, event = step.job, step.event
        if job is None or isinstance(event, Reclaim):
            return
        for name in job.new.limits:
            since, until = self._paused.get(name, (inf, -inf))
            if since < event.began and latest(event) < until - TICK:
                self.broken(job, f"it was started while limit {name} was paused", event)


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
