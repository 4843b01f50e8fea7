"""Reading jobs. Nothing is written, and no document is too odd to be read.

Documents of other programs are shown as the jobs that they are or will be once a worker takes them
in. Those whose status is none of ours are no jobs.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from mulligan.core.errors import UnknownJobError
from mulligan.core.job import Attempt, Job, Status
from mulligan.core.lane import Lane
from mulligan.core.record import Record
from mulligan.core.settings import check_batch
from mulligan.core.validation import INVALID_RECORD
from mulligan.stores.mongo.arrivals import NONE_ENDED, Ended, count, results
from mulligan.stores.mongo.book import Book
from mulligan.stores.mongo.connection import Connection
from mulligan.stores.mongo.document import (
    STATUSES,
    Doc,
    in_lines_of,
    is_awaiting,
    is_taken_in,
    job_number,
    lane_name,
    micros,
    private_of,
)
from mulligan.stores.mongo.fields import Members, invalid_job, whole_job
from mulligan.stores.mongo.inbox import private_fields
from mulligan.stores.mongo.outbox import find_boxes
from mulligan.stores.mongo.payload import MalformedError, NoTaskError
from mulligan.stores.mongo.record import records_of
from mulligan.stores.mongo.validate import invalid_reason

STATUS = {"status": 1}


class Reader:
    """What readers ask of single jobs and lanes."""

    def __init__(self, connection: Connection, book: Book) -> None:
        self.connection = connection
        self.book = book

    async def document(self, job: str) -> Doc | None:
        """The job's document, if it is one, though it may not have been enqueued yet.

        What is in no box after it was not found was there meanwhile, or never.
        """
        doc = (await self.connection.find_anywhere([job])).get(job)
        if doc is None:
            boxes = await find_boxes(self.connection, {job})
            doc = next((each for box in boxes for each in box.jobs if each["_id"] == job), None)
        if doc is None:
            doc = (await self.connection.find_anywhere([job])).get(job)
        return doc if doc is not None and doc.get("status") in STATUSES else None

    async def get(self, job: str) -> Job | None:
        """The job as it is now."""
        doc = await self.document(job)
        return None if doc is None else (await self.jobs([doc]))[0]

    async def statuses(self, jobs: Sequence[str]) -> dict[str, Status]:
        """The statuses of the stored ones of these jobs.

        As in `document`, what is in no box after it was not found was there meanwhile, or never.
        """
        check_batch(len(jobs))
        docs = await self.connection.find_anywhere(jobs, STATUS)
        missing = set(jobs) - docs.keys()
        if missing:
            boxes = await find_boxes(self.connection, missing)
            docs |= {each["_id"]: each for box in boxes for each in box.jobs}
            docs |= await self.connection.find_anywhere(list(missing), STATUS)
        found = {job: docs[job].get("status") for job in jobs if job in docs}
        return {job: status for job, status in found.items() if status in STATUSES}

    async def jobs(self, docs: Sequence[Doc]) -> list[Job]:
        """The jobs of these documents; how many have arrived is counted where it matters."""
        arrived = await count(self.connection, docs)
        await self.connection.read_default_task()
        now = await self.connection.now()
        task = self.connection.default_task
        waiting = await self.book.waits_for(docs)
        return [
            job_of(doc, task, now, members_of(doc, arrived), limit)
            for doc, limit in zip(docs, waiting, strict=True)
        ]

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        """What has arrived at a gathering job."""
        doc = await self.document(job)
        return {} if doc is None else await results(self.connection, doc)

    async def records(self, job: str, most: int | None) -> list[Record]:
        """What the job has recorded."""
        doc = await self.document(job)
        return [] if doc is None else await records_of(self.connection, doc, most)

    async def history(self, job: str) -> list[Attempt]:
        """Its failed and lost attempts."""
        doc = await self.document(job)
        return [] if doc is None else readable(private_of(doc).get("history", []))

    async def depth(self, lane: Lane, limit: int) -> int:
        """Jobs of the lane that could start now."""
        if limit <= 0:
            return 0
        query = {
            "status": "pending",
            "mulligan.lane": lane_name(lane),
            "mulligan.due": {"$lte": await self.connection.now()},
        }
        counted = await self.connection.tasks.count_documents(query, limit=limit)
        return min(limit, counted + await self.book.ready(lane, limit))

    async def ahead(self, job: str) -> int:
        """Jobs of its lane that stand before it, those in lines included.

        Of those that no worker has taken in yet none is counted.
        """
        doc = await self.document(job)
        if doc is None:
            raise UnknownJobError(f"no job {job!r} is stored")
        if doc["status"] != "pending" or is_awaiting(doc):
            return 0
        [found] = await self.jobs([doc])
        lane, due = found.lane, micros(found.due)
        earlier: list[Doc] = [{"mulligan.due": {"$lt": due}}]
        if found.sequence:
            earlier.append({"mulligan.due": due, "mulligan.sequence": {"$lt": found.sequence}})
        return await self.connection.tasks.count_documents(
            {
                "status": "pending",
                "$and": [{"$or": within(lane)}, {"$or": earlier}],
            }
        )

    async def tail(self, lane: Lane, due: float) -> str | None:
        """The last job of the lane that was due by then."""
        query = {
            "status": "pending",
            "$or": within(lane),
            "mulligan.due": {"$lte": micros(due)},
        }
        order = [("mulligan.due", -1), ("mulligan.sequence", -1)]
        doc = await self.connection.tasks.find_one(query, {"_id": 1}, sort=order)
        return None if doc is None else str(doc["_id"])


def readable(entries: Any) -> list[Attempt]:
    """Those of the entries of a history that another program has left as they were."""
    found: list[Attempt] = []
    for entry in entries if isinstance(entries, list) else ():
        with suppress(msgspec.ValidationError):
            found.append(msgspec.convert(entry, Attempt))
    return found


def members_of(doc: Doc, ended: dict[int, Ended]) -> Members | None:
    """How many members of the job have arrived, failed and been cancelled, while it awaits some."""
    if not private_of(doc).get("awaits"):
        return None
    found = ended.get(job_number(doc), NONE_ENDED)
    return found.arrived, found.failed, found.cancelled


def within(lane: Lane) -> list[Doc]:
    """Where jobs of the lane stand: in it, and in lines of it."""
    return [{"mulligan.lane": lane_name(lane)}, {"mulligan.lane": in_lines_of(lane)}]


def job_of(
    doc: Doc,
    default_task: str | None,
    now: int,
    members: Members | None = None,
    waits_for: str | None = None,
) -> Job:
    """The job as readers see it, when so many of its members have ended and its line waits so.

    One that mulligan has never seen is shown as it will be when a worker takes it in. One that is
    invalid or malformed is shown as far as it goes: that it is there, and how it ended.
    """
    try:
        reason = invalid_reason(doc) if is_taken_in(doc) else None
        if reason is None:
            return whole_job(as_taken_in(doc, default_task, now), members, waits_for)
    except NoTaskError:
        reason = "payload.task is missing, and there is no default task"
    except (*INVALID_RECORD, MalformedError) as error:
        reason = str(error)
    said = f"what is stored of the job cannot be read ({reason})"
    return invalid_job(doc, said)


def as_taken_in(doc: Doc, default_task: str | None, now: int) -> Doc:
    """The document with the private fields that mulligan would give it."""
    if is_taken_in(doc):
        return doc
    private = private_fields(doc, default_task, now, 0)
    return doc | {"mulligan": private_of(doc) | private}
