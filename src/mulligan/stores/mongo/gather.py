"""Fan-in: members arrive at the job that awaits them, and the last one lets it join its lane.

A worker that finds an ended member which still owes its arrival (`owed`) settles that. The
gathering job joins its lane by an update that only one process can win.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from pymongo import DeleteMany, ReturnDocument, UpdateMany, UpdateOne

from mulligan.core.job import ENDED, never_arrives
from mulligan.stores.mongo.arrivals import (
    NONE_ENDED,
    NOT_WITHDRAWN,
    WITHDRAWN,
    Owed,
    arrival,
    arrival_key,
    count,
    index_of,
    keep,
    owed_by,
    owed_if_cancelled,
    wants,
)
from mulligan.stores.mongo.bulk_write import Change, write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import (
    ARRIVAL,
    AWAITING,
    LEAN,
    NEXT_TOKEN,
    RELEASE_KEY,
    REMOVAL,
    TOLD,
    Doc,
    date,
    ended,
    is_awaiting,
    lane_name,
    line_in,
    own_lane,
    private_names,
    private_of,
    standing,
)
from mulligan.stores.mongo.events import Event, ending, joining, leaving, owing
from mulligan.stores.mongo.record import remove_steps
from mulligan.stores.mongo.wakeup import News, Wakeup

STILL_AWAITING = {"status": "pending", "mulligan.lane": AWAITING}


def still_awaiting(doc: Doc) -> Doc:
    """The job of this document still awaits others, and is not a later one of the same id."""
    return {**STILL_AWAITING, "mulligan.number": doc["mulligan"]["number"]}


class Gatherer:
    """Tells gathering jobs what became of their members."""

    def __init__(self, connection: Connection, wakeup: Wakeup) -> None:
        self.connection = connection
        self.wakeup = wakeup

    async def settle_and_tell(self, owed: Iterable[Owed]) -> None:
        """Tell the gathering jobs, and the book which of them joined lines."""
        events = await self.settle(owed)
        await self.wakeup.book.tell_and_wake([each for some in events.values() for each in some])

    async def settle(self, owed: Iterable[Owed]) -> dict[Any, list[Event]]:
        """Tell the gathering jobs, in this order; telling them twice is the same as once.

        Returns what the book is to be told, by the keys of the members after which it happened.
        """
        every = list(owed)
        events: dict[Any, list[Event]] = {}
        if not every:
            return events
        targets = await self.awaiting(each.gather for each in every)
        wants_failures = {job for job, doc in targets.items() if wants(doc)}

        def arrives(each: Owed) -> bool:
            return each.how in ("done", "failed") or each.gather in wants_failures

        for arriving, group in groupby(every, key=arrives):
            members = list(group)
            more = await (self.arrive(members) if arriving else self.miss(members))
            for key, some in more.items():
                events.setdefault(key, []).extend(some)
        return events

    async def settled(self, members: Sequence[Owed]) -> None:
        """Note that the gathering jobs know; what a purge has begun is left to it.

        A failed member may be replayed, and owes its arrival again then.
        """
        failed = [each for each in members if each.how == "failed"]
        keys = [each.key for each in members if each.how != "failed"]
        changes: list[UpdateMany | UpdateOne] = []
        if keys:
            owing = {"_id": {"$in": keys}, "mulligan.owes": {"$in": [ARRIVAL, TOLD]}}
            changes.append(UpdateMany(owing, {"$unset": {"mulligan.owes": ""}}))
        changes += [
            UpdateOne(
                {
                    "_id": each.key,
                    "status": "failed",
                    "mulligan.token": each.token,
                    "mulligan.owes": ARRIVAL,
                },
                {"$set": {"mulligan.owes": TOLD}},
            )
            for each in failed
        ]
        if changes:
            await write(self.connection.tasks, changes)
        if failed and self.connection.url.move_dead:
            await write(self.connection.dlq, changes[-len(failed) :])

    async def awaiting(self, jobs: Iterable[str]) -> dict[str, Doc]:
        """Those of the jobs that are stored and still await others."""
        found = await self.connection.find(list(dict.fromkeys(jobs)), LEAN)
        return {job: doc for job, doc in found.items() if is_awaiting(doc)}

    # -- arriving --------------------------------------------------------------------------

    async def arrive(self, members: Sequence[Owed]) -> dict[Any, list[Event]]:
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
            [arrival(targets[job], each) for job, arrived in coming.items() for each in arrived],
        )
        events: dict[Any, list[Event]] = {}
        for job, arrived in coming.items():
            awaited = [each for each in arrived if index_of(targets[job], each) >= 0]
            if awaited and await self.all_are_there(targets[job], len(awaited)):
                last = awaited[-1]
                event = await self.join_lane(targets[job], last.sequence)
                events.setdefault(last.key, []).extend(event)
        await self.settled(members)
        return events

    async def awaited(self, doc: Doc, arriving: list[Owed]) -> list[Owed]:
        """Those of a batch that the job awaits: the first ones, if more come than it awaits.

        Those that have arrived before are among them: they may arrive again because whoever saw
        them arrive last died before the job joined its lane.
        """
        private = doc["mulligan"]
        coming = sum(index_of(doc, each) >= 0 for each in arriving)
        if private["arrived"] + coming <= private["awaits"] and coming == len(arriving):
            return arriving
        query = {"of": private["number"], "index": {"$gte": 0}, **NOT_WITHDRAWN}
        found = await rows(self.connection.arrivals.find(query, {"index": 1}))
        there = {each["index"] for each in found}
        kept = []
        for each in arriving:
            at = index_of(doc, each)
            if at in there or len(there) < private["awaits"]:
                there |= {at} if at >= 0 else set()
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
        query = {"of": doc["mulligan"]["number"], "index": {"$gte": 0}, **NOT_WITHDRAWN}
        there = await self.connection.arrivals.count_documents(query)
        return bool(there >= after["mulligan"]["awaits"])

    async def join_lane(self, doc: Doc, sequence: int) -> list[Event]:
        """Let a job that awaits nobody any more stand in its lane or line, due now."""
        now = await self.connection.now()
        lane = own_lane(doc)
        line = line_in(doc, lane)
        if line is None:
            await self.connection.enter_lanes([lane_name(lane)])
        number = sequence or await self.connection.numbers(1)
        stand = standing(lane, now, number, delayed=False, line=line)
        fields = private_names(stand)
        number = doc["mulligan"]["number"]
        ended_so = (await count(self.connection, [doc])).get(number, NONE_ENDED)
        fields |= private_names(
            {"members_failed": ended_so.failed, "members_cancelled": ended_so.cancelled}
        )
        fields |= {"mulligan.awaits": 0, "next_retry_at": None, "updated_at": date(now)}
        fields["mulligan.updated_at"] = date(now)
        change = Change(doc["_id"], still_awaiting(doc), {"$set": fields})
        events = [] if line is None else [joining(doc["_id"], line, now)]
        owing(change, events)
        if not await self.connection.apply([change]):
            return []
        if line is None:
            await self.wakeup.wake([News(lane_name(lane), now)])
        return events

    # -- never arriving --------------------------------------------------------------------

    async def miss(self, members: Sequence[Owed]) -> dict[Any, list[Event]]:
        """Cancel the jobs that await these, and so on upwards."""
        first: dict[str, Owed] = {}
        for each in members:
            first.setdefault(each.gather, each)
        events: dict[Any, list[Event]] = {}
        for each in first.values():
            more = await self.settle(await self.cancel(each))
            events.setdefault(each.key, []).extend(e for some in more.values() for e in some)
        await self.settled(members)
        return events

    async def cancel(self, member: Owed) -> list[Owed]:
        """Cancel the job that awaits this one, if it still does; returns what it owes itself."""
        doc = (await self.awaiting([member.gather])).get(member.gather)
        if doc is None:
            return []
        reason = never_arrives(member.job, member.how)
        change, _ = cancelled(doc, reason, await self.connection.now())
        change.match |= still_awaiting(doc)
        if not await self.connection.apply([change]):
            return await self.cancel(member)  # it has joined its lane, or ended, meanwhile
        return owed_if_cancelled(doc, reason)

    async def withdraw(self, docs: Sequence[Doc]) -> None:
        """These failed members are replayed: they are awaited again, where they still can be.

        What has arrived stays, marked: who sends it late does not bring it back. Who joined its
        lane meanwhile is called with it all the same.
        """
        members = [each for doc in docs for each in owed_by(doc, "failed")]
        targets = await self.awaiting(each.gather for each in members) if members else {}
        taken_back = [
            UpdateOne(
                {
                    "_id": arrival_key(targets[each.gather], each),
                    "job": each.job,
                    "how": "failed",
                    "token": {"$lte": each.token},
                },
                {"$set": {"how": WITHDRAWN, "token": each.token}},
            )
            for each in members
            if each.gather in targets
        ]
        if taken_back:
            await write(self.connection.arrivals, taken_back)

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


def cancelled(doc: Doc, reason: str, now: int) -> tuple[Change, list[Event]]:
    """The write that ends a job that has not ended, and what the book is to know of it.

    Its token is spent.
    """
    match = {"status": doc["status"]}
    fields = ended("cancelled", now, reason, doc["mulligan"].get("keep"))
    if doc["status"] == "processing" and "owes" in doc["mulligan"]:
        fields["mulligan.ran"] = True
    update = {"$set": fields, "$inc": NEXT_TOKEN, "$unset": dict(RELEASE_KEY)}
    change = Change(doc["_id"], match, update, doc["mulligan"]["token"])
    events = leaving(doc, now) if doc["status"] == "pending" else ending(doc, now)
    if "holds" in doc["mulligan"]:
        fields["mulligan.holds"] = None
    owing(change, events)
    return change, events
