"""Who holds a job: leases, their tokens, and the commits that show them."""

from collections import defaultdict

from mulligan.core.job import ENDED, Lease
from mulligan.testing.history.book import Book, Known
from mulligan.testing.history.events import (
    AnyEvent,
    Beat,
    Claim,
    Fault,
    Leave,
    Seize,
)
from mulligan.testing.history.invariant import Ended, Invariant, Took


class LeasesExclude(Invariant):
    """A job that is held is not claimed by another; one claim does not give it twice."""

    def took(self, step: Took) -> None:
        """Only `seize` may take a job that is held."""
        job, event = step.job, step.event
        if job is not None and isinstance(event, Claim) and self.book.held(job, job.token):
            self.broken(
                job,
                f"claimed by {event.worker.id} while {job.holder} held it with token {job.token}",
                event,
            )

    def claimed(self, event: Claim) -> None:
        """One answer names each job once."""
        names = [taken.job for taken in event.taken or ()]
        for job in {name for name in names if names.count(name) > 1} if len(names) > 1 else ():
            self.broken(job, "given twice in one claim", event)


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
    """An outcome whose lease is held is written, whatever else is in its batch."""

    def ended(self, step: Ended) -> None:
        """Only what is not held is refused."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        if verdict == "stale" and job is not None and self.book.held(job, ending.token):
            others = len(event.endings) - 1
            words = f"{ending.how} was refused though token {ending.token} was held"
            self.broken(job, words + (f", beside {others} others" if others else ""), event)


class CommitsAreIdempotent(Invariant):
    """An outcome is written once; sent again it is answered `already`, and nothing else is."""

    def ended(self, step: Ended) -> None:
        """Look at the tokens that were committed."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        if job is None:
            return
        if verdict == "written" and ending.token in job.committed:
            self.broken(job, f"token {ending.token} was written twice", event)
        if verdict == "already" and ending.token not in job.committed:
            self.broken(
                job, f"token {ending.token} was answered `already`, but never written", event
            )


class LiveLeasesAreKept(Invariant):
    """A lease whose worker beat within its lease time is not seized."""

    about = (Leave, Fault)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        # The last two of each worker: the newest may still have been on its way.
        self._beats: dict[str, list[Beat]] = defaultdict(list)

    def beaten(self, event: Beat) -> None:
        """It lives on from the moment it asked."""
        self._beats[event.worker.id] = [*self._beats[event.worker.id][-1:], event]

    def happened(self, event: AnyEvent) -> None:
        """Who has left has nothing to keep; when the clock is set, any lease may run out."""
        match event:
            case Leave():
                self._beats.pop(event.worker, None)
            case Fault(seconds=by) if by:
                self._beats.clear()

    def took(self, step: Took) -> None:
        """The seized job's worker must be silent."""
        taken, job, event = step.taken, step.job, step.event
        if not isinstance(event, Seize) or job is None or job.holder != taken.worker:
            return
        for beat in self._beats.get(taken.worker, ()):
            left = beat.began + beat.worker.lease - (event.ended or event.began)
            if left > 0 and beat.ended is not None and beat.ended <= event.began:
                words = f"seized from {taken.worker}, whose lease had {left:g} s left"
                self.broken(job, words, beat, event)
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
        if job.token > lease.token:
            moved = job.claimed
            return moved is not None and moved.ended is not None and moved.ended <= event.began
        ended = job.ended
        gone = job.over and ended is not None and ended.ended is not None
        return gone and ended is not None and (ended.ended or 0.0) <= event.began
