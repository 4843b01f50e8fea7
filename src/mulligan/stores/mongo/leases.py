"""Leases: how jobs are handed to a worker, and what this process knows of them until it commits."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mulligan.core.job import Lease
from mulligan.core.worker import Worker
from mulligan.stores.mongo import unique
from mulligan.stores.mongo.bulk_write import Change
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import NEXT_TOKEN, Doc, date, date_after, private_names
from mulligan.stores.mongo.snapshot import Candidate, Taken

# More than a worker holds. What was claimed here and is committed elsewhere must not pile up.
MOST = 10_000


class Leases:
    """The documents that this process claimed last, as its claims left them.

    They may be outdated. The write of a commit is fenced, and finds out.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._docs: dict[Lease, Doc] = {}

    async def hand_over(
        self, wanted: Sequence[Taken], worker: Worker, stamp: str, now: int
    ) -> dict[Any, Doc]:
        """Claim what is still ready; returns the documents of that as they are now.

        Those that the write matched had not changed since they were read. So only documents that
        were read without their body, because it is large, are read again.
        """
        kinds: dict[tuple[Any, ...], tuple[Doc, Doc, Doc]] = {}
        leases: dict[Any, Doc] = {}
        changes = []
        for taken in wanted:
            job = taken.candidate
            call = unique.call_of(job.doc)
            kind = (job.attempts, taken.permits, *call.values())
            if kind not in kinds:
                lease = lease_of(taken, worker, stamp, now)
                kinds[kind] = lease, ready(job, now) | call, handed_over(lease)
            leases[job.key], match, update = kinds[kind]
            changes.append(Change(job.key, match, update, job.token))
        written = await self.connection.apply(changes, stamp)
        return await self.documents(wanted, leases, written, stamp)

    async def documents(
        self, wanted: Sequence[Taken], leases: Mapping[Any, Doc], written: set[Any], stamp: str
    ) -> dict[Any, Doc]:
        """The documents of those of the jobs that were handed over, as they are now."""
        docs = {
            job.key: as_leased(job.doc, leases[job.key])
            for job in [taken.candidate for taken in wanted]
            if job.key in written and "body" in job.doc["mulligan"]
        }
        unread = [key for key in written if key not in docs]
        if unread:
            query = {"_id": {"$in": unread}, "mulligan.stamp": stamp}
            docs |= {doc["_id"]: doc for doc in await rows(self.connection.tasks.find(query))}
        return docs

    def keep(self, docs: Iterable[Doc]) -> None:
        """Remember documents that were handed over, without their bodies."""
        for doc in docs:
            del doc["mulligan"]["body"]
            self._docs[Lease(str(doc["_id"]), doc["mulligan"]["token"])] = doc
        while len(self._docs) > MOST:
            del self._docs[next(iter(self._docs))]

    def take(self, leases: Iterable[Lease]) -> dict[str, Doc]:
        """The remembered documents of these leases, by job id; they are forgotten here.

        Of several leases on one job at most one holds: its document must be read to know which.
        """
        given = set(leases)
        on_job = Counter(lease.job for lease in given)
        known = {lease: self._docs.pop(lease) for lease in given if lease in self._docs}
        return {lease.job: doc for lease, doc in known.items() if on_job[lease.job] == 1}


def ready(job: Candidate, now: int) -> Doc:
    """The job is still pending and due, and no other program has had it since it was read."""
    return {
        "status": "pending",
        "attempts": job.attempts,
        "next_retry_at": {"$not": {"$gt": date_after(now)}},
    }


def lease_of(taken: Taken, worker: Worker, stamp: str, now: int) -> Doc:
    """The private fields of a job that the worker has from now on."""
    fields: Doc = {
        "updated_at": date(now),
        "worker": worker.id,
        "worker_region": worker.region,
        "started_at": now,
        "leased_at": now,
    }
    if taken.permits:
        fields |= {"permits": list(taken.permits), "permit_stamp": stamp}
    if taken.candidate.attempts:
        fields["last_retry_at"] = now
    return fields


def from_lines(
    wanted: Iterable[Taken], worker: Worker, stamp: str, now: int
) -> tuple[dict[Any, Doc], list[Change]]:
    """The private fields of jobs that the worker takes from lines, and the writes of that.

    Each fits but once, however often it is sent: what comes back stands there by another sequence.
    """
    kinds: dict[tuple[Any, ...], tuple[Doc, Doc, Doc]] = {}
    leases: dict[Any, Doc] = {}
    changes = []
    for taken in wanted:
        job = taken.candidate
        holds, call = job.doc["mulligan"].get("limits"), unique.call_of(job.doc)
        kind = (job.attempts, taken.permits, holds, *call.values())
        if kind not in kinds:
            lease = lease_of(taken, worker, stamp, now) | {"holds": holds}
            kinds[kind] = lease, ready(job, now) | call, handed_over(lease)
        leases[job.key], match, update = kinds[kind]
        changes.append(Change(job.key, match, update, job.token, sequence=job.sequence))
    return leases, changes


def handed_over(lease: Doc) -> Doc:
    """The update that gives a job to a worker."""
    fields = private_names(lease)
    fields |= {"status": "processing", "updated_at": lease["updated_at"]}
    return {"$set": fields, "$inc": NEXT_TOKEN, "$unset": {"mulligan.lane": ""}}


def as_leased(doc: Doc, lease: Doc) -> Doc:
    """The document as that update leaves it."""
    private = doc["mulligan"] | lease
    private["token"] += 1
    private["uncommitted"] = private.get("uncommitted", 0) + 1
    public = {"status": "processing", "updated_at": lease["updated_at"]}
    return doc | public | {"mulligan": private}
