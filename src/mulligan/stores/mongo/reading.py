"""Reading: jobs, pages and counts. Documents of other programs are taken in before they show."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from mulligan.core.errors import UnknownJobError
from mulligan.core.job import Attempt, Job, Status
from mulligan.core.lane import Lane
from mulligan.core.worker import WorkerView
from mulligan.stores.contract import (
    DelayedStats,
    LaneStats,
    Page,
    Selection,
    Stats,
    place_after,
)
from mulligan.stores.mongo import foreign, gathering
from mulligan.stores.mongo.base import PAGE, Base, Doc, line_of, rows
from mulligan.stores.mongo.documents import AWAITING, HELD, lane_of
from mulligan.stores.mongo.times import micros, seconds
from mulligan.stores.mongo.views import due_of, job_of
from mulligan.stores.mongo.workers import decode_worker

HOUR = 3600


class Reading:
    """What readers ask."""

    def __init__(self, base: Base) -> None:
        self.base = base

    async def document(self, job: str) -> Doc | None:
        """The job's document, taken in if another program inserted it."""
        doc = (await self.base.find_anywhere([job])).get(job)
        if doc is not None and "body" not in (doc.get("mulligan") or {}):
            await foreign.take_in(self.base, [doc], await self.base.now())
            doc = (await self.base.find_anywhere([job])).get(job)
        return doc

    async def get(self, job: str) -> Job | None:
        """The job as it is now."""
        doc = await self.document(job)
        return None if doc is None else (await self.jobs([doc]))[0]

    async def jobs(self, docs: Sequence[Doc]) -> list[Job]:
        """The jobs of these documents; how many have arrived is counted where it matters."""
        arrived = await gathering.count(self.base, docs)
        return [job_of(doc, arrived.get(place_of(doc), 0)) for doc in docs]

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        """What has arrived at a gathering job."""
        doc = await self.document(job)
        return {} if doc is None else await gathering.results(self.base, doc)

    async def history(self, job: str) -> list[Attempt]:
        """Its failed and lost attempts."""
        doc = await self.document(job)
        entries = [] if doc is None else doc["mulligan"].get("history", [])
        return readable(entries)

    async def take_in_all(self) -> None:
        """Take in documents that mulligan has never seen, whatever their status."""
        while True:
            query = {"mulligan.place": None}
            found = await rows(self.base.tasks.find(query).limit(foreign.STRAYS))
            await foreign.take_in(self.base, found, await self.base.now())
            if len(found) < foreign.STRAYS:
                return

    async def page(self, selection: Selection, limit: int, after: str | None) -> Page:
        """Jobs that match, newest first."""
        await self.take_in_all()
        query = query_of(selection)
        if after is not None:
            query["mulligan.place"] = {"$lt": place_after(after)}
        found: dict[Any, Doc] = {}
        for place in reversed(self.base.places):
            order = [("mulligan.place", -1)]
            docs = await rows(place.find(query).sort(order).limit(limit + 1))
            found |= {doc["_id"]: doc for doc in docs}
        docs = sorted(found.values(), key=place_of, reverse=True)
        more = len(docs) > limit
        last = str(place_of(docs[limit - 1])) if more else None
        return Page(await self.jobs(docs[:limit]), last)

    async def depth(self, lane: Lane, limit: int) -> int:
        """Jobs of the lane that could start now."""
        if limit <= 0:
            return 0
        query = {
            "status": "pending",
            "mulligan.line": line_of(lane),
            "mulligan.due": {"$lte": await self.base.now()},
        }
        return await self.base.tasks.count_documents(query, limit=limit)

    async def ahead(self, job: str) -> int:
        """Jobs of its lane that stand before it, those that a key holds included."""
        doc = await self.document(job)
        if doc is None:
            raise UnknownJobError(f"no job {job!r} is stored")
        lane, due = lane_of(doc), due_of(doc)
        return await self.base.tasks.count_documents(
            {
                "status": "pending",
                "mulligan.line": {"$in": [line_of(lane), HELD]},
                "mulligan.queue": lane.queue,
                "mulligan.scope": lane.scope,
                "mulligan.lane_priority": lane.priority,
                "$or": [
                    {"mulligan.due": {"$lt": due}},
                    {
                        "mulligan.due": due,
                        "mulligan.sequence": {"$lt": doc["mulligan"]["sequence"]},
                    },
                ],
            }
        )

    async def tail(self, lane: Lane, due: float) -> str | None:
        """The last job of the lane that was due by then."""
        query = {
            "status": "pending",
            "mulligan.line": line_of(lane),
            "mulligan.due": {"$lte": micros(due)},
        }
        order = [("mulligan.due", -1), ("mulligan.sequence", -1)]
        doc = await self.base.tasks.find_one(query, {"_id": 1}, sort=order)
        return None if doc is None else str(doc["_id"])

    # -- counts ----------------------------------------------------------------------------

    async def stats(self) -> Stats:
        """Counts of everything."""
        await self.take_in_all()
        now = await self.base.now()
        running: dict[tuple[str, str], int] = defaultdict(int)
        held_by: dict[str, int] = defaultdict(int)
        for row in await self.grouped(
            {"status": "processing"},
            queue="$mulligan.queue",
            region="$mulligan.region",
            place="$mulligan.worker_region",
            worker="$mulligan.worker",
        ):
            of = row["_id"]
            running[of["queue"], of.get("place") or of["region"]] += row["n"]
            held_by[of.get("worker") or ""] += row["n"]
        return Stats(
            seconds(now),
            await self.lanes(now),
            dict(running),
            await self.ended(),
            await self.delayed(now),
            await self.workers(now, held_by),
            {
                row["_id"]["queue"]: row["n"]
                for row in await self.grouped(gathering.STILL_AWAITING, queue="$mulligan.queue")
            },
        )

    async def grouped(self, query: Doc, **by: str) -> list[Doc]:
        """How many tasks there are of each kind."""
        group = {"_id": by, "n": {"$sum": 1}}
        cursor = await self.base.tasks.aggregate(
            [{"$match": query}, {"$group": group}], batchSize=PAGE
        )
        return await cursor.to_list()

    async def lanes(self, now: int) -> list[LaneStats]:
        """Every lane that is not empty."""
        lane = {"q": "$mulligan.queue", "s": "$mulligan.scope", "p": "$mulligan.lane_priority"}
        group = {
            "_id": lane,
            "n": {"$sum": 1},
            "ready": {"$sum": {"$cond": [{"$lte": ["$mulligan.due", now]}, 1, 0]}},
            "oldest": {"$min": "$mulligan.due"},
        }
        query = {
            "status": "pending",
            "mulligan.line": {"$ne": AWAITING},
            # neither those that no worker has seen yet nor those that were damaged
            "mulligan.queue": {"$type": "string"},
            "mulligan.scope": {"$type": "string"},
            "mulligan.lane_priority": {"$type": "number"},
            "mulligan.due": {"$type": "number"},
        }
        cursor = await self.base.tasks.aggregate(
            [{"$match": query}, {"$group": group}], batchSize=PAGE
        )
        return sorted(
            (
                LaneStats(
                    Lane(row["_id"]["q"], row["_id"]["s"], row["_id"]["p"]),
                    row["ready"],
                    row["n"] - row["ready"],
                    seconds(row["oldest"]),
                )
                for row in await cursor.to_list()
            ),
            key=lambda stats: stats.lane,
        )

    async def delayed(self, now: int) -> dict[str, DelayedStats]:
        """The delayed set of each queue."""
        soon = {"$cond": [{"$lte": ["$mulligan.due", now + HOUR * 1_000_000]}, 1, 0]}
        group = {
            "_id": "$mulligan.queue",
            "n": {"$sum": 1},
            "ready": {"$sum": {"$cond": [{"$lte": ["$mulligan.due", now]}, 1, 0]}},
            "soon": {"$sum": soon},
        }
        query = {"status": "pending", "mulligan.delayed": True}
        cursor = await self.base.tasks.aggregate(
            [{"$match": query}, {"$group": group}], batchSize=PAGE
        )
        return {
            row["_id"]: DelayedStats(row["n"], row["ready"], row["soon"])
            for row in await cursor.to_list()
        }

    async def ended(self) -> dict[tuple[str, Status], int]:
        """How many jobs of each queue have ended, and how."""
        counts: dict[tuple[str, Status], int] = defaultdict(int)
        group = {"_id": {"q": "$mulligan.queue", "s": "$status"}, "n": {"$sum": 1}}
        query = {"status": {"$in": ["done", "failed", "cancelled"]}}
        for place in self.base.places:
            cursor = await place.aggregate([{"$match": query}, {"$group": group}], batchSize=PAGE)
            for row in await cursor.to_list():
                counts[row["_id"]["q"], row["_id"]["s"]] += row["n"]
        return dict(counts)

    async def workers(self, now: int, held_by: dict[str, int]) -> list[WorkerView]:
        """Every worker that is known, in the order in which they came."""
        found = await rows(self.base.workers.find().sort("joined", 1))
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


