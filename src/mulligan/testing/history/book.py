"""What is known about each job at one point of a history.

A book is kept by reading the events in order. What was never answered is kept as a doubt: it
may have happened. The next thing that is known for certain about the job settles it.
"""

from typing import TYPE_CHECKING, NamedTuple

from mulligan.core.facts import DEFAULT_QUEUE, QueueSettings
from mulligan.core.job import ENDED, Status
from mulligan.testing.history.events import AnyEvent, Claim, Ending, Kept, New, Seize, Taken

if TYPE_CHECKING:
    from mulligan.core.lane import Lane


class Doubt(NamedTuple):
    """Something that may have happened to the job."""

    event: AnyEvent
    what: Ending | str


class Known:
    """A job as the history tells it so far."""

    __slots__ = (
        "arrived",
        "claimed",
        "committed",
        "created",
        "doubts",
        "ended",
        "events",
        "failures",
        "gone",
        "holder",
        "joined",
        "lane",
        "new",
        "replay",
        "retry_count",
        "seized",
        "snoozes",
        "started",
        "status",
        "taken",
        "token",
    )

    def __init__(self, new: New, created: AnyEvent, token: int) -> None:
        self.new = new
        self.created = created
        self.status: Status = "pending"
        self.gone = False
        self.token = token
        self.committed: set[int] = set()
        self.retry_count = self.replay = self.snoozes = 0
        self.lane: Lane = new.lane
        self.joined = created
        self.claimed: Claim | Seize | None = None
        self.taken: Taken | None = None
        self.seized = False
        self.started = False
        self.holder = ""
        self.ended: AnyEvent | None = None
        self.arrived: set[int] = set()
        self.failures: list[tuple[int, str, str]] = []
        self.doubts: list[Doubt] = []
        self.events: list[AnyEvent] = [created]

    @property
    def counters(self) -> tuple[int, int, int]:
        """What grows: replays, and within one the retries and snoozes."""
        return self.replay, self.retry_count, self.snoozes

    @property
    def awaits(self) -> int:
        """How many have yet to arrive."""
        return self.new.awaits - len(self.arrived)

    @property
    def over(self) -> bool:
        """Whether it has ended, beyond doubt."""
        return self.status in ENDED and not self.doubts

    @property
    def unstarted(self) -> bool:
        """Whether it waits for its first attempt, and so may expire."""
        return self.status == "pending" and self.counters == (0, 0, 0)


