"""The book of lines and limits as the other rooms use it: what they tell it, and what it says."""

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import TypeVar

from pymongo import UpdateMany

from mulligan.core.checks import rounded
from mulligan.core.lane import Lane
from mulligan.core.limits import (
    FOREVER,
    KeyView,
    Limit,
    LimitState,
    LimitView,
    StoredLimit,
    costs_of,
    view_of,
)
from mulligan.core.lines import NO_KEY, TURN, due_of, opened
from mulligan.stores.mongo.bulk_write import stamped_at, write
from mulligan.stores.mongo.connection import BOOK, PAGE, Connection, keys_of, rows
from mulligan.stores.mongo.document import (
    SECOND,
    Doc,
    lane_from,
    lane_name,
    micros,
    private_of,
    seconds,
    stands_in_line,
)
from mulligan.stores.mongo.events import UNBOOKED, Event, events_in, holder_of
from mulligan.stores.mongo.ledger import Ledger, Root, StoredLimits, attempt
from mulligan.stores.mongo.lines import (
    LineBook,
    line_key,
    needs_of_limit,
    state_key,
    stored_key,
    turn_key,
)
from mulligan.stores.mongo.pages import (
    ALARMS,
    JOB,
    KEYS,
    LATER,
    PAGE_OF,
    STATES,
    WAITED_FOR,
    Need,
    Pages,
)
from mulligan.stores.mongo.snapshot import Taken
from mulligan.stores.mongo.told import line_where, needs_of_events, tell
from mulligan.stores.mongo.wakeup import News, Wakeup, news_of

T = TypeVar("T")

# Jobs that owe something to the book.
OWING = {f"{UNBOOKED}.id": {"$gt": ""}}
FORGET = {"$unset": {UNBOOKED: ""}}
# Limits of which someone has a permit.
IN_USE = {"holders.0": {"$exists": True}}
# Long enough for anyone to tell the book what happened, shorter than a lease.
GRACE = 5 * SECOND
TOLD_AT_ONCE = 100
COUNTED_AT_ONCE = 1000


