"""Who holds a job: leases, their tokens, and the commits that show them."""

from collections import defaultdict

from mulligan.core.job import ENDED, Lease
from tests.history.book import Book
from tests.history.events import (
    TICK,
    AnyEvent,
    Beat,
    Claim,
    Commit,
    Leave,
    Operate,
    Reclaim,
    latest,
    surely_before,
)
from tests.history.invariant import Ended, Invariant, Took
from tests.history.known import Known


class LeasesExclude(Invariant):
    """A job that is held is not claimed by another; one claim does not give it twice."""

    def took(self, step: Took) -> None:
        """Only `reclaim` may take a job that is held."""
        job, event = step.job, step.event
        if job is not None and isinstance(event, Claim) and self.book.held(job, job.token, event):
            self.broken(
                job,
                f"claimed by {event.worker.id} while {job.holder} held it with token {job.token}",
                event,
            )

    def claimed(self, event: Claim) -> None:
        """One answer names each job once."""
        seen: set[str] = set()
        for taken in event.taken or ():
            if taken.job in seen:
                self.broken(taken.job, "given twice in one claim", event)
            seen.add(taken.job)


class TokensGrow(Invariant):
    """Each lease of a job has a higher token than all before it, in all its lives."""

    def took(self, step: Took) -> None:
        """Compare with the highest token that was seen."""
        taken, job, event = step.taken, step.job, step.event
        if job is not None and taken.token <= job.token:
            self.broken(job, f"token {taken.token} was given after token {job.token}", event)


class StaleIsRefused(Invariant):
    """Nothing is written under a lease that was lost, or for a job that has ended."""

    def ended(self, step: Ended) -> None:
        """A written outcome had the newest token of a job that was running."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        if verdict != "written" or job is None:
            return
        if job.token > ending.token:
            words = f"{ending.how} was written with token {ending.token}, after token {job.token}"
            self.broken(job, words, event)
        elif job.status in ENDED and not job.doubts and ending.token not in job.committed:
            self.broken(job, f"{ending.how} was written for a job that was {job.status}", event)


class HeldIsHonoured(Invariant):
    """An outcome whose lease is held is written, whatever else is in its batch.

    Who is refused once is refused for ever. So a refusal is judged by the last moment at which it
    can have been given: whatever had begun by then may have taken the lease. And a lease that
    shows to be held after a refusal was held then, whatever else is in doubt.
    """

    about = (Reclaim, Operate)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._refused: dict[Lease, Commit] = {}

    def ended(self, step: Ended) -> None:
        """Only what is not held is refused."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        if verdict == "written":
            self._shown(ending.lease, f"{ending.how} was written under it", event)
        if verdict != "stale":
            return
        self._refused.setdefault(ending.lease, event)
        if job is not None and self.book.held(job, ending.token, event):
            others = len(event.endings) - 1
            words = f"{ending.how} was refused though token {ending.token} was held"
            words += f", beside {others} others" if others else ""
            self.suspect(ending.job, job, words, event)

    def took(self, step: Took) -> None:
        """It may have been given to another; what a reclaim finds was held until then."""
        taken, event = step.taken, step.event
        self.explain(taken.job, event)
        if isinstance(event, Reclaim):
            self._shown(Lease(taken.job, taken.token - 1), "it was reclaimed", event)

    def _shown(self, lease: Lease, words: str, event: AnyEvent) -> None:
        refused = self._refused.get(lease)
        if refused is not None and surely_before(refused, event):
            words = f"token {lease.token} was refused, and later {words}"
            self.broken(self.book.jobs.get(lease.job) or lease.job, words, refused, event)

    def happened(self, event: AnyEvent) -> None:
        """An operator may have ended it, or a reaper that got no answer have reclaimed it."""
        match event:
            case Operate():
                for job in event.jobs:
                    self.explain(job, event)
            case Reclaim(taken=None):
                for job in list(self._suspects):
                    self.explain(job, event)


class CommitsAreIdempotent(Invariant):
    """An outcome is written once; sent again it is answered `already`, and nothing else is.

    What is returned under a lease that no claim told of, the store may have taken back itself: a
    claim that finds its plan outdated when it has written gives back what it took.
    """

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._given: set[Lease] = set()

    def took(self, step: Took) -> None:
        """Somebody knows of this lease."""
        self._given.add(step.taken.lease)

    def ended(self, step: Ended) -> None:
        """Look at the tokens that were committed."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        if job is None:
            return
        if verdict == "written" and ending.token in job.committed:
            self.broken(job, f"token {ending.token} was written twice", event)
        if ending.how == "returned" and ending.lease not in self._given:
            return
        if verdict == "already" and ending.token not in job.committed | job.doubted:
            self.broken(
                job, f"token {ending.token} was answered `already`, but never written", event
            )


class LiveLeasesAreKept(Invariant):
    """A lease whose worker beat within its lease time, which each beat names, is not reclaimed.

    Unless the worker had asked to leave by then, or the clock was set: then any lease may run out.
    """

    about = (Leave,)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        # The last two of each worker: the newest may still have been on its way.
        self._beats: dict[str, list[Beat]] = defaultdict(list)
        self._left: set[str] = set()

    def beaten(self, event: Beat) -> None:
        """It lives on from the moment it asked."""
        self._beats[event.worker.id] = [*self._beats[event.worker.id][-1:], event]

    def happened(self, event: AnyEvent) -> None:
        """Who has asked to leave has nothing to keep."""
        if isinstance(event, Leave):
            self._left.add(event.worker)
            self.explain(event.worker, event)

    def took(self, step: Took) -> None:
        """The reclaimed job's worker must be silent."""
        taken, job, event = step.taken, step.job, step.event
        holder = taken.worker
        if not isinstance(event, Reclaim) or job is None or job.holder != holder:
            return
        until = latest(event)
        beats = self._beats[holder] if holder not in self._left else []
        for at, beat in enumerate(beats):
            # One that was on its way may have shortened the lease.
            left = min(each.began + each.worker.lease for each in beats[at:]) - until
            alive = left > TICK and surely_before(beat, event)
            if alive and not self.book.is_set(beat.began, until):
                words = f"reclaimed from {holder}, whose lease had {left:g} s left"
                self.suspect(holder, job, words, beat, event)
                return


class LossIsTold(Invariant):
    """A heartbeat is told of every lease it shows and no longer holds."""

    def beaten(self, event: Beat) -> None:
        """Compare what was shown with the book."""
        lost = set(event.lost or ())
        for lease in event.holding:
            job = self.book.jobs.get(lease.job)
            if job is not None and lease not in lost and self._is_lost(job, lease, event):
                self.broken(job, f"{event.worker.id} was not told that it lost {lease}", event)

    def _is_lost(self, job: Known, lease: Lease, event: Beat) -> bool:
        by = job.claimed if job.token > lease.token else job.ended if job.over else None
        return by is not None and surely_before(by, event)
