"""Writes of many documents: in one command, and again where they collided with others.

A deadlock or a write conflict undoes a statement as a whole, so that it may be sent again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, OperationFailure

Statement = InsertOne[Any] | UpdateOne | UpdateMany | ReplaceOne[Any] | DeleteOne | DeleteMany

DUPLICATE, WRITE_CONFLICT = 11000, 112
# A server that stands on PostgreSQL passes on its word, under a number of its own.
DEADLOCK = "deadlock detected"
TRIES = 10
PAUSE = 0.01


class Written(Struct):
    """How many documents a write met, and which of its statements broke a unique index."""

    documents: int
    refused: set[int]


async def write(collection: AsyncCollection[Any], statements: Sequence[Statement]) -> Written:
    """Carry out every statement, in any order, those that collided again.

    Raises what else a statement failed with, once the others have been carried out.
    """
    written = Written(0, set())
    left = list(range(len(statements)))
    for tries in range(1, TRIES + 1):
        try:
            reply = await collection.bulk_write([statements[at] for at in left], ordered=False)
            return add(written, reply.bulk_api_result)
        except BulkWriteError as error:
            failed = {left[each["index"]]: each for each in error.details["writeErrors"]}
            collided = [at for at, each in failed.items() if has_collided(each)]
            refused = {at for at, each in failed.items() if each["code"] == DUPLICATE}
            known = len(collided) + len(refused) == len(failed)
            if not known or error.details["writeConcernErrors"] or (collided and tries == TRIES):
                raise
            add(written, error.details).refused |= refused
            if not collided:
                return written
            left = collided
        except OperationFailure as error:
            if not has_collided(error.details or {}) or tries == TRIES:
                raise
        await asyncio.sleep(PAUSE * tries)
    return written


def add(written: Written, reply: Mapping[str, Any]) -> Written:
    """Count the documents that a command met."""
    written.documents += sum(reply[n] for n in ("nInserted", "nUpserted", "nMatched", "nRemoved"))
    return written


def has_collided(error: Mapping[str, Any]) -> bool:
    """Whether the statement came to nothing because others wrote the same documents."""
    return error.get("code") == WRITE_CONFLICT or DEADLOCK in error.get("errmsg", "")
