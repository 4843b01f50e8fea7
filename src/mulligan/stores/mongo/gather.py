"""Fan-in: members arrive at the job that awaits them, and the last one lets it join its lane.

A member owes its arrival from the beginning, and until the gathering job knows: whoever finds one
that has ended and still owes it settles that. An arrival is a document of its own with a fixed
key, so it counts once however often it is sent. The gathering job joins its lane by an update that
only one process can win.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct
from pymongo import DeleteMany, InsertOne, ReturnDocument, UpdateMany

from mulligan.core.job import ENDED, never_arrives
from mulligan.stores.mongo.bulk_write import Change, write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import (
    ARRIVAL,
    AWAITING,
    LEAN,
    NEXT_TOKEN,
    RELEASE_KEY,
    REMOVAL,
    Doc,
    date,
    ended,
    is_awaiting,
    lane_name,
    own_lane,
    private_names,
    private_of,
    standing,
)
from mulligan.stores.mongo.record import remove_steps
from mulligan.stores.mongo.wakeup import News, Wakeup

STILL_AWAITING = {"status": "pending", "mulligan.lane": AWAITING}


def still_awaiting(doc: Doc) -> Doc:
    """The job of this document still awaits others, and is not a later one of the same id."""
    return {**STILL_AWAITING, "mulligan.number": doc["mulligan"]["number"]}


class Owed(Struct, frozen=True):
    """What the end of a member means to the job that awaits it.

    `sequence` is that of the gathering job in its lane if this is the last to arrive; where it is
    0, one is drawn when it is needed.
    """

    key: Any
    job: str
    gather: str
    how: str
    index: int = 0
    result: bytes | None = None
    sequence: int = 0


def owed_by(doc: Doc, how: str, result: bytes | None = None, sequence: int = 0) -> list[Owed]:
    """What the document owes now that its job has ended so; nothing if nobody awaits it."""
    private = private_of(doc)
    gather, index = private.get("gather"), private.get("gather_index", 0)
    if not private.get("owes") or not gather:
        return []
    if not isinstance(gather, str) or not isinstance(index, int):
        return []  # another program has put something else there
    return [
        Owed(
            key=doc["_id"],
            job=str(doc["_id"]),
            gather=gather,
            how=how,
            index=index,
            result=result,
            sequence=sequence,
        )
    ]


def left_owing(doc: Doc) -> list[Owed]:
    """What a document owes that was found ended."""
    private = private_of(doc)
    if doc["status"] not in ("done", "cancelled"):
        return []
    purged = private.get("owes") == REMOVAL
    return owed_by(doc, "purged" if purged else doc["status"], private.get("result"))


class Gatherer:
    """Tells gathering jobs what became of their members."""

    def __init__(self, connection: Connection, wakeup: Wakeup) -> None:
        self.connection = connection
        self.wakeup = wakeup

    async def settle(self, owed: Iterable[Owed]) -> None:
        """Tell the gathering jobs, in this order; telling them twice is the same as once."""
        for done, group in groupby(owed, key=lambda each: each.how == "done"):
            members = list(group)
            await (self.arrive(members) if done else self.miss(members))

    async def settled(self, members: Sequence[Owed]) -> None:
        """The gathering jobs know; what a purge has begun is left to it."""
        owing = {"_id": {"$in": [each.key for each in members]}, "mulligan.owes": ARRIVAL}
        await write(self.connection.tasks, [UpdateMany(owing, {"$unset": {"mulligan.owes": ""}})])

    async def awaiting(self, jobs: Iterable[str]) -> dict[str, Doc]:
        """Those of the jobs that are stored and still await others."""
        found = await self.connection.find(list(dict.fromkeys(jobs)), LEAN)
        return {job: doc for job, doc in found.items() if is_awaiting(doc)}

    # -- arriving --------------------------------------------------------------------------

    async def arrive(self, members: Sequence[Owed]) -> None:
        """Keep each result at its index, and let the jobs that have them all join their lanes."""
        targets = await self.awaiting(each.gather for each in members)
        coming: dict[str, list[Owed]] = defaultdict(list)
        for each in members:
            if each.gather in targets:
                coming[each.gather].append(each)
        for job, arrived in coming.items():
            coming[job] = await self.awaited(targets[job], arrived)
        await keep(
            self.connection,
            [
                arrival(targets[job], each.index, each.result)
                for job, arrived in coming.items()
                for each in arrived
            ],
        )
        for job, arrived in coming.items():
            if arrived and await self.all_are_there(targets[job], len(arrived)):
                await self.join_lane(targets[job], arrived[-1].sequence)
        await self.settled(members)

    async def awaited(self, doc: Doc, arriving: list[Owed]) -> list[Owed]:
        """Those of a batch whom the job awaits: the first ones, if more come than it awaits.

        Those that have arrived before are among them: they may arrive again because whoever saw
        them arrive last died before the job joined its lane.
        """
        private = doc["mulligan"]
        if private["arrived"] + len(arriving) <= private["awaits"]:
            return arriving
        found = await rows(self.connection.arrivals.find({"of": private["number"]}, {"index": 1}))
        there = {each["index"] for each in found}
        kept = []
        for each in arriving:
            if each.index in there or len(there) < private["awaits"]:
                there.add(each.index)
                kept.append(each)
        return kept

    async def all_are_there(self, doc: Doc, arriving: int) -> bool:
        """Whether the last has arrived, of whom so many have just been kept.

        Each adds to `arrived` after it was kept, and again when it arrives again: so the number is
        never too small, and whoever adds last counts what is really there.
        """
        fields = {"mulligan.arrived": 1, "mulligan.awaits": 1}
        after = await self.connection.tasks.find_one_and_update(
            {"_id": doc["_id"], **still_awaiting(doc)},
            {"$inc": {"mulligan.arrived": arriving}},
            fields,
            return_document=ReturnDocument.AFTER,
        )
        if after is None or after["mulligan"]["arrived"] < after["mulligan"]["awaits"]:
            return False
        there = await self.connection.arrivals.count_documents({"of": doc["mulligan"]["number"]})
        return bool(there >= after["mulligan"]["awaits"])

    async def join_lane(self, doc: Doc, sequence: int) -> None:
        """Let a job that awaits nobody any more stand in its lane, due now."""
        now = await self.connection.now()
        lane = own_lane(doc)
        await self.connection.enter_lanes([lane_name(lane)])
        stand = standing(lane, now, sequence or await self.connection.numbers(1), delayed=False)
        fields = private_names(stand)
        fields |= {"mulligan.awaits": 0, "next_retry_at": None, "updated_at": date(now)}
        fields["mulligan.updated_at"] = date(now)
        if await self.connection.apply([Change(doc["_id"], still_awaiting(doc), {"$set": fields})]):
            await self.wakeup.wake([News(lane_name(lane), now)])

    # -- never arriving --------------------------------------------------------------------

    async def miss(self, members: Sequence[Owed]) -> None:
        """Cancel the jobs that await these, and so on upwards."""
        first: dict[str, Owed] = {}
        for each in members:
            first.setdefault(each.gather, each)
        for each in first.values():
            above = await self.cancel(each)
            while above:
                member, above = above[0], await self.cancel(above[0])
                await self.settled([member])
        await self.settled(members)

    async def cancel(self, member: Owed) -> list[Owed]:
        """Cancel the job that awaits this one, if it still does; returns what it owes itself."""
        doc = (await self.awaiting([member.gather])).get(member.gather)
        if doc is None:
            return []
        reason = never_arrives(member.job, member.how)
        change = cancelled(doc, reason, await self.connection.now())
        change.match |= still_awaiting(doc)
        if not await self.connection.apply([change]):
            return await self.cancel(member)  # it has joined its lane, or ended, meanwhile
        return owed_by(doc, "cancelled")

    # -- removing --------------------------------------------------------------------------

    async def begin_removal(self, doc: Doc) -> bool:
        """End a dead letter for good, so that a purge that dies half way is finished later."""
        private = doc["mulligan"]
        update = {"$set": {"status": "cancelled", "mulligan.owes": REMOVAL}}
        match = {"_id": doc["_id"], "status": "failed", "mulligan.token": private["token"]}
        replies = [
            await collection.update_one(match, update) for collection in self.connection.collections
        ]
        return any(reply.modified_count for reply in replies)

    async def remove(self, docs: Sequence[Doc]) -> int:
        """Delete jobs that have ended for good, after what is kept beside them."""
        gathered = [private_of(d).get("number") for d in docs if "awaits" in private_of(d)]
        if gathered:
            await write(self.connection.arrivals, [DeleteMany({"of": {"$in": gathered}})])
        await remove_steps(self.connection, docs)
        query = {"_id": {"$in": [doc["_id"] for doc in docs]}, "status": {"$in": sorted(ENDED)}}
        removed = [
            await write(collection, [DeleteMany(query)])
            for collection in self.connection.collections
        ]
        return max(each.documents for each in removed)


def arrival(doc: Doc, index: int, result: bytes | None) -> Doc:
    """An arrival at the job of this document: it does not count for a later one of the same id."""
    number = doc["mulligan"]["number"]
    return {"_id": f"{number}/{index}", "of": number, "index": index, "result": result}


async def keep(connection: Connection, arrivals: Sequence[Doc]) -> None:
    """Keep arrivals; of two at one index the first."""
    if arrivals:
        await write(connection.arrivals, [InsertOne(each) for each in arrivals])


async def count(connection: Connection, docs: Iterable[Doc]) -> dict[int, int]:
    """How many have arrived at those of the jobs that may still await some, by their number."""
    numbers = [private_of(doc).get("number") for doc in docs if private_of(doc).get("awaits")]
    if not numbers:
        return {}
    group = {"_id": "$of", "n": {"$sum": 1}}
    pipeline: list[Doc] = [{"$match": {"of": {"$in": numbers}}}, {"$group": group}]
    cursor = await connection.arrivals.aggregate(pipeline)
    return {row["_id"]: row["n"] for row in await cursor.to_list() if isinstance(row["_id"], int)}


async def results(connection: Connection, doc: Doc) -> dict[int, bytes | None]:
    """What has arrived at the job of this document, by index, in its order."""
    number = private_of(doc).get("number")
    if not isinstance(number, int):
        return {}
    found = await rows(connection.arrivals.find({"of": number}).sort("index", 1))
    return {each["index"]: each["result"] for each in found}


def cancelled(doc: Doc, reason: str, now: int) -> Change:
    """The write that ends a job that has not ended; its token is spent."""
    match = {"status": doc["status"]}
    fields = ended("cancelled", now, reason, doc["mulligan"].get("keep"))
    update = {"$set": fields, "$inc": NEXT_TOKEN, "$unset": RELEASE_KEY}
    return Change(doc["_id"], match, update, doc["mulligan"]["token"])
