"""The checker: reads a history once, from the first event to the last."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

from tests.history import (
    attempts,
    breakers,
    counts,
    debounce,
    leases,
    limits,
    lives,
    queues,
    records,
    room,
    schedules,
    shares,
    turns,
)
from tests.history.book import Book
from tests.history.events import (
    AnyEvent,
    Attempt,
    Beat,
    Claim,
    Commit,
    Configure,
    Enqueue,
    Fault,
    Leave,
    Operate,
    Prune,
    Reclaim,
    Stock,
)
from tests.history.invariant import Accepted, Ended, Invariant, Operated, Took, Violation
from tests.history.known import Known

INVARIANTS: tuple[type[Invariant], ...] = (
    lives.NothingIsInvented,
    lives.NothingIsLost,
    lives.OnePlace,
    lives.EndedIsEnded,
    lives.OnlyTheEndedIsPurged,
    lives.DeadOnce,
    lives.GathersAll,
    lives.KeysExclude,
    debounce.DebounceKeepsTheLast,
    lives.ExpiredIsNotStarted,
    leases.LeasesExclude,
    leases.TokensGrow,
    leases.StaleIsRefused,
    leases.HeldIsHonoured,
    leases.CommitsAreIdempotent,
    leases.LiveLeasesAreKept,
    leases.LossIsTold,
    attempts.AttemptsAreCounted,
    attempts.AttemptsAreCapped,
    attempts.LostIsCounted,
    attempts.UnstartedIsFree,
    attempts.RetriesAreNeverEarly,
    attempts.DelaysAreKept,
    attempts.RefusedStaysOut,
    attempts.LostStops,
    attempts.OneCrashOneJob,
    attempts.FailuresAreTrue,
    attempts.ResultsAreTrue,
    records.StaleRecordsAreRefused,
    records.RecordedStepsRunNoMore,
    schedules.TicksAreOneJob,
    schedules.WithdrawnTicksDoNotStart,
    schedules.PlacedTicksAreKept,
    schedules.SchedulesChangeByTurns,
    queues.PausedIsLeftAlone,
    queues.LanesAreKept,
    queues.LanesKeepOrder,
    shares.SharesAreKept,
    turns.KeysTakeTurns,
    limits.LimitsHold,
    limits.RatesHold,
    limits.PausesHold,
    room.RoomIsUsed,
    limits.BudgetsHold,
    breakers.ProbesArePaced,
    breakers.OpenTakesNoGlobalRetry,
    breakers.FailedProbesAreFree,
    queues.SleepersAreWoken,
    counts.CountsAddUp,
    counts.ReportsAddUp,
    counts.NothingIsCountedTwice,
)

HOOKS = (
    "enqueued",
    "took",
    "claimed",
    "ended",
    "operated",
    "beaten",
    "attempted",
    "stored",
)


def check(
    events: Iterable[AnyEvent],
    invariants: Sequence[type[Invariant]] = INVARIANTS,
    *,
    woken_within: float | None = None,
    told_within: float = 0.0,
    pools: Collection[str] = (),
) -> list[Violation]:
    """Every violation in the history, in the order in which it shows.

    The events are in the order in which they happened: those of one process as it wrote them,
    those of several as `in_order` puts them. What was never answered may have happened or not;
    only what cannot be explained either way is a violation. Its end is a `Stock`, without which
    nothing can be said to be lost. `woken_within` is how late, in seconds, a sleeping worker may
    start what fell due, but for queues that are served by `pools` of child processes; without it no
    delay is too long. `told_within` is how long the answer to a
    heartbeat may be under way.
    """
    events = list(events)
    faults = [event for event in events if isinstance(event, Fault)]
    reader = Reader(invariants, Book(faults))
    for each in reader.invariants:
        if isinstance(each, queues.SleepersAreWoken) and woken_within is not None:
            each.within = woken_within
            each.pools = pools
        if isinstance(each, room.RoomIsUsed):
            each.pools = pools
        if isinstance(each, attempts.LostStops):
            each.within = told_within
    for event in events:
        reader.read(event)
    for each in reader.invariants:
        each.finish()
    return [violation for each in reader.invariants for violation in each.violations]


class Reader:
    """Shows each event to the invariants, and then enters it in the book."""

    def __init__(self, invariants: Sequence[type[Invariant]], book: Book) -> None:
        self._book = book
        self._now = 0.0
        self.invariants = [make(self._book) for make in invariants]
        # The invariants that look at each kind of step.
        self._seeing = {hook: self._overriding(hook) for hook in HOOKS}
        self._by_kind: dict[type, list[Invariant]] = {}
        for each in self.invariants:
            for kind in each.about:
                self._by_kind.setdefault(kind, []).append(each)

    def _overriding(self, hook: str) -> list[Invariant]:
        own = getattr(Invariant, hook)
        return [each for each in self.invariants if getattr(type(each), hook) is not own]

    def read(self, event: AnyEvent) -> None:
        """Take in one event."""
        self._now = max(self._now, event.ended or event.began)
        if event.refused:
            return
        kind = type(event)
        for each in self._by_kind.get(kind, ()):
            each.happened(event)
        enter = self._readers.get(kind)
        if enter is not None:
            enter(self, event)

    def _enqueue(self, event: Enqueue) -> None:
        if event.answers is None:
            for new in event.jobs:
                self._book.perhaps(new, event)
            return
        for new, answer in zip(event.jobs, event.answers, strict=True):
            step = Accepted(new, answer, event)
            for each in self._seeing["enqueued"]:
                each.enqueued(step)
            if answer.created:
                self._book.create(new, event)
            elif new.debounce_max is not None and answer.id in self._book.jobs:
                self._book.put_off(self._book.jobs[answer.id], event)
            elif new.past is None or new.key is None:
                self._book.find(answer.id)  # what is not adopted may also lack its key

    def _take(self, event: Claim | Reclaim) -> None:
        book = self._book
        if event.taken is None:
            if isinstance(event, Reclaim):
                book.blind_reclaim = True
            return
        for taken in event.taken:
            job = book.find(taken.job, taken.lane)
            if job is not None:
                book.settle_claim(job, taken, reclaimed=isinstance(event, Reclaim))
            step = Took(taken, job, event)
            for each in self._seeing["took"]:
                each.took(step)
            if job is not None:
                job.events.append(event)
                book.take(job, taken, event)
        if isinstance(event, Claim):
            for each in self._seeing["claimed"]:
                each.claimed(event)

    def _commit(self, event: Commit) -> None:
        book = self._book
        for place, ending in enumerate(event.endings):
            job = book.find(ending.job)
            verdict = None if event.verdicts is None else event.verdicts[place]
            if job is not None:
                job.events.append(event)
                if verdict is None:
                    book.doubt(job, event, ending)
                else:
                    book.settle_verdict(job, ending, verdict)
            if verdict is not None:
                step = Ended(ending, verdict, job, event)
                for each in self._seeing["ended"]:
                    each.ended(step)
                if verdict == "written" and job is not None:
                    book.end(job, ending, event)

    def _operate(self, event: Operate) -> None:
        book = self._book
        for place, name in enumerate(event.jobs):
            job = book.find(name)
            done = None if event.answers is None else event.answers[place]
            if job is None:
                continue
            job.events.append(event)
            if done is None:
                book.doubt(job, event, event.what)
                continue
            if done:
                book.settle_operator(job, event.what)
            step = Operated(event.what, job, event, done)
            for each in self._seeing["operated"]:
                each.operated(step)
            if done:
                self._operated(job, event)

    def _operated(self, job: Known, event: Operate) -> None:
        match event.what:
            case "replay":
                self._book.revive(job, event)
            case "cancel":
                self._book.finish(job, "cancelled", event)
            case "purge":
                self._book.delete(job, event)

    def _beat(self, event: Beat) -> None:
        if event.lost is not None:
            for each in self._seeing["beaten"]:
                each.beaten(event)
            self._book.beat(event)

    def _leave(self, event: Leave) -> None:
        self._book.leave(event)

    def _configure(self, event: Configure) -> None:
        self._book.settings[event.queue] = event.settings

    def _prune(self, event: Prune) -> None:
        self._book.prune(event)

    def _attempt(self, event: Attempt) -> None:
        job = self._book.jobs.get(event.job)
        for each in self._seeing["attempted"]:
            each.attempted(event)
        if job is not None:
            job.events.append(event)
            if job.token == event.token:
                job.started = True

    def _stock(self, event: Stock) -> None:
        if event.ended is None:  # it was taken after all the rest
            event.began = event.ended = self._now
        stored = {kept.id: kept for kept in event.jobs}
        for name in stored:
            self._book.find(name)
        for name, job in list(self._book.jobs.items()):
            self._book.settle_stock(job, stored.get(name))
        for each in self._seeing["stored"]:
            each.stored(event)

    _readers: ClassVar[dict[type, Callable[["Reader", Any], None]]] = {
        Enqueue: _enqueue,
        Claim: _take,
        Reclaim: _take,
        Commit: _commit,
        Operate: _operate,
        Beat: _beat,
        Leave: _leave,
        Attempt: _attempt,
        Configure: _configure,
        Prune: _prune,
        Stock: _stock,
    }
