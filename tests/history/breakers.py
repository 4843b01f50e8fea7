"""What an open breaker asks of its region: paced probes, which cost no job a retry."""

from typing import TYPE_CHECKING

from mulligan.core.decide import LOST
from mulligan.core.health import DATA_ERRORS, FREE_PROBES, SHORTEST_PAUSE
from tests.history.book import Book
from tests.history.events import (
    TICK,
    AnyEvent,
    Beat,
    Claim,
    Event,
    Leave,
    Switch,
    latest,
    surely_before,
)
from tests.history.invariant import Ended, Invariant, Took

if TYPE_CHECKING:
    from mulligan.core.worker import Worker
    from tests.history.known import Known

Place = tuple[str, str]
# Failures that say nothing about where they happened.
ABOUT_THE_JOB = DATA_ERRORS | {
    *("RetryAfter", "Refused", "Fail", "BadSignature", "UnreadableJob", "Flow", "Snooze"),
    LOST.type,
}


class BreakerRule(Invariant):
    """Knows of each queue and region whether it surely was open while a healthy one served."""

    about = (Switch, Beat, Leave)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._opened: dict[Place, Switch] = {}
        self._switched: dict[Place, Switch] = {}
        self._workers: dict[str, Worker] = {}

    def happened(self, event: AnyEvent) -> None:
        """A switch that nobody heard of leaves its place in doubt until the next one."""
        match event:
            case Beat():
                self._workers[event.worker.id] = event.worker
            case Leave():
                self._workers.pop(event.worker, None)
            case Switch():
                place = event.queue, event.region
                self.explain(repr(place), event)
                if event.ended is None or (event.done and not event.after.open):
                    self._opened.pop(place, None)
                elif event.done and not event.before.open:
                    self._opened[place] = event
                if event.done:
                    self._switched[place] = event

    def opening(self, place: Place, event: Event) -> Switch | None:
        """The switch since which it surely was open when this happened, a healthy one serving."""
        queue, region = place
        opened = self._opened.get(place)
        if opened is None or not surely_before(self._switched[place], event):
            return None
        since, until = opened.began, latest(event)
        healthy = any(
            each.region != region
            and queue in each.queues
            and (queue, each.region) not in self._switched
            and self.book.is_live(each.id, since, until)
            for each in self._workers.values()
        )
        return opened if healthy else None


class ProbesArePaced(BreakerRule):
    """While a region is open its attempts start one pause apart, as the last switch had it.

    A worker knows of its own success before the switch tells of it: after one the shortest pause
    is enough.
    """

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._last: dict[Place, tuple[Switch, float]] = {}
        self._running: dict[tuple[str, int], Place] = {}
        self._shortened: set[Place] = set()

    def took(self, step: Took) -> None:
        """Both times are the store's own; the answer to the earlier claim may be told later."""
        taken, job, event = step.taken, step.job, step.event
        place = taken.lane.queue, event.worker.region
        opened = self.opening(place, event) if isinstance(event, Claim) else None
        if opened is None:
            return
        before, at = self._last.get(place, (None, 0.0))
        apart = abs(taken.started_at - at)
        newest = max(taken.started_at, at) if before is opened else taken.started_at
        self._last[place] = opened, newest
        self._running[taken.job, taken.token] = place
        pause = self._switched[place].after.pause
        if place in self._shortened:
            pause = SHORTEST_PAUSE
            self._shortened.discard(place)
        if before is opened and apart < pause - TICK:
            words = f"two probes of {place[1]} {apart:g} s apart, and the pause was {pause:g} s"
            self.suspect(repr(place), job or taken.job, words, event)

    def ended(self, step: Ended) -> None:
        """Note a probe that succeeded."""
        place = self._running.pop((step.ending.job, step.ending.token), None)
        if place is not None and step.ending.how == "done":
            self._shortened.add(place)


class OpenTakesNoGlobalRetry(BreakerRule):
    """While a healthy region serves, one that is open is given no retry that any may take."""

    def took(self, step: Took) -> None:
        """Look at the lane."""
        taken, job, event = step.taken, step.job, step.event
        place = taken.lane.queue, event.worker.region
        if not isinstance(event, Claim) or not (taken.lane.is_global and taken.lane.is_retry):
            return
        if self.opening(place, event) is not None:
            words = f"a global retry was given to {place[1]}, which was open"
            self.suspect(repr(place), job or taken.job, words, event)


class FailedProbesAreFree(BreakerRule):
    """A failed probe uses no retry, three times a job; a lost one does."""

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._probes: dict[tuple[str, int], tuple[Place, Switch]] = {}
        self._free: dict[tuple[Known, int], int] = {}

    def took(self, step: Took) -> None:
        """Remember which attempts are probes."""
        taken, event = step.taken, step.event
        place = taken.lane.queue, event.worker.region
        opened = self.opening(place, event) if isinstance(event, Claim) else None
        if opened is not None:
            self._probes[taken.job, taken.token] = place, opened

    def ended(self, step: Ended) -> None:
        """Look what it cost."""
        ending, job, event = step.ending, step.job, step.event
        if step.verdict != "written" or job is None or ending.how not in ("again", "dead"):
            return
        had = self._free.get((job, job.replay), 0)
        if ending.free:
            self._free[job, job.replay] = had + 1
            if job.reclaimed or had >= FREE_PROBES:
                how = "a lost attempt" if job.reclaimed else f"failed probe {had + 1}"
                self.broken(job, f"{how} used no retry", event)
            return
        place, opened = self._probes.pop((ending.job, ending.token), (("", ""), None))
        still = opened is not None and self.opening(place, event) is opened
        if still and not job.reclaimed and had < FREE_PROBES and ending.type not in ABOUT_THE_JOB:
            gave_up = ending.how == "dead"
            words = "ended as a dead letter" if gave_up else "used a retry"
            self.suspect(repr(place), job, f"a failed probe of {place[1]} {words}", event)
