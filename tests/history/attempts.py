"""What counts as an attempt, and when the next one may start."""

from math import inf
from typing import TYPE_CHECKING

from mulligan.core.decide import LOST
from tests.history.book import Book
from tests.history.events import (
    TICK,
    AnyEvent,
    Attempt,
    Beat,
    Ending,
    Fault,
    Reclaim,
    Stock,
    latest,
)
from tests.history.invariant import Ended, Invariant, Took

if TYPE_CHECKING:
    from tests.history.known import Known


# Faults of which a simulation tells: a region without its store, a process that does not run.
DEAFENING = ("cut", "freeze")
# What processes hold for the time of a store that is measured over a network may differ so much.
MEASURED = 1.0


class AttemptsAreCounted(Invariant):
    """retry_count grows by one with each failed or lost attempt, and with nothing else."""

    def took(self, step: Took) -> None:
        """A claim shows the counters that all before it add up to."""
        taken, job, event = step.taken, step.job, step.event
        shown = taken.replay, taken.retry_count, taken.snoozes
        if job is not None and not job.doubts and shown != job.counters:
            words = "replay {}, retry {}, snooze {}"
            self.broken(
                job,
                f"claimed as {words.format(*shown)}; it was at {words.format(*job.counters)}",
                event,
            )


class AttemptsAreCapped(Invariant):
    """retry_count never exceeds max_retries, and a failure is the last one only when it is met.

    Or when the task gave up: then it is. Of attempts that were not lost, the tasks must tell.
    """

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._gave_up: set[tuple[str, int]] = set()

    def attempted(self, event: Attempt) -> None:
        """Remember who does not want to be tried again."""
        if event.said == "gave up":
            self._gave_up.add((event.job, event.token))

    def took(self, step: Took) -> None:
        """Look at the claim's number."""
        taken, job, event = step.taken, step.job, step.event
        most = None if job is None else job.new.max_retries
        if job is not None and most is not None and taken.retry_count > most:
            self.broken(job, f"retry {taken.retry_count} of at most {most} was started", event)

    def ended(self, step: Ended) -> None:
        """Look whether it was to be the last."""
        ending, job, event = step.ending, step.job, step.event
        if step.verdict == "stale" or job is None or job.token != ending.token:
            return
        gave_up = (ending.job, ending.token) in self._gave_up
        if ending.how == "again" and gave_up:
            self.broken(job, "its task gave up, and it was to be made again", event)
        most = job.new.max_retries
        # What could not be followed by the next stage had not failed: nobody can tell.
        known = job.reclaimed or (job.started and not gave_up and ending.type != "Flow")
        if ending.how == "dead" and known and (most is None or job.retry_count < most):
            words = f"it became a dead letter at retry {job.retry_count}"
            self.broken(job, f"{words} of {'any number' if most is None else most}", event)


class LostIsCounted(Invariant):
    """A reclaimed attempt is a failed one: it ends in a retry or a dead letter."""

    def ended(self, step: Ended) -> None:
        """Look at what the reaper made of it."""
        ending, job, event = step.ending, step.job, step.event
        if (
            step.verdict != "written"
            or job is None
            or not job.reclaimed
            or job.token != ending.token
        ):
            return
        if ending.how not in ("again", "dead"):
            self.broken(job, f"the lost attempt was ended as {ending.how}", event)


class UnstartedIsFree(Invariant):
    """An attempt that never began uses no retry; one that began is not returned as if it had not.

    Needs the tasks' own events.
    """

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._told = False

    def attempted(self, event: Attempt) -> None:
        """Tasks do tell."""
        self._told = event.said == "started" or self._told

    def ended(self, step: Ended) -> None:
        """Compare the outcome with what the task did under this lease."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        if not self._told or verdict != "written" or job is None or job.token != ending.token:
            return
        fails = ending.how in ("again", "dead") and ending.type not in (LOST.type, "Flow")
        if fails and not job.started and not job.reclaimed:
            self.broken(job, f"an attempt that never began was ended as {ending.how}", event)
        if ending.how == "returned" and job.started:
            self.broken(job, "an attempt that had begun was returned as if it had not", event)


class RetriesAreNeverEarly(Invariant):
    """No attempt starts before its due time."""

    def took(self, step: Took) -> None:
        """Both times are the store's own."""
        taken, job, event = step.taken, step.job, step.event
        if job is None or isinstance(event, Reclaim):
            return
        if taken.started_at < taken.due - TICK:
            words = f"started {taken.due - taken.started_at:g} s before its time"
            self.broken(job, words, event)


