"""What other programs do to documents, and steps that several tests of this store share."""

import asyncio
from datetime import UTC, datetime

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from mulligan.core.job import encode
from tests.contract.builders import FRESH, claim, dead, job, jobs

TEN_MINUTES = 600


RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


def without_outcome(document):
    """The document as bytes, but for what setting it aside changes."""
    return bson.encode({k: v for k, v in document.items() if k not in ("status", "error")})


def moment(seconds):
    return datetime.fromtimestamp(seconds, UTC)


def plain(clock, name, **more):
    """A document as another program inserts it."""
    return {
        "_id": name,
        "payload": {"task": "ask"},
        "status": "pending",
        "created_at": moment(clock.now),
        "updated_at": moment(clock.now),
        "attempts": 0,
        "next_retry_at": None,
        "backoff_policy": {"base_sec": 5, "factor": 2.0, "max_sec": 1800, "jitter": "full"},
        "error": None,
        **more,
    }


def pop(tasks, now):
    """Take a document as another program does."""
    return tasks.find_one_and_update(
        {
            "status": "pending",
            "$or": [{"next_retry_at": None}, {"next_retry_at": {"$lte": moment(now)}}],
        },
        {"$set": {"status": "processing", "updated_at": moment(now)}},
        sort=[("created_at", 1)],
    )


def put_back(tasks, key, now, delay):
    """Fail an attempt as another program does."""
    error = {"message": "boom", "code": "E1", "at": moment(now)}
    fields = {
        "status": "pending",
        "updated_at": moment(now),
        "next_retry_at": moment(now + delay),
        "error": error,
    }
    tasks.update_one({"_id": key}, {"$set": fields, "$inc": {"attempts": 1}})


def finish(tasks, key, now, status="done"):
    tasks.update_one({"_id": key}, {"$set": {"status": status, "updated_at": moment(now)}})


def crash(*_):
    """The process dies here, as far as the store can tell."""
    raise asyncio.CancelledError


def following(count, size=0):
    """Next jobs, each with an argument of this size."""
    text = encode({"task": "ask", "args": ["x" * size], "kwargs": {}})
    return [job(f"next{n}", body=text) for n in range(count)]


async def held_and_cancelled(store, another, gate=FRESH):
    """The claim of a job, and one of a job that was cancelled: not all of a batch can match."""
    await store.enqueue(jobs("a", "b"))
    first, second = (await claim(store, gate, demand=2)).claims
    await another.cancel(["b"], "no need")
    return first, second


async def fail(store, *names_):
    await store.enqueue(jobs(*names_))
    claims = (await claim(store, demand=len(names_))).claims
    await store.commit([dead(each) for each in claims])
