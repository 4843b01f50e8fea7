"""Whether limits are made use of: a job that has room starts."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable
from math import inf

from mulligan.core.checks import seconds
from mulligan.core.limits import PARTS, SECOND, Limit, allowance, bounded, micros, price
from tests.history.book import Book
from tests.history.events import (
    TICK,
    AnyEvent,
    Claim,
    Commit,
    Ending,
    Enqueue,
    Fault,
    New,
    PauseLimit,
    Reclaim,
    SetLimit,
    latest,
    surely_before,
)
from tests.history.invariant import Accepted, Ended, Invariant, Operated, Took
from tests.history.known import Known
from tests.history.limits import Rules

# How many of the claims that met room are remembered: only the last ones matter.
REMEMBERED = 16


class Use:
    """The most that may be used of one name, by the recorder's clock."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        # What was charged, by lease or whatever else tells it apart: until when, and how much.
        self.charges: dict[object, tuple[float, int]] = {}
        self.paused_until = -inf
        # Until then somebody was about to give something back.
        self.freed_until = -inf
        self.most_cost = 1
        self.used = False
        self.known = True
        self.met: deque[Claim] = deque(maxlen=REMEMBERED)

    def has_room(self, limit: Limit, now: float) -> bool:
        """Whether there is room for the dearest of its jobs, beyond doubt."""
        if not self.known or now <= max(self.paused_until + TICK, self.freed_until):
            return False
        if limit.concurrency is not None and len(self.held) >= limit.concurrency:
            return False
        if limit.rate is None:
            return True
        cost = bounded(limit, self.most_cost)
        return self._bucket(limit, cost, now) if limit.burst else self._window(limit, cost, now)

    def _window(self, limit: Limit, cost: int, now: float) -> bool:
        """Whether the window has room; what has left it is forgotten."""
        part = 0.0 if (limit.rate or 0) <= PARTS else seconds(limit.per) / PARTS
        since = now - seconds(limit.per) - part - TICK
        for each in [each for each, (at, _) in self.charges.items() if at < since]:
            del self.charges[each]
        return sum(used for _, used in self.charges.values()) + cost <= (limit.rate or 0)

    def _bucket(self, limit: Limit, cost: int, now: float) -> bool:
        """Whether the bucket has room; what does not count when it is full is forgotten."""
        full_at = -inf
        for at, used in sorted(self.charges.values()):
            full_at = max(full_at, at * SECOND) + price(limit, used)
        if full_at <= micros(now):
            self.charges.clear()
        return full_at + price(limit, cost) - allowance(limit) <= (now - TICK) * SECOND

    def narrow(self, event: AnyEvent) -> None:
        """What the event takes, it may have taken before those who were under way then looked."""
        self.met = deque((each for each in self.met if surely_before(each, event)), REMEMBERED)


