"""Writes that collide with others are sent again; those of many documents go in one command.

A deadlock or a write conflict undoes a statement as a whole, so that it may be sent again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError, OperationFailure

Statement = InsertOne[Any] | UpdateOne | UpdateMany | ReplaceOne[Any] | DeleteOne | DeleteMany

P = ParamSpec("P")
T = TypeVar("T")

DUPLICATE, WRITE_CONFLICT = 11000, 112
# What a server calls an error after which the same may be sent again.
TRANSIENT = "TransientTransactionError"
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
    return (
        error.get("code") == WRITE_CONFLICT
        or DEADLOCK in error.get("errmsg", "")
        or TRANSIENT in error.get("errorLabels", ())
    )


class Patient(AsyncCollection[dict[str, Any]]):
    """A collection whose statements about one document are sent again where they collided."""

    def with_options(self, *args: Any, **options: Any) -> Any:
        """As the driver has it, and as patient."""
        made = super().with_options(*args, **options)
        return Patient(
            made.database,
            made.name,
            codec_options=made.codec_options,
            read_preference=made.read_preference,
            write_concern=made.write_concern,
            read_concern=made.read_concern,
        )

    async def insert_one(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().insert_one, *args, **options)

    async def update_one(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().update_one, *args, **options)

    async def replace_one(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().replace_one, *args, **options)

    async def delete_one(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().delete_one, *args, **options)

    async def find_one_and_update(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().find_one_and_update, *args, **options)

    async def find_one_and_delete(self, *args: Any, **options: Any) -> Any:
        """As the driver has it."""
        return await repeated(super().find_one_and_delete, *args, **options)


async def repeated(command: Callable[P, Awaitable[T]], /, *args: P.args, **options: P.kwargs) -> T:
    """What the command gives, sent again while it collides."""
    for tries in range(1, TRIES):
        try:
            return await command(*args, **options)
        except OperationFailure as error:
            if not has_collided(error.details or {}):
                raise
        await asyncio.sleep(PAUSE * tries)
    return await command(*args, **options)
