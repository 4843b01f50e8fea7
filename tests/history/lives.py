"""Where jobs come from and how they end: none is lost, none appears from nowhere."""

from mulligan.core.job import ENDED
from tests.history.book import Book
from tests.history.events import (
    AnyEvent,
    Claim,
    Commit,
    Enqueue,
    Kept,
    Operate,
    Reclaim,
    Stock,
    latest,
    surely_before,
)
from tests.history.invariant import Accepted, Ended, Invariant, Operated, Took
from tests.history.known import Known


class NothingIsInvented(Invariant):
    """Every job that is claimed or stored was enqueued, or followed from one that ended."""

    def took(self, step: Took) -> None:
        """A claimed job is known."""
        taken, job, event = step.taken, step.job, step.event
        if job is None:
            self.broken(taken.job, "claimed, but nobody enqueued it", event)

    def stored(self, stock: Stock) -> None:
        """A stored job is known."""
        for kept in stock.jobs:
            job = self.book.jobs.get(kept.id)
            if job is None:
                self.broken(kept.id, f"stored as {kept.status}, but nobody enqueued it", stock)
            elif job.gone:
                self.broken(job, f"stored as {kept.status} after it was purged")


class NothingIsLost(Invariant):
    """Every job that was accepted is stored until it was purged, or had ended long enough ago.

    So is what follows from an end that was written. When the system has come to rest, all of
    them have ended, but for those that await a dead letter.
    """

    def stored(self, stock: Stock) -> None:
        """Look each one up."""
        stored = {kept.id: kept for kept in stock.jobs}
        for name, job in self.book.jobs.items():
            kept = stored.get(name)
            if kept is None and not job.gone and not self.book.prunable(job, stock):
                self.broken(job, f"it was {job.status}, and is no longer stored")
            idle = kept is not None and kept.status not in ENDED and stock.rest
            if idle and not self.book.must_wait(job):
                self.broken(job, f"still {job.status} when all is over")


class OnePlace(Invariant):
    """A stored job is in one place, the one that its history led to."""

    def stored(self, stock: Stock) -> None:
        """Compare status and counters, and look for doubles."""
        seen: set[str] = set()
        for kept in stock.jobs:
            job = self.book.jobs.get(kept.id)
            if kept.id in seen:
                self.broken(job or kept.id, "stored twice")
            seen.add(kept.id)
            if job is not None and not job.gone and not self._fits(job, kept, stock):
                words = f"stored as {kept.status} at {kept.replay, kept.retry_count, kept.snoozes}"
                self.broken(job, f"{words}, and it was {job.status} at {job.counters}")

    def _fits(self, job: Known, kept: Kept, stock: Stock) -> bool:
        silently = kept.status == "cancelled" and self.book.may_have_ended(job, stock)
        same = job.status == kept.status or silently
        return same and job.counters == (kept.replay, kept.retry_count, kept.snoozes)


class EndedIsEnded(Invariant):
    """What has ended is not started again, except by a replay."""

    def took(self, step: Took) -> None:
        """Only jobs that have not ended are claimed."""
        job, event = step.job, step.event
        if job is not None and job.over and not job.gone:
            self.broken(job, f"claimed by {event.worker.id} when it was {job.status}", event)
        elif job is not None and job.gone:
            self.broken(job, f"claimed by {event.worker.id} after it was purged", event)

    def operated(self, step: Operated) -> None:
        """Only what has failed is replayed, only what has not ended is cancelled."""
        what, job, event, done = step.what, step.job, step.event, step.done
        if not done or job.doubts:
            return
        if what == "replay" and job.status != "failed":
            self.broken(job, f"replayed when it was {job.status}", event)
        if what == "cancel" and job.status in ENDED:
            self.broken(job, f"cancelled when it was {job.status}", event)


class OnlyTheEndedIsPurged(Invariant):
    """A job that waits or runs is not deleted."""

    def operated(self, step: Operated) -> None:
        """Look at what it was."""
        what, job, event, done = step.what, step.job, step.event, step.done
        if what != "purge" or not done or job.doubts:
            return
        if job.status not in ENDED and not self.book.may_have_ended(job, event):
            self.broken(job, f"purged when it was {job.status}", event)