class DelaysAreKept(Invariant):
    """A retry is due when its delay has passed since its attempt ended: not before, nor later."""

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        # By life of a job: how it was put off, when that was answered, since when it ran, and
        # before which moment of the store it is not due.
        self._put_off: dict[Known, tuple[Ending, float, float, float]] = {}

    def took(self, step: Took) -> None:
        """Look when it fell due."""
        taken, job, event = step.taken, step.job, step.event
        if job is None or job not in self._put_off or isinstance(event, Reclaim):
            return
        ending, answered, since, least = self._put_off.pop(job)
        if self.book.is_set(since, latest(event)):
            return
        if taken.due < least - TICK:
            self.broken(job, f"due {least - taken.due:g} s before its delay had passed", event)
        # The store started it when this was asked for, or later: so far its clock is ahead.
        most = answered + ending.delay + taken.started_at - event.began
        # A lease between the two that nobody heard of may have put it off again.
        if taken.due > most + MEASURED and taken.token == ending.token + 1:
            self.broken(job, f"due {taken.due - most:g} s after its delay had passed", event)

    def ended(self, step: Ended) -> None:
        """It was put off at some moment after it started."""
        ending, job = step.ending, step.job
        if step.verdict != "written" or job is None:
            return
        self._put_off.pop(job, None)
        taken, claimed = job.taken, job.claimed
        if ending.how not in ("again", "later") or taken is None or claimed is None:
            return
        if ending.token == taken.token:
            # A reclaimed attempt began earlier than it was reclaimed, and waits for nothing.
            least = -inf if job.reclaimed else taken.started_at + ending.delay
            self._put_off[job] = ending, latest(step.event), claimed.began, least


class RefusedStaysOut(Invariant):
    """A result that the gate refused is not done, and nothing follows from it.

    Needs the tasks' own events.
    """

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._refused: set[tuple[str, int]] = set()

    def attempted(self, event: Attempt) -> None:
        """Remember which leases gave a result that is no good."""
        if event.said in ("refused", "failed", "gave up", "crashed"):
            self._refused.add((event.job, event.token))

    def ended(self, step: Ended) -> None:
        """Such a lease never ends as done."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        bad = ending.how == "done" and verdict == "written"
        if bad and (ending.job, ending.token) in self._refused:
            self.broken(job or ending.job, "its result was refused, and it was made done", event)


class LostStops(Invariant):
    """An attempt whose worker was told that its lease is lost does not go on to its end.

    Needs the tasks' own events. Where the history is that of the store, word is under way for
    a while: `within` is how long. Who is cut off or frozen meanwhile may never hear of it.
    """

    within = 0.0
    about = (Fault,)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._told: dict[tuple[str, int], Beat] = {}
        self._deaf: list[float] = []

    def happened(self, event: AnyEvent) -> None:
        """Remember when somebody did not hear."""
        if isinstance(event, Fault) and event.what in DEAFENING:
            self._deaf.append(event.began)

    def beaten(self, event: Beat) -> None:
        """Remember what was told."""
        for lease in event.lost or ():
            self._told.setdefault((lease.job, lease.token), event)

    def attempted(self, event: Attempt) -> None:
        """It may have ended before it could be stopped, but not later."""
        told = self._told.get((event.job, event.token))
        if (
            told is not None
            and event.said != "started"
            and event.began > (told.ended or 0.0) + self.within
            and not any(told.began <= at <= told.began + self.within for at in self._deaf)
        ):
            self.broken(
                self.book.jobs.get(event.job) or event.job,
                "it ran on after its worker was told to stop",
                told,
                event,
            )


class OneCrashOneJob(Invariant):
    """A child process that dies fails the attempt that ran in it, and no other.

    Needs the tasks' own events.
    """

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._crashed: set[tuple[str, int]] = set()

    def attempted(self, event: Attempt) -> None:
        """Remember which attempts crashed their process."""
        if event.said == "crashed":
            self._crashed.add((event.job, event.token))

    def ended(self, step: Ended) -> None:
        """Whose process is said to have died must have crashed it."""
        ending, verdict, job, event = step.ending, step.verdict, step.job, step.event
        if verdict != "written" or ending.type != "ProcessDied":
            return
        if (ending.job, ending.token) not in self._crashed:
            words = "its process died, which another attempt crashed"
            self.broken(job or ending.job, words, event)


class FailuresAreTrue(Invariant):
    """A job's stored history is that of its written failures, the newest, in order."""

    def stored(self, stock: Stock) -> None:
        """Compare what is stored with what was written."""
        for kept in stock.jobs:
            job = self.book.jobs.get(kept.id)
            if job is not None and not job.doubts:
                told = job.failures[-len(kept.failures) :] if kept.failures else []
                if kept.failures != told or (job.failures and not kept.failures):
                    words = f"its stored failures are {kept.failures}, and {told} were written"
                    self.broken(job, words)


class ResultsAreTrue(Invariant):
    """The stored result of a job is the one that was written when it was done."""

    def stored(self, stock: Stock) -> None:
        """Compare what is stored with what was written."""
        for kept in stock.jobs:
            job = self.book.jobs.get(kept.id)
            done = job is not None and job.status == kept.status == "done"
            if job is not None and done and job.result != kept.result:
                self.broken(job, "its stored result is not the one that was written")
