"""What an invariant is: something that must hold at every step of a history."""

from collections import defaultdict
from typing import NamedTuple

from mulligan.core.job import Enqueued
from mulligan.core.outcome import Verdict
from tests.history.book import Book
from tests.history.events import (
    AnyEvent,
    Attempt,
    Beat,
    Claim,
    Commit,
    Ending,
    Enqueue,
    Event,
    New,
    Operate,
    Reclaim,
    Stock,
    Taken,
    surely_before,
)
from tests.history.known import Known

# How many of a job's events a violation shows.
SHOWN = 12


class Violation(NamedTuple):
    """Which invariant was broken, for which job, how, and the events that show it."""

    invariant: str
    job: str
    words: str
    events: list[AnyEvent]


class Accepted(NamedTuple):
    """A job that was handed over, and the answer."""

    new: New
    answer: Enqueued
    event: Enqueue


class Took(NamedTuple):
    """A job that was claimed or reclaimed; None if nobody has heard of it."""

    taken: Taken
    job: Known | None
    event: Claim | Reclaim


class Ended(NamedTuple):
    """An outcome that was sent, and the verdict."""

    ending: Ending
    verdict: Verdict
    job: Known | None
    event: Commit


class Operated(NamedTuple):
    """What an operator wished for a job, and whether it was done."""

    what: str
    job: Known
    event: Operate
    done: bool


class Suspect(NamedTuple):
    """What is a violation if nothing that overlaps its last event explains it."""

    job: Known | str
    words: str
    events: tuple[AnyEvent, ...]


class Invariant:
    """Sees each step before the book takes it in; overrides what it cares about.

    Its name is that of its class, as words: `TokensGrow` is "tokens grow". `about` are the kinds
    of events that `happened` is told of.
    """

    about: tuple[type[Event], ...] = ()

    def __init__(self, book: Book) -> None:
        self.book = book
        self.violations: list[Violation] = []
        self._suspects: dict[str, list[Suspect]] = defaultdict(list)

    @classmethod
    def name(cls) -> str:
        """The name in words."""
        letters = [f" {each.lower()}" if each.isupper() else each for each in cls.__name__]
        return "".join(letters).strip()

    def broken(self, job: Known | str, words: str, *events: AnyEvent) -> None:
        """Note that it was broken."""
        told = [] if isinstance(job, str) else job.events[-SHOWN:]
        told = [*told, *(event for event in events if event not in told)]
        name = job if isinstance(job, str) else job.new.id
        self.violations.append(Violation(self.name(), name, words, told))

    def suspect(self, about: str, job: Known | str, words: str, *events: AnyEvent) -> None:
        """Note that it was broken by the last of these, unless something meanwhile explains it."""
        self._suspects[about].append(Suspect(job, words, events))

    def explain(self, about: str, by: AnyEvent) -> None:
        """What was suspected about this is explained, if it did not happen before."""
        if about in self._suspects:
            self._suspects[about] = [
                each for each in self._suspects[about] if surely_before(each.events[-1], by)
            ]

    def enqueued(self, step: Accepted) -> None:
        """A job was handed over and answered."""

    def took(self, step: Took) -> None:
        """A job was claimed or reclaimed."""

    def claimed(self, event: Claim) -> None:
        """A claim was answered."""

    def ended(self, step: Ended) -> None:
        """An outcome was answered."""

    def operated(self, step: Operated) -> None:
        """An operator's wish was answered."""

    def beaten(self, event: Beat) -> None:
        """A heartbeat was answered."""

    def attempted(self, event: Attempt) -> None:
        """A task began or ended."""

    def happened(self, event: AnyEvent) -> None:
        """An event of the kinds that it is about, answered or not."""

    def stored(self, stock: Stock) -> None:
        """This is in the store when all is over."""

    def finish(self) -> None:
        """The history has been read to its end: what has not been explained was broken."""
        for suspects in self._suspects.values():
            for job, words, events in suspects:
                self.broken(job, words, *events)