class Bookkeeper:
    """Tells the book what happens to jobs and limits, and reads what it says."""

    def __init__(self, connection: Connection, wakeup: Wakeup) -> None:
        self.connection = connection
        self.wakeup = wakeup
        self.ledger = Ledger(connection)
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
        needs = [need for name in sorted(names) for need in needs_of_limit(name)]
        book, _ = await self.change(work, lambda _: needs, now)
        await self.wakeup.wake(book.news)

    # -- operators -------------------------------------------------------------------------------

    async def set_limit(self, name: str, limit: Limit | None, *, declared: bool) -> None:
        """Store what an app declares or an operator sets; who waits may have room now."""

        def work(book: LineBook) -> None:
            before = book.stored.limits.get(name, StoredLimit())
            after = before.with_declared(limit) if declared else before.with_set(limit)
            if after != before:
                book.store(name, after)

        book, _ = await self.change(work, lambda _: [(WAITED_FOR,), (PAGE_OF, stored_key(name))])
        await self.wakeup.wake(book.news)

    async def pause_limit(self, name: str, length: float) -> None:
        """Start nobody of the limit for so long; 0 ends a pause."""

        def work(book: LineBook) -> None:
            book.pause(name, rounded(book.now + length), at_least=False)
            opened(book, name)

        book, _ = await self.change(work, lambda _: needs_of_limit(name))
        await self.wakeup.wake(book.news)

    # -- repair ----------------------------------------------------------------------------------

    async def repair(self, signs: Container[str], now: int) -> None:
        """Finish a change whose process is gone, and tell the book what others left untold."""
        if "unfinished" in signs:
            await self.ledger.read()
        if "unbooked" in signs:
            await self.tell_left(now)

    async def tell_left(self, now: int) -> None:
        """Tell the book what jobs have owed it for a while: who should have told it is gone."""
        for collection in self.connection.collections:
            found = await rows(collection.find(OWING).limit(TOLD_AT_ONCE))
            events = [event for doc in found for event in events_in(doc)]
            told = {event.id for event in events}
            # What another program has spoilt says nothing; what it was about is found elsewhere.
            spoilt = [doc["_id"] for doc in found if not told & ids_in(doc)]
            if spoilt:
                await write(collection, [UpdateMany({"_id": {"$in": spoilt}}, FORGET)])
            old = [event for event in events if stamped_at(event.id) <= now - GRACE]
            await self.tell_and_wake(sorted(old, key=lambda each: stamped_at(each.id)))

    async def free_left(self) -> None:
        """Free permits of leases that nobody has: their claim or their end came to nothing."""
        states = await rows(self.connection.lines.find(IN_USE, {"state": 1, "holders": 1}))
        suspects = [doc["state"] for doc in states if await self.dead(doc["holders"])]
        for name in suspects:
            await self.free(name)

    async def free(self, name: str) -> None:
        """Free what dead leases hold of this limit, as the book has it now."""
        page: Doc = {}

        def work(book: LineBook) -> None:
            holders = (book.draft.page(state_key(name)) or {}).get("holders", [])
            page["holders"] = holders
            if gone := [each for each in holders if not is_held(book, each)]:
                book.free(name, gone)

        held = await self.connection.lines.find_one({"_id": state_key(name)}) or {}
        jobs = [(JOB, key) for word in held.get("holders", ()) for key in keys_of(job_in(word))]
        book, _ = await self.change(work, lambda _: [*needs_of_limit(name), *jobs])
        await self.wakeup.wake(book.news)

    async def dead(self, holders: Sequence[str]) -> bool:
        """Whether one of these leases is over."""
        keys = [key for word in holders for key in keys_of(job_in(word))]
        query = {"_id": {"$in": keys}, "status": "processing"}
        found = await rows(self.connection.tasks.find(query, {"mulligan.token": 1}))
        held = {lease_in(doc) for doc in found}
        return any(word not in held for word in holders)

    async def prune(self) -> None:
        """Forget what is used of limits where that says no more than nothing would."""
        if await self.connection.lines.find_one({"state": {"$gt": ""}}, {"_id": 1}) is None:
            return

        def work(book: LineBook) -> None:
            for name in book.draft.pages.get((STATES,)):
                book.keep_state(name)

        await self.change(work, lambda _: [(STATES,)])

    # -- reading ---------------------------------------------------------------------------------

    async def lined(self, lanes: Iterable[str]) -> set[str]:
        """Those of the lanes that have lines."""
        names = {"lanes": "$lanes.name"}
        root = await self.connection.meta.find_one({"_id": BOOK}, names)
        return set(lanes) & set(() if root is None else root["lanes"])

    async def due_of(self, lane: str) -> int | None:
        """When a job in a line of the lane could start; None if none could by itself."""
        root = await self.ledger.read()
        if (facts := root.lanes.get(lane)) is None:
            return None
        pages = Pages(self.connection)
        await pages.fetch([(LATER, lane), (ALARMS, lane), (KEYS, lane, facts.round)])
        made = book_at(await self.connection.now())
        stored = await self.ledger.stored(root)
        _, due = await attempt(pages, root, stored, made, partial(due_of, lane=lane_from(lane)))
        return None if due == FOREVER else micros(due)

    async def waits_for(self, docs: Sequence[Doc]) -> list[str | None]:
        """For each of the jobs the limit that the line waits for in which it stands, if any."""
        lines = [line_where(doc) if stands_in_line(doc) else None for doc in docs]
        keys = [None if line is None else line_key(line) for line in lines]
        if not any(keys):
            return [None] * len(docs)
        await self.ledger.read()
        query = {"_id": {"$in": sorted({key for key in keys if key})}, "waits_for": {"$gt": ""}}
        found = await rows(self.connection.lines.find(query, {"waits_for": 1}))
        waiting = {page["_id"]: page["waits_for"] for page in found}
        return [waiting.get(key or "") for key in keys]

    async def counts(self, pages: Sequence[Doc], due: int | None = None) -> dict[str, int]:
        """How many jobs stand in each of these lines, by the keys of their pages; by then due."""
        texts = {page["_id"].partition("\x1f")[2]: page["_id"] for page in pages}
        counted: dict[str, int] = {}
        every = sorted(texts)
        for at in range(0, len(every), COUNTED_AT_ONCE):
            some = every[at : at + COUNTED_AT_ONCE]
            query: Doc = {"status": "pending", "mulligan.lane": {"$in": some}}
            if due is not None:
                query["mulligan.due"] = {"$lte": due}
            group = {"_id": "$mulligan.lane", "n": {"$sum": 1}}
            pipeline: list[Doc] = [{"$match": query}, {"$group": group}]
            cursor = await self.connection.tasks.aggregate(pipeline, batchSize=PAGE)
            counted |= {texts[row["_id"]]: row["n"] for row in await cursor.to_list()}
        return counted

    async def limits(self, most: int) -> list[LimitView]:
        """The limits that are stored or in use, in order of names."""
        root = await self.ledger.read()
        stored, now = await self.ledger.stored(root), await self.connection.now()
        pages = await rows(self.connection.lines.find({"state": {"$gt": ""}}))
        states = {page["state"]: state_from(page) for page in pages}
        lines = await rows(self.connection.lines.find({"waits_for": {"$gt": ""}}))
        jobs = await self.counts(lines)
        waiting: dict[str, int] = defaultdict(int)
        for line in lines:
            waiting[line["waits_for"]] += jobs.get(line["_id"], 0)
        return [
            view_of(
                name,
                stored.limits.get(name, StoredLimit()),
                stored.limit_of(name),
                states.get(name, LimitState()),
                waiting=waiting.get(name, 0),
                now=seconds(now),
            )
            for name in sorted({*stored.limits, *states, *waiting})[:most]
        ]

    async def keys(self, queue: str, most: int) -> list[KeyView]:
        """The fairness keys of the queue with work waiting, those with most work first."""
        root = await self.ledger.read()
        lanes = [lane for lane in root.lanes if lane_from(lane).queue == queue]
        query = {"lane": {"$in": lanes}, "key": {"$gt": NO_KEY}}
        lines = await rows(self.connection.lines.find(query, {"lane": 1, "key": 1}))
        jobs = await self.counts(lines)
        waiting: dict[tuple[Lane, str], int] = defaultdict(int)
        for line in lines:
            waiting[lane_from(line["lane"]), line["key"]] += jobs.get(line["_id"], 0)
        order = sorted(waiting, key=lambda each: (-waiting[each], *each))[:most]
        turns = await self.turns(root, order)
        return [
            KeyView(lane, key, waiting[lane, key], turns[at])
            for at, (lane, key) in enumerate(order)
        ]

    async def turns(self, root: Root, keys: Sequence[tuple[Lane, str]]) -> list[float]:
        """How many turns each of these keys is behind."""
        facts = [root.lanes[lane_name(lane)] for lane, _ in keys]
        pages = [
            turn_key(f.round, lane_name(lane), key)
            for f, (lane, key) in zip(facts, keys, strict=True)
        ]
        found = await rows(self.connection.lines.find({"_id": {"$in": pages}}, {"turn": 1}))
        turn = {page["_id"]: page.get("turn", 0) for page in found}
        return [
            max(0, turn.get(page, 0) - each.present) / TURN
            for page, each in zip(pages, facts, strict=True)
        ]

    async def ready(self, lane: Lane, limit: int) -> int:
        """How many jobs in lines of the lane could start now, counted up to the limit."""
        root = await self.ledger.read()
        if lane_name(lane) not in root.lanes:
            return 0
        query = {"lane": lane_name(lane), "waits_for": None}
        pages = await rows(self.connection.lines.find(query, {"_id": 1}))
        counted = await self.counts(pages, await self.connection.now())
        return min(limit, sum(counted.values()))