def place_of(doc: Doc) -> int:
    """The job's number; the first of all where another program has put something else."""
    place = doc["mulligan"]["place"]
    return place if isinstance(place, int) else 0


def readable(entries: Any) -> list[Attempt]:
    """Those of the entries of a history that another program has left as they were."""
    found: list[Attempt] = []
    for entry in entries if isinstance(entries, list) else ():
        with suppress(msgspec.ValidationError):
            found.append(msgspec.convert(entry, Attempt))
    return found


def query_of(selection: Selection) -> Doc:
    """The query that a selection stands for; what users typed is only ever compared."""
    query: Doc = {}
    for field, value in (
        ("status", selection.status),
        ("mulligan.queue", selection.queue),
        ("mulligan.region", selection.region),
        ("mulligan.task", selection.task),
    ):
        if value is not None:
            query[field] = {"$eq": str(value)}
    if selection.text is not None:
        failure = {"$concat": [text_of("$error.type"), ": ", text_of("$error.message")]}
        sought = {"$literal": str(selection.text)}
        query["error"] = {"$type": "object"}
        query["$expr"] = {"$gte": [{"$indexOfCP": [failure, sought]}, 0]}
    return query


def text_of(field: str) -> Doc:
    """The field if it is text; another program may have put anything there."""
    return {"$cond": [{"$eq": [{"$type": field}, "string"]}, field, ""]}
