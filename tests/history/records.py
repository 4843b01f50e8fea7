"""What jobs record: under their leases only, and each step until it is recorded only."""

from mulligan.core.job import Lease, life_of
from tests.history.book import Book
from tests.history.events import AnyEvent, Event, Operate, Record, StepRun, surely_before
from tests.history.invariant import Invariant


class StaleRecordsAreRefused(Invariant):
    """Nothing is recorded under a lease that was lost, or for a job that has ended."""

    about = (Record,)

    def happened(self, event: AnyEvent) -> None:
        """What was accepted had the newest token of a job that was running."""
        if not isinstance(event, Record) or event.verdicts is None:
            return
        for (lease, _), verdict in zip(event.recordings, event.verdicts, strict=True):
            by = self._lost_by(lease)
            if verdict == "recorded" and by is not None and surely_before(by, event):
                job = self.book.jobs[lease.job]
                words = f"token {lease.token} recorded something after it was lost"
                self.broken(job, words, by, event)

    def _lost_by(self, lease: Lease) -> AnyEvent | None:
        job = self.book.jobs.get(lease.job)
        if job is None or job.gone:
            return None
        if job.token > lease.token:
            return job.claimed
        return job.ended if job.over and job.token == lease.token else None


class RecordedStepsRunNoMore(Invariant):
    """The function of a step is not called once its result was recorded.

    Unless the job began from the start, or the worker has lost it and does not know it yet. Needs
    the tasks' own events.
    """

    about = (Record, StepRun, Operate)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        # By job, life of it, and name of the step: what recorded it, under which token.
        self._recorded: dict[tuple[str, int, str], tuple[Event, int]] = {}

    def happened(self, event: AnyEvent) -> None:
        """Compare each call with what was recorded before it."""
        match event:
            case Record(verdicts=list(verdicts)):
                for (lease, steps), verdict in zip(event.recordings, verdicts, strict=True):
                    if verdict == "recorded":
                        for name in steps:
                            key = (lease.job, life_of(lease.token), name)
                            self._recorded.setdefault(key, (event, lease.token))
            case StepRun():
                key = (event.job, life_of(event.token), event.name)
                recorded, token = self._recorded.get(key, (event, 0))
                job = self.book.jobs.get(event.job)
                lost = job is not None and (
                    job.gone
                    or job.token > event.token
                    or job.status == "pending"  # as when its id is used again
                )
                if not lost and event.token >= token and surely_before(recorded, event):
                    words = f"step {event.name} ran after it was recorded"
                    self.broken(job or event.job, words, event)
            case Operate(what="replay", from_start=True):
                for key in [key for key in self._recorded if key[0] in event.jobs]:
                    del self._recorded[key]
