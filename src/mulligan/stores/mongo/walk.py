"""The walk of a claim where lanes have lines: over a draft of the book, which changes with it."""

from collections.abc import Iterable, Mapping

from mulligan.core.lane import Lane
from mulligan.core.limits import FOREVER
from mulligan.core.lines import (
    NO_KEY,
    Line,
    advance,
    due_of,
    go_on,
    lacks,
    left,
    next_at,
    next_line,
    set_aside,
    started,
    take_turn,
)
from mulligan.core.plan import ClaimPlan, Limit
from mulligan.stores.mongo.connection import Connection
from mulligan.stores.mongo.document import Doc, lane_name, line_text, micros, seconds
from mulligan.stores.mongo.events import holder_of
from mulligan.stores.mongo.ledger import Ledger, Root, StoredLimits
from mulligan.stores.mongo.line_pages import needs_of_page, turn_key
from mulligan.stores.mongo.lines import LineBook
from mulligan.stores.mongo.pages import (
    ALARMS,
    IDLE,
    KEYS,
    LATER,
    PAGE_OF,
    READY,
    WAITING,
    Need,
    Pages,
)
from mulligan.stores.mongo.snapshot import Snapshot, Taken, Trial, candidate
from mulligan.stores.mongo.wakeup import News

NO_WEIGHTS: Mapping[str, float] = {}


class OpenBook:
    """The book as a claim has opened it: its root, and the pages that were read since."""

    def __init__(self, root: Root, pages: Pages, stored: StoredLimits) -> None:
        self.root = root
        self.pages = pages
        self.stored = stored

    def book(self, now: int) -> LineBook:
        """The book as it was read, to be changed."""
        return LineBook(self.pages, self.root, self.stored, now)


async def open_book(
    connection: Connection, ledger: Ledger, lanes: Iterable[str], demand: int, now: int
) -> OpenBook:
    """Read the root, and what a walk of these lanes most likely needs."""
    root = await ledger.read()
    pages = Pages(connection, demand + 1)
    lined = {lane: root.lanes[lane] for lane in lanes if lane in root.lanes}
    needs: list[Need] = []
    for lane, facts in lined.items():
        needs += [(KEYS, lane, facts.round), (READY, lane, NO_KEY)]
        needs += [(LATER, lane)] if root.later else []
        needs += [(ALARMS, lane)] if root.alarms else []
        needs += [(IDLE, lane, facts.round)] if facts.keyed else []
    await pages.fetch(needs)
    keys: list[Need] = []
    lines: list[Doc] = []
    for lane, facts in lined.items():
        keys += [(READY, lane, page["key"]) for page in pages.found[KEYS, lane, facts.round].docs]
        if root.later:
            lines += [page for page in pages.found[LATER, lane].docs if page["due"] <= now]
        if root.alarms:
            due = [page for page in pages.found[ALARMS, lane].docs if micros(page["at"]) <= now]
            keys += [(WAITING, page["limit"], lane) for page in due]
    await pages.fetch_new(keys)
    lines += [page for need in {*keys} for page in pages.found[need].docs]
    needs = [need for page in lines for need in needs_of_page(page, root)]
    for lane, facts in lined.items():
        if lines or facts.keyed:  # otherwise nothing is compared with jobs that stand in no line
            needs.append((PAGE_OF, turn_key(facts.round, lane, NO_KEY)))
    await pages.fetch_new(needs)
    return OpenBook(root, pages, await ledger.stored(root))


class LinedTrial(Trial):
    """A walk over lanes with lines: what it does to the book is in the book."""

    def __init__(self, snapshot: Snapshot, plan: ClaimPlan, book: LineBook) -> None:
        super().__init__(snapshot)
        self.book = book
        self.plan = plan
        # The line of each lane that is next, until something is taken.
        self._next: dict[Lane, Line | None] = {}
        for lane in dict.fromkeys(plan.lanes):
            if self.is_lined(lane):
                advance(book, lane)

    def is_lined(self, lane: Lane) -> bool:
        """Whether jobs stand in lines of the lane."""
        return lane_name(lane) in self.book.root.lanes

    def head(self, lane: Lane) -> tuple[float, int] | None:
        """As the oracle asks."""
        first = super().head(lane)
        if not self.is_lined(lane):
            return first
        line = self.next_line(lane)
        if line is not None:
            return line.due, line.sequence
        at = next_at(self.book, lane)
        if first is None:
            return None if at == FOREVER else (at, 0)
        return min(first, (at, 0))

    def next_line(self, lane: Lane) -> Line | None:
        """The line of the lane that is next; None if no line is ready, or the lane itself is."""
        if lane not in self._next:
            first = super().head(lane)
            due = first if first and first[0] <= self.book.now else None
            self._next[lane] = next_line(self.book, lane, due)
        return self._next[lane]

    def take(self, lane: Lane, limits: tuple[Limit, ...]) -> Taken | None:
        """As the oracle asks; or see to a line whose first job is no longer what it knows."""
        if not self.is_lined(lane):
            return super().take(lane, limits)
        line = self.next_line(lane)
        self._next.clear()
        if line is None:
            taken = super().take(lane, limits)
            if taken is not None and self.is_lined(lane):
                take_turn(self.book, lane, NO_KEY, self.weight(lane, NO_KEY))
            return taken
        return self.take_from(line, limits)

    def take_from(self, line: Line, limits: tuple[Limit, ...]) -> Taken | None:
        """Take the first job of a ready line; or set it aside, or end what has expired."""
        book, text = self.book, line_text(line.name)
        doc = book.first_doc(text)
        job = None if doc is None else candidate(doc)
        if job is None or (seconds(job.due), job.sequence) != (line.due, line.sequence):
            go_on(book, line)
            return None
        name = lacks(book, line)
        if name is not None and not job.has_expired(self.now):
            set_aside(book, line, name)
            return None
        book.take(text, job.sequence)
        if job.has_expired(self.now):
            self.expired.append(job)
            left(book, line.name, job.sequence)
            return None
        book.start(line.costs, holder_of(job.key, job.token + 1))
        started(book, line, self.weight(line.lane, line.name.key))
        return self.start(job, limits, line=True)

    def weight(self, lane: Lane, key: str) -> float:
        """How many turns a key has for each of one with weight 1."""
        return self.plan.weights.get(lane.queue, NO_WEIGHTS).get(key, 1.0)

    def heads(self, lanes: Iterable[Lane]) -> list[News]:
        """The first job that stands in each lane, or could start in a line of it."""
        every = list(lanes)
        news = {each.lane: each for each in super().heads(every)}
        for lane in every:
            name = lane_name(lane)
            due = due_of(self.book, lane) if self.is_lined(lane) else FOREVER
            if due != FOREVER and (name not in news or micros(due) < news[name].due):
                news[name] = News(name, micros(due))
        return list(news.values())
