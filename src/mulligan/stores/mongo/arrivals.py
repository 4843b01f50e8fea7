"""Arrivals: what the members of a gathering job gave, or how else they ended.

A member owes its arrival to the job that awaits it, until that job knows of its end. Each arrival
is a document of its own with a fixed key, so it counts once however often it is sent.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from pymongo import ReplaceOne

from mulligan.core.gather import (
    CANCELLED_TYPE,
    EXPIRED_TYPE,
    Failure,
    arrives_at,
    cancelled_value,
    failure_in,
    failure_value,
    purged_value,
)
from mulligan.core.job import TOKENS_PER_LIFE, life_of
from mulligan.stores.mongo.bulk_write import write
from mulligan.stores.mongo.connection import Connection, rows
from mulligan.stores.mongo.document import (
    ARRIVAL,
    REMOVAL,
    Doc,
    is_job_key,
    private_of,
)

# An arrival that its member took back when it was replayed.
WITHDRAWN = "withdrawn"
NOT_WITHDRAWN = {"how": {"$ne": WITHDRAWN}}


class Owed(Struct, frozen=True):
    """What the end of a member means to the job that awaits it.

    `how` is done, failed, cancelled or purged; `value` is what arrives then. `sequence` is that of
    the gathering job in its lane if this is the last to arrive; where it is 0, one is drawn when it
    is needed. `token` is that under which the member ended.
    """

    key: Any
    job: str
    gather: str
    how: str
    index: int = 0
    value: bytes | None = None
    sequence: int = 0
    token: int = 0


class Ended(Struct, frozen=True):
    """How many members of a gathering job have arrived, and how many of all ended how."""

    arrived: int = 0
    failed: int = 0
    cancelled: int = 0


NONE_ENDED = Ended()


def wants(doc: Doc) -> bool:
    """Whether failures arrive at the job, as values."""
    return bool(private_of(doc).get("return_exceptions"))


def index_of(doc: Doc, member: Owed) -> int:
    """Where the end of a member is kept with the job of this document."""
    return arrives_at(member.index, member.how, return_exceptions=wants(doc))


def arrival_key(doc: Doc, member: Owed) -> str:
    """The key of the arrival: it does not count for a later job of the same id."""
    return f"{doc['mulligan']['number']}/{index_of(doc, member)}"


def arrival(doc: Doc, member: Owed) -> Doc:
    """An arrival at the job of this document."""
    return {
        "_id": arrival_key(doc, member),
        "of": doc["mulligan"]["number"],
        "index": index_of(doc, member),
        "result": member.value,
        "how": "failed" if member.how == "purged" else member.how,
        "job": member.job,
        "token": member.token,
    }


def arrived_elsewhere(doc: Doc, index: int, value: bytes | None) -> Doc:
    """An arrival at the job of this document that was made in another store."""
    number, failure = doc["mulligan"]["number"], failure_in(value)
    how = "done"
    if failure is not None:
        how = "cancelled" if failure.type in (CANCELLED_TYPE, EXPIRED_TYPE) else "failed"
    return {
        "_id": f"{number}/{index}",
        "of": number,
        "index": index,
        "result": value,
        "how": how,
        "job": "" if failure is None else failure.job,
        "token": 0,
    }


async def keep(connection: Connection, arrivals: Sequence[Doc]) -> None:
    """Keep arrivals; of two at one index the first, but of one member the end after a replay."""
    if arrivals:
        await write(
            connection.arrivals,
            [
                ReplaceOne(
                    {
                        "_id": each["_id"],
                        "job": each["job"],
                        "how": {"$in": ["failed", WITHDRAWN]},
                        "token": {"$gte": life_of(each["token"]) * TOKENS_PER_LIFE}
                        | {"$lt": each["token"]},
                    },
                    each,
                    upsert=True,
                )
                for each in arrivals
            ],
        )


async def count(connection: Connection, docs: Iterable[Doc]) -> dict[int, Ended]:
    """How many members of those of the jobs that may still await some have ended, by number."""
    numbers = [private_of(doc).get("number") for doc in docs if private_of(doc).get("awaits")]
    if not numbers:
        return {}

    def many(condition: Doc) -> Doc:
        return {"$sum": {"$cond": [condition, 1, 0]}}

    group = {
        "_id": "$of",
        "arrived": many({"$gte": ["$index", 0]}),
        "failed": many({"$eq": ["$how", "failed"]}),
        "cancelled": many({"$eq": ["$how", "cancelled"]}),
    }
    match = {"of": {"$in": numbers}, **NOT_WITHDRAWN}
    pipeline: list[Doc] = [{"$match": match}, {"$group": group}]
    cursor = await connection.arrivals.aggregate(pipeline)
    return {
        row["_id"]: Ended(row["arrived"], row["failed"], row["cancelled"])
        for row in await cursor.to_list()
        if isinstance(row["_id"], int)
    }


async def results(connection: Connection, doc: Doc) -> dict[int, bytes | None]:
    """What has arrived at the job of this document, by index, in its order."""
    number = private_of(doc).get("number")
    if not isinstance(number, int):
        return {}
    found = await rows(connection.arrivals.find({"of": number}).sort("index", 1))
    # What was withdrawn too late is what the job was called with.
    awaits = bool(private_of(doc).get("awaits"))
    return {
        each["index"]: each["result"]
        for each in found
        if each.get("how") != WITHDRAWN or (each["index"] >= 0 and not awaits)
    }


# -- what members owe ---------------------------------------------------------------------------


def owed_by(doc: Doc, how: str, value: bytes | None = None, sequence: int = 0) -> list[Owed]:
    """What the document owes now that its job has ended so; nothing if nobody awaits it."""
    private = private_of(doc)
    gather, index, token = (
        private.get("gather"),
        private.get("gather_index", 0),
        private.get("token", 0),
    )
    if not private.get("owes") or not gather:
        return []
    if not (isinstance(gather, str) and isinstance(index, int) and is_job_key(doc["_id"])):
        return []  # another program has put something else there
    return [
        Owed(
            key=doc["_id"],
            job=str(doc["_id"]),
            gather=gather,
            how=how,
            index=index,
            value=value,
            sequence=sequence,
            token=token,
        )
    ]


def owed_if_cancelled(doc: Doc, reason: str) -> list[Owed]:
    """What the document, as it was, owes if its job is cancelled now."""
    if not private_of(doc).get("owes"):
        return []
    ran = doc["status"] == "processing"
    value = cancelled_value(str(doc["_id"]), reason, retries_of(doc), ran=ran)
    return owed_by(doc, "cancelled", value)


def left_owing(doc: Doc) -> list[Owed]:
    """What a document owes that was found ended."""
    private, status, job = private_of(doc), doc["status"], str(doc["_id"])
    if status == "failed" and private.get("owes") == ARRIVAL:
        error = doc.get("error")
        told: Doc = error if isinstance(error, dict) else {}
        kind, reason = str(told.get("type") or ""), str(told.get("message") or "")
        failure = Failure(job, kind, reason, retries_of(doc) + 1)
        return owed_by(doc, "failed", failure_value(failure))
    if status == "done":
        return owed_by(doc, "done", private.get("result"))
    if status != "cancelled":
        return []
    if private.get("owes") == REMOVAL:
        return owed_if_purged(doc)
    reason = str(private.get("cancel_reason") or "")
    value = cancelled_value(job, reason, retries_of(doc), ran=bool(private.get("ran")))
    return owed_by(doc, "cancelled", value)


def owed_if_purged(doc: Doc) -> list[Owed]:
    """What a dead letter owes that is purged."""
    value = purged_value(str(doc["_id"]), reason_of(doc), retries_of(doc))
    return owed_by(doc, "purged", value)


def retries_of(doc: Doc) -> int:
    """How many retries the job has had."""
    attempts = doc.get("attempts")
    return int(attempts) if isinstance(attempts, int) else 0


def reason_of(doc: Doc) -> str | None:
    """The last failure in words."""
    error = doc.get("error")
    if not isinstance(error, dict) or (message := error.get("message")) is None:
        return None
    kind = error.get("type")
    return f"{kind}: {message}" if kind and isinstance(kind, str) else str(message)
