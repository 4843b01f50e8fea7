"""One job for many calls: with the arguments of the last, and put off no longer than was said."""

from collections import defaultdict
from typing import NamedTuple

from tests.history.attempts import MEASURED
from tests.history.book import Book
from tests.history.events import TICK, AnyEvent, Enqueue, New, Reclaim, latest, surely_before
from tests.history.invariant import Accepted, Invariant, Took


class Call(NamedTuple):
    """A debounced enqueue, and what it asked for."""

    new: New
    event: Enqueue


class DebounceKeepsTheLast(Invariant):
    """A debounced job starts with the arguments of the last call, when its wait is over.

    Never later than `debounce_max` after the first of them. What was never answered may be the
    last. Once the store's clock was set, nothing is said of times.
    """

    about = (Enqueue,)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._calls: dict[str, list[Call]] = defaultdict(list)
        self._doubts: dict[tuple[str, str], list[Call]] = defaultdict(list)

    def happened(self, event: AnyEvent) -> None:
        """What is under way when a job starts may or may not be in it."""
        if not isinstance(event, Enqueue):
            return
        for new in event.jobs:
            if new.debounce_max is not None and new.key is not None:
                self.explain(str(new.key), event)
                if event.answers is None:
                    self._doubts[new.key].append(Call(new, event))

    def enqueued(self, step: Accepted) -> None:
        """Remember which calls came to the same job."""
        new, answer = step.new, step.answer
        if new.debounce_max is None:
            return
        if answer.created:
            self._calls[answer.id] = []
        if answer.created or answer.id != new.id:
            self._calls[answer.id].append(Call(new, step.event))

    def took(self, step: Took) -> None:
        """Look at the first start of each."""
        taken, job, event = step.taken, step.job, step.event
        if job is None or job.new.debounce_max is None or isinstance(event, Reclaim):
            return
        calls = self._calls.pop(job.new.id, [])
        if not calls or job.claimed is not None or job.counters != (0, 0, 0):
            return
        last = last_of(calls)
        doubts = self._doubts[job.new.key or ("", "")]
        about = str(job.new.key)
        if taken.body not in {call.new.body for call in (*last, *doubts)}:
            self.suspect(about, job, "started with the arguments of an earlier call", event)
        if self.book.is_set(job.created.began, latest(event)) or job.new.limits:
            return
        ahead = taken.started_at - event.began
        most = latest(job.created) + job.new.debounce_max + ahead
        if taken.due > most + MEASURED:
            self.broken(job, f"due {taken.due - most:g} s after its longest wait", event)
        until = job.created.began + job.new.debounce_max
        least = min(min(call.event.began + call.new.delay, until) for call in last)
        if taken.due < least - TICK:
            words = f"due {least - taken.due:g} s before the wait of its last call was over"
            self.suspect(about, job, words, event)


def last_of(calls: list[Call]) -> list[Call]:
    """Those that may be the last by the store's order; of one batch the last."""
    by_event = list({id(call.event): call for call in calls}.values())
    return [
        call
        for call in by_event
        if not any(surely_before(call.event, other.event) for other in by_event)
    ]
