"""The book of lines and limits as the other rooms use it: what they tell it, what that means."""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from pymongo import UpdateMany

from mulligan.core.checks import rounded
from mulligan.core.limits import (
    Limit,
    StoredLimit,
    costs_of,
    pauses_of,
)
from mulligan.core.lines import First, joined, left, opened
from mulligan.stores.mongo.book_reader import BookReader, book_at
from mulligan.stores.mongo.bulk_write import stamped_at, write
from mulligan.stores.mongo.connection import Connection, keys_of, rows
from mulligan.stores.mongo.document import (
    SECOND,
    Doc,
    line_text,
    private_of,
    seconds,
)
from mulligan.stores.mongo.events import (
    ENDED,
    JOINED,
    LEFT,
    UNBOOKED,
    USED,
    Event,
    events_in,
    holder_of,
)
from mulligan.stores.mongo.ledger import Root
from mulligan.stores.mongo.line_pages import (
    first_in,
    line_where,
    needs_of,
    needs_of_limit,
    state_key,
    stored_key,
)
from mulligan.stores.mongo.lines import LineBook
from mulligan.stores.mongo.pages import (
    JOB,
    PAGE_OF,
    STATES,
    WAITED_FOR,
    Need,
    Pages,
)
from mulligan.stores.mongo.snapshot import Taken
from mulligan.stores.mongo.wakeup import News, Wakeup, news_of

T = TypeVar("T")

# Jobs that owe something to the book.
UNTOLD = {f"{UNBOOKED}.id": {"$gt": ""}}
FORGET = {"$unset": {UNBOOKED: ""}}
# Limits of which someone has a permit.
IN_USE = {"holders.0": {"$exists": True}}
# Longer than any live process takes to tell the book, shorter than a lease.
GRACE = 5 * SECOND
TOLD_AT_ONCE = 100


