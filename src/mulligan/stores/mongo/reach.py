"""How far a look at the head of a deep lane or line goes.

Some servers sort all that a lane holds to find what is first in it. So a deep lane is read as a
whole now and then, and in between only the part that falls due by some time: the head of that part
is the head of the lane, if it is long enough.
"""

from pymongo.asynchronous.collection import AsyncCollection

from mulligan.stores.mongo.document import Doc

# After a look at a whole lane, the next looks go over so many times as many jobs as it read.
FURTHER = 30
# Of so many lanes it is remembered.
MOST = 1000
ORDER: Doc = {"mulligan.due": 1, "mulligan.sequence": 1}


class Reach:
    """By when the next jobs of deep lanes fall due."""

    def __init__(self, tasks: AsyncCollection[Doc]) -> None:
        self._tasks = tasks
        self._due: dict[str, int] = {}
        # How many of these jobs are left to this process, and how many it reads at a time.
        self._left: dict[str, tuple[int, int]] = {}

    def of(self, lane: str | None) -> int | None:
        """By when those jobs fall due that are to be looked at; None for all."""
        return None if lane is None else self._due.get(lane)

    def took(self, lane: str) -> None:
        """A job was taken out of the lane."""
        if lane in self._left:
            left, limit = self._left[lane]
            self._left[lane] = left - 1, limit

    async def renew(self) -> None:
        """Look further where half is gone, so that no claim has to look at a whole lane first."""
        for lane, (left, limit) in list(self._left.items()):
            if left < FURTHER * limit // 2:
                await self._look(lane, limit)

    async def measure(self, lane: str, found: int, limit: int) -> None:
        """Remember how far the next looks go, after one at the whole lane that found so many."""
        self._due.pop(lane, None)
        self._left.pop(lane, None)
        if found < limit:
            return
        if len(self._due) >= MOST:
            self._due.clear()
            self._left.clear()
        await self._look(lane, limit)

    async def _look(self, lane: str, limit: int) -> None:
        self._left[lane] = FURTHER * limit, limit
        cursor = await self._tasks.aggregate(
            [
                {"$match": {"status": "pending", "mulligan.lane": lane}},
                {"$sort": ORDER},
                {"$limit": FURTHER * limit},
                {"$group": {"_id": None, "due": {"$max": "$mulligan.due"}}},
            ]
        )
        for each in await cursor.to_list():
            self._due[lane] = each["due"]
