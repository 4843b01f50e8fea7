"""The fronts of lanes: the first jobs of each, read in one command with the facts.

Some servers sort all that a lane holds to find what is first in it. So a deep lane is looked at as
a whole now and then, and in between only as far as its next jobs lie: what fell due by some time
is its front as well, if it is enough.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mulligan.stores.mongo.base import PAGE, Base, Doc
from mulligan.stores.mongo.foreign import STRAYS
from mulligan.stores.mongo.snapshot import FIELDS

# Documents of other programs, which stand in no lane yet.
NO_LANE = None
# How far the looks after one at a whole lane go: so many times as far as what that one saw.
FURTHER = 20

FACTS: list[Doc] = [{"$match": {"_id": "facts"}}, {"$project": {"facts": "$$ROOT"}}]

Line = str | None


class Fronts:
    """Reads fronts, and remembers of deep lanes how far to look."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self._reach: dict[Line, int] = {}

    async def read(self, lines: Iterable[Line], limit: int) -> tuple[Doc, dict[Line, list[Doc]]]:
        """The facts, and then the first jobs of each lane in its order.

        Of a lane that gave fewer than the limit these are all.
        """
        bounds = {line: self._reach.get(line) for line in lines}
        facts, fronts = await self._ask(bounds, limit)
        whole = [line for line, bound in bounds.items() if bound is None]
        short = [line for line in bounds if line not in whole and len(fronts[line]) < limit]
        if short:
            _, more = await self._ask(dict.fromkeys(short), limit)
            fronts |= more
        for line in [*whole, *short]:
            self._remember(line, fronts[line], limit)
        return facts, fronts

    def _remember(self, line: Line, front: list[Doc], limit: int) -> None:
        if line is NO_LANE or len(front) < limit:
            self._reach.pop(line, None)
            return
        first, last = front[0]["mulligan"]["due"], front[-1]["mulligan"]["due"]
        self._reach[line] = last + FURTHER * (last - first)

    async def _ask(
        self, bounds: Mapping[Line, int | None], limit: int
    ) -> tuple[Doc, dict[Line, list[Doc]]]:
        tasks = self.base.tasks.name
        union = [
            {"$unionWith": {"coll": tasks, "pipeline": pipeline(line, bound, limit)}}
            for line, bound in bounds.items()
        ]
        cursor = await self.base.meta.aggregate([*FACTS, *union], batchSize=PAGE)
        facts: Doc = {}
        fronts: dict[Line, list[Doc]] = {line: [] for line in bounds}
        for doc in await cursor.to_list():
            if "facts" in doc:
                facts = self.base.learn(doc["facts"])
            else:
                fronts[line_in(doc)].append(doc)
        return facts, fronts


def pipeline(line: Line, bound: int | None, limit: int) -> list[Doc]:
    """The query for the front of one lane."""
    query: Doc = {"status": "pending", "mulligan.line": line}
    if bound is not None:
        query["mulligan.due"] = {"$lte": bound}
    return [
        {"$match": query},
        {"$sort": {"mulligan.due": 1, "mulligan.sequence": 1}},
        {"$limit": STRAYS if line is NO_LANE else limit},
        {"$project": FIELDS},
    ]


def line_in(doc: Doc) -> Any:
    """The lane that the document stands in; whatever another program calls `mulligan` is none."""
    private = doc.get("mulligan")
    return private.get("line", NO_LANE) if isinstance(private, dict) else NO_LANE
