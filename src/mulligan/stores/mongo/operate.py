"""What an operator does to jobs: replay, cancel, adopt, purge; and notes."""

from collections.abc import Iterable, Sequence

from pymongo import DeleteMany

from mulligan.core.job import ENDED, Adopted
from mulligan.core.settings import check_batch
from mulligan.stores.mongo.arrivals import (
    arrived_elsewhere,
    keep,
    left_owing,
    owed_if_cancelled,
    owed_if_purged,
)
from mulligan.stores.mongo.book import Book
from mulligan.stores.mongo.bulk_write import Change, write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.dead_letters import bring_back, drop_copies, move_dead
from mulligan.stores.mongo.document import (
    ARRIVAL,
    KEPT_KEY,
    STATUSES,
    Doc,
    date,
    is_awaiting,
    lane_name,
    line_in,
    micros,
    own_lane,
    private_names,
    seconds,
    standing,
    stands_in_line,
    unique_key_of,
)
from mulligan.stores.mongo.enqueue import (
    deliver,
    insert_new,
    insert_where_free,
    write_where_free,
)
from mulligan.stores.mongo.events import Event, events_in, joining, owing
from mulligan.stores.mongo.fields import adopted_document
from mulligan.stores.mongo.gather import Gatherer, cancelled, still_awaiting
from mulligan.stores.mongo.inbox import cancel_plain, is_plain, purge_plain, replay_plain
from mulligan.stores.mongo.limits import free_caps
from mulligan.stores.mongo.outbox import Box, boxes_of, find_boxes
from mulligan.stores.mongo.record import RECORDS, adopted, keep_steps, remove_steps
from mulligan.stores.mongo.unique import keyless, own_queue
from mulligan.stores.mongo.wakeup import News, Wakeup, news_of

# What a replay from the start drops of the records; the log stays.
DROPPED = ("upto", "progress", "checkpoint")
# No text sorts after it.
LAST = "\U0010ffff"


