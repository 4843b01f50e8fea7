"""What the book of lines and limits says to readers."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from mulligan.core.lane import Lane
from mulligan.core.limits import (
    FOREVER,
    KeyView,
    LimitState,
    LimitView,
    StoredLimit,
    view_of,
)
from mulligan.core.lines import NO_KEY, TURN, due_of
from mulligan.stores.mongo.connection import BOOK, PAGE, Connection, rows
from mulligan.stores.mongo.document import (
    Doc,
    lane_from,
    lane_name,
    micros,
    seconds,
    stands_in_line,
)
from mulligan.stores.mongo.ledger import Ledger, Root, StoredLimits, attempt
from mulligan.stores.mongo.line_pages import (
    line_key,
    line_where,
    turn_key,
)
from mulligan.stores.mongo.lines import LineBook
from mulligan.stores.mongo.pages import (
    ALARMS,
    KEYS,
    LATER,
    Pages,
)

COUNTED_AT_ONCE = 1000


class BookReader:
    """Reads the book, after what its last change does has been done."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ledger = Ledger(connection)

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
    """Makes books that take this for the present time."""

    def made(pages: Pages, root: Root, stored: StoredLimits) -> LineBook:
        return LineBook(pages, root, stored, now)

    return made


def state_from(page: Doc) -> LimitState:
    """What is used of a limit, from its page."""
    starts = [(at, cost) for at, cost in page["starts"]]
    return LimitState(len(page["holders"]), starts, page["full_at"], page["paused_until"])