class DeadOnce(Invariant):
    """A job becomes a dead letter once, and once more only after a replay."""

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._dead: dict[str, tuple[AnyEvent, int]] = {}

    def ended(self, step: Ended) -> None:
        """Look whether this replay of this life had died before."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        if job is not None and verdict == "written" and ending.how == "dead":
            life = job.created, job.replay
            if self._dead.get(ending.job) == life:
                self.broken(job, "it became a dead letter twice", event)
            self._dead[ending.job] = life


class GathersAll(Invariant):
    """A job that awaits others starts when all have arrived, each counted once."""

    def took(self, step: Took) -> None:
        """Every place must be filled."""
        job, event = step.job, step.event
        if (
            job is not None
            and job.new.awaits
            and job.awaits > self._expired(job, event)
            and (not self._doubtful(job))
        ):
            words = f"started when {len(job.arrived)} of {job.new.awaits} had arrived"
            self.broken(job, words, event)

    def _expired(self, job: Known, event: AnyEvent) -> int:
        """How many of its members the store may have ended by itself, if such arrive."""
        if not job.new.return_exceptions:
            return 0
        members = (self.book.jobs[each] for each in self.book.waiting_for.get(job.new.id, ()))
        open_ones = (each for each in members if each.status == "pending")
        return sum(self.book.may_have_ended(each, event) for each in open_ones)

    def _doubtful(self, job: Known) -> bool:
        members = self.book.waiting_for.get(job.new.id, ())
        return any(self.book.jobs[member].doubts for member in members)


class KeysExclude(Invariant):
    """While a job with a unique key has not ended, another enqueue with it gives that job.

    And no longer: once it has ended, the key is free. That of a throttled job is taken until its
    time is over too, unless it was cancelled; that of a debounced one is free at its first start,
    of which a claim that was never answered may have been one.
    """

    about = (Enqueue, Commit, Operate, Claim)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._blind_claim = False
        self._holders: dict[tuple[str, str], str] = {}

    def happened(self, event: AnyEvent) -> None:
        """Whatever is done to a holder meanwhile may end it, or begin another life of it."""
        match event:
            case Enqueue():
                jobs = [new.id for new in event.jobs]
            case Commit():
                following = (new.id for ending in event.endings for new in ending.next)
                jobs = [*(ending.job for ending in event.endings), *following]
            case Operate():
                jobs = event.jobs
            case Claim(taken=None):
                self._blind_claim = True
                return
            case Claim():
                jobs = [taken.job for taken in event.taken or ()]
            case _:
                return
        for job in jobs:
            self.explain(job, event)

    def enqueued(self, step: Accepted) -> None:
        """Compare the answer with who holds the key."""
        new, answer, event = step.new, step.answer, step.event
        if new.key is None or (new.past is not None and new.past.status in ENDED):
            return
        if answer.created:
            name = self._holders.get(new.key, new.id)
            holder = self.book.jobs.get(name)
            if holder is not None and name != new.id and self._holds(holder, event):
                words = f"it had not ended when {new.id} was given its key"
                self.suspect(name, holder, words, event)
            self._holders[new.key] = new.id
        elif answer.id != new.id:
            first = self.book.jobs.get(answer.id)
            ended = None if first is None or not first.over else first.ended
            if first is None or self._throttled(first, event.began, sure=False):
                return
            if ended is not None and surely_before(ended, event):
                words = f"it had ended, and still kept the key {new.key[1]!r} from {new.id}"
                self.suspect(answer.id, first, words, event)

    def _holds(self, job: Known, event: AnyEvent) -> bool:
        if job.gone or job.doubts or not surely_before(job.created, event):
            return False
        if job.new.debounce_max is not None and (self._blind_claim or not job.unstarted):
            return False
        if job.status in ENDED:
            return job.status != "cancelled" and self._throttled(job, latest(event), sure=True)
        return not self.book.may_have_ended(job, event)

    def _throttled(self, job: Known, now: float, *, sure: bool) -> bool:
        """Whether the job's time is not over by then; `sure`, or perhaps."""
        if job.new.unique_for is None:
            return False
        if sure:
            return now + self.book.set_by(now) < job.created.began + job.new.unique_for
        return now - self.book.set_by(now) <= latest(job.created) + job.new.unique_for


class ExpiredIsNotStarted(Invariant):
    """A job that did not start in time is not started."""

    def took(self, step: Took) -> None:
        """Its time ran out at the latest so long after it was accepted."""
        job, event = step.job, step.event
        if job is None or job.new.expires is None or job.counters != (0, 0, 0):
            return
        if job.new.past is not None:
            return  # its time is told by another store's clock
        accepted = job.created.ended
        if accepted is None or isinstance(event, Reclaim):
            return
        late = event.began - accepted - job.new.expires - self.book.set_by(latest(event))
        if late > 0:
            self.broken(job, f"started {late:g} s after it had expired", event)
