"""What is counted: the store's own counts, and what workers told it."""

from collections import Counter, defaultdict

from mulligan.core.counts import DEAD, SUCCEEDED
from mulligan.core.job import ENDED
from tests.history.book import Book
from tests.history.events import AnyEvent, Commit, Report, Stock
from tests.history.invariant import Ended, Invariant

# Sums of floats, in whatever order.
NEAR = 1e-6


class CountsAddUp(Invariant):
    """What the store counts is what a recount of its jobs gives."""

    def stored(self, stock: Stock) -> None:
        """Count them again."""
        found = Counter(kept.status for kept in stock.jobs)
        counted = Counter(
            {"pending": stock.waiting + stock.gathering, "processing": stock.running}
            | {status: stock.endings.get(status, 0) for status in ENDED}
        )
        for status in ("pending", "processing", *sorted(ENDED)):
            if found[status] != counted[status]:
                words = f"{counted[status]} are counted as {status}, and {found[status]} are"
                self.broken("counts", words)


class ReportsAddUp(Invariant):
    """What workers told is summed up: nothing missing, nothing double, nothing else.

    What was told and not answered may be in it or not.
    """

    about = (Report,)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._least: dict[tuple[str, str, str], float] = defaultdict(float)
        self._most: dict[tuple[str, str, str], float] = defaultdict(float)

    def happened(self, event: AnyEvent) -> None:
        """Add it up too."""
        if isinstance(event, Report):
            for queue, region, name, value in event.counts:
                self._most[queue, region, name] += max(0.0, value)
                self._least[queue, region, name] += min(0.0, value)
                if event.ended is not None:
                    self._least[queue, region, name] += max(0.0, value)
                    self._most[queue, region, name] += min(0.0, value)

    def stored(self, stock: Stock) -> None:
        """Compare the sums."""
        stored = {(c.queue, c.region, c.name): c.value for c in stock.counts}
        for place in self._most.keys() | stored.keys():
            value = stored.get(place, 0.0)
            near = NEAR * max(1.0, abs(value))
            if not self._least[place] - near <= value <= self._most[place] + near:
                told = f"between {self._least[place]:g} and {self._most[place]:g}"
                self.broken("/".join(place), f"the count is {value:g}, and {told} was told")


class NothingIsCountedTwice(Invariant):
    """No more successes and dead letters are told than were written."""

    about = (Report, Commit)

    def __init__(self, book: Book) -> None:
        super().__init__(book)
        self._written: Counter[str] = Counter()
        self._told: Counter[str] = Counter()

    def ended(self, step: Ended) -> None:
        """Count what was written, or may have been."""
        ending, verdict = step.ending, step.verdict
        if verdict == "written":
            self._written[ending.how] += 1

    def happened(self, event: AnyEvent) -> None:
        """Count what was told, and what may have been written."""
        match event:
            case Report():
                for count in event.counts:
                    self._told[count.name] += round(count.value)
            case Commit(verdicts=None):
                self._written.update(ending.how for ending in event.endings)

    def finish(self) -> None:
        """Compare the sums."""
        for how, name in (("done", SUCCEEDED), ("dead", DEAD)):
            if self._told[name] > self._written[how]:
                words = f"{self._told[name]} were told, and {self._written[how]} were written"
                self.broken(name, words)