class Operator:
    """Operations by job id; each answer stands at the index of its id."""

    def __init__(
        self, connection: Connection, wakeup: Wakeup, book: Book, gatherer: Gatherer
    ) -> None:
        self.connection = connection
        self.wakeup = wakeup
        self.book = book
        self.gatherer = gatherer

    async def documents(self, jobs: Sequence[str]) -> dict[str, Doc]:
        """The documents of those that are jobs, owing nothing."""
        check_batch(len(jobs))
        there = await self.connection.find_anywhere(jobs)
        if missing := set(jobs) - there.keys():
            await self.deliver_boxes(await find_boxes(self.connection, missing))
            there |= await self.connection.find_anywhere(sorted(missing))
        found = {job: doc for job, doc in there.items() if doc.get("status") in STATUSES}
        ours = [doc for doc in found.values() if not is_plain(doc)]
        await self.deliver_left(ours)
        await self.gatherer.settle_and_tell(each for doc in ours for each in left_owing(doc))
        await self.book.tell_and_wake([event for doc in ours for event in events_in(doc)])
        return found

    async def deliver_left(self, docs: Iterable[Doc]) -> None:
        """Deliver what a commit left in these documents."""
        await self.deliver_boxes(await boxes_of(self.connection, docs))

    async def deliver_boxes(self, boxes: Sequence[Box]) -> None:
        """Enqueue what is in these boxes, and wake who may take it."""
        new = await deliver(self.connection, boxes)
        jobs = [job for box in boxes for job in box.jobs if job["_id"] in new]
        await self.wakeup.wake(await self.book.accept(jobs))

    # -- replay ----------------------------------------------------------------------------

    async def replay(self, jobs: Sequence[str], *, from_start: bool) -> list[bool]:
        """Make failed jobs pending again."""
        found = await self.documents(jobs)
        now = await self.connection.now()
        failed = [j for j in dict.fromkeys(jobs) if j in found and found[j]["status"] == "failed"]
        plain = [j for j in failed if is_plain(found[j])]
        read_anew = [j for j in plain if await replay_plain(self.connection, found[j], now)]
        failed = [j for j in failed if j not in plain]
        number = await self.connection.numbers(len(failed))
        made = {
            j: replayed(found[j], now, at, from_start=from_start)
            for at, j in enumerate(failed, number)
        }
        changes = {job: change for job, (change, _) in made.items()}
        plain_ones = [job for job in failed if not stands_in_line(found[job])]
        news = {job: [News(lane_name(own_lane(found[job])), now)] for job in plain_ones}
        await self.connection.enter_lanes(each.lane for some in news.values() for each in some)
        written = await write_where_free(self.connection, list(changes.values()))
        done = {job for job, change in changes.items() if change.key in written}
        if self.connection.url.move_dead:
            await drop_copies(self.connection, [found[job] for job in done])
            for job in [j for j in failed if j not in done]:
                if await bring_back(self.connection, changes[job]):
                    done.add(job)
        if from_start:
            await remove_steps(self.connection, [found[job] for job in done])
        await self.gatherer.withdraw([found[job] for job in failed if job in done])
        lined = [job for job in failed if job in done and job not in news]
        told = await self.book.tell([event for job in lined for event in made[job][1]], now)
        news |= dict(zip(lined, told, strict=True))
        await self.wakeup.wake([each for job in failed if job in done for each in news[job]])
        return once_each(jobs, done.union(read_anew))

    # -- cancel ----------------------------------------------------------------------------

    async def cancel(self, jobs: Sequence[str], reason: str) -> list[bool]:
        """End pending and running jobs."""
        found = await self.documents(jobs)
        done: set[str] = set()
        left = [j for j in dict.fromkeys(jobs) if j in found and found[j]["status"] not in ENDED]
        now = await self.connection.now()
        plain = [j for j in left if is_plain(found[j])]
        done.update(
            [j for j in plain if await cancel_plain(self.connection, found[j], reason, now)]
        )
        for batch in in_turn([j for j in left if j not in plain], found):
            done |= await self.end(batch, found, reason)
        return once_each(jobs, done)

    async def end(self, jobs: list[str], found: dict[str, Doc], reason: str) -> set[str]:
        """Cancel those of the jobs that have not ended; returns which were."""
        done: set[str] = set()
        left = jobs
        while left:
            now = await self.connection.now()
            made = {job: cancelled(found[job], reason, now) for job in left}
            changes = {job: change for job, (change, _) in made.items()}
            for job in left:
                if is_awaiting(found[job]):
                    changes[job].match |= still_awaiting(found[job])
            written = await self.connection.apply(list(changes.values()))
            ended_now = [job for job in left if changes[job].key in written]
            freed = await free_caps(self.connection, [found[job] for job in ended_now])
            later = await self.gatherer.settle(
                each for job in ended_now for each in owed_if_cancelled(found[job], reason)
            )
            events = [
                event
                for job in ended_now
                for event in [*made[job][1], *later.get(found[job]["_id"], ())]
            ]
            told = await self.book.tell(events, now)
            await self.wakeup.wake([each for news in [*freed, *told] for each in news])
            done.update(ended_now)
            # Whatever was claimed or committed meanwhile is looked at anew.
            missed = [job for job in left if job not in done]
            found = await self.connection.find(missed)
            left = [job for job in missed if job in found and found[job]["status"] not in ENDED]
        return done

    # -- adopt and purge -------------------------------------------------------------------

    async def adopt(self, jobs: Sequence[Adopted]) -> list[bool]:
        """Take over jobs of another store; what has arrived is there before the job is."""
        check_batch(len(jobs))
        now = await self.connection.now()
        number = await self.connection.numbers(len(jobs))
        docs = [adopted_document(each, now, at) for at, each in enumerate(jobs, number)]
        await keep(
            self.connection,
            [
                arrived_elsewhere(doc, index, result)
                for doc, each in zip(docs, jobs, strict=True)
                for index, result in each.arrived.items()
            ],
        )
        await self.take_records(docs, jobs)
        await self.connection.enter_lanes(each.lane for each in news_of(docs))
        created = {id(doc) for doc in await insert_where_free(self.connection, docs)}
        for at, doc in enumerate(docs):
            # A debounced job does not need its key: none is lost because another has it.
            if id(doc) not in created and "debounce_until" in doc["mulligan"]:
                docs[at] = keyless(doc)
                created |= {id(each) for each in await insert_new(self.connection, [docs[at]])}
        new = [doc for doc in docs if id(doc) in created]
        if len(new) < len(docs):
            refused = [doc["mulligan"]["number"] for doc in docs if id(doc) not in created]
            await write(self.connection.arrivals, [DeleteMany({"of": {"$in": refused}})])
            await remove_steps(self.connection, [doc for doc in docs if id(doc) not in created])
        if self.connection.url.move_dead:
            await move_dead(self.connection, [d["_id"] for d in new if d["status"] == "failed"])
        await self.wakeup.wake(await self.book.accept(new))
        return [id(doc) in created for doc in docs]

    async def take_records(self, docs: Sequence[Doc], jobs: Sequence[Adopted]) -> None:
        """Add what jobs of another store have recorded; steps are there before the job is."""
        for doc, each in zip(docs, jobs, strict=True):
            if each.records:
                private = doc["mulligan"]
                private["records"], steps = adopted(private["number"], private["token"], each)
                await keep_steps(self.connection, steps)

    async def purge(self, jobs: Sequence[str]) -> list[bool]:
        """Delete jobs that have ended, one after the other: a member may end who awaits it."""
        found = await self.documents(jobs)
        done: set[str] = set()
        for job in dict.fromkeys(jobs):
            if job in found and is_awaiting(found[job]):
                found |= await self.connection.find([job])
            if job in found and found[job]["status"] in ENDED and await self.remove(found[job]):
                done.add(job)
        return once_each(jobs, done)

    async def remove(self, doc: Doc) -> bool:
        """Delete a job that has ended; a dead letter that others know of takes two steps."""
        if is_plain(doc):
            return await purge_plain(self.connection, doc)
        if doc["status"] == "failed" and not {"owes", "awaits"}.isdisjoint(doc["mulligan"]):
            if not await self.gatherer.begin_removal(doc):
                return False
            await self.gatherer.settle_and_tell(owed_if_purged(doc))
        return bool(await self.gatherer.remove([doc]))