class Book:
    """All jobs, queues and workers of a history, as far as it has been read."""

    def __init__(self) -> None:
        self.jobs: dict[str, Known] = {}
        self.may_exist: dict[str, tuple[New, AnyEvent, Known | None]] = {}
        self.waiting_for: dict[str, list[str]] = {}
        self.settings: dict[str, QueueSettings] = {}
        self.prunes: list[tuple[float, float]] = []
        self.blind_seize = -1.0
        self.set_by = 0.0  # how far the store's clock was set, all in all

    def queue(self, name: str) -> QueueSettings:
        """The settings of the queue."""
        return self.settings.get(name, DEFAULT_QUEUE)

    def find(self, job: str) -> Known | None:
        """The job; one that may have been created, and is asked for, was."""
        known = self.jobs.get(job)
        if job in self.may_exist and (known is None or known.gone):
            new, event, parent = self.may_exist.pop(job)
            if parent is not None:
                self._believe(parent, lambda what: isinstance(what, Ending) and new in what.next)
            if job not in self.jobs or self.jobs[job].gone:
                self.create(new, event)
        return self.jobs.get(job)

    def create(self, new: New, event: AnyEvent) -> None:
        """The job was accepted."""
        before = self.jobs.get(new.id)
        self.jobs[new.id] = Known(new, event, before.token if before else 0)
        self.may_exist.pop(new.id, None)
        if new.gather is not None:
            self.waiting_for.setdefault(new.gather, []).append(new.id)

    def held(self, job: Known, token: int) -> bool:
        """Whether the lease is held, beyond doubt."""
        return (
            job.status == "processing"
            and job.token == token
            and not job.doubts
            and job.claimed is not None
            and self.blind_seize < job.claimed.began
        )

    def take(self, job: Known, taken: Taken, event: Claim | Seize) -> None:
        """The job was claimed or seized."""
        job.status = "processing"
        job.token = max(job.token, taken.token)
        job.replay, job.retry_count, job.snoozes = taken.replay, taken.retry_count, taken.snoozes
        job.lane = taken.lane
        job.claimed, job.taken, job.holder = event, taken, event.worker.id
        job.seized = isinstance(event, Seize)
        job.started = False
        job.ended = None

    def end(self, job: Known, ending: Ending, event: AnyEvent) -> None:
        """The outcome was written."""
        job.committed.add(ending.token)
        job.token = max(job.token, ending.token)
        job.holder = ""
        if ending.how in ("again", "dead"):
            job.failures.append((ending.number, ending.type, ending.message))
        match ending.how:
            case "done":
                self.finish(job, "done", event)
                self._arrive(job)
            case "dead":
                self.finish(job, "failed", event)
            case "cancelled":
                self.finish(job, "cancelled", event)
            case "again":
                job.status, job.joined = "pending", event
                job.retry_count += 1
                job.lane = ending.lane or job.lane
            case "later":
                job.status, job.joined = "pending", event
                job.snoozes += 1
            case "returned":
                job.status, job.joined = "pending", event
        for new in ending.next:
            if new.id not in self.jobs or self.jobs[new.id].gone:
                self.create(new, event)

    def finish(self, job: Known, status: Status, event: AnyEvent) -> None:
        """The job has ended; one that will never arrive ends the one that awaits it."""
        job.status = status
        job.ended = event
        job.holder = ""
        if status == "cancelled":
            self.miss(job, event)

    def miss(self, job: Known, event: AnyEvent) -> None:
        """The job will never arrive."""
        gathering = self.jobs.get(job.new.gather or "")
        if gathering is not None and gathering.status == "pending" and gathering.awaits > 0:
            gathering.events.append(event)
            self.finish(gathering, "cancelled", event)

    def revive(self, job: Known, event: AnyEvent) -> None:
        """The job was replayed."""
        job.status, job.joined, job.ended = "pending", event, None
        job.retry_count = job.snoozes = 0
        job.replay += 1
        job.lane = job.new.lane

    def delete(self, job: Known, event: AnyEvent) -> None:
        """The job was purged."""
        if job.status == "failed":
            self.miss(job, event)
        job.gone = True

    def _arrive(self, job: Known) -> None:
        gathering = self.find(job.new.gather) if job.new.gather else None
        if gathering is not None and gathering.awaits > 0:
            gathering.arrived.add(job.new.place)
            if not gathering.awaits:
                gathering.joined = job.ended or gathering.joined

    def may_have_ended(self, job: Known, event: AnyEvent) -> bool:
        """Whether the store may have cancelled it by itself: it expired, or one it awaits did."""
        now = event.began if event.ended is None else event.ended
        if job.new.expires is not None and job.unstarted:
            return job.created.began + job.new.expires <= now + self.set_by
        if job.status != "pending" or job.awaits <= 0:
            return False
        members = (self.jobs[member] for member in self.waiting_for.get(job.new.id, ()))
        return any(
            member.gone or member.doubts or self.may_have_ended(member, event) for member in members
        )

    def must_wait(self, job: Known) -> bool:
        """Whether it awaits one that has failed, and so may wait for ever."""
        members = (self.jobs[member] for member in self.waiting_for.get(job.new.id, ()))
        return job.awaits > 0 and any(member.status == "failed" for member in members)

    def prunable(self, job: Known, event: AnyEvent) -> bool:
        """Whether it ended so long ago that it may have been deleted since."""
        if job.status in ("done", "cancelled"):
            since = job.ended.began if job.ended is not None else job.created.began
        elif self.may_have_ended(job, event):
            since = job.created.began
        else:
            return bool(job.doubts) and bool(self.prunes)
        return any(since + keep <= at + self.set_by for at, keep in self.prunes)

    def doubt(self, job: Known, event: AnyEvent, what: Ending | str) -> None:
        """Something may have happened to the job."""
        job.doubts.append(Doubt(event, what))
        if isinstance(what, Ending):
            for new in what.next:
                self.may_exist.setdefault(new.id, (new, event, job))

    def settle_claim(self, job: Known, taken: Taken, *, seized: bool) -> None:
        """A claim shows which of the doubts had happened before it."""
        goal = taken.replay, taken.retry_count, taken.snoozes
        while job.doubts:
            if job.counters == goal and (seized or job.status == "pending"):
                break
            doubt = job.doubts.pop(0)
            if counters_after(job, doubt.what) <= goal and not ends(doubt.what):
                self._happened(job, doubt)
        job.doubts = [doubt for doubt in job.doubts if not outdated(doubt, taken.token)]

    def settle_verdict(self, job: Known, ending: Ending, verdict: str) -> None:
        """A verdict shows whether the same outcome had been written before."""
        same = [
            d for d in job.doubts if isinstance(d.what, Ending) and d.what.token == ending.token
        ]
        if verdict == "already" and same:
            self._happened(job, same[0])
        if verdict != "stale":
            job.doubts = [doubt for doubt in job.doubts if doubt not in same]

    def settle_stock(self, job: Known, kept: Kept | None) -> None:
        """What is stored in the end shows which of the doubts happened."""
        for doubt in list(job.doubts):
            if not job.gone and (kept is None or not agrees(job, kept)):
                self._happened(job, doubt)
        job.doubts.clear()

    def settle_operator(self, job: Known, what: str) -> None:
        """That an operator could do this shows which of the doubts had happened before it."""
        needs = {"replay": ("failed",), "purge": ENDED}.get(what, ("pending", "processing"))
        while job.doubts and job.status not in needs:
            self._happened(job, job.doubts.pop(0))

    def _believe(self, job: Known, which: object) -> None:
        for doubt in list(job.doubts):
            if callable(which) and which(doubt.what):
                job.doubts.remove(doubt)
                self._happened(job, doubt)
                return

    def _happened(self, job: Known, doubt: Doubt) -> None:
        match doubt.what:
            case Ending() as ending:
                self.end(job, ending, doubt.event)
            case "replay":
                self.revive(job, doubt.event)
            case "cancel":
                self.finish(job, "cancelled", doubt.event)
            case "purge":
                self.delete(job, doubt.event)


def counters_after(job: Known, what: Ending | str) -> tuple[int, int, int]:
    """The counters of the job if this happened."""
    replay, retry_count, snoozes = job.counters
    match what:
        case Ending(how="again"):
            return replay, retry_count + 1, snoozes
        case Ending(how="later"):
            return replay, retry_count, snoozes + 1
        case "replay":
            return replay + 1, 0, 0
        case _:
            return job.counters


def ends(what: Ending | str) -> bool:
    """Whether it would leave nothing to claim."""
    if isinstance(what, Ending):
        return what.how in ("done", "cancelled")
    return what in ("cancel", "purge")


def outdated(doubt: Doubt, token: int) -> bool:
    """Whether a claim with this token shows that it did not happen, or no longer matters."""
    return not isinstance(doubt.what, Ending) or doubt.what.token < token


def agrees(job: Known, kept: Kept) -> bool:
    """Whether the job stands as it is stored."""
    return (job.status, job.counters) == (
        kept.status,
        (kept.replay, kept.retry_count, kept.snoozes),
    )