class Book(BookReader):
    """Tells the book what happens to jobs and limits."""

    def __init__(self, connection: Connection, wakeup: Wakeup) -> None:
        super().__init__(connection)
        self.wakeup = wakeup
        wakeup.book = self

    async def change(
        self,
        work: Callable[[LineBook], T],
        needs: Callable[[Root], Iterable[Need]],
        now: int | None = None,
    ) -> tuple[LineBook, T]:
        """Do some work on the book."""
        at = await self.connection.now() if now is None else now
        book, result = await self.ledger.change(book_at(at), work, needs)
        await self.take_in(book.draft.pages)
        return book, result

    async def take_in(self, pages: Pages) -> None:
        """Take in jobs that another program has changed, and that no line has any more."""
        if pages.odd:
            query = {"_id": {"$in": list(pages.odd)}, "status": "pending"}
            await self.wakeup.take_in(await rows(self.connection.tasks.find(query)))

    async def tell(self, events: Sequence[Event], now: int | None = None) -> list[list[News]]:
        """Tell the book of these events; returns whom each of them is news for."""
        if not events:
            return []

        needs = partial(needs_of_events, events)
        _, news = await self.change(partial(tell, events=events), needs, now)
        return news

    async def tell_and_wake(self, events: Sequence[Event], now: int | None = None) -> None:
        """Tell the book of these events, and wake whom they are news for."""
        news = await self.tell(events, now)
        await self.wakeup.wake([each for some in news for each in some])

    async def accept(self, docs: Sequence[Doc], now: int | None = None) -> list[News]:
        """Tell the book of jobs that have come; returns whom they are news for, in their order."""
        events = [events_in(doc) for doc in docs]
        told = iter(await self.tell([event for some in events for event in some], now))
        news: list[News] = []
        for doc, some in zip(docs, events, strict=True):
            news += [each for _ in some for each in next(told)] if some else news_of([doc])
        return news

    async def give_back(self, unused: Sequence[Taken], now: int) -> None:
        """Give back what was charged to limits for jobs that were not got."""
        lost = [t.candidate for t in unused]
        if not lost:
            return

        def work(book: LineBook) -> None:
            for job in lost:
                limits = job.doc["mulligan"].get("limits")
                book.end(limits, holder_of(job.key, job.token + 1), now)

        names = {name for job in lost for name, _ in costs_of(job.doc["mulligan"].get("limits"))}

        def needs(root: Root) -> list[Need]:
            return [need for name in sorted(names) for need in needs_of_limit(name, root)]

        book, _ = await self.change(work, needs, now)
        await self.wakeup.wake(book.news)

    # -- operators -------------------------------------------------------------------------------

    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        """Store what an app declares or an operator sets; who waits may have room now."""

        def work(book: LineBook) -> None:
            before = book.stored.limits.get(name, StoredLimit())
            after = before.with_declared(limit) if declared else before.with_set(limit)
            if after != before:
                book.store(name, after)

        needs: list[Need] = [(WAITED_FOR,), (STATES,), (PAGE_OF, stored_key(name))]
        book, _ = await self.change(work, lambda _: needs)
        await self.wakeup.wake(book.news)

    async def pause_limit(self, name: str, length: float, *, at_least: bool) -> None:
        """Start nobody of the limit for so long; 0 ends a pause."""

        def work(book: LineBook) -> None:
            book.pause(name, rounded(book.now + length), at_least=at_least)
            opened(book, name)

        book, _ = await self.change(work, lambda root: needs_of_limit(name, root))
        await self.wakeup.wake(book.news)

    async def spend(self, name: str, cost: int) -> None:
        """Charge a limit so much."""
        await self.change(lambda book: book.spend(name, cost), lambda r: needs_of_limit(name, r))

    # -- repair ----------------------------------------------------------------------------------

    async def repair(self, signs: Container[str], now: int) -> None:
        """Finish a change whose process died, and tell the book of events that were left."""
        if "unfinished" in signs:
            await self.ledger.read()
        if "unbooked" in signs:
            await self.tell_left(now)

    async def tell_left(self, now: int) -> None:
        """Tell the book of events that jobs have owed for a while: the process to do so died."""
        for collection in self.connection.collections:
            found = await rows(collection.find(UNTOLD).limit(TOLD_AT_ONCE))
            events = [event for doc in found for event in events_in(doc)]
            told = {event.id for event in events}
            # Entries that another program broke are dropped; the sweeps find what they were about.
            broken = [doc["_id"] for doc in found if not told & ids_in(doc)]
            if broken:
                await write(collection, [UpdateMany({"_id": {"$in": broken}}, FORGET)])
            old = [event for event in events if stamped_at(event.id) <= now - GRACE]
            await self.tell_and_wake(sorted(old, key=lambda each: stamped_at(each.id)))

    async def free_left(self) -> None:
        """Free permits of leases that no worker has: their claim or their end was not written."""
        states = await rows(self.connection.lines.find(IN_USE, {"state": 1, "holders": 1}))
        for doc in states:
            if suspects := await self.dead(doc["holders"]):
                await self.free(doc["state"], suspects)

    async def free(self, name: str, suspects: set[str]) -> None:
        """Free what these leases hold of the limit, if they are still held by nobody.

        Others may have begun since: nobody is asked about those.
        """

        def work(book: LineBook) -> None:
            holders = (book.draft.page(state_key(name)) or {}).get("holders", [])
            held = [each for each in holders if each in suspects]
            if gone := [each for each in held if not is_held(book, each)]:
                book.free(name, gone)

        jobs = [(JOB, key) for word in sorted(suspects) for key in keys_of(job_in(word))]
        book, _ = await self.change(work, lambda root: [*needs_of_limit(name, root), *jobs])
        await self.wakeup.wake(book.news)

    async def dead(self, holders: Sequence[str]) -> set[str]:
        """Which of these leases are over."""
        keys = [key for word in holders for key in keys_of(job_in(word))]
        query = {"_id": {"$in": keys}, "status": "processing"}
        found = await rows(self.connection.tasks.find(query, {"mulligan.token": 1}))
        return set(holders) - {lease_in(doc) for doc in found}

    async def prune(self) -> None:
        """Delete the states of limits that are as if the limit had never been used."""
        if await self.connection.lines.find_one({"state": {"$gt": ""}}, {"_id": 1}) is None:
            return

        def work(book: LineBook) -> None:
            for name in book.draft.pages.get((STATES,)):
                book.keep_state(name)

        await self.change(work, lambda _: [(STATES,)])