class RoomIsUsed(Invariant):
    """A job that names one limit is not left waiting by a claim that could have started it.

    Such a claim got less than its demand, from the job's lane too, though the limit had room for
    any of its jobs: permits that are held, starts of the last while, what jobs spent besides and
    pauses left some. What was returned unstarted does not count any more. A job that names several
    limits may wait for any of them. Of claims that were not answered nobody knows what they
    hold, and of a clock that is set what it makes of starts: nothing is held against a store then.
    Jobs of `pools`, queues that are served by child processes, may have waited for one of those.
    """

    pools: Collection[str] = ()
    about = (Enqueue, Claim, Commit, SetLimit, PauseLimit, Fault)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._rules = Rules()
        self._uses: dict[str, Use] = defaultdict(Use)
        self._blind = False

    def happened(self, event: AnyEvent) -> None:
        """What was not answered may happen at any time, or have happened."""
        match event:
            case Claim(taken=None):
                self._blind = True
            case Fault(seconds=by) if by:
                self._blind = True
            case Enqueue(answers=None):
                self._price(event.jobs)
            case Commit(verdicts=None):
                for ending in event.endings:
                    self._price(ending.next)
                    for name in self._named(ending, self.book.jobs.get(ending.job)):
                        self._uses[name].known = False
            case SetLimit():
                self._change(event)
            case PauseLimit(name=name):
                use, until = self._uses[name], latest(event) + event.seconds
                use.narrow(event)
                use.paused_until = max(use.paused_until, until) if event.at_least else until
                use.known &= event.ended is not None

    def _change(self, event: SetLimit) -> None:
        """Of names whose rate is another one now, nobody knows what counts against it."""
        before = {name: self._rules.in_force(name) for name in self._uses}
        for use in self._uses.values():
            use.narrow(event)
        self._rules.happened(event)
        for name, was in before.items():
            now = self._rules.in_force(name)
            if was != now and any(each and each.rate for each in (was, now)):
                self._uses[name].known &= not self._uses[name].used

    def _price(self, jobs: Iterable[New]) -> None:
        """Note what the limits of these jobs must have room for."""
        for job in jobs:
            for name, cost in job.limits.items():
                self._uses[name].most_cost = max(self._uses[name].most_cost, cost)

    @staticmethod
    def _named(ending: Ending, job: Known | None) -> set[str]:
        """The limits of which the outcome says something besides that the job has ended."""
        mine = job.new.limits if job is not None and ending.retry_after is not None else ()
        return {*ending.spent, *ending.pauses, *mine}

    def enqueued(self, step: Accepted) -> None:
        """Note its cost."""
        self._price([step.new])

    def took(self, step: Took) -> None:
        """Look whether it could have started before; then it holds permits, and is charged."""
        taken, job, event = step.taken, step.job, step.event
        if job is None:
            self._blind = True
            return
        self._free(job, event)
        if isinstance(event, Reclaim):
            return
        pooled = taken.lane.queue in self.pools
        if len(job.new.limits) == 1 and not job.doubts and not self._blind and not pooled:
            self._look(step, job, event)
        for name, cost in job.new.limits.items():
            self._uses[name].narrow(event)
            self._uses[name].used = True
            self._uses[name].held.add(taken.job)
            self._uses[name].charges[taken.lease] = latest(event), cost

    def _look(self, step: Took, job: Known, event: Claim) -> None:
        """Look for a claim that met room when this job stood in a lane that it emptied."""
        taken = step.taken
        due = taken.due + latest(event) - taken.started_at + TICK
        [name] = job.new.limits
        for met in self._uses[name].met:
            stood = due <= met.began and surely_before(job.joined, met)
            if stood and surely_before(met, event) and taken.lane in met.emptied:
                words = f"left waiting though limit {name} had room, by {met.worker.id}"
                self.broken(job, words, met, event)
                return

    def claimed(self, event: Claim) -> None:
        """A claim that could have had more has met whatever limits have room."""
        if self._blind or not event.emptied or event.ended is None:
            return
        for name, use in self._uses.items():
            limit = self._rules.limit_of(name, event)
            if limit is not None and use.has_room(limit, event.began):
                use.met.append(event)

    def ended(self, step: Ended) -> None:
        """Its end frees its permits; what was returned was no start."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        if verdict == "stale" or job is None:
            return
        self._price(ending.next)
        if job.token == ending.token:
            self._free(job, event)
        if ending.how == "returned":
            for use in self._uses.values():
                if use.charges.pop(ending.lease, None):
                    use.freed_until = max(use.freed_until, latest(event))
        if verdict == "written":
            self._note_use(ending, job, event)
        if ending.limits:
            self._price([New(ending.job, limits=ending.limits)])

    def _note_use(self, ending: Ending, job: Known, event: Commit) -> None:
        """Charge what the attempt spent besides, and pause what it says to pause."""
        for name, cost in ending.spent.items():
            self._uses[name].narrow(event)
            self._uses[name].used = True
            self._uses[name].charges[ending.lease, name] = latest(event), cost
        for name in self._named(ending, job):
            said = ending.pauses.get(name, 0.0), ending.retry_after or 0.0
            use = self._uses[name]
            use.narrow(event)
            use.paused_until = max(use.paused_until, latest(event) + max(said))

    def operated(self, step: Operated) -> None:
        """A cancel frees them too."""
        if step.done:
            self._free(step.job, step.event)

    def _free(self, job: Known, event: AnyEvent) -> None:
        """The job holds no permits any more."""
        for name in job.new.limits:
            use = self._uses[name]
            if job.new.id in use.held:
                use.held.discard(job.new.id)
                use.freed_until = max(use.freed_until, latest(event))
