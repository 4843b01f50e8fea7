"""Schedules: each tick is one job, and none of an edit that is over."""

from collections import defaultdict

from mulligan.core.job import first_token, life_of
from tests.history.book import Book
from tests.history.events import AnyEvent, Claim, Operate, Reschedule, Stock, surely_before
from tests.history.invariant import Ended, Invariant, Took

# How an attempt ends that has run.
RAN = ("done", "again", "later", "dead")


class TicksAreOneJob(Invariant):
    """No tick runs in two lives of its id; but if the store's clock was set back between them."""

    about = (Reschedule,)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._ticks: set[str] = set()
        self._ran: dict[str, tuple[int, AnyEvent]] = {}

    def happened(self, event: AnyEvent) -> None:
        """Note which jobs are ticks."""
        if isinstance(event, Reschedule):
            self._ticks.update(event.placed)

    def ended(self, step: Ended) -> None:
        """Compare the life that has run with the one that ran first."""
        name, life = step.ending.job, life_of(step.ending.token)
        if name not in self._ticks or step.verdict == "stale" or step.ending.how not in RAN:
            return
        first, event = self._ran.setdefault(name, (life, step.event))
        if first != life and not self.book.is_set(event.began, step.event.began):
            self.broken(step.job or name, "the tick ran as two jobs", event, step.event)


class WithdrawnTicksDoNotStart(Invariant):
    """A tick that an edit has withdrawn before it ever started is not claimed, unless placed anew.

    Who has heard of no claim may be wrong about that: the token tells a first one.
    """

    about = (Reschedule,)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._placed: dict[str, list[AnyEvent]] = defaultdict(list)
        self._withdrawn: dict[str, AnyEvent] = {}

    def happened(self, event: AnyEvent) -> None:
        """Note what is placed, and what is withdrawn beyond doubt."""
        if not isinstance(event, Reschedule) or event.done is False:
            return
        for tick in event.placed:
            self._placed[tick].append(event)
        for tick in event.withdrawn:
            job = self.book.jobs.get(tick)
            unclaimed = job is not None and job.status == "pending" and job.claimed is None
            if event.done and unclaimed and tick not in event.placed:
                self._withdrawn[tick] = event

    def took(self, step: Took) -> None:
        """Compare a first claim with what was withdrawn before it."""
        tick, token = step.taken.job, step.taken.token
        gone = self._withdrawn.get(tick)
        if gone is None or not isinstance(step.event, Claim):
            return
        is_first = token == first_token(life_of(token)) + 1
        before = all(surely_before(each, gone) for each in self._placed[tick])
        if is_first and before and surely_before(gone, step.event):
            self.broken(step.job or tick, "a withdrawn tick started", gone, step.event)


class PlacedTicksAreKept(Invariant):
    """A tick that was placed starts or is stored, if nobody withdraws, cancels or purges it."""

    about = (Reschedule, Operate)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._placed: dict[str, AnyEvent] = {}
        self._excused: set[str] = set()

    def happened(self, event: AnyEvent) -> None:
        """Note what is placed, and what becomes of it on purpose."""
        match event:
            case Reschedule(done=False):
                pass
            case Reschedule():
                self._excused.update(event.withdrawn)
                if event.done:
                    self._placed.update(dict.fromkeys(event.placed, event))
            case Operate():
                self._excused.update(event.jobs)

    def took(self, step: Took) -> None:
        """It has started."""
        self._placed.pop(step.taken.job, None)
        self._excused.add(step.taken.job)

    def stored(self, stock: Stock) -> None:
        """What has not started is here."""
        kept = {each.id for each in stock.jobs} | self._excused
        for tick, event in self._placed.items():
            if tick not in kept:
                self.broken(tick, "the tick was placed, and never seen again", event, stock)


class SchedulesChangeByTurns(Invariant):
    """A change is made to the record that its maker has read, not to that of another change.

    Where changes overlap, or one was not answered, the next that was done says what is stored.
    """

    about = (Reschedule,)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._last: dict[str, Reschedule | None] = {}

    def happened(self, event: AnyEvent) -> None:
        """Compare the record before the change with the one after the last change."""
        if not isinstance(event, Reschedule) or event.done is False:
            return
        last = self._last.get(event.name)
        if event.done is None:
            self._last[event.name] = None
            return
        known = last is not None and surely_before(last, event)
        if last is not None and known and last.after not in (event.before, event.after):
            self.broken(event.name, "the schedule was changed by who had not read it", last, event)
        self._last[event.name] = event if known or last is None else None
