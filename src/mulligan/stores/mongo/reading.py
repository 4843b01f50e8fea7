"""Reading: jobs, pages and counts. Nothing is written, and no document is too strange to be read.

Documents of other programs are shown as the jobs that they are or will be once a worker takes them
in. Those whose status is none of ours are no jobs.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from mulligan.core.errors import UnknownJobError
from mulligan.core.job import Attempt, Job
from mulligan.core.lane import Lane
from mulligan.stores.mongo import gathering
from mulligan.stores.mongo.base import Base, Doc, line_of
from mulligan.stores.mongo.documents import HELD, is_awaiting, private_of
from mulligan.stores.mongo.foreign import STATUSES
from mulligan.stores.mongo.times import micros
from mulligan.stores.mongo.views import job_of, place_of


class Reading:
    """What readers ask."""

    def __init__(self, base: Base) -> None:
        self.base = base

    async def document(self, job: str) -> Doc | None:
        """The job's document, if it is one."""
        doc = (await self.base.find_anywhere([job])).get(job)
        return doc if doc is not None and doc.get("status") in STATUSES else None

    async def get(self, job: str) -> Job | None:
        """The job as it is now."""
        doc = await self.document(job)
        return None if doc is None else (await self.jobs([doc]))[0]

    async def jobs(self, docs: Sequence[Doc]) -> list[Job]:
        """The jobs of these documents; how many have arrived is counted where it matters."""
        arrived = await gathering.count(self.base, docs)
        await self.base.read_default_task()
        now = await self.base.now()
        task = self.base.default_task
        return [job_of(doc, task, now, arrived.get(place_of(doc), 0)) for doc in docs]

    async def arrivals(self, job: str) -> dict[int, bytes | None]:
        """What has arrived at a gathering job."""
        doc = await self.document(job)
        return {} if doc is None else await gathering.results(self.base, doc)

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
            "mulligan.line": line_of(lane),
            "mulligan.due": {"$lte": await self.base.now()},
        }
        return await self.base.tasks.count_documents(query, limit=limit)

    async def ahead(self, job: str) -> int:
        """Jobs of its lane that stand before it, those that a key holds included.

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
        return await self.base.tasks.count_documents(
            {
                "status": "pending",
                "mulligan.line": {"$in": [line_of(lane), HELD]},
                "mulligan.queue": lane.queue,
                "mulligan.scope": lane.scope,
                "mulligan.lane_priority": lane.priority,
                "$or": earlier,
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


def readable(entries: Any) -> list[Attempt]:
    """Those of the entries of a history that another program has left as they were."""
    found: list[Attempt] = []
    for entry in entries if isinstance(entries, list) else ():
        with suppress(msgspec.ValidationError):
            found.append(msgspec.convert(entry, Attempt))
    return found
