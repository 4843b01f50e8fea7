"""Workers: who is alive, what they hold, and whose jobs may be reclaimed."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from pymongo import DeleteMany, ReturnDocument, UpdateMany

from mulligan.core.answers import Beat
from mulligan.core.job import Claim, Lease
from mulligan.core.worker import Worker
from mulligan.stores.mongo import inbox
from mulligan.stores.mongo.book import Book
from mulligan.stores.mongo.bulk_write import Change, write
from mulligan.stores.mongo.connection import PAGE, Connection, rows
from mulligan.stores.mongo.document import (
    HELD_BY_US,
    NEXT_TOKEN,
    SECOND,
    Doc,
    date,
    held_by_us,
    is_taken_in,
    micros,
    of_date,
    private_of,
)
from mulligan.stores.mongo.events import Event, ending, owing
from mulligan.stores.mongo.facts import StoredFacts
from mulligan.stores.mongo.fields import claim_of
from mulligan.stores.mongo.limits import free_caps
from mulligan.stores.mongo.validate import invalid_reason
from mulligan.stores.mongo.wakeup import News, Wakeup

# Another program that popped a document has lost it after so long without a sign.
ABANDONED = 600 * SECOND
# Half of the minute within which `updated_at` of a running job must move.
BUMP = 30 * SECOND
# So often a reaper looks again because of documents that had to be taken in, or that it lost.
LOOKS = 10
# For so long a worker that was killed is shown.
KEPT_DEAD = 86_400 * SECOND

decode_worker = msgspec.json.Decoder(Worker).decode
encode = msgspec.json.encode


class Reclaim(Struct, frozen=True):
    """A lost job as it was read, the write that hands it over, and its claim after that.

    The book is told of what is `over`.
    """

    doc: Doc
    change: Change
    over: list[Event]
    claim: Claim


class Workers:
    """Heartbeats and reclaiming."""

    def __init__(
        self, connection: Connection, wakeup: Wakeup, book: Book, facts: StoredFacts
    ) -> None:
        self.connection = connection
        self.wakeup = wakeup
        self.book = book
        self.facts = facts
        self._alive_until: dict[str, int] = {}

    # -- who is there ----------------------------------------------------------------------

    async def keep(self, worker: Worker, now: int) -> int:
        """A worker that claims or reclaims lives, even before its first beat; returns until when.

        One that slept and is back after its lease sleeps on.
        """
        until = self._alive_until.get(worker.id, 0)
        if until > now:
            return until
        known = await self.connection.workers.find_one({"_id": worker.id}, {"expires": 1})
        if known is None or known["expires"] <= now:
            known = alive(worker, now, self.lease_end(worker, now)) | {"joined": now, "bumped": now}
            await self.connection.workers.update_one(
                {"_id": worker.id}, {"$set": known}, upsert=True
            )
            await self.wakeup.keep(worker.id, known["expires"])
            await self.facts.add_region(worker.region)
            await self.connection.store_default_task()
        self._alive_until[worker.id] = until = int(known["expires"])
        return until

    def lease_end(self, worker: Worker, now: int) -> int:
        """When the worker's leases end: not too soon, though this process' clock may be behind."""
        return now + micros(worker.lease) + self.connection.doubt

    async def beat(self, worker: Worker, holding: Sequence[Lease]) -> Beat:
        """Keep all leases of the worker; say which of those it shows are lost."""
        now = await self.connection.now()
        until = self.lease_end(worker, now)
        before = await self.connection.workers.find_one_and_update(
            {"_id": worker.id},
            {"$set": alive(worker, now, until), "$setOnInsert": {"joined": now, "bumped": now}},
            upsert=True,
            return_document=ReturnDocument.BEFORE,
        )
        self._alive_until[worker.id] = until
        await self.wakeup.keep(worker.id, until)
        if before is None or before["region"] != worker.region:
            await self.facts.add_region(worker.region)
            await self.connection.store_default_task()
        if before is not None and now - before.get("bumped", 0) >= BUMP:
            await self.bump(worker, now)
        fields = {
            "status": 1,
            "updated_at": 1,
            "mulligan.token": 1,
            "mulligan.worker": 1,
            "mulligan.updated_at": 1,
        }
        docs = await self.connection.find([lease.job for lease in holding], fields)
        lost = [lease for lease in holding if not holds(docs.get(lease.job), lease, worker)]
        unknown = await self.unknown_to(worker, set(holding), now)
        forgotten = [lease for lease, reclaimed in unknown.items() if not reclaimed]
        reclaimed = await self.reclaimed(
            [lease for lease, reclaimed in unknown.items() if reclaimed]
        )
        return Beat(lost, await self.facts.facts(now), forgotten, reclaimed)

    async def unknown_to(self, worker: Worker, shown: set[Lease], now: int) -> dict[Lease, bool]:
        """Leases that the worker has had for a lease time and did not show: whether by a reclaim.

        Only the lease of a claim begins with the attempt.
        """
        query = {
            "status": "processing",
            "mulligan.worker": worker.id,
            "mulligan.leased_at": {"$lt": now - micros(worker.lease)},
        }
        fields = {"mulligan.token": 1, "mulligan.leased_at": 1, "mulligan.started_at": 1}
        leases = {
            Lease(str(doc["_id"]), private["token"]): private["leased_at"]
            != private.get("started_at")
            for doc in await rows(self.connection.tasks.find(query, fields))
            if isinstance((private := private_of(doc)).get("token"), int)
        }
        return {lease: reclaimed for lease, reclaimed in leases.items() if lease not in shown}

    async def reclaimed(self, leases: Sequence[Lease]) -> list[Claim]:
        """What was reclaimed under these leases."""
        docs = await self.connection.find([lease.job for lease in leases])
        claims = [claim_of(doc) for doc in docs.values()]
        return [claim for claim in claims if claim.lease in leases]

    async def bump(self, worker: Worker, now: int) -> None:
        """Show other programs that what this worker runs is not abandoned."""
        running = {**HELD_BY_US, "mulligan.worker": worker.id}
        moved = {"updated_at": date(now), "mulligan.updated_at": date(now)}
        await write(self.connection.tasks, [UpdateMany(running, {"$set": moved})])
        await self.connection.workers.update_one({"_id": worker.id}, {"$set": {"bumped": now}})

    async def leave(self, worker: Worker) -> None:
        """Forget the worker."""
        self._alive_until.pop(worker.id, None)
        await self.connection.workers.delete_one({"_id": worker.id})
        await self.pass_on(await self.wakeup.forget(worker.id))

    async def pass_on(self, lanes: Sequence[str]) -> None:
        """Wake other sleepers for the first job of each of these lanes."""
        used, lined = await self.connection.used_lanes(lanes), await self.book.lined(lanes)
        news: list[News] = []
        for lane in sorted(lined | used):
            dues = [await self.head(lane) if lane in used else None]
            dues += [await self.book.due_of(lane)] if lane in lined else []
            news += [News(lane, due) for due in sorted(due for due in dues if due is not None)[:1]]
        await self.wakeup.wake(news)

    async def head(self, lane: str) -> int | None:
        """When the first job that stands in the lane falls due."""
        query = {"status": "pending", "mulligan.lane": lane}
        order = [("mulligan.due", 1), ("mulligan.sequence", 1)]
        doc = await self.connection.tasks.find_one(query, {"mulligan.due": 1}, sort=order)
        due = None if doc is None else private_of(doc).get("due")
        return due if isinstance(due, int) else None

    # -- reclaiming ---------------------------------------------------------------------------

    async def reclaim(self, limit: int, worker: Worker) -> list[Claim]:
        """Claim what nobody alive holds, each by a write that only one reaper can win."""
        now = await self.connection.now()
        await self.keep(worker, now)
        # The clock of this process may be ahead of the server's: a lease is over when it surely is.
        surely = now - self.connection.doubt
        living, asleep = await self.living_and_asleep(surely)
        for dead in [each for each in asleep if each not in living]:
            # What it was woken for, another is woken for now.
            await self.pass_on(await self.wakeup.forget(dead))
        claims: list[Claim] = []
        for _ in range(LOOKS if limit > 0 else 0):
            found = await self.lost(limit - len(claims), living, surely)
            lost = await self.reclaimable(found, worker, now)
            written = await self.connection.apply([each.change for each in lost])
            won = [each for each in lost if each.change.key in written]
            freed = await free_caps(self.connection, [each.doc for each in won])
            told = await self.book.tell([event for each in won for event in each.over], now)
            await self.wakeup.wake([each for news in [*freed, *told] for each in news])
            claims += [each.claim for each in won]
            # Where another reaper was quicker there may be more that it left.
            if len(claims) >= limit or len(won) == len(found):
                break
        return claims

    async def reclaimable(self, docs: Sequence[Doc], worker: Worker, now: int) -> list[Reclaim]:
        """Return how to reclaim each of these; take in or set aside those that cannot be yet."""
        lost: list[Reclaim] = []
        untaken: list[Doc] = []
        for doc in docs:
            try:
                if is_taken_in(doc) and invalid_reason(doc) is None:
                    lost.append(reclaimed(doc, worker, now))
                else:
                    untaken.append(doc)
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are reclaimed
                await inbox.set_aside(self.connection, doc, error, now)
        await inbox.take_in(self.connection, untaken, now)
        return lost

    async def living_and_asleep(self, now: int) -> tuple[list[str], list[str]]:
        """The workers that are alive, and all that are registered as asleep, in one command."""
        asleep = [{"$project": {"_id": 0, "asleep": "$_id"}}]
        cursor = await self.connection.workers.aggregate(
            [
                {"$match": {"expires": {"$gt": now}}},
                {"$project": {"alive": "$_id"}},
                {"$unionWith": {"coll": self.connection.sleepers.name, "pipeline": asleep}},
            ],
            batchSize=PAGE,
        )
        found = await cursor.to_list()
        living = [doc["alive"] for doc in found if "alive" in doc]
        return living, [doc["asleep"] for doc in found if "asleep" in doc]

    async def come_since(self, docs: Sequence[Doc], now: int) -> list[str]:
        """Which workers that hold these are alive: some may have joined since a look at all."""
        named = [doc["mulligan"]["worker"] for doc in docs if held_by_us(doc)]
        holders = sorted({worker for worker in named if isinstance(worker, str)})
        if not holders:
            return []
        query = {"_id": {"$in": holders}, "expires": {"$gt": now}}
        return [doc["_id"] for doc in await rows(self.connection.workers.find(query, {"_id": 1}))]

    async def lost(self, limit: int, living: list[str], now: int) -> list[Doc]:
        """The first running documents whose worker or program is gone."""
        gone = [
            {"mulligan.worker": {"$nin": [*living, None]}},
            {"updated_at": {"$lte": date(now - ABANDONED)}},
        ]
        jobs = inbox.with_a_task(self.connection.default_task)
        query = {"status": "processing", "$and": [{"$or": gone}, jobs]}
        order = [("mulligan.started_at", 1), ("mulligan.sequence", 1)]
        found = await rows(self.connection.tasks.find(query).sort(order).limit(2 * limit))
        living = [*living, *await self.come_since(found, now)]
        return [doc for doc in found if is_lost(doc, living, now)][:limit]


async def forget_dead(connection: Connection, now: int) -> None:
    """Forget workers that were killed long ago; what they held was reclaimed since."""
    await write(connection.workers, [DeleteMany({"expires": {"$lt": now - KEPT_DEAD}})])


def alive(worker: Worker, now: int, until: int) -> Doc:
    """The fields of a worker that is alive now, and until when it is."""
    return {
        "worker": encode(worker).decode(),
        "region": worker.region,
        "queues": list(worker.queues),
        "beat": now,
        "expires": until,
    }


def holds(doc: Doc | None, lease: Lease, worker: Worker) -> bool:
    """Whether the worker still holds the lease."""
    return (
        doc is not None
        and held_by_us(doc)
        and doc["mulligan"]["token"] == lease.token
        and doc["mulligan"]["worker"] == worker.id
    )


def is_lost(doc: Doc, living: list[str], now: int) -> bool:
    """Whether whoever has the document, a worker or another program, is gone."""
    if held_by_us(doc):
        return doc["mulligan"]["worker"] not in living
    try:
        return of_date(doc.get("updated_at")) <= now - ABANDONED
    except TypeError:  # it was ours, and somebody has put something else there
        return private_of(doc).get("worker") not in [*living, None]


def reclaimed(doc: Doc, worker: Worker, now: int) -> Reclaim:
    """Return how a lost job is handed to the reaper; the attempt stays the lost one."""
    private = doc["mulligan"]
    fields: Doc = {
        "updated_at": date(now),
        "mulligan.updated_at": date(now),
        "mulligan.worker": worker.id,
        "mulligan.leased_at": now,
        "mulligan.permits": [],
        "mulligan.worker_region": private.get("worker_region") or private["region"],
    }
    if private.get("started_at") is None:
        updated = doc.get("updated_at")
        fields["mulligan.started_at"] = of_date(updated) if isinstance(updated, datetime) else now
    match = {
        "status": "processing",
        "mulligan.worker": private.get("worker"),
        "updated_at": {"$eq": doc.get("updated_at")},
    }
    update = {"$set": fields, "$inc": NEXT_TOKEN, "$unset": {"mulligan.lane": ""}}
    change = Change(doc["_id"], match, update, private["token"])
    events = ending(doc, now)
    if events:
        fields["mulligan.holds"] = None
        owing(change, events)
    return Reclaim(doc, change, events, replace(claim_of(doc), token=private["token"] + 1))
