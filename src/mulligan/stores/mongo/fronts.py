"""The fronts of lanes: the first jobs of each, read in one command with the epoch.

Some servers sort all that a lane holds to find what is first in it. So a deep lane is looked at as
a whole now and then, and in between only as far as its next jobs lie: what falls due by some time
is its front as well, if it is enough.

Claims of several processes read the same front, and one gets it. So for a moment after it lost, a
claim stands back: it begins behind what the others may be about to take.
"""

from collections.abc import Iterable, Mapping
from secrets import randbelow

from msgspec import Struct

from mulligan.stores.mongo.base import DEFAULT_TASK, LANE, PAGE, Base, Doc
from mulligan.stores.mongo.inbox import STRAYS, strays
from mulligan.stores.mongo.snapshot import FIELDS
from mulligan.stores.mongo.times import SECOND

# Documents of other programs, which stand in no lane yet.
NO_LANE = None
# How many of these a claim reads that expects none: so that it knows when the next one is due.
FEW_STRAYS = 10
# How far the looks after one at a whole lane go: over so many times as many jobs as that one saw.
FURTHER = 30
ORDER = {"mulligan.due": 1, "mulligan.sequence": 1}
# For so long a claim stands back at most; then it takes what is first, whoever else wants it.
STANDS_BACK = SECOND
# After so many losses it stands back no further.
MOST_LOSSES = 3

Line = str | None


class Part(Struct, frozen=True):
    """Which part of a lane is looked at: after so many, of what falls due by then."""

    skips: int = 0
    due: int | None = None


class Back(Struct, frozen=True):
    """How many jobs of a lane are left to others, until when, and after how many losses."""

    skips: int
    until: int
    losses: int


WHOLE = Part()


class Fronts:
    """Reads fronts; remembers how far to look in deep lanes, and where it stands back."""

    def __init__(self, base: Base) -> None:
        self.base = base
        # Set after a look that found nothing but documents which are due.
        self.many_strays = False
        self._reach: dict[Line, int] = {}
        self._back: dict[Line, Back] = {}

    async def read(
        self, lines: Iterable[Line], limit: int, unused: Iterable[str] = ()
    ) -> tuple[int, dict[Line, list[Doc]]]:
        """The epoch, and then the first jobs of each lane in its order.

        Of a lane that gave fewer than the limit these are all. Those of the unused that are used
        by now are known from then on.
        """
        now = await self.base.now()
        self._back = {line: back for line, back in self._back.items() if back.until > now}
        parts = {line: self._part(line) for line in lines}
        epoch, fronts = await self._ask(parts, limit, unused)
        short = [line for line in parts if parts[line] != WHOLE and len(fronts[line]) < limit]
        if short:
            self.come_forward(short)
            _, more = await self._ask(dict.fromkeys(short, WHOLE), limit)
            fronts |= more
        for line in [*short, *(line for line, part in parts.items() if part.due is None)]:
            await self._measure(line, fronts[line], limit)
        return epoch, fronts

    def stand_back(self, lines: Iterable[str], demand: int, now: int) -> None:
        """Others were quicker in these lanes: for a moment leave them what they may take next."""
        for line in lines:
            before = self._back.get(line) or Back(0, now + STANDS_BACK, 0)
            losses = min(before.losses + 1, MOST_LOSSES)
            skips = demand * (1 + randbelow(2**losses - 1))
            self._back[line] = Back(skips, before.until, losses)

    def come_forward(self, lines: Iterable[Line]) -> bool:
        """Leave nothing in these lanes to others; whether anything was."""
        stood_back = self._back.keys() & set(lines)
        for line in stood_back:
            del self._back[line]
        return bool(stood_back)

    def _part(self, line: Line) -> Part:
        back = self._back.get(line)
        return Part(back.skips if back else 0, self._reach.get(line))

    async def _measure(self, line: Line, front: list[Doc], limit: int) -> None:
        """Find out by when the next jobs fall due: how close they lie says nothing, in batches."""
        self._reach.pop(line, None)
        if line is NO_LANE or len(front) < limit:
            return
        cursor = await self.base.tasks.aggregate(
            [
                {"$match": {"status": "pending", "mulligan.line": line}},
                {"$sort": ORDER},
                {"$limit": FURTHER * limit},
                {"$group": {"_id": None, "due": {"$max": "$mulligan.due"}}},
            ]
        )
        for found in await cursor.to_list():
            self._reach[line] = found["due"]

    async def _ask(
        self, parts: Mapping[Line, Part], limit: int, unused: Iterable[str] = ()
    ) -> tuple[int, dict[Line, list[Doc]]]:
        tasks = self.base.tasks.name
        lines = list(parts)
        union = [
            {
                "$unionWith": {
                    "coll": tasks,
                    "pipeline": self._pipeline(at, line, parts[line], limit),
                }
            }
            for at, line in enumerate(lines)
        ]
        cursor = await self.base.meta.aggregate([*known(unused), *union], batchSize=PAGE)
        epoch = 0
        fronts: dict[Line, list[Doc]] = {line: [] for line in parts}
        task = None
        for doc in await cursor.to_list():
            match doc.get("known"):
                case None:
                    fronts[lines[doc.pop("at")]].append(doc)
                case "facts":
                    epoch = doc.get("epoch", 0)
                case "default_task":
                    task = doc.get("task")
                case lane:
                    self.base.learn(lane)
        self.base.learn_default_task(task)
        return epoch, fronts

    def _pipeline(self, at: int, line: Line, part: Part, limit: int) -> list[Doc]:
        """The query for the front of one lane, or for documents of other programs.

        Each comes with the number of its query: what another program calls `mulligan.line` may be
        anything.
        """
        if line is NO_LANE:
            query = strays(self.base.default_task)
            order: Doc = {"next_retry_at": 1}
            limit = STRAYS if self.many_strays else FEW_STRAYS
        else:
            query, order = {"status": "pending", "mulligan.line": line}, ORDER
        if part.due is not None:
            query["mulligan.due"] = {"$lte": part.due}
        return [
            {"$match": query},
            {"$sort": order},
            *([{"$skip": part.skips}] if part.skips else []),
            {"$limit": limit},
            {"$project": FIELDS | {"at": {"$literal": at}}},
        ]


def known(unused: Iterable[str]) -> list[Doc]:
    """The query for the epoch, and for those of the lanes that are used by now."""
    keys = ["facts", DEFAULT_TASK, *(LANE + line for line in sorted(unused))]
    return [
        {"$match": {"_id": {"$in": keys}}},
        {"$project": {"_id": 0, "known": "$_id", "epoch": 1, "task": 1}},
    ]
