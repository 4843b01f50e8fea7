"""What is known about each job at one point of a history.

A book is kept by reading the events in order. What was never answered is kept as a doubt: it
may have happened. The next thing that is known for certain about the job settles it.
"""

from collections.abc import Callable, Iterable
from math import inf

from msgspec.structs import replace

from mulligan.core.facts import DEFAULT_QUEUE, QueueSettings
from mulligan.core.job import Status
from mulligan.core.lane import Lane
from tests.history.events import (
    AnyEvent,
    Beat,
    Claim,
    Ending,
    Fault,
    Kept,
    Leave,
    New,
    Prune,
    Reclaim,
    Taken,
    latest,
)
from tests.history.known import Doubt, Known
from tests.history.state import State


class Book:
    """All jobs, queues and workers of a history, as far as it has been read."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.jobs: dict[str, Known] = {}
        self._may_exist: dict[str, list[tuple[New, AnyEvent, Known | None]]] = {}
        self.waiting_for: dict[str, list[str]] = {}
        self.settings: dict[str, QueueSettings] = {}
        self._pruned_until = -inf
        self._pruned_at = -inf
        self.blind_reclaim = False
        # By worker: since when it was surely alive without a break, and until when.
        self._alive: dict[str, tuple[float, float]] = {}
        self._set = [(each.began, abs(each.seconds)) for each in faults if each.seconds]

    def set_by(self, until: float) -> float:
        """How far the store's clock was set until then, there and back, all in all."""
        return sum(by for at, by in self._set if at <= until)

    def is_set(self, since: float, until: float) -> bool:
        """Whether the store's clock may have been set between these moments."""
        return any(since <= at <= until for at, _ in self._set)

    def queue(self, name: str) -> QueueSettings:
        """The settings of the queue."""
        return self.settings.get(name, DEFAULT_QUEUE)

    def perhaps(self, new: New, event: AnyEvent, parent: Known | None = None) -> None:
        """The job may have been created so, as nobody was told."""
        self._may_exist.setdefault(new.id, []).append((new, event, parent))

    def find(self, job: str, lane: Lane | None = None) -> Known | None:
        """The job; one that may have been created, and is asked for, was.

        Of several ways it is the first, or the first that puts the job into this lane. One that is
        claimed though it had ended was pruned before.
        """
        known = self.jobs.get(job)
        if lane is not None and job in self._may_exist and known is not None and known.over:
            known.gone = known.gone or self.prunable(known, self._may_exist[job][-1][1])
        if job in self._may_exist and (known is None or known.gone):
            ways = self._may_exist.pop(job)
            new, event, parent = next((way for way in ways if way[0].lane == lane), ways[0])
            if parent is not None:
                self._believe(parent, new)
            if job not in self.jobs or self.jobs[job].gone:
                self.create(new, event)
        return self.jobs.get(job)

    def create(self, new: New, event: AnyEvent) -> None:
        """The job was accepted."""
        before = self.jobs.get(new.id)
        self.jobs[new.id] = Known(new, event, before.token if before else 0)
        self._may_exist.pop(new.id, None)
        if new.gather is not None:
            self.waiting_for.setdefault(new.gather, []).append(new.id)

    def put_off(self, job: Known, event: AnyEvent) -> None:
        """A debounced job that waits has joined its lane anew."""
        job.events.append(event)
        if job.unstarted and job.new.debounce_max is not None:
            job.joined = event

    def held(self, job: Known, token: int, event: AnyEvent) -> bool:
        """Whether the lease is held when this happens, beyond doubt."""
        if job.status != "processing" or job.token != token or job.doubts or job.claimed is None:
            return False
        return self.keeps(job.holder, job.claimed.began, latest(event))

    def keeps(self, worker: str, since: float, until: float) -> bool:
        """Whether nothing can have been reclaimed from the worker unheard between these moments.

        A reclaim that was never answered may reach the store at any later time, and then finds
        whatever lease has run out: only who was alive all the while is safe from it.
        """
        return not self.blind_reclaim or self.is_live(worker, since, until)

    def is_live(self, worker: str, since: float, until: float) -> bool:
        """Whether the worker's answered beats leave no gap between these moments.

        Once the store's clock was set, it may have taken the worker for dead.
        """
        first, last = self._alive.get(worker, (inf, -inf))
        return first <= since and until < last and not self.is_set(first, until)

    def beat(self, event: Beat) -> None:
        """The worker is alive, from when it was answered and for a lease from when it asked."""
        since, until = self._alive.get(event.worker.id, (inf, -inf))
        if latest(event) > until:
            since = latest(event)
        self._alive[event.worker.id] = since, event.began + event.worker.lease

    def leave(self, event: Leave) -> None:
        """The worker has nothing to keep."""
        self._alive.pop(event.worker, None)

    def take(self, job: Known, taken: Taken, event: Claim | Reclaim) -> None:
        """The job was claimed or reclaimed."""
        job.status = "processing"
        job.token = max(job.token, taken.token)
        job.replay, job.retry_count, job.snoozes = taken.replay, taken.retry_count, taken.snoozes
        job.lane = taken.lane
        job.claimed, job.taken, job.holder = event, taken, event.worker.id
        job.reclaimed = isinstance(event, Reclaim)
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
                job.result = ending.result
                self.finish(job, "done", event)
                self._arrive(job, hands_on=ending.hands_on)
            case "dead":
                self._die(job, event)
            case "cancelled":
                self.finish(job, "cancelled", event)
            case "again":
                job.status, job.joined = "pending", event
                job.retry_count += not ending.free
                job.snoozes += ending.free
                job.lane = ending.lane or job.lane
            case "later":
                job.status, job.joined = "pending", event
                job.snoozes += 1
            case "returned":
                job.status, job.joined = "pending", event
                if ending.limits is not None:
                    job.new = replace(
                        job.new, limits=ending.limits, fairness_key=ending.fairness_key
                    )
        for new in ending.next:
            self._follow(new, event)

    def _follow(self, new: New, event: AnyEvent) -> None:
        """A job that follows was accepted, unless it is there from before."""
        before = self.jobs.get(new.id)
        if before is None or before.gone:
            self.create(new, event)
        elif self.prunable(before, event):
            self.perhaps(new, event)

    def _die(self, job: Known, event: AnyEvent) -> None:
        """The job has failed for good, and arrives where failures do."""
        self.finish(job, "failed", event)
        if self._wants_failures(job):
            self._arrive(job)

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
        if self._wants_failures(job):
            self._arrive(job)
        elif gathering is not None and gathering.status == "pending" and gathering.awaits > 0:
            gathering.events.append(event)
            self.finish(gathering, "cancelled", event)

    def revive(self, job: Known, event: AnyEvent) -> None:
        """The job was replayed."""
        job.status, job.joined, job.ended = "pending", event, None
        job.retry_count = job.snoozes = 0
        job.replay += 1
        job.lane = job.new.lane
        gathering = self.jobs.get(job.new.gather or "")
        if gathering is not None and gathering.awaits > 0 and self._wants_failures(job):
            gathering.arrived.discard(job.new.gather_index)

    def _wants_failures(self, job: Known) -> bool:
        """Whether the job arrives where it is awaited however it ends."""
        gathering = self.find(job.new.gather) if job.new.gather else None
        return gathering is not None and gathering.new.return_exceptions

    def delete(self, job: Known, event: AnyEvent) -> None:
        """The job was purged."""
        if job.status == "failed":
            self.miss(job, event)
        job.gone = True

    def _arrive(self, job: Known, *, hands_on: bool = False) -> None:
        gathering = self.find(job.new.gather) if job.new.gather else None
        if gathering is not None and gathering.awaits > 0 and not hands_on:
            gathering.arrived.add(job.new.gather_index)
            if not gathering.awaits:
                gathering.joined = job.ended or gathering.joined

    def may_have_ended(self, job: Known, event: AnyEvent) -> bool:
        """Whether the store may have cancelled it by itself: it expired, or one it awaits did."""
        now = latest(event)
        if job.new.expires is not None and job.unstarted:
            return job.created.began + job.new.expires <= now + self.set_by(now)
        if job.status != "pending" or job.awaits <= 0:
            return False
        members = (self.jobs[member] for member in self.waiting_for.get(job.new.id, ()))
        return any(
            member.gone or member.doubts or self.may_have_ended(member, event) for member in members
        )

    def must_wait(self, job: Known) -> bool:
        """Whether it awaits one that has failed, and so may wait for ever."""
        members = (self.jobs[member] for member in self.waiting_for.get(job.new.id, ()))
        if job.new.return_exceptions:
            return False
        return job.awaits > 0 and any(member.status == "failed" for member in members)

    def prunable(self, job: Known, event: AnyEvent) -> bool:
        """Whether it ended so long ago that it may have been deleted since."""
        if job.status in ("done", "cancelled"):
            since = job.ended.began if job.ended is not None else job.created.began
        elif self.may_have_ended(job, event):
            since = job.created.began
        else:
            return False
        if job.new.keep is not None:
            return since + job.new.keep <= self._pruned_at
        return since <= self._pruned_until

    def prune(self, event: Prune) -> None:
        """What had ended so long before may be deleted."""
        at = latest(event)
        now = at + self.set_by(at)
        self._pruned_at = max(self._pruned_at, now)
        self._pruned_until = max(self._pruned_until, now - event.keep_done)

    def doubt(self, job: Known, event: AnyEvent, what: Ending | str) -> None:
        """Something may have happened to the job; nothing that is sent late or once more."""
        if isinstance(what, Ending):
            if what.token < job.token or what.token in job.committed:
                return
            job.doubted.add(what.token)
            for new in what.next:
                self.perhaps(new, event, job)
        # Sent again, it can still happen only once: as well when it was sent first.
        if not any(doubt.is_again(what) for doubt in job.doubts):
            job.doubts.append(Doubt(event, what))

    def settle_claim(self, job: Known, taken: Taken, *, reclaimed: bool) -> None:
        """A claim shows which of the doubts had happened before it: at best, up to its token."""
        goal = taken.replay, taken.retry_count, taken.snoozes
        fit = ("pending", "processing") if reclaimed else ("pending",)

        def fits(state: State) -> bool:
            return state.counters == goal and state.status in fit

        self._settle(job, lambda state: fits(state) and state.token == taken.token - 1, fits)
        job.doubts = [
            doubt
            for doubt in job.doubts
            if not isinstance(doubt.what, Ending) or doubt.what.token >= taken.token
        ]

    def settle_verdict(self, job: Known, ending: Ending, verdict: str) -> None:
        """A verdict shows whether the same outcome had been written before.

        And what was returned under a lease that nobody heard of had been waiting.
        """
        if (verdict, ending.how) == ("written", "returned") and ending.token > job.token:
            self._settle(job, lambda state: state.status == "pending")
        same = [
            d for d in job.doubts if isinstance(d.what, Ending) and d.what.token == ending.token
        ]
        if verdict == "already" and same:
            self._happened(job, same[0])
        if verdict != "stale":
            job.doubts = [doubt for doubt in job.doubts if doubt not in same]

    def settle_stock(self, job: Known, kept: Kept | None) -> None:
        """What is stored in the end shows which of the doubts happened.

        One that is cancelled or gone may also have expired while it was pending.
        """
        if kept is None:
            self._settle(
                job,
                lambda state: state.gone or state.status in ("done", "cancelled"),
                lambda state: state.status == "pending",
            )
        else:
            counters = kept.replay, kept.retry_count, kept.snoozes

            def fits(state: State) -> bool:
                return (state.status, state.counters) == (kept.status, counters)

            self._settle(
                job,
                lambda state: fits(state) and state.token == kept.token,
                fits,
                lambda state: (state.status, kept.status) == ("pending", "cancelled"),
            )
        job.doubts.clear()

    def settle_operator(self, job: Known, what: str) -> None:
        """That an operator could do this shows which of the doubts had happened before it."""
        self._settle(job, lambda state: state.after(what) is not None)

    def _settle(self, job: Known, *fits: Callable[[State], bool]) -> None:
        """Have those of the doubts happen that lead to a state that fits, as few as possible.

        What fits is tried in turn. If no state does, the invariants will say so.
        """
        ways = job.ways() if job.doubts else {}
        for fit in fits:
            found = [way for state, way in ways.items() if fit(state)]
            if found:
                for doubt in min(found, key=len):
                    job.doubts.remove(doubt)
                    self._happened(job, doubt)
                return

    def _believe(self, job: Known, new: New) -> None:
        """The outcome that is followed by this job was written."""
        for doubt in job.doubts:
            if isinstance(doubt.what, Ending) and new in doubt.what.next:
                job.doubts.remove(doubt)
                self._happened(job, doubt)
                return

    def _happened(self, job: Known, doubt: Doubt) -> None:
        match doubt.what:
            case Ending() as ending:
                cancelled = job.ended if job.status == "cancelled" else None
                self.end(job, ending, doubt.event)
                if cancelled is not None:
                    self.finish(job, "cancelled", cancelled)
            case "replay":
                self.revive(job, doubt.event)
            case "cancel":
                self.finish(job, "cancelled", doubt.event)
            case "purge" | "withdraw":
                self.delete(job, doubt.event)