def is_held(book: LineBook, holder: str) -> bool:
    """Whether the lease still holds its permits."""
    for key in keys_of(job_in(holder)):
        doc = book.draft.pages.get((JOB, key))
        if doc is not None and doc["status"] == "processing" and lease_in(doc) == holder:
            return True
    return False


def lease_in(doc: Doc) -> str:
    """The name of a running job's lease in limits."""
    return holder_of(doc["_id"], private_of(doc).get("token", 0))


def ids_in(doc: Doc) -> set[str]:
    """The ids of the events that a job owes."""
    owed = private_of(doc).get("unbooked")
    each_one = owed if isinstance(owed, list) else []
    return {str(each.get("id")) for each in each_one if isinstance(each, dict)}


def job_in(holder: str) -> str:
    """The job of a lease."""
    return holder.partition("/")[2]


# -- what events mean ---------------------------------------------------------------------------


def needs_of_events(events: Iterable[Event], root: Root) -> list[Need]:
    """What has to be read of the book for these events."""
    needs: list[Need] = []
    for event in events:
        if event.owed:
            needs.append((JOB, event.key))
        if event.line is not None:
            needs += needs_of(event.line, root)
        if event.kind == ENDED:
            for name, _ in costs_of(event.data["limits"]):
                needs += needs_of_limit(name, root)
        if event.kind == USED:
            names = {*dict(event.data["spent"]), *dict(event.data["pauses"])}
            needs += [(PAGE_OF, state_key(name)) for name in names]
    return needs


def tell(book: LineBook, events: Sequence[Event]) -> list[list[News]]:
    """Tell the book what it does not know yet, in this order; returns whom each is news for."""
    owed = [event for event in events if event.owed]
    docs: dict[Any, Doc | None] = {e.key: book.draft.pages.get((JOB, e.key)) for e in owed}
    new = {event.id: event for event in owed if owes(docs[event.key], event)}
    for event in new.values():
        wait_to_happen(book, event, docs[event.key])
    news: list[list[News]] = []
    for event in events:
        if event.id in new or not event.owed:
            happen(book, event, docs.get(event.key))
        news.append(book.news)
        book.news = []
    if new:
        book.settled.append(([event.key for event in new.values()], list(new)))
    return news


def owes(doc: Doc | None, event: Event) -> bool:
    """Whether the job still owes the event."""
    owed = None if doc is None else doc["mulligan"].get("unbooked")
    return isinstance(owed, list) and any(each["id"] == event.id for each in owed)


def wait_to_happen(book: LineBook, event: Event, doc: Doc | None) -> None:
    """Leave the lines as they were before the event, until its turn comes."""
    if event.kind == JOINED and (stands := line_where(doc)) is not None and doc is not None:
        book.hidden.add((line_text(stands), doc["mulligan"]["sequence"]))
    elif event.kind == LEFT and event.line is not None:
        data = event.data
        first = First(seconds(data["due"]), data["sequence"], costs_of(data["costs"]))
        book.stay.setdefault(line_text(event.line), []).append(first)


def happen(book: LineBook, event: Event, doc: Doc | None) -> None:
    """Enter the event in the book."""
    match event.kind:
        case "joined":
            line = line_where(doc)
            if line is not None and doc is not None:
                book.hidden.discard((line_text(line), doc["mulligan"]["sequence"]))
                joined(book, line, first_in(doc))
        case "left":
            if event.line is not None:
                stay = book.stay[line_text(event.line)]
                stay[:] = [each for each in stay if each.sequence != event.data["sequence"]]
                left(book, event.line, event.data["sequence"])
        case "ended":
            data = event.data
            book.end(data["limits"], data["holder"], data["since"])
        case "used":
            use(book, event.data)


def use(book: LineBook, data: Doc) -> None:
    """Charge what the attempt spent of limits besides, and pause those that it says."""
    for name, cost in data["spent"]:
        book.spend(name, cost)
    names = [(name, book.limit_of(name)) for name, _ in costs_of(data["limits"])]
    said = [(name, pause) for name, pause in data["pauses"]]
    for name, pause in pauses_of(said, data["retry_after"], names):
        book.pause(name, rounded(seconds(data["at"]) + pause), at_least=True)