def book_at(now: int) -> Callable[[Pages, Root, StoredLimits], LineBook]:
    """How a book is made for this instant."""

    def made(pages: Pages, root: Root, stored: StoredLimits) -> LineBook:
        return LineBook(pages, root, stored, now)

    return made


def is_held(book: LineBook, holder: str) -> bool:
    """Whether the lease still holds its permits."""
    for key in keys_of(job_in(holder)):
        doc = book.draft.pages.get((JOB, key))
        if doc is not None and doc["status"] == "processing" and lease_in(doc) == holder:
            return True
    return False


def lease_in(doc: Doc) -> str:
    """The lease of a running job, as limits know it."""
    return holder_of(doc["_id"], private_of(doc).get("token", 0))


def ids_in(doc: Doc) -> set[str]:
    """What the events are called that a job owes."""
    owed = private_of(doc).get("unbooked")
    each_one = owed if isinstance(owed, list) else []
    return {str(each.get("id")) for each in each_one if isinstance(each, dict)}


def job_in(holder: str) -> str:
    """The job of a lease."""
    return holder.partition("/")[2]


def state_from(page: Doc) -> LimitState:
    """What is used of a limit, as it was kept."""
    starts = [(at, cost) for at, cost in page["starts"]]
    return LimitState(len(page["holders"]), starts, page["full_at"], page["paused_until"])
