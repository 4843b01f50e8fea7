"""Counts of everything, those documents included that no worker has taken in yet.

Whatever another program has put where a count looks, it is counted elsewhere or not at all.
"""

from collections import defaultdict

from mulligan.core.job import Status
from mulligan.core.lane import Lane, Priority
from mulligan.core.stats import DelayedStats, LaneStats, Stats
from mulligan.core.worker import WorkerView
from mulligan.stores.mongo.connection import PAGE, Collection, Connection, rows
from mulligan.stores.mongo.document import AWAITING, Doc, date, of_date, seconds
from mulligan.stores.mongo.gather import STILL_AWAITING
from mulligan.stores.mongo.inbox import QUEUE, REGION, lane_for, with_a_task
from mulligan.stores.mongo.workers import decode_worker

HOUR = 3600
WHOLE = {"$type": ["int", "long"]}
IS_DATE = {"$eq": [{"$type": "$next_retry_at"}, "date"]}
# Documents that no worker has taken in.
UNSEEN: Doc = {"mulligan.queue": None}


class StatsReader:
    """What is where."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def stats(self) -> Stats:
        """Counts of everything."""
        await self.connection.read_default_task()
        now = await self.connection.now()
        running: dict[tuple[str, str], int] = defaultdict(int)
        held_by: dict[str, int] = defaultdict(int)
        for row in await self.grouped(
            {"status": "processing", **with_a_task(self.connection.default_task)},
            queue=text_or("$mulligan.queue", QUEUE),
            region=text_or("$mulligan.region", REGION),
            worker_region=text_or("$mulligan.worker_region", ""),
            worker=text_or("$mulligan.worker", ""),
        ):
            of = row["_id"]
            running[of["queue"], of["worker_region"] or of["region"]] += row["n"]
            held_by[of["worker"]] += row["n"]
        return Stats(
            now=seconds(now),
            lanes=await self.lanes(now),
            running=dict(running),
            ended=await self.ended(),
            delayed=await self.delayed(now),
            workers=await self.workers(now, held_by),
            gathering=await self.gathering(),
        )

    async def gathering(self) -> dict[str, int]:
        """How many jobs of each queue await others."""
        queue = text_or("$mulligan.queue", QUEUE)
        found = await self.grouped(STILL_AWAITING, queue=queue)
        return {row["_id"]["queue"]: row["n"] for row in found}

    async def grouped(self, query: Doc, **by: Doc) -> list[Doc]:
        """How many tasks there are of each kind."""
        return await self.aggregate(query, {"_id": by, "n": {"$sum": 1}})

    async def aggregate(
        self, query: Doc, group: Doc, collection: Collection | None = None
    ) -> list[Doc]:
        """What a group by something gives."""
        asked = self.connection.tasks if collection is None else collection
        cursor = await asked.aggregate([{"$match": query}, {"$group": group}], batchSize=PAGE)
        return await cursor.to_list()

    async def lanes(self, now: int) -> list[LaneStats]:
        """Every lane that is not empty."""
        found: dict[Lane, LaneStats] = {}
        for each in [*await self.lanes_of_ours(now), *await self.lanes_of_others(now)]:
            before = found.get(each.lane)
            found[each.lane] = each if before is None else together(before, each)
        return sorted(found.values(), key=lambda stats: stats.lane)

    async def lanes_of_ours(self, now: int) -> list[LaneStats]:
        """Those that stand in a lane; neither documents not taken in nor invalid ones."""
        lane = {"q": "$mulligan.queue", "s": "$mulligan.scope", "p": "$mulligan.lane_priority"}
        group = {
            "_id": lane,
            "n": {"$sum": 1},
            "ready": {"$sum": {"$cond": [{"$lte": ["$mulligan.due", now]}, 1, 0]}},
            "oldest": {"$min": "$mulligan.due"},
        }
        query = {
            "status": "pending",
            "mulligan.lane": {"$ne": AWAITING},
            "mulligan.queue": {"$type": "string"},
            "mulligan.scope": {"$type": "string"},
            "mulligan.lane_priority": {"$in": [int(each) for each in Priority]},
            "mulligan.due": WHOLE,
        }
        return [
            LaneStats(
                Lane(row["_id"]["q"], row["_id"]["s"], int(row["_id"]["p"])),
                row["ready"],
                row["n"] - row["ready"],
                seconds(row["oldest"] if isinstance(row["oldest"], int) else now),
            )
            for row in await self.aggregate(query, group)
            if all(isinstance(part, str | int | float) for part in row["_id"].values())
        ]

    async def lanes_of_others(self, now: int) -> list[LaneStats]:
        """Where documents of other programs will stand."""
        kind = {"$in": [{"$type": "$attempts"}, ["int", "long", "double"]]}
        later = {"$and": [IS_DATE, {"$gt": ["$next_retry_at", date(now)]}]}
        group = {
            "_id": {"$and": [kind, {"$gt": ["$attempts", 0]}]},
            "n": {"$sum": 1},
            "ready": {"$sum": {"$cond": [later, 0, 1]}},
            "oldest": {"$min": {"$cond": [IS_DATE, "$next_retry_at", "$created_at"]}},
        }
        private = {"queue": QUEUE, "region": REGION, "priority": 0}
        return [
            LaneStats(
                lane_for(private, int(row["_id"])),
                row["ready"],
                row["n"] - row["ready"],
                seconds(since(row["oldest"], now)),
            )
            for row in await self.aggregate(self.unseen(), group)
        ]

    def unseen(self) -> Doc:
        """Pending documents that a worker will take in when they are due."""
        return {"status": "pending", **UNSEEN, **with_a_task(self.connection.default_task)}

    async def delayed(self, now: int) -> dict[str, DelayedStats]:
        """The delayed set of each queue."""
        found: dict[str, DelayedStats] = {}
        text = {"$type": "string"}
        ours = {"status": "pending", "mulligan.delayed": True, "mulligan.queue": text}
        others = {**self.unseen(), "next_retry_at": {"$type": "date"}}
        for query, queue, due, of in (
            (ours, text_or("$mulligan.queue", QUEUE), "$mulligan.due", int),
            (others, {"$literal": QUEUE}, "$next_retry_at", date),
        ):
            soon = now + HOUR * 1_000_000
            group = {
                "_id": queue,
                "n": {"$sum": 1},
                "ready": {"$sum": {"$cond": [{"$lte": [due, of(now)]}, 1, 0]}},
                "soon": {"$sum": {"$cond": [{"$lte": [due, of(soon)]}, 1, 0]}},
            }
            for row in await self.aggregate(query, group):
                before = found.get(row["_id"], DelayedStats())
                found[row["_id"]] = DelayedStats(
                    before.total + row["n"],
                    before.ready_now + row["ready"],
                    before.ready_in_hour + row["soon"],
                )
        return found

    async def ended(self) -> dict[tuple[str, Status], int]:
        """How many jobs of each queue have ended, and how."""
        counts: dict[tuple[str, Status], int] = defaultdict(int)
        group = {
            "_id": {"q": text_or("$mulligan.queue", QUEUE), "s": "$status"},
            "n": {"$sum": 1},
        }
        # By range: an array of such words would be found by $in.
        for status in ("done", "failed", "cancelled"):
            query = {"status": status}
            for collection in self.connection.collections:
                for row in await self.aggregate(query, group, collection):
                    if row["_id"]["s"] == status:
                        counts[row["_id"]["q"], status] += row["n"]
        return dict(counts)

    async def workers(self, now: int, held_by: dict[str, int]) -> list[WorkerView]:
        """Every worker, in the order in which they joined."""
        found = await rows(self.connection.workers.find().sort("joined", 1))
        return [
            WorkerView(
                decode_worker(doc["worker"]),
                seconds(doc["beat"]),
                seconds(doc["joined"]),
                doc["expires"] > now,
                held_by.get(doc["_id"], 0),
            )
            for doc in found
        ]


def text_or(field: str, otherwise: str) -> Doc:
    """The field if it is text; another program may have put anything there."""
    return {"$cond": [{"$eq": [{"$type": field}, "string"]}, field, {"$literal": otherwise}]}


def since(value: object, now: int) -> int:
    """A date, unless it is none or yet to come."""
    try:
        return of_date(value)
    except TypeError:
        return now


def together(one: LaneStats, other: LaneStats) -> LaneStats:
    """Both counts of a lane."""
    return LaneStats(
        one.lane,
        one.ready + other.ready,
        one.delayed + other.delayed,
        min(one.oldest_due, other.oldest_due),
    )