def once_each(jobs: Sequence[str], done: set[str]) -> list[bool]:
    """True at the first index of each job that is done."""
    left = set(done)
    answers = []
    for job in jobs:
        answers.append(job in left)
        left.discard(job)
    return answers


def in_turn(jobs: Sequence[str], found: dict[str, Doc]) -> list[list[str]]:
    """The jobs in batches: one that awaits others may be ended by those before it."""
    batches: list[list[str]] = [[]]
    for job in jobs:
        if is_awaiting(found[job]) and any("owes" in found[j]["mulligan"] for j in batches[-1]):
            batches.append([])
        batches[-1].append(job)
    return batches


def replayed(doc: Doc, now: int, sequence: int, *, from_start: bool) -> tuple[Change, list[Event]]:
    """The write that makes a failed job pending, and what the book is to know of it.

    From the start, it is without its records.
    """
    match, token = {"status": "failed"}, doc["mulligan"]["token"]
    public: Doc = {
        "status": "pending",
        "updated_at": date(now),
        "attempts": 0,
        "next_retry_at": None,
    }
    line = line_in(doc, own_lane(doc))
    stand = standing(own_lane(doc), now, sequence, delayed=False, line=line)
    fields = public | private_names(stand)
    fields |= {"mulligan.snoozes": 0, "mulligan.updated_at": date(now)}
    if "owes" in doc["mulligan"]:
        fields["mulligan.owes"] = ARRIVAL
    if "debounce_until" in doc["mulligan"]:
        fields["mulligan.unique_queue"] = own_queue(doc)  # it wants its key no more
    elif (key := unique_key_of(doc)) is not None:
        fields[KEPT_KEY] = key
    update = {
        "$set": fields,
        "$inc": {"mulligan.replay": 1},
        "$unset": {"mulligan.ended_at": "", "mulligan.outbox": "", "mulligan.trail": ""},
    }
    if from_start and isinstance(doc["mulligan"].get("records"), dict):
        update["$unset"] |= dict.fromkeys((f"{RECORDS}.{name}" for name in DROPPED), "")
    change = Change(doc["_id"], match, update, token, kept=True)
    events = [] if line is None else [joining(doc["_id"], line, now)]
    owing(change, events)
    return change, events


async def note(connection: Connection, key: str, value: bytes | None, keep: float) -> None:
    """Keep the value under this key for so many seconds; None forgets it."""
    if value is None:
        await connection.notes.delete_one({"_id": key})
        return
    until = micros(seconds(await connection.now()) + keep)
    await connection.notes.update_one(
        {"_id": key}, {"$set": {"value": value, "until": until}}, upsert=True
    )


async def notes(connection: Connection, prefix: str) -> dict[str, bytes]:
    """The values kept under keys that begin so, in their order."""
    query = {
        "_id": {"$gte": prefix, "$lt": prefix + LAST},
        "until": {"$gt": await connection.now()},
    }
    found = {doc["_id"]: doc["value"] for doc in await rows(connection.notes.find(query))}
    return {key: found[key] for key in sorted(found) if key.startswith(prefix)}


async def forget_notes(connection: Connection, now: int) -> None:
    """Delete what is past its time."""
    await write(connection.notes, [DeleteMany({"until": {"$lte": now}})])
