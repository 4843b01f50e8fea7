"""The heads of lanes: the first jobs of each, read in one command with the epoch.

Of a deep lane only a part is read, as far as its `reach` goes.

Claims of several processes read the same head, and one gets it. So for a moment after it lost, a
claim stands back: it begins behind what the others may be about to take.
"""

from collections.abc import Iterable, Mapping
from secrets import randbelow

from msgspec import Struct

from mulligan.stores.mongo.connection import BOOK, DEFAULT_TASK, LANE, PAGE, Connection
from mulligan.stores.mongo.document import SECOND, Doc
from mulligan.stores.mongo.inbox import STRAYS, strays
from mulligan.stores.mongo.reach import ORDER
from mulligan.stores.mongo.snapshot import PROJECTION

# Documents of other programs, which stand in no lane yet.
NO_LANE = None
# How many of these a claim reads that expects none: so that it knows when the next one is due.
FEW_STRAYS = 10
# For so long a claim stands back at most; then it takes what is first, whoever else wants it.
STANDS_BACK = SECOND
# After so many losses it stands back no further.
MOST_LOSSES = 3

LaneName = str | None


class Part(Struct, frozen=True):
    """The part of a lane that is read: without so many of its first jobs, and due by then."""

    skips: int = 0
    due: int | None = None


class Back(Struct, frozen=True):
    """How many jobs of a lane are left to others, until when, and after how many losses."""

    skips: int
    until: int
    losses: int


WHOLE = Part()


class Heads:
    """Reads heads; remembers how far to look in deep lanes, and where it stands back."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        # Set after a look that found nothing but documents which are due.
        self.many_strays = False
        # The lanes that had lines at the last look.
        self.lined: frozenset[str] = frozenset()
        self._back: dict[LaneName, Back] = {}

    async def read(
        self, lanes: Iterable[LaneName], limit: int, unused: Iterable[str] = ()
    ) -> tuple[int, dict[LaneName, list[Doc]]]:
        """The epoch, and then the first jobs of each lane in its order.

        Of a lane that gave fewer than the limit these are all. Those of the unused lanes that are
        used by now are remembered.
        """
        now = await self.connection.now()
        self._back = {lane: back for lane, back in self._back.items() if back.until > now}
        parts = {lane: self._part(lane) for lane in lanes}
        epoch, heads = await self._ask(parts, limit, unused)
        short = [lane for lane in parts if parts[lane] != WHOLE and len(heads[lane]) < limit]
        if short:
            self.come_forward(short)
            _, more = await self._ask(dict.fromkeys(short, WHOLE), limit)
            heads |= more
        for lane in [*short, *(lane for lane, part in parts.items() if part.due is None)]:
            if lane is not NO_LANE:
                await self.connection.reach.measure(lane, len(heads[lane]), limit)
        return epoch, heads

    def stand_back(self, lanes: Iterable[str], demand: int, now: int) -> None:
        """Other claims got the jobs of these lanes: for a moment, leave them the next ones."""
        for lane in lanes:
            before = self._back.get(lane) or Back(0, now + STANDS_BACK, 0)
            losses = min(before.losses + 1, MOST_LOSSES)
            skips = demand * (1 + randbelow(2**losses - 1))
            self._back[lane] = Back(skips, before.until, losses)

    def come_forward(self, lanes: Iterable[LaneName]) -> bool:
        """Stop standing back in these lanes; whether this process did."""
        stood_back = self._back.keys() & set(lanes)
        for lane in stood_back:
            del self._back[lane]
        return bool(stood_back)

    def _part(self, lane: LaneName) -> Part:
        back = self._back.get(lane)
        return Part(back.skips if back else 0, self.connection.reach.of(lane))

    async def _ask(
        self, parts: Mapping[LaneName, Part], limit: int, unused: Iterable[str] = ()
    ) -> tuple[int, dict[LaneName, list[Doc]]]:
        tasks = self.connection.tasks.name
        lanes = list(parts)
        union = [
            {
                "$unionWith": {
                    "coll": tasks,
                    "pipeline": self._pipeline(at, lane, parts[lane], limit),
                }
            }
            for at, lane in enumerate(lanes)
        ]
        cursor = await self.connection.meta.aggregate([*meta_query(unused), *union], batchSize=PAGE)
        epoch = 0
        heads: dict[LaneName, list[Doc]] = {lane: [] for lane in parts}
        task = None
        for doc in await cursor.to_list():
            match doc.get("meta"):
                case None:
                    heads[lanes[doc.pop("at")]].append(doc)
                case "book":
                    self.lined = frozenset(doc["lanes"])
                case "facts":
                    epoch = doc.get("epoch", 0)
                case "default_task":
                    task = doc.get("task")
                case lane:
                    self.connection.add_lane(lane)
        self.connection.learn_default_task(task)
        return epoch, heads

    def _pipeline(self, at: int, lane: LaneName, part: Part, limit: int) -> list[Doc]:
        """The query for the head of one lane, or for documents of other programs.

        Each comes with the number of its query: what another program calls `mulligan.lane` may be
        anything.
        """
        if lane is NO_LANE:
            query = strays(self.connection.default_task)
            order: Doc = {"next_retry_at": 1}
            limit = STRAYS if self.many_strays else FEW_STRAYS
        else:
            query, order = {"status": "pending", "mulligan.lane": lane}, ORDER
        if part.due is not None:
            query["mulligan.due"] = {"$lte": part.due}
        return [
            {"$match": query},
            {"$sort": order},
            *([{"$skip": part.skips}] if part.skips else []),
            {"$limit": limit},
            {"$project": PROJECTION | {"at": {"$literal": at}}},
        ]


def meta_query(unused: Iterable[str]) -> list[Doc]:
    """The query for the epoch, the default task, and which lanes are used by now or have lines."""
    keys = ["facts", DEFAULT_TASK, BOOK, *(LANE + lane for lane in sorted(unused))]
    fields = {"_id": 0, "meta": "$_id", "epoch": 1, "task": 1, "lanes": "$lanes.name"}
    return [{"$match": {"_id": {"$in": keys}}}, {"$project": fields}]
